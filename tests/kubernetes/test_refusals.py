"""What does not work in a cluster, in the words of the real kubectl: cause and next step each. No engine is needed.

The API server is a stand-in.
"""

import os
import shutil
import threading

import pytest

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets import registry
from tests.agent.dap_probe import wait_for
from tests.engine.projects import dkdbg
from tests.kubernetes.cluster import Pod


def find(root, target: str) -> DkdbgError:
    with pytest.raises(DkdbgError) as caught:
        registry.target_of(target, root).find()
    assert caught.value.hint
    return caught.value


def waiting(reason: str, message: str = "", **more: object) -> dict[str, object]:
    state = {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}, **more}
    return {"phase": "Pending", "containerStatuses": [state]}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"phase": "Pending", "containerStatuses": [], "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]},
            "it is pending: Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        ),
        (waiting("ImagePullBackOff", 'Back-off pulling image "train:1"'), 'it waits: ImagePullBackOff: Back-off pulling image "train:1"'),
        (waiting("ContainerCreating"), "it waits: ContainerCreating"),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 1}}),
            "it waits: CrashLoopBackOff; its previous run ended with exit code 1",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            "it was evicted: The node was low on resource: memory.",
        ),
        ({"phase": "Failed"}, "it has failed"),
        ({"phase": "Succeeded"}, "it has completed"),
        (
            {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
            "its container has ended with exit code 137: OOMKilled",
        ),
    ],
    ids=["pending", "no image", "creating", "crashes", "evicted", "failed", "completed", "out of memory"],
)  # fmt: skip
def test_a_pod_in_which_nothing_runs_says_why(status, said, root, cluster):
    cluster.put(Pod("train-0", {"main": None}, status=status))
    error = find(root, "k8s://ml/train-0")
    assert error.message == f"no command can run in the pod train-0: {said}"
    assert error.hint == "kubectl describe pod train-0 --namespace=ml"


def test_a_pod_that_is_being_deleted_is_not_taken(root, cluster):
    cluster.put(Pod("train-0", {"main": None}, metadata={"deletionTimestamp": "2026-11-22T10:01:00Z"}))
    assert "it is being deleted" in find(root, "k8s://ml/train-0").message


def test_two_pods_that_fit_are_named(root, cluster):
    for name in ("train-0", "train-1"):
        cluster.put(Pod(name, {"main": None}, labels={"app": "train"}))
    error = find(root, "k8s://ml/app=train")
    assert error.message == "2 running pods match app=train: train-0, train-1"
    assert error.hint == "name one: k8s://ml/train-0"
    assert error.exit_code == EXIT_USAGE
    assert registry.target_of(error.hint.removeprefix("name one: "), root).find().label == "k8s://ml/train-0"


def test_the_pod_of_a_jobs_index_is_found_and_another_index_names_those_that_there_are(root, cluster):
    for index in (0, 1):
        annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
        cluster.put(
            Pod(f"bert-{index}-x7k", {"main": None}, labels={"job-name": "bert"}, annotations=annotations)
        )
    assert registry.target_of("k8s://ml/job/bert:1", root).find().label == "k8s://ml/bert-1-x7k"
    several = find(root, "k8s://ml/job/bert")
    assert several.message == "2 running pods match job/bert: bert-0-x7k (0), bert-1-x7k (1)"
    assert several.hint == "name a rank: k8s://ml/job/bert:0"
    assert (
        "there is no pod job/bert:7 in the namespace ml; there are: bert-0-x7k (0)"
        in find(root, "k8s://ml/job/bert:7").message
    )


def test_the_pod_of_a_pytorchjobs_rank_is_found(root, cluster):
    for role, index in (("master", 0), ("worker", 0), ("worker", 1)):
        labels = {
            "training.kubeflow.org/job-name": "bert", "training.kubeflow.org/replica-type": role,
            "training.kubeflow.org/replica-index": str(index),
        }  # fmt: skip
        cluster.put(Pod(f"bert-{role}-{index}", {"pytorch": None, "istio-proxy": None}, labels=labels))
    for rank, name in enumerate(("bert-master-0", "bert-worker-0", "bert-worker-1")):
        found = registry.target_of(f"k8s://ml/pytorchjob/bert:{rank}", root).find()
        assert found.label == f"k8s://ml/{name}/pytorch"


def test_a_deployment_is_the_pod_that_its_labels_select_and_its_debug_copy_where_there_is_one(root, cluster):
    cluster.objects.put("deployments", "bert", {"spec": {"selector": {"matchLabels": {"app": "bert"}}}})
    cluster.put(Pod("bert-7d-x", {"main": None}, labels={"app": "bert", "pod-template-hash": "7d"}))
    cluster.put(Pod("other-7d-x", {"main": None}, labels={"app": "other"}))
    assert registry.target_of("k8s://ml/deployment/bert", root).find().label == "k8s://ml/bert-7d-x"
    cluster.put(Pod("bert-dkdbg-9f-y", {"main": None}, labels={"dev.dkdbg/copy-of": "deployment.bert"}))
    assert registry.target_of("k8s://ml/deployment/bert", root).find().label == "k8s://ml/bert-dkdbg-9f-y"
    assert registry.target_of("k8s://ml/app=bert", root).find().label == "k8s://ml/bert-7d-x"
    missing = find(root, "k8s://ml/deployment/nope")
    assert missing.message.startswith(
        "there is no such object in the namespace ml\n  kubectl: Error from server (NotFound)"
    )
    assert missing.hint == "kubectl get deployments,statefulsets,jobs,cronjobs --namespace=ml"


def test_up_and_down_on_a_place_that_cannot_be_copied_say_what_can(root, cluster):
    cluster.put(Pod("train-0", {"main": None}))
    for words, said in (
        (("up", "--on", "k8s://ml/train-0", "--diff"), "k8s://ml/train-0 names no object that has pods"),
        (("down", "--on", "k8s://ml/train-0"), "k8s://ml/train-0 names no object that has pods"),
        (("up", "--on", "docker://x", "--diff"), "docker://x cannot be copied for debugging"),
    ):
        done = dkdbg(root, *words)
        assert (done.returncode, said in done.stderr) == (EXIT_USAGE, True), done.stderr
        assert "job/NAME or pytorchjob/NAME" in done.stderr


def test_a_job_that_was_tried_again_is_the_pod_that_runs(root, cluster):
    annotations = {"batch.kubernetes.io/job-completion-index": "0"}
    for name, phase in (("bert-0-a", "Failed"), ("bert-0-b", "Running"), ("bert-0-c", "Failed")):
        about = {"labels": {"job-name": "bert"}, "annotations": annotations, "status": {"phase": phase}}
        cluster.put(Pod(name, {"main": None}, **about))
    assert registry.target_of("k8s://ml/job/bert:0", root).find().label == "k8s://ml/bert-0-b"


def test_the_container_is_the_one_that_is_named_or_that_the_pod_names(root, cluster):
    containers = {"proxy": None, "main": None}
    annotations = {"kubectl.kubernetes.io/default-container": "main"}
    cluster.put(Pod("train-0", containers, annotations=annotations))
    assert registry.target_of("k8s://ml/train-0", root).find().label == "k8s://ml/train-0/main"
    assert registry.target_of("k8s://ml/train-0/proxy", root).find().label == "k8s://ml/train-0/proxy"
    error = find(root, "k8s://ml/train-0/other")
    assert error.message == "the pod train-0 has no container other; there are: proxy, main"


def test_a_pod_and_a_namespace_that_are_not_there_are_named(root, cluster):
    cluster.put(Pod("train-0", {"main": None}))
    assert (
        "there is no such pod in the namespace ml\n  kubectl: Error from server (NotFound)"
        in find(root, "k8s://ml/nope").message
    )
    assert "there is no namespace other in this cluster" in find(root, "k8s://other/nope").message
    assert "there is no pod app=x in the namespace ml" in find(root, "k8s://ml/app=x").message


def test_a_watch_that_is_denied_is_said_and_one_that_is_not_tells_of_changes(root, cluster):
    cluster.put(Pod("train-0", {"main": None}, labels={"app": "train"}))
    place = registry.target_of("k8s://ml/app=train", root)
    cluster.denied = {("watch", "pods")}
    source = place.changes()
    with pytest.raises(DkdbgError, match="you may not watch pods in the namespace ml"):
        source.listen(lambda: None)
    cluster.denied = set()
    told = threading.Semaphore(0)
    listening = place.changes()
    assert listening == source
    thread = threading.Thread(target=listening.listen, args=(told.release,), daemon=True)
    thread.start()
    assert told.acquire(timeout=300)
    wait_for(lambda: cluster.is_watched, bool)
    cluster.delete("train-0")
    assert told.acquire(timeout=300)
    cluster.put(Pod("train-1", {"main": None}, labels={"app": "train"}))
    assert told.acquire(timeout=300)
    listening.close()
    thread.join(300)
    assert not thread.is_alive()


def test_a_login_that_has_expired_is_said(root, cluster):
    cluster.is_unauthorized = True
    assert "the cluster rejected your login" in find(root, "k8s://ml/train-0").message


def test_a_cluster_that_does_not_answer_is_said(root, cluster):
    cluster.close()
    error = find(root, "k8s://ml/train-0")
    assert error.message.startswith(
        "the cluster does not answer\n  kubectl: The connection to the server 127.0.0.1:"
    )


@pytest.mark.usefixtures("cluster")
def test_no_kubeconfig_one_that_is_broken_and_a_context_that_is_missing_are_said(root, tmp_path, monkeypatch):
    config = tmp_path / "kube" / "config"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    error = find(root, "k8s://ml/train-0")
    assert error.message.startswith("kubectl has no cluster: the kubeconfig is missing or names none")
    assert "KUBECONFIG" in error.hint
    monkeypatch.setenv("KUBECONFIG", str(config))
    text = config.read_text()
    config.write_text("a: [b")
    assert find(root, "k8s://ml/train-0").message.startswith("kubectl cannot read the kubeconfig")
    config.write_text(text.replace('"current-context": "stand-in"', '"current-context": "gone"'))
    assert find(root, "k8s://ml/train-0").message.startswith("the kubeconfig has no such context")


def test_without_kubectl_oc_is_taken_and_without_both_it_says_so(root, cluster, tmp_path, monkeypatch):
    real = shutil.which("kubectl")
    cluster.put(Pod("train-0", {"main": None}))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    error = find(root, "k8s://ml/train-0")
    assert (error.message, error.exit_code) == ("neither kubectl nor oc is installed here", 127)
    (tmp_path / "bin" / "oc").symlink_to(os.path.realpath(real))
    executor = registry.target_of("k8s://ml/train-0", root).find()
    assert executor.wrap(["true"])[0] == "oc"


@pytest.mark.parametrize(
    "text",
    ["k8s://ml", "k8s://ML/train-0", "k8s://ml/train_0", "k8s://ml/train-0/a/b", "k8s://ml/train-0/Main", "k8s://ml/a=b=c",
     "k8s://ml/deployment/bert:0", "k8s://ml/a=b,--all", "k8s://ml/job/bert:x", "k8s://ml/job/bert:-1", "k8s://ml/pod/x:1", "k8s://ml/a;b", "k8s://ml/-it",
     "k8s://ml/app=$(id)", "k8s://" + "a" * 64 + "/x"],
)  # fmt: skip
def test_an_address_with_a_name_that_kubernetes_does_not_allow_is_refused(text, root):
    with pytest.raises(DkdbgError) as caught:
        registry.target_of(text, root)
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint


def test_labels_with_a_slash_and_odd_names_are_taken(root):
    for text in (
        "k8s://ml/training.kubeflow.org/job-name=bert", "k8s://ml/training.kubeflow.org/job-name=bert,a=b/main",
        "k8s://ml/pod/job", "k8s://ml/app=", "k8s://ml/a.b-c.d", "k8s://ml/job",
    ):  # fmt: skip
        assert str(registry.target_of(text, root).address) == text
