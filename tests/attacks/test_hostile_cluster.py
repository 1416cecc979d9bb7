"""A hostile API server, or a pod of somebody else's: what it says to `dkdbg run`, `sync` and `ps` by way of the real kubectl.

The API server is a stand-in.
"""

import json

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from dkdbg.targets.kubernetes.pod import BadPod, pods_of
from dkdbg.targets.kubernetes.pod_address import is_name, is_pod_name
from tests.engine.projects import dkdbg
from tests.kubernetes.cluster import Pod
from tests.kubernetes.conftest import cluster, root  # noqa: F401 - fixtures

ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\u202egnp"


def names_no_terminal(text: str) -> bool:
    return all(each.isprintable() or each in "\n\t" for each in text)


#: Names of a pod and its container that Kubernetes does not allow.
NAMES = (
    ("-it", "main"), ("--kubeconfig=/tmp/x", "main"), ("a b", "main"), ("train-0;id", "main"), ("train-0\n", "main"), ("a" * 300, "main"),
    (ESCAPES, "main"), ("train-0", "--tty"), ("train-1", "main\n"), ("train-2", None),
)  # fmt: skip


@pytest.mark.attack(0)
def test_a_name_that_kubernetes_does_not_allow_is_in_no_command_line(root, cluster):  # noqa: F811
    """Answers with pods and containers that are called like options and commands: refused, and no command is run."""
    for number, (name, container) in enumerate(NAMES):
        cluster.put(Pod(name, {container: None} if container else {}, labels={"app": f"n{number}"}))
        with pytest.raises(DkdbgError, match="unexpected") as caught:
            registry.target_of(f"k8s://ml/app=n{number}", root).find()
        assert names_no_terminal(caught.value.message + caught.value.hint), name
    assert not any("/exec" in each for each in cluster.asked)


@pytest.mark.attack(0)
def test_what_a_cluster_says_commands_no_terminal(root, cluster):  # noqa: F811
    """Puts escape sequences into reasons, messages and refusals: they are shown escaped."""
    waiting = {"name": "main", "state": {"waiting": {"reason": ESCAPES, "message": ESCAPES}}}
    for number, status in enumerate((
        {"phase": "Pending", "containerStatuses": [waiting]},
        {"phase": "Failed", "reason": ESCAPES, "message": ESCAPES},
        {"phase": ESCAPES, "containerStatuses": []},
    )):  # fmt: skip
        cluster.put(Pod(f"train-{number}", {"main": None}, status=status))
    for name in ("train-0", "train-1", "train-2"):
        done = dkdbg(root, "run", "--on", f"k8s://ml/{name}", "--", "true")
        assert done.returncode == 1
        assert "\\x1b" in done.stderr
        assert names_no_terminal(done.stderr)


@pytest.mark.attack(0)
def test_whatever_json_a_cluster_answers_ends_in_one_error():
    """Answers with JSON that is no pod, deep, or of other types: one error each time, and no traceback."""
    good = Pod("train-0", {"main": None}).document()
    odd: list[object] = [None, 1, "x", [], [1], {"x": 1}, {"items": 1}]
    documents: list[object] = [*odd, {"items": odd}]
    for part in ("metadata", "spec", "status"):
        documents += [{**good, part: value} for value in odd]
        documents += [{**good, part: {**good[part], key: value}} for key in good[part] for value in odd]
    for document in documents:
        try:
            found = pods_of(json.loads(json.dumps(document)))
        except BadPod:
            continue
        assert all(is_pod_name(each.name) and all(map(is_name, each.containers)) for each in found)


@pytest.mark.attack(0)
def test_a_pod_that_lies_about_its_working_folder_gets_nothing(root, cluster, tmp_path):  # noqa: F811
    """Says that its working folder is none, several, or an option: refused, and nothing is sent to it."""
    cluster.put(Pod("train-0", {"main": ("cat", str(tmp_path / "said"))}))
    for said in ("train\n", "--help\n", "/srv\n/etc\n", "/srv" + ESCAPES, "", "/\n", "//\n", "x" * 100_000):
        (tmp_path / "said").write_text(said)
        with pytest.raises(DkdbgError, match="the location of the code is unknown in the pod") as caught:
            registry.target_of("k8s://ml/train-0", root).workspace()
        assert names_no_terminal(caught.value.message), said[:20]


@pytest.mark.attack(0)
def test_a_pod_that_maps_its_code_out_of_the_repository_is_refused(root, cluster):  # noqa: F811
    """Carries a DKDBG_MAPPINGS that names a folder above the repository: refused, and nothing is read."""
    text = json.dumps([{"localRoot": "${workspaceFolder}/../..", "remoteRoot": "/loot"}])
    container = {"env": [{"name": "DKDBG_MAPPINGS", "value": text}]}
    cluster.put(Pod("train-0", {"main": None}, container=container))
    done = dkdbg(root, "sync", "--once", "k8s://ml/train-0")
    assert done.returncode == 2
    assert "outside of this repository" in done.stderr
    assert not any("/exec" in each for each in cluster.asked)


@pytest.mark.attack(0)
def test_a_pod_that_answers_anything_is_named(root, cluster, tmp_path):  # noqa: F811
    """Answers an agent's path and its sessions with escapes and nonsense: they are named, and command no terminal."""
    (tmp_path / "said").write_text(f"{ESCAPES}\n/tmp/a b/agent.pyz\n/tmp/$(id)\n/tmp{ESCAPES}/agent.pyz\n")
    cluster.put(Pod("train-0", {"main": ("cat", str(tmp_path / "said"))}))
    assert registry.target_of("k8s://ml/train-0", root).agent() is None
    (tmp_path / "said").write_text("/tmp/agent.pyz\n" + ESCAPES)
    done = dkdbg(root, "ps", "k8s://ml/train-0")
    assert "unreadable answer of its agent" in done.stderr
    assert names_no_terminal(done.stderr + done.stdout)
    done = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "true")
    assert done.returncode == 1
    assert names_no_terminal(done.stderr)
