"""What dkdbg says to type about a debug copy, and in a pod, helps: the real kubectl, and containers that stand for pods."""

import os
import signal

import pytest

from dkdbg import hints
from tests.engine import projects
from tests.engine.attach_proxies import ready_proxy, typed_proxy
from tests.engine.projects import LOOP, dkdbg, must, write
from tests.engine.synced import docker
from tests.hints import hinted, in_shell
from tests.kubernetes.cluster import Pod
from tests.kubernetes.runs import wait_until_no_relay_is_left
from tests.kubernetes.workers import Workers
from tests.ports import free_port
from tests.typed import typed

pytestmark = pytest.mark.engine

BERT = "k8s://ml/deployment/bert"
TEMPLATE = {
    "metadata": {"labels": {"app": "bert"}},
    "spec": {"containers": [{"name": "main", "image": "train", "workingDir": "/workspace", "command": ["python3", "train.py"]}]},
}  # fmt: skip
SPEC = {"replicas": 1, "selector": {"matchLabels": {"app": "bert"}}, "template": TEMPLATE}


@pytest.fixture
def bert(cluster, root):
    write(root, **{"train.py": LOOP})
    cluster.objects.put("deployments", "bert", {"spec": SPEC})
    return cluster


@pytest.fixture
def workers(bert, root, tmp_path, base_image):
    made = Workers(bert, tmp_path / "agents", base_image, root)
    yield made
    made.close()


def copies(cluster) -> list[str]:
    return sorted(name for plural, name in cluster.objects.kept if (plural, name) != ("deployments", "bert"))


@pytest.mark.usefixtures("workers")
def test_a_copy_is_attached_to_taken_away_and_makes_way_as_it_says(root, bert):
    said = must(dkdbg(root, "up", "--on", BERT, "--yes")).stdout
    [attach] = hinted(said, hints.COPY_READY)
    [down] = hinted(said, hints.COPY_DOWN)
    with typed_proxy(root, attach) as proxy:
        proxy.wait("target", ready=True)
        assert proxy.end() == 0
    assert f"dkdbg attach {BERT}" in dkdbg(root, "up", "--on", BERT, "--yes").stderr
    must(in_shell(root, down))
    assert copies(bert) == ["bert-dkdbg-agent"]  # of which a cluster knows that the copy owned it
    must(dkdbg(root, "up", "--on", BERT, "--yes"))
    assert "bert-dkdbg" in copies(bert)
    wait_until_no_relay_is_left()


def test_a_copy_that_cannot_start_says_why_and_is_taken_away(root, bert, tmp_path):
    ended = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]}
    log = "ModuleNotFoundError: No module named 'torch'\n"
    Workers(bert, tmp_path / "agents", "none", root, status=ended, log=log)
    said = dkdbg(root, "up", "--on", BERT, "--yes").stderr
    assert "its container has ended with exit code 1" in said
    assert "kubectl logs bert-dkdbg-0 --container=main --namespace=ml" in said
    must(dkdbg(root, "down", "--on", BERT))
    assert "bert-dkdbg" not in copies(bert)


def test_a_copy_that_does_not_get_ready_is_described(root, bert, tmp_path):
    waits = {"state": {"waiting": {"reason": "ContainerCreating", "message": "no volume yet"}}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "main", **waits}]}
    Workers(bert, tmp_path / "agents", "none", root, status=status)
    said = dkdbg(root, "up", "--on", BERT, "--yes", "--wait-timeout", "1").stderr
    assert "ContainerCreating" in said
    assert "kubectl describe pods --namespace=ml --selector=" in said


def test_an_object_of_the_copys_name_is_shown_with_the_labels_that_it_has(root, bert):
    bert.objects.put(
        "deployments", "bert-dkdbg", {"metadata": {"labels": {"owner": "somebody"}}, "spec": SPEC}
    )
    said = dkdbg(root, "down", "--on", BERT).stderr
    assert "kubectl get deployment.apps bert-dkdbg --namespace=ml --show-labels" in said
    assert "bert-dkdbg" in copies(bert)


@pytest.mark.usefixtures("workers")
def test_options_of_a_copy_need_its_place_and_lead_to_one_that_lasts_until_ctrl_c(root, bert, tmp_path):
    assert "dkdbg up k8s://" in dkdbg(root, "up", "--attach").stderr
    with typed(root, f"dkdbg up {BERT} --attach {free_port()} --yes", tmp_path / "up") as up:
        up.wait("a debugger can attach on")
        assert "bert-dkdbg" in copies(bert)
        assert up.end() == 0
    assert "bert-dkdbg" not in copies(bert)
    wait_until_no_relay_is_left()


@pytest.mark.parametrize(
    ("number", "plural", "options"),
    [
        (signal.SIGINT, "deployments", []), (signal.SIGTERM, "configmaps", []),
        (signal.SIGHUP, "deployments", ["--attach", "0"]),
    ],
)  # fmt: skip
def test_a_signal_while_a_copy_is_made_leaves_nothing_of_it(
    root, bert, tmp_path, monkeypatch, *, number, plural, options
):
    """As of a terminal, whose Ctrl-C reaches kubectl too: the cluster has made the object already."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    words = ["up", BERT, "--yes", *(str(free_port()) if each == "0" else each for each in options)]
    with projects.start(root, *words, start_new_session=True) as running:
        bert.objects.made = lambda made, _: made == plural and os.killpg(running.pid, number)
        out, err = running.communicate(timeout=300)
    assert running.returncode == (0 if options else 130), err
    assert "bert-dkdbg" not in copies(bert), out + err
    assert list((tmp_path / "tmp").iterdir()) == []


# --- in a pod


def test_where_a_pod_does_not_say_its_folder_a_named_one_is_synced(root, box):
    (root / "train.py").write_text("x\n")
    box.sh("rm -f /bin/pwd /usr/bin/pwd")
    said = dkdbg(root, "sync", "--once", "k8s://ml/train-0").stderr
    assert "dkdbg sync TARGET --to" in said
    must(dkdbg(root, "sync", "--once", "--to", "/srv", "k8s://ml/train-0"))
    assert box.read("/srv/train.py") == "x\n"


def test_a_pod_whose_mapping_leads_out_of_the_repository_is_synced_to_a_path_that_is_named(
    root, box, cluster
):
    (root / "train.py").write_text("x\n")
    mapping = '[{"localRoot": "${workspaceFolder}/../other", "remoteRoot": "/workspace"}]'
    container = {"env": [{"name": "DKDBG_MAPPINGS", "value": mapping}]}
    cluster.put(Pod("train-0", {"main": box.name}, container=container))
    said = dkdbg(root, "sync", "--once", "k8s://ml/train-0").stderr
    [line] = hinted(said, hints.SYNC_TO)
    line = line.replace("TARGET", "k8s://ml/train-0").replace("PATH", "/srv")
    must(in_shell(root, f"{line} --once"))
    assert box.read("/srv/train.py") == "x\n"


def test_a_pod_without_a_session_says_how_to_start_one_that_is_attached_to(root, box, tmp_path):
    write(root, **{"train.py": LOOP})
    docker("cp", str(root / "train.py"), f"{box.name}:/srv/train.py")
    box.sh("command -v python >/dev/null || ln -s $(command -v python3) /usr/bin/python")
    with typed(root, f"dkdbg attach k8s://ml/train-0 --port {free_port()}", tmp_path / "attach") as attach:
        said = attach.wait("starts one")
        [line] = hinted(said, hints.RUN_THERE)
    with typed(root, line, tmp_path / "run"), ready_proxy(root, "k8s://ml/train-0") as proxy:
        assert proxy.end() == 0
    wait_until_no_relay_is_left()
