"""The debug copy of a Deployment, Job or PyTorchJob, as a value; what is left of one that is not completed."""

import copy
import json
import types

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets.kubernetes import copies
from dkdbg.targets.kubernetes.pod import BadPod
from dkdbg.targets.kubernetes.pod_address import PodQuery
from dkdbg.targets.kubernetes.pod_copy import copy_of
from dkdbg.targets.kubernetes.workload import copy_label, copy_name, pods_wanted, selector_of

PROBE = {"httpGet": {"path": "/healthz", "port": 8000}, "periodSeconds": 5, "failureThreshold": 3}
MAIN = {
    "name": "main", "image": "registry/train@sha256:1", "command": ["torchrun"], "args": ["--nproc-per-node=4", "train.py", "$(EPOCHS)"],
    "livenessProbe": PROBE, "startupProbe": PROBE, "readinessProbe": PROBE, "ports": [{"containerPort": 8000, "hostPort": 8000}],
    "resources": {"limits": {"nvidia.com/gpu": 4, "memory": "64Gi"}}, "env": [{"name": "A", "value": "b"}],
    "securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}  # fmt: skip


def template(*containers, **metadata):
    return {
        "metadata": {"labels": {"app": "bert", "kueue.x-k8s.io/queue-name": "gpus"}, **metadata},
        "spec": {
            "containers": list(containers or (MAIN,)),
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "ckpt"}}],
            "securityContext": {"runAsUser": 1000660000}, "nodeSelector": {"gpu": "h100"},
        },
    }  # fmt: skip


def deployment(**spec):
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "bert", "namespace": "ml", "uid": "1", "resourceVersion": "7", "labels": {"app": "bert"},
                     "ownerReferences": [{"name": "x"}], "annotations": {"a": "b"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "bert"}}, "template": template(), **spec},
        "status": {"replicas": 3},
    }  # fmt: skip


def copied(kind, document, **more):
    settings = {"container": "", "command": (), "command_from": "", "wait": 600, **more}
    before = json.dumps(document)
    made = copy_of(kind, document, **settings)
    assert json.dumps(document) == before, "the original was changed"
    return made


def test_nothing_that_finds_pods_of_the_original_finds_those_of_the_copy():
    made = copied("deployment", deployment()).document
    assert made["metadata"]["name"] == "bert-dkdbg"
    assert set(made["metadata"]) == {"name", "namespace", "labels"}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert "app" not in labels
    assert labels["kueue.x-k8s.io/queue-name"] == "gpus"
    assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert made["spec"]["replicas"] == 3
    assert "status" not in made


def test_only_what_debugging_needs_differs_in_the_pods():
    made = copied("deployment", deployment())
    spec, before = made.document["spec"]["template"]["spec"], template()["spec"]
    main = copy.deepcopy(MAIN)
    (found,) = spec.pop("containers")
    assert found["command"] == ["sh", "/opt/dkdbg/agent.pyz", "launch"]
    words = found["args"]
    assert words[words.index("--") + 1 :] == [*MAIN["command"], *MAIN["args"]]
    assert found["volumeMounts"][0] == MAIN["volumeMounts"][0]
    assert found["volumeMounts"][1] == {"name": "dkdbg-agent", "mountPath": "/opt/dkdbg", "readOnly": True}
    for probe, limit in (("livenessProbe", 1_000_000), ("startupProbe", 1_000_000), ("readinessProbe", 3)):
        assert found[probe] == {**PROBE, "failureThreshold": limit}
    assert found["ports"] == [{"containerPort": 8000}]
    for each in (found, main):
        for key in ("command", "args", "volumeMounts", "livenessProbe", "startupProbe", "ports"):
            del each[key]
    assert found == main  # image, user, capabilities, resources, environment
    assert spec.pop("volumes") == [
        *before["volumes"], {"name": "dkdbg-agent", "configMap": {"name": "bert-dkdbg-agent"}}
    ]  # fmt: skip
    assert spec == {key: value for key, value in before.items() if key not in {"containers", "volumes"}}
    decision = ("no limit for livenessProbe and startupProbe", "a stopped program answers no probe")
    assert decision in made.decisions
    assert "it shares the volume ckpt with the original, and may write to it" in made.notes
    assert "each pod of the copy takes 4 nvidia.com/gpu, in addition to the original's" in made.notes


def test_a_job_finds_its_own_pods_and_has_the_time_that_a_person_needs():
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bert", "namespace": "ml"},
        "spec": {
            "completions": 4, "parallelism": 4, "completionMode": "Indexed", "activeDeadlineSeconds": 60, "backoffLimit": 6,
            "selector": {"matchLabels": {"controller-uid": "1"}}, "ttlSecondsAfterFinished": 10,
            "template": {**template(), "metadata": {"labels": {"controller-uid": "1", "job-name": "bert"}}},
        },
    }  # fmt: skip
    job["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 60
    spec = copied("job", job).document["spec"]
    assert set(spec) == {"completions", "parallelism", "completionMode", "backoffLimit", "template"}
    assert "activeDeadlineSeconds" not in spec["template"]["spec"]
    assert spec["backoffLimit"] == 0
    ours = {"dev.dkdbg/copy-of", "app.kubernetes.io/managed-by"}
    assert set(spec["template"]["metadata"]["labels"]) == ours
    assert pods_wanted("job", job) == 4


def test_every_role_of_a_pytorchjob_gets_the_agent():
    job = {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "bert", "namespace": "ml"},
        "spec": {
            "runPolicy": {"activeDeadlineSeconds": 60, "cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template({**MAIN, "name": "pytorch"})},
                "Worker": {"replicas": 3, "template": template({**MAIN, "name": "pytorch"})},
            },
        },
    }  # fmt: skip
    spec = copied("pytorchjob", job).document["spec"]
    assert spec["runPolicy"] == {"cleanPodPolicy": "None"}
    for role, replicas in (("Master", 1), ("Worker", 3)):
        assert spec["pytorchReplicaSpecs"][role]["replicas"] == replicas
        (container,) = spec["pytorchReplicaSpecs"][role]["template"]["spec"]["containers"]
        assert container["command"][1] == "/opt/dkdbg/agent.pyz"
    assert pods_wanted("pytorchjob", job) == 4


def test_the_container_is_the_one_that_is_named_or_that_the_pods_name():
    two = [{"name": "proxy", "image": "p", "command": ["proxy"]}, MAIN]
    annotations = {"kubectl.kubernetes.io/default-container": "main"}
    made = copied("deployment", deployment(template=template(*two, annotations=annotations))).document
    proxy, main = made["spec"]["template"]["spec"]["containers"]
    assert (proxy, main["command"][0]) == (two[0], "sh")
    made = copied("deployment", deployment(template=template(*two)), container="main").document
    assert made["spec"]["template"]["spec"]["containers"][1]["command"][0] == "sh"
    with pytest.raises(DkdbgError, match="bert has no container other; there are: proxy, main"):
        copied("deployment", deployment(template=template(*two)), container="other")


def test_a_program_that_only_the_image_knows_has_to_be_named():
    silent = template({"name": "main", "image": "x", "args": ["--epochs", "1"]})
    with pytest.raises(DkdbgError, match="gets its command from its image"):
        copied("deployment", deployment(template=silent))
    said = {"command": ["python", "train.py"], "command_from": "as you said"}
    made = copied("deployment", deployment(template=silent), **said)
    (found,) = made.document["spec"]["template"]["spec"]["containers"]
    assert found["args"][-2:] == ["python", "train.py"]


def test_a_command_that_is_named_reaches_the_program_as_it_is():
    """Kubernetes replaces `$(NAME)` and `$$`."""
    words = ("sh", "-c", "echo $$ $(id) $HOME")
    made = copied("deployment", deployment(), command=words, command_from="as you said")
    (found,) = made.document["spec"]["template"]["spec"]["containers"]
    assert found["args"][-1] == "echo $$$$ $$(id) $$HOME"
    assert any("echo $$ $(id) $HOME" in what for what, _ in made.decisions)


@pytest.mark.parametrize("name", ["a" * 60, "bert.v1" * 8, "b" * 200])
def test_names_of_copies_are_names_that_a_job_may_have_and_differ(name):
    made = copy_name(name)
    assert len(made) <= 52
    assert made.endswith("-dkdbg")
    assert made.startswith(name[:30])
    assert made != copy_name(name + "b")
    assert len(copy_label("pytorchjob", name)) <= 63
    assert copy_label("job", name) != copy_label("job", name + "b")


def test_the_labels_of_a_deployment_are_what_it_says_and_nothing_that_kubectl_takes_for_more():
    document = deployment(selector={
        "matchLabels": {"app": "bert", "app.kubernetes.io/name": "x"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gpu", "cpu"]}, {"key": "old", "operator": "DoesNotExist"}],
    })  # fmt: skip
    assert selector_of(document) == "app=bert,app.kubernetes.io/name=x,tier in (gpu,cpu),!old"
    only = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    assert selector_of(deployment(selector=only)) == "app"
    for bad in ({"matchLabels": {}}, {"matchLabels": {"a": "b --all"}}, {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a)b", "operator": "In"}]}):  # fmt: skip
        with pytest.raises(BadPod):
            selector_of(deployment(selector=bad))


@pytest.mark.parametrize("error", [DkdbgError("forbidden"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_copy_without_its_agent(monkeypatch, error):
    left = []

    def create(_query, document):
        if document["kind"] == "ConfigMap":
            raise error
        left.append(document)
        return json.dumps(document)

    monkeypatch.setattr(copies, "_create", create)
    monkeypatch.setattr(copies, "remove", lambda _: left.clear())
    made = types.SimpleNamespace(document=deployment(), name="bert-dkdbg", agent_map="map")
    query = PodQuery(namespace="ml", kind="deployment", name="bert", rank=None, selector="", container="")
    with pytest.raises(type(error)):
        copies.make(query, made, b"")
    assert not left


def test_a_copy_is_made_although_the_cluster_has_not_yet_removed_the_agent_of_the_former_one(monkeypatch):
    """`dkdbg down`, then `up`: the garbage collector of Kubernetes comes later."""
    exists = 'kubectl failed with exit code 1: Error from server (AlreadyExists)...": configmaps "map" already exists'
    answers = ["{}", DkdbgError(exists), DkdbgError(exists), "{}"]

    def create(_query, document):
        answer = answers.pop(0)
        if isinstance(answer, DkdbgError):
            raise answer
        return json.dumps(document)

    monkeypatch.setattr(copies, "_create", create)
    monkeypatch.setattr(copies, "_POLL_S", 0.0)
    made = types.SimpleNamespace(document=deployment(), name="bert-dkdbg", agent_map="map")
    query = PodQuery(namespace="ml", kind="deployment", name="bert", rank=None, selector="", container="")
    copies.make(query, made, b"")
    assert not answers
