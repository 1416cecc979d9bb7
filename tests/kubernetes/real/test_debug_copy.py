"""A debug copy of a Deployment and of a Job in a real cluster, by somebody who may make them and nothing more."""

import json
from typing import Any

import pytest

from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import LOOP, dkdbg, must, unique, write
from tests.kubernetes.ranks import editor
from tests.kubernetes.real.cluster import pod
from tests.kubernetes.runs import wait_until_no_relay_is_left

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("kubernetes")]

#: What `up TARGET` and `down TARGET` need besides.
MORE = {
    "deployments.apps": ("get", "create", "delete"),
    "jobs.batch": ("get", "create", "delete"),
    "configmaps": ("create",),
}
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}


@pytest.fixture
def copier(real, monkeypatch, tmp_path):
    """The cluster, and this process asks it as one who may copy."""
    monkeypatch.setenv("KUBECONFIG", str(real.developer(more=MORE)))
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "kube-cache"))
    return real


def workload(kind: str, name: str, program: str) -> dict[str, Any]:
    """A Deployment of two pods, or a Job, whose pods are as OpenShift's restricted-v2 admits them."""
    script = f"cat >train.py <<'END'\n{program}\nEND\nexec python3 train.py"
    made = pod("x", "sh", "-c", script, labels={"app": name}, restricted=True, livenessProbe=PROBE)
    about = {"name": name, "namespace": "ml", "labels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": made["spec"]}
    if kind == "job":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"template": template, "activeDeadlineSeconds": 900}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec}


def users(real, kind: str, name: str) -> object:
    """What the user has in the cluster of this object: itself without its status, its pods, the endpoints of its Service."""
    found = real.document(kind, name)
    found.pop("status")
    found["metadata"].pop("managedFields", None)
    pods = real.document("pods", f"--selector=app={name}")["items"]
    return found, sorted(each["metadata"]["uid"] for each in pods), addresses(real, name)


def addresses(real, name: str) -> list[str]:
    subsets = real.document("endpoints", name).get("subsets") or []
    return sorted(each["targetRef"]["name"] for part in subsets for each in part.get("addresses", []))


@pytest.mark.parametrize("kind", ["deployment", "job"])
def test_a_breakpoint_stops_in_a_copy_whose_original_is_never_changed(kind, root, copier):
    name = unique("bert")
    write(root, **{"train.py": LOOP})
    program = (root / "train.py").read_text()
    service = {"selector": {"app": name}, "ports": [{"port": 80}]}
    about = {"name": name, "namespace": "ml"}
    copier.apply(
        workload(kind, name, program),
        {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": service},
    )
    wanted = 2 if kind == "deployment" else 1
    copier.wait(lambda: len(addresses(copier, name)) == wanted, "the service")
    target = f"k8s://ml/{kind}/{name}"
    try:
        copier.wait(
            lambda: len(copier.document("pods", f"--selector=app={name}")["items"]) == wanted, "its pods"
        )
        before = users(copier, kind, name)
        shown = must(dkdbg(root, "up", "--on", target, "--diff")).stdout
        assert f"+  name: {name}-dkdbg\n" in shown
        assert f"no Service, controller or NetworkPolicy of {name} selects its pods" in shown
        refused = dkdbg(root, "up", "--on", target)
        assert (refused.returncode, "not started" in refused.stderr) == (2, True)
        assert copier.kubectl("get", kind, f"{name}-dkdbg", "--ignore-not-found") == ""
        said = must(dkdbg(root, "up", "--on", target, "--yes")).stdout
        places = said.partition("ready: dkdbg attach ")[2].splitlines()[0].split()
        assert len(places) == wanted
        again = dkdbg(root, "up", "--on", target, "--yes")
        assert f"{kind}/{name} already has a debug copy" in again.stderr
        with attach_proxy(root, *places) as proxy, editor(proxy.port, root, "/workspace") as debugger:
            files = {debugger.stack(debugger.wait_stopped(300))[0].path for _ in places}
            assert files == {str(root / "train.py")}
        wait_until_no_relay_is_left()
        made = copier.document("pods", f"--selector=dev.dkdbg/copy-of={kind}.{name}")["items"]
        assert {each["spec"]["containers"][0]["image"] for each in made} == {"dkdbg-test/torch:cpu"}
        assert all(each["spec"]["securityContext"]["runAsUser"] == 1000660000 for each in made)
        assert all("SYS_PTRACE" not in json.dumps(each["spec"]) for each in made)
        assert users(copier, kind, name) == before
        assert (
            f"{kind}/{name}-dkdbg is being removed; {kind}/{name} is unchanged"
            in must(dkdbg(root, "down", "--on", target)).stdout
        )
        gone = f"there is no debug copy of {kind}/{name}"
        assert gone in must(dkdbg(root, "down", "--on", target)).stdout
        copier.wait(
            lambda: not copier.kubectl("get", "configmap", f"{name}-dkdbg-agent", "--ignore-not-found"),
            "the end of the agent",
        )
        assert users(copier, kind, name) == before
    finally:
        dkdbg(root, "down", "--on", target)
        copier.delete(f"{kind}/{name}")
        copier.delete(f"service/{name}")


def test_what_a_role_lacks_is_said_and_nothing_is_left(root, real, monkeypatch):
    name = unique("bert")
    more = {key: verbs for key, verbs in MORE.items() if key != "configmaps"}
    monkeypatch.setenv("KUBECONFIG", str(real.developer(more=more)))
    real.apply(workload("deployment", name, "import time; time.sleep(1e6)"))
    try:
        done = dkdbg(root, "up", "--on", f"k8s://ml/deployment/{name}", "--yes")
        assert (
            "you may not create configmaps in the namespace ml\n  kubectl: Error from server (Forbidden)"
            in done.stderr
        )
        assert "kubectl auth can-i create configmaps --namespace=ml" in done.stderr
        assert real.kubectl("get", "deployment", f"{name}-dkdbg", "--ignore-not-found") == ""
        missing = dkdbg(root, "up", "--on", "k8s://ml/deployment/nope", "--yes")
        assert 'deployments.apps "nope" not found' in missing.stderr
        unknown = dkdbg(root, "up", "--on", "k8s://ml/pytorchjob/nope", "--yes")
        assert "the cluster knows no objects of this kind" in unknown.stderr
    finally:
        real.delete(f"deployment/{name}")


def test_an_object_of_the_copys_name_that_dkdbg_has_not_made_is_left_alone(root, copier):
    name = unique("bert")
    copier.apply(workload("deployment", f"{name}-dkdbg", "import time; time.sleep(1e6)"))
    try:
        done = dkdbg(root, "down", "--on", f"k8s://ml/deployment/{name}")
        assert done.returncode != 0
        assert "was not changed" in done.stderr
        assert copier.document("deployment", f"{name}-dkdbg")["spec"]["replicas"] == 2
    finally:
        copier.delete(f"deployment/{name}-dkdbg")


def test_a_program_that_only_the_image_names_is_read_from_a_running_pod(root, copier):
    """The pod's image says `sleep infinity` of itself where it has no command of its own."""
    name = unique("bert")
    made = workload("deployment", name, "")
    container = made["spec"]["template"]["spec"]["containers"][0]
    del container["command"]
    container["args"] = ["sleep", "123456"]
    copier.apply(made)
    try:
        copier.kubectl("rollout", "status", f"deployment/{name}", "--timeout=100s")
        shown = must(dkdbg(root, "up", "--on", f"k8s://ml/deployment/{name}", "--diff")).stdout
        line = f"the agent under: sleep 123456 (from its image, as process 1 of the pod {name}-"
        assert line in " ".join(shown.split())
    finally:
        copier.delete(f"deployment/{name}")
