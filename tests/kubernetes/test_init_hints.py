"""What `dkdbg init --k8s` says to type helps, typed as it says it: real kubectl and kustomize, also in folders with a space."""

from __future__ import annotations

import functools
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.host_doors import typed_door
from tests.engine.projects import LOOP, dkdbg, marked_line, must, write
from tests.hints import in_shell, to_type
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
    """The Deployment is in the cluster too; the repository has its program."""
    cluster.objects.put("deployments", "bert", {"spec": SPEC})
    (root / ".git").mkdir()
    write(root, **{"train.py": LOOP})


def workload(name: str = "bert", **more: object) -> dict[str, object]:
    """A Deployment of the namespace ml."""
    about = {"name": name, "namespace": "ml"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": {**SPEC, **more}}


def manifest(root, path: str, *documents: object) -> None:
    """Write them below `root`."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("\n---\n".join(map(json.dumps, documents)))


def refused(root, *words: str) -> str:
    """What `dkdbg init --k8s` says against it."""
    done = dkdbg(root, "init", "--k8s", *words, "--yes")
    assert done.returncode, done.stdout
    return done.stderr


def test_without_a_folder_of_that_name_one_is_written_that_is_taken(root):
    manifest(root, "k8s/bert.yaml", workload())
    said = dkdbg(root, "up", "--on", BERT, "--overlay", "nope", "--diff").stderr
    [line] = to_type(said, "dkdbg init --k8s writes one, and says its name")
    shown = must(in_shell(root, f"{line} --yes")).stdout
    assert OVERLAY in shown
    must(dkdbg(root, "up", "--on", BERT, "--overlay", OVERLAY, "--diff"))


def test_after_a_change_it_is_run_again_and_tells_whether_there_was_one(root):
    manifest(root, "k8s/bert.yaml", workload())
    said = must(dkdbg(root, "init", "--k8s", "--yes")).stdout
    [line] = to_type(said, "dkdbg init --k8s again after a change there; --check says whether there was one")
    must(in_shell(root, f"{line} --check"))
    manifest(root, "k8s/bert.yaml", workload(replicas=3))
    assert in_shell(root, f"{line} --check").returncode == 1
    must(in_shell(root, f"{line} --yes"))
    must(in_shell(root, f"{line} --check"))


@pytest.mark.engine
def test_an_overlay_that_is_applied_by_hand_is_attached_to_as_it_says(root, cluster, base_image, tmp_path):
    manifest(root, "k8s/bert.yaml", workload())
    said = must(dkdbg(root, "init", "--k8s", "--yes")).stdout
    apply, attach = to_type(said, "or by hand: kubectl apply --server-side -k {}, then dkdbg attach {}")
    workers = Workers(cluster, tmp_path / "agents", base_image, root)
    try:
        must(in_shell(root, apply))
        with typed_door(root, attach) as door:
            options = AttachOptions(
                host="127.0.0.1", port=door.port, path_mappings=((str(root), "/workspace"),)
            )
            with Debugger(options) as debugger:
                debugger.set_breakpoints(str(root / "train.py"), [marked_line(root / "train.py")])
                debugger.attach()
                assert debugger.stack(debugger.wait_stopped(300))[0].name == "step"
            assert door.end() == 0
        wait_until_no_relay_is_left()
    finally:
        workers.close()


# --- an overlay that does not fit


def test_an_overlay_of_another_workload_makes_way_for_one_of_this(root):
    for name in ("bert", "bart"):
        manifest(root, f"k8s/{name}.yaml", workload(name))
    must(dkdbg(root, "init", "--k8s", "bart", "--yes"))
    said = dkdbg(root, "up", "--on", BERT, "--overlay", ".dkdbg/k8s/deployment-bart", "--diff").stderr
    [line] = to_type(said, "dkdbg init --k8s {} writes it again")
    must(in_shell(root, f"{line} --yes"))
    must(dkdbg(root, "up", "--on", BERT, "--overlay", OVERLAY, "--diff"))


def test_an_overlay_without_its_agent_gets_it_again(root):
    for name in ("bert", "bart"):
        manifest(root, f"k8s/{name}.yaml", workload(name))
    must(dkdbg(root, "init", "--k8s", "bert", "--yes"))
    (root / ".dkdbg/k8s/agent/agent.pyz").unlink()
    said = dkdbg(root, "up", "--on", BERT, "--overlay", OVERLAY, "--diff").stderr
    assert "cannot read" in said
    [line] = to_type(said, "dkdbg init --k8s {} writes it again")
    must(in_shell(root, f"{line} --yes"))
    must(dkdbg(root, "up", "--on", BERT, "--overlay", OVERLAY, "--diff"))


def test_an_overlay_of_another_namespace_is_started_there(root):
    manifest(root, "k8s/bert.yaml", workload())
    must(dkdbg(root, "init", "--k8s", "--yes"))
    said = dkdbg(root, "up", "--on", "k8s://other/deployment/bert", "--overlay", OVERLAY, "--diff").stderr
    [line] = to_type(said, "dkdbg up --on {} --overlay {}")
    assert "bert-dkdbg" in must(in_shell(root, f"{line} --diff")).stdout


# --- which workload


def test_of_several_workloads_the_named_one_is_taken(root):
    for name in ("bert", "bart"):
        manifest(root, f"k8s/{name}.yaml", workload(name))
        manifest(root, f"a b/{name}.yaml", workload(name))
    (root / "a b/kustomization.yaml").write_text("resources: [bert.yaml, bart.yaml]\n")
    [line] = to_type(refused(root), "name one: dkdbg init --k8s {}{}")
    must(in_shell(root, f"{line} --yes"))
    assert (root / ".dkdbg/k8s/deployment-bart").is_dir()
    [line] = to_type(refused(root, "--from", "a b"), "name one: dkdbg init --k8s {}{}")
    assert "as a b builds it" in must(in_shell(root, f"{line} --yes")).stdout


def test_of_several_folders_the_named_one_builds(root):
    manifest(root, "base/bert.yaml", workload())
    (root / "base/kustomization.yaml").write_text("resources: [bert.yaml]\n")
    for name in ("a b", "c"):
        (root / name).mkdir()
        (root / name / "kustomization.yaml").write_text("resources: [../base]\n")
    [line] = to_type(refused(root), "name one: dkdbg init --k8s {}/{} --from {}")
    assert "it builds on a b" in must(in_shell(root, f"{line} --yes")).stdout


def test_where_there_is_no_manifest_what_runs_is_copied(root):
    [line] = to_type(
        refused(root),
        "what already runs needs no manifests for a debug copy: dkdbg up --on k8s://NAMESPACE/deployment/NAME",
    )
    line = line.replace("NAMESPACE", "ml").replace("NAME", "bert")
    assert "bert-dkdbg" in must(in_shell(root, f"{line} --diff")).stdout


# --- what kustomize makes of it


def test_a_folder_that_kustomize_does_not_build_is_built_first(root):
    manifest(root, "k 8s/bert.yaml", workload())
    (root / "k 8s/kustomization.yaml").write_text("resources: [bert.yaml, gone.yaml]\n")
    [line] = to_type(refused(root), "kubectl kustomize {} must work first")
    assert "gone.yaml" in in_shell(root, line).stderr
    manifest(root, "k 8s/gone.yaml", SERVICE)
    assert "kind: Service" in must(in_shell(root, line)).stdout
    must(dkdbg(root, "init", "--k8s", "--yes"))


def test_a_file_that_kustomize_does_not_build_is_corrected(root):
    manifest(root, "k8s/bert.yaml", workload(), {**SERVICE, "metadata": {}})
    [line] = to_type(refused(root), "correct {}, then dkdbg init --k8s again")
    manifest(root, "k8s/bert.yaml", workload(), SERVICE)
    must(in_shell(root, f"{line} --yes"))


def test_a_folder_that_builds_the_workload_no_more_shows_what_it_builds(root):
    manifest(root, "k 8s/bert.yaml", workload(), SERVICE)
    gone = {
        "$patch": "delete",
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "bert", "namespace": "ml"},
    }
    kustomization = {"resources": ["bert.yaml"], "patches": [{"patch": json.dumps(gone)}]}
    (root / "k 8s/kustomization.yaml").write_text(json.dumps(kustomization))
    [line] = to_type(refused(root), "kubectl kustomize {} shows what it builds")
    shown = must(in_shell(root, line)).stdout
    assert "kind: Service" in shown
    assert "kind: Deployment" not in shown


@pytest.fixture
def served(tmp_path):
    """A folder that a server on this machine shows, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_kustomize_would_fetch_is_built_by_the_person(root, served):
    folder, address = served
    manifest(folder, "service.yaml", SERVICE)
    manifest(root, "k 8s/bert.yaml", workload())
    (root / "k 8s/kustomization.yaml").write_text(f"resources: [bert.yaml, '{address}/service.yaml']\n")
    builds, takes = to_type(
        refused(root), "kubectl kustomize {}{} > k8s.yaml, then dkdbg init --k8s --from k8s.yaml"
    )
    must(in_shell(root, builds))
    assert "kind: Service" in (root / "k8s.yaml").read_text()
    must(in_shell(root, f"{takes} --yes"))
    must(dkdbg(root, "up", "--on", BERT, "--overlay", OVERLAY, "--diff"))


def test_what_has_charts_is_built_with_helm(root):
    """Without Helm kubectl says that it looks for it, and does not refuse to."""
    manifest(root, "k8s/bert.yaml", workload())
    (root / "k8s/kustomization.yaml").write_text(
        "resources: [bert.yaml]\nhelmCharts: [{name: x, repo: 'http://127.0.0.1:1'}]\n"
    )
    builds, _ = to_type(
        refused(root), "kubectl kustomize {}{} > k8s.yaml, then dkdbg init --k8s --from k8s.yaml"
    )
    assert "must specify --enable-helm" not in in_shell(root, builds).stderr
