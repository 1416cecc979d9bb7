"""The overlay of `dkdbg init --k8s` in a real cluster: applied by hand, and by F5's task."""

import json
import signal
import subprocess

import pytest

from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import LOOP, dkdbg, must, start, unique, write
from tests.kubernetes.ranks import editor
from tests.kubernetes.real.test_debug_copy import MORE, workload
from tests.kubernetes.runs import wait_until_no_relay_is_left
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("kubernetes")]


@pytest.fixture
def deployed(root, real, monkeypatch, tmp_path):
    """A repository with a manifest that is in the cluster, and somebody who may make a copy; the manifest's name."""
    name = unique("bert")
    write(root, **{"train.py": LOOP})
    (root / ".git").mkdir()
    (root / "k8s").mkdir()
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }  # fmt: skip
    documents = [workload("deployment", name, (root / "train.py").read_text()), service]
    (root / "k8s" / "kustomization.yaml").write_text("resources: [bert.yaml]\n")
    (root / "k8s" / "bert.yaml").write_text("\n---\n".join(json.dumps(each) for each in documents))
    real.apply(*documents)
    monkeypatch.setenv("KUBECONFIG", str(real.developer(more=MORE)))
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "kube-cache"))
    must(dkdbg(root, "init", "--k8s", "--yes"))
    yield name
    for each in (f"deployment/{name}-dkdbg", f"deployment/{name}", f"service/{name}"):
        real.delete(each)


def test_an_overlay_that_kubectl_applies_is_attached_to_and_deleted_with_nothing_of_the_users(
    root, real, deployed
):
    overlay = str(root / ".dkdbg/k8s" / f"deployment-{deployed}")
    original = (
        real.document("deployment", deployed)["metadata"]["uid"],
        real.document("service", deployed)["metadata"]["uid"],
    )
    real.kubectl("apply", "--server-side", "-k", overlay)
    copied = f"--selector=dev.dkdbg/copy-of=deployment.{deployed}"
    real.kubectl("wait", "--for=condition=Ready", "pods", copied, "--timeout=100s")
    names = [each["metadata"]["name"] for each in real.document("pods", copied)["items"]]
    assert len(names) == 2
    with (
        attach_proxy(root, *(f"k8s://ml/{each}" for each in names)) as proxy,
        editor(proxy.port, root, "/workspace") as debugger,
    ):
        files = {debugger.stack(debugger.wait_stopped(300))[0].path for _ in names}
        assert files == {str(root / "train.py")}
    real.kubectl("delete", "-k", overlay, "--wait=false")
    assert real.kubectl("get", "deployment", f"{deployed}-dkdbg", "--ignore-not-found") == ""
    assert real.kubectl("get", "configmap", f"{deployed}-dkdbg-agent", "--ignore-not-found") == ""
    assert original == (
        real.document("deployment", deployed)["metadata"]["uid"], real.document("service", deployed)["metadata"]["uid"],
    )  # fmt: skip


def ready(running: subprocess.Popen[str]) -> str:
    """The line by which the editor's task knows that an attach will work, or all that was said instead."""
    said = ""
    while line := running.stderr.readline():
        said += line
        if line.startswith("dkdbg: a debugger can attach on"):
            return line
    return said


def launched(root, port: int) -> subprocess.Popen[str]:
    """What the task of F5 runs, with another port."""
    task = json.loads((root / ".vscode" / "tasks.json").read_text())["tasks"][0]
    words = [str(port) if each.isdigit() else each for each in task["args"]]
    return start(root, *words, stdout=subprocess.DEVNULL)


def test_f5s_task_starts_the_copy_in_the_place_of_one_that_was_left_and_takes_it_away_at_its_end(
    root, real, deployed
):
    port = free_port()
    killed = launched(root, port)
    assert f"127.0.0.1:{port}" in ready(killed)
    first = real.document("deployment", f"{deployed}-dkdbg")["metadata"]["uid"]
    killed.kill()
    killed.communicate()
    running = launched(root, port)
    try:
        assert f"127.0.0.1:{port}" in ready(running)
        assert real.document("deployment", f"{deployed}-dkdbg")["metadata"]["uid"] != first
        with editor(port, root, "/workspace") as debugger:
            assert debugger.stack(debugger.wait_stopped(300))[0].path == str(root / "train.py")
        running.send_signal(signal.SIGTERM)  # the editor's window is closed
        running.communicate(timeout=300)
        assert running.returncode == 0
        assert real.kubectl("get", "deployment", f"{deployed}-dkdbg", "--ignore-not-found") == ""
        wait_until_no_relay_is_left()
    finally:
        running.kill()
        running.communicate()


def test_each_right_that_is_missing_is_named(root, real, deployed, monkeypatch):
    target = f"k8s://ml/deployment/{deployed}"
    overlay = f".dkdbg/k8s/deployment-{deployed}"
    up = ("up", "--on", target, "--overlay", overlay, "--yes", "--wait-timeout", "300")
    for verb, resource, words in (
        ("get", "deployments.apps", up), ("create", "deployments.apps", up), ("create", "configmaps", up), ("list", "pods", up),
        ("delete", "deployments.apps", ("down", "--on", target)), ("create", "pods/exec", (*up, "--attach", str(free_port()))),
    ):  # fmt: skip
        monkeypatch.setenv("KUBECONFIG", str(real.developer(more=MORE, without=(verb, resource))))
        done = dkdbg(root, *words)
        assert done.returncode == 3, (verb, resource, done)
        assert f"you may not {verb} {resource.partition('.')[0]} in the namespace ml" in done.stderr
        assert f"kubectl auth can-i {verb} " in done.stderr
