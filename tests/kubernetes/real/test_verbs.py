"""The verbs against a real Kubernetes, by a service account that may only look at pods and run commands in them.

kubectl's SPDY over TLS, the API server's RBAC and the kubelet are the real ones; one node, version 1.20.
"""

import subprocess

import pytest

from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.targets import registry
from tests.engine.projects import dkdbg, unique
from tests.engine.synced import following
from tests.kubernetes.real.cluster import pod
from tests.kubernetes.runs import ENDS

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("kubernetes")]


@pytest.fixture
def box(real):
    name = unique("box")
    real.apply(pod(name, labels={"app": name}))
    real.running(name)
    yield name
    real.delete(f"pod/{name}")


def left(real, name: str) -> list[str]:
    found = real.kubectl("exec", name, "--", "sh", "-c", "ls -A /tmp/dkdbg-* 2>/dev/null || :").split()
    return [each for each in found if each.startswith((".", "agent-", "hook-", "debugpy-"))]


def test_output_and_exit_code_are_the_programs_and_nothing_is_left(root, developer, box):
    done = dkdbg(root, "run", "--on", f"k8s://ml/{box}", "--", "python3", "-c", ENDS)
    assert (done.returncode, done.stdout) == (7, "out /workspace\n"), done.stderr
    assert "err" in done.stderr.splitlines()
    assert left(developer, box) == []


@pytest.mark.usefixtures("developer")
def test_the_real_server_is_spoken_to_over_tls_and_spdy(root, box):
    """1.20 refuses kubectl's WebSocket: who may only `create pods/exec` gets there by POST."""
    argv = registry.target_of(f"k8s://ml/{box}", root).find().wrap(["true"])
    done = subprocess.run([argv[0], "-v=7", *argv[1:]], capture_output=True, text=True, check=True)
    assert "POST https://" in done.stderr
    assert "SPDY/3.1" in done.stderr or "X-Stream-Protocol-Version" in done.stderr


def test_sync_follows_a_save_and_the_pod_that_takes_the_place_of_another(root, developer, box):
    (root / "train.py").write_text("first\n")
    name = box

    def there():
        return developer.kubectl("exec", name, "--", "cat", "/workspace/train.py", check=False)

    try:
        with following(root, f"k8s://ml/app={box}") as followed:
            assert there() == "first\n"
            (root / "train.py").write_text("second\n")
            followed.wait(lambda: there() == "second\n", "the second content")
            name = f"{box}-b"
            developer.delete(f"pod/{box}")
            developer.apply(pod(name, labels={"app": box}))
            followed.wait(lambda: there() == "second\n", "the second pod")
            assert followed.stop() == 0
    finally:
        developer.delete(f"pod/{box}-b")


def asked(root, name: str, verb: str) -> str:
    if verb in {"get", "list", "watch"}:
        place = registry.target_of(f"k8s://ml/{'app=' if verb != 'get' else ''}{name}", root)
        source = place.changes()
        with pytest.raises(DkdbgError) as caught:
            source.listen(lambda: None) if verb == "watch" else place.find()
        assert caught.value.exit_code == EXIT_ENGINE
        return f"{caught.value.message}\n{caught.value.hint}"
    done = dkdbg(root, "run", "--on", f"k8s://ml/{name}", "--", "true")
    assert done.returncode == EXIT_ENGINE
    return done.stderr


@pytest.mark.parametrize(
    "denied", [("get", "pods"), ("list", "pods"), ("watch", "pods"), ("create", "pods/exec")]
)
def test_a_verb_that_a_role_lacks_is_named_in_the_words_of_the_server(denied, root, real, box, monkeypatch):
    verb, resource = denied
    monkeypatch.setenv("KUBECONFIG", str(real.developer(without=denied)))
    said = asked(root, box, verb)
    assert (
        f"you may not {verb} {resource} in the namespace ml\n  kubectl: Error from server (Forbidden): pods"
        in said
    )
    assert f'cannot {verb} resource "{resource}" in API group ""' in said
    subresource = " --subresource=exec" if "/" in resource else ""
    check = f"kubectl auth can-i {verb} pods{subresource} --namespace=ml"
    assert check in said
    assert subprocess.run(check.split(), capture_output=True, text=True, check=False).stdout == "no\n"
    monkeypatch.setenv("KUBECONFIG", str(real.developer()))
    assert subprocess.run(check.split(), capture_output=True, text=True, check=False).stdout == "yes\n"


def test_a_random_user_without_rights_in_a_read_only_root_is_enough(root, developer):
    """What OpenShift's restricted-v2 leaves: a uid without a passwd entry, HOME=/, no capability, no new privileges."""
    name = unique("restricted")
    developer.apply(pod(name, restricted=True))
    developer.running(name)
    show = (
        "import os; print(os.getuid(), os.environ['HOME'], os.access('/', os.W_OK), os.access('/tmp', os.W_OK), "
        "[line for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))])"
    )
    done = dkdbg(root, "run", "--on", f"k8s://ml/{name}", "--", "python3", "-c", show)
    expected = "1000660000 / False False ['CapEff:\\t0000000000000000\\n', 'NoNewPrivs:\\t1\\n']\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    developer.delete(f"pod/{name}")
