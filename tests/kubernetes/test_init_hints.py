"""Overlays that `dkdbg init --k8s` writes fit their workload, or are refused: real kubectl and kustomize."""

import json
import subprocess

import pytest

from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import LOOP, dkdbg, must, write
from tests.kubernetes.ranks import editor
from tests.kubernetes.runs import wait_until_no_relay_is_left
from tests.kubernetes.test_copy_hints import BERT, SPEC
from tests.kubernetes.workers import Workers

OVERLAY = ".dkdbg/k8s/deployment-bert"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "bert"},
    "spec": {"selector": {"app": "bert"}},
}


@pytest.fixture(autouse=True)
def _in_the_cluster(cluster, root):
    cluster.objects.put("deployments", "bert", {"spec": SPEC})
    (root / ".git").mkdir()
    write(root, **{"train.py": LOOP})


def workload(name: str = "bert", **more: object) -> dict[str, object]:
    about = {"name": name, "namespace": "ml"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": {**SPEC, **more}}


def manifest(root, path: str, *documents: object) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("\n---\n".join(map(json.dumps, documents)))


def refused(root, *words: str) -> str:
    done = dkdbg(root, "init", "--k8s", *words, "--yes")
    assert done.returncode, done.stdout
    return done.stderr


def test_without_a_folder_of_that_name_one_is_written_that_is_taken(root):
    manifest(root, "k8s/bert.yaml", workload())
    said = dkdbg(root, "up", "--on", BERT, "--overlay", "nope", "--diff").stderr
    assert "dkdbg init --k8s" in said
    assert OVERLAY in must(dkdbg(root, "init", "--k8s", "--yes")).stdout
    must(dkdbg(root, "up", "--on", BERT, "--overlay", OVERLAY, "--diff"))


@pytest.mark.engine
def test_an_overlay_that_is_applied_by_hand_is_attached_to_as_it_says(root, cluster, base_image, tmp_path):
    manifest(root, "k8s/bert.yaml", workload())
    said = must(dkdbg(root, "init", "--k8s", "--yes")).stdout
    apply = ["kubectl", "apply", "--server-side", "-k", OVERLAY]
    assert " ".join(apply) in said
    workers = Workers(cluster, tmp_path / "agents", base_image, root)
    try:
        subprocess.run(apply, cwd=root, check=True, capture_output=True)
        with attach_proxy(root, BERT) as proxy:
            with editor(proxy.port, root, "/workspace") as debugger:
                assert debugger.stack(debugger.wait_stopped(300))[0].name == "step"
            assert proxy.end() == 0
        wait_until_no_relay_is_left()
    finally:
        workers.close()


def test_an_overlay_that_does_not_fit_is_refused_until_it_is_written_again(root):
    """It is another workload's, of another namespace, or without its agent."""
    for name in ("bert", "bart"):
        manifest(root, f"k8s/{name}.yaml", workload(name))

    def up(overlay, target=BERT):
        return dkdbg(root, "up", "--on", target, "--overlay", overlay, "--diff")

    must(dkdbg(root, "init", "--k8s", "bart", "--yes"))
    assert "dkdbg init --k8s" in up(".dkdbg/k8s/deployment-bart").stderr
    must(dkdbg(root, "init", "--k8s", "bert", "--yes"))
    must(up(OVERLAY))
    assert f"dkdbg up {BERT} --overlay {OVERLAY}" in up(OVERLAY, "k8s://other/deployment/bert").stderr
    (root / ".dkdbg/k8s/agent/agent.pyz").unlink()
    gone = up(OVERLAY)
    assert "cannot read" in gone.stderr
    assert "dkdbg init --k8s" in gone.stderr
    must(dkdbg(root, "init", "--k8s", "bert", "--yes"))
    must(up(OVERLAY))


def test_what_cannot_be_decided_is_refused(root):
    assert "dkdbg up k8s://" in refused(root)  # no manifest: what runs can be copied
    manifest(root, "k8s/bert.yaml", workload(), {**SERVICE, "metadata": {}})
    assert "correct k8s/bert.yaml" in refused(root)
    for name in ("bert", "bart"):
        manifest(root, f"k8s/{name}.yaml", workload(name))
    assert "name one: dkdbg init --k8s deployment/" in refused(root)


def test_a_folder_that_builds_the_workload_no_more_is_refused(root):
    manifest(root, "k 8s/bert.yaml", workload(), SERVICE)
    metadata = {"name": "bert", "namespace": "ml"}
    gone = {"$patch": "delete", "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    kustomization = {"resources": ["bert.yaml"], "patches": [{"patch": json.dumps(gone)}]}
    (root / "k 8s/kustomization.yaml").write_text(json.dumps(kustomization))
    assert "kubectl kustomize 'k 8s'" in refused(root)
