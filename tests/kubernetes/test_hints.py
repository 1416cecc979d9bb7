"""What dkdbg says to type about a cluster helps, typed as it says it: the real kubectl asks a stand-in for the API server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from dkdbg.places import registry
from tests.engine.projects import dkdbg
from tests.hints import in_shell, to_type
from tests.kubernetes import objects
from tests.kubernetes.cluster import Pod


@pytest.fixture
def pod(cluster):
    """The pod train-0 in the namespace ml, of which only its name is real."""
    cluster.put(Pod("train-0", {"main": None}, labels={"app": "train"}))
    return cluster


def said(root, *words: str) -> str:
    """What a refused call says."""
    done = dkdbg(root, *words)
    assert done.returncode, done.stdout
    return done.stderr


def run_in(root, target: str) -> str:
    """What a refused run there says."""
    return said(root, "run", "--on", target, "--", "true")


def well(done) -> str:
    """What a line prints that has to work."""
    assert done.returncode == 0, (done.args, done.stdout, done.stderr)
    return done.stdout


def refused(done) -> str:
    """What a line says that does not work yet."""
    assert done.returncode, (done.args, done.stdout)
    return done.stderr


def found(root, target: str = "k8s://ml/train-0") -> str:
    """The label of the pod that an address leads to."""
    return registry.place_of(target, root).find().label


# --- which pods there are


@pytest.mark.usefixtures("pod")
def test_a_pod_that_is_not_there_leads_to_those_that_are(root):
    [line] = to_type(run_in(root, "k8s://ml/nope"), "kubectl get pods --namespace={}")
    assert "train-0" in well(in_shell(root, line))


@pytest.mark.usefixtures("pod")
def test_labels_that_no_pod_has_lead_to_those_that_there_are(root):
    [line] = to_type(run_in(root, "k8s://ml/app=x"), "kubectl get pods --namespace={} --show-labels")
    shown = well(in_shell(root, line))
    assert "app=train" in shown
    assert found(root, "k8s://ml/app=train") == "k8s://ml/train-0"


def test_a_pod_in_which_nothing_runs_is_described(root, cluster):
    why = {"phase": "Pending", "containerStatuses": [
        {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}  # fmt: skip
    cluster.put(Pod("train-0", {"main": None}, status=why))
    [line] = to_type(run_in(root, "k8s://ml/train-0"), "kubectl describe pod {} --namespace={}")
    assert "ImagePullBackOff" in well(in_shell(root, line))


def test_a_container_that_does_not_run_any_more_leads_to_what_does(root, pod):
    pod.exec_refusal = "cannot exec into a container in a completed pod; current phase is Succeeded"
    [line] = to_type(run_in(root, "k8s://ml/train-0"), "kubectl get pods --namespace={} shows what does")
    assert "train-0" in well(in_shell(root, line))


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "cronjob"])
def test_an_object_that_is_not_there_leads_to_those_that_are(kind, root, cluster):
    cluster.objects.put(f"{kind}s", "bert", {"spec": {"selector": {"matchLabels": {"app": "bert"}}}})
    text = said(root, "up", "--on", f"k8s://ml/{kind}/nope", "--diff")
    assert "there is no such object in the namespace ml" in text
    [line] = to_type(text, "kubectl get deployments,statefulsets,jobs,cronjobs --namespace={}")
    assert "bert" in well(in_shell(root, line))


def test_a_kind_that_the_cluster_lacks_is_looked_for_and_its_objects_once_it_knows_it(
    root, cluster, monkeypatch
):
    def up() -> str:
        return said(root, "up", "--on", "k8s://ml/pytorchjob/bert", "--diff")

    [line] = to_type(
        up(),
        "kubectl api-resources lists the kinds that it knows; PyTorchJobs come with Kubeflow's training operator",
    )
    assert "pytorchjobs" not in well(in_shell(root, line))
    monkeypatch.setitem(
        objects.KINDS, "kubeflow.org/v1", [("pytorchjobs", "PyTorchJob", ["get", "list"], [])]
    )
    cluster.objects.put("pytorchjobs", "bart", {})
    shutil.rmtree(os.environ["KUBECACHEDIR"])
    assert "pytorchjobs" in well(in_shell(root, line))
    [line] = to_type(up(), "kubectl get pytorchjobs --namespace={}")
    assert "bart" in well(in_shell(root, line))


@pytest.mark.usefixtures("pod")
def test_a_namespace_that_is_not_there_leads_to_those_that_are_in_the_cluster_that_was_asked(root):
    text = run_in(root, "k8s://other/train-0")
    spaces, _, context = to_type(
        text,
        "kubectl get namespaces (OpenShift: oc projects); kubectl config current-context says which cluster is asked",
    )
    assert "ml" in well(in_shell(root, spaces)).split()
    assert well(in_shell(root, context)) == "stand-in\n"


def test_what_makes_no_sense_leads_to_the_cluster_that_said_it(root, cluster):
    cluster.put(Pod("train-0", {"main": None}, container={"name": "no name"}))
    [line] = to_type(
        run_in(root, "k8s://ml/train-0"), "kubectl config current-context says which cluster was asked"
    )
    assert well(in_shell(root, line)) == "stand-in\n"


# --- the cluster and who asks it


def test_a_cluster_that_does_not_answer_is_asked_by_what_is_said_until_it_does(root, pod, tmp_path):
    config = (tmp_path / "kube" / "config").read_text()
    (tmp_path / "kube" / "config").write_text(config.replace(pod.url, "http://127.0.0.1:1"))
    pods, context = to_type(
        run_in(root, "k8s://ml/train-0"),
        "is the VPN up? kubectl get pods --namespace={} must work first; kubectl config current-context says which cluster is asked",
    )
    assert "was refused" in refused(in_shell(root, pods))
    assert well(in_shell(root, context)) == "stand-in\n"
    (tmp_path / "kube" / "config").write_text(config)
    assert "train-0" in well(in_shell(root, pods))
    assert found(root) == "k8s://ml/train-0"


def test_what_nobody_knows_is_seen_by_what_is_said_until_it_works(root, pod):
    pod.trouble = (500, "InternalError", "an error on the server: etcd is full")
    text = run_in(root, "k8s://ml/train-0")
    assert "kubectl failed with exit code 1: " in text
    [line] = to_type(text, "kubectl get pods --namespace={} must work first")
    assert "(InternalError)" in refused(in_shell(root, line))
    pod.trouble = None
    assert "train-0" in well(in_shell(root, line))
    assert found(root) == "k8s://ml/train-0"


def test_a_login_that_has_expired_is_seen_by_what_is_said(root, pod):
    pod.is_unauthorized = True
    _, line = to_type(
        run_in(root, "k8s://ml/train-0"),
        "log in again as your cluster wants it: oc login, or kubectl auth whoami to see who you are",
    )
    assert "Unauthorized" in refused(in_shell(root, line))
    pod.is_unauthorized = False
    assert "alice" in well(in_shell(root, line))
    assert found(root) == "k8s://ml/train-0"


def test_a_right_that_is_missing_is_there_when_kubectl_says_yes(root, pod):
    for verb, resource, target in (
        ("get", "pods", "k8s://ml/train-0"), ("list", "pods", "k8s://ml/app=train"), ("create", "pods/exec", "k8s://ml/train-0"),
        ("get", "deployments", "k8s://ml/deployment/bert"),
    ):  # fmt: skip
        pod.denied = {(verb, resource)}
        [line] = to_type(
            run_in(root, target),
            "ask whoever runs the cluster for a Role with it; kubectl auth can-i {} {} --namespace={} says yes then",
        )
        assert in_shell(root, line).stdout == "no\n"
        pod.denied = set()
        assert well(in_shell(root, line)) == "yes\n"


def test_a_quota_without_room_is_described(root, cluster):
    template = {
        "metadata": {},
        "spec": {"containers": [{"name": "main", "command": ["python3", "train.py"]}]},
    }
    spec = {"selector": {"matchLabels": {"app": "bert"}}, "template": template}
    cluster.objects.put("deployments", "bert", {"spec": spec})
    limits = {"hard": {"count/deployments.apps": "1"}, "used": {"count/deployments.apps": "1"}}
    cluster.objects.put("resourcequotas", "small", {"spec": {"hard": limits["hard"]}, "status": limits})
    cluster.quota = (
        'deployments.apps "bert-dkdbg" is forbidden: exceeded quota: small, requested: count/deployments.apps=1, '
        "used: count/deployments.apps=1, limited: count/deployments.apps=1"
    )
    text = said(root, "up", "--on", "k8s://ml/deployment/bert", "--yes")
    [line] = to_type(text, "kubectl describe quota --namespace={}")
    assert re.search(r"count/deployments.apps +1 +1", well(in_shell(root, line)))


# --- the kubeconfig


def test_where_no_cluster_is_known_the_kubeconfig_that_is_exported_has_one(root, pod, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    pod.put(Pod("train-0", {"main": None}, log="epoch 1\n"))
    env = {"KUBECONFIG": ""}
    text = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "true", env=env).stderr
    assert "kubectl knows no cluster: there is no kubeconfig, or it names none" in text
    export, _, contexts = to_type(
        text,
        "export KUBECONFIG=/path/to/config (~/.kube/config is read without), or log in: oc login; kubectl config get-contexts must list one with a star",
    )
    assert "*" not in well(in_shell(root, contexts, env))
    export = export.replace("/path/to/config", os.environ["KUBECONFIG"])
    assert "*         stand-in" in well(in_shell(root, f"{export}; {contexts}", env))
    shown = well(in_shell(root, f"{export}; dkdbg logs k8s://ml/train-0", env))
    assert "epoch 1" in shown


@pytest.mark.usefixtures("pod")
def test_a_kubeconfig_that_cannot_be_read_is_shown_and_another_one_is_named(root, tmp_path):
    broken = tmp_path / "broken"
    for text, why in (
        ("a: [b", "yaml"),
        ('{"kind": "Config", "apiVersion": "v1", "contexts": 7}', "contexts"),
    ):
        broken.write_text(text)
        env = {"KUBECONFIG": str(broken)}
        hint = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "true", env=env).stderr
        assert "kubectl cannot read the kubeconfig" in hint
        [line] = to_type(hint, "kubectl config view shows what it reads; KUBECONFIG names another one")
        shown = refused(in_shell(root, line, env))
        assert str(broken) in shown
        assert why in shown
    assert "stand-in" in well(in_shell(root, line))
    assert found(root) == "k8s://ml/train-0"


@pytest.mark.usefixtures("pod")
def test_a_context_that_is_not_there_makes_way_for_one_that_is(root, tmp_path):
    config = tmp_path / "kube" / "config"
    config.write_text(
        config.read_text().replace('"current-context": "stand-in"', '"current-context": "gone"')
    )
    listing, use = to_type(
        run_in(root, "k8s://ml/train-0"), "kubectl config get-contexts, then kubectl config use-context NAME"
    )
    assert "stand-in" in well(in_shell(root, listing))
    well(in_shell(root, use.replace("NAME", "stand-in")))
    assert found(root) == "k8s://ml/train-0"


def test_the_program_that_logs_in_works_where_kubectl_does(root, pod, tmp_path):
    config = tmp_path / "kube" / "config"
    settings = json.loads(config.read_text())
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=stand-in -keyout {key} -out {certificate}"
    subprocess.run(words.split(), check=True, capture_output=True)
    pod.speak_tls(certificate, key)  # kubectl asks no such program for a server without
    settings["clusters"][0]["cluster"] = {
        "server": pod.url.replace("http:", "https:"), "insecure-skip-tls-verify": True,
    }  # fmt: skip
    program = tmp_path / "aws-logs-in"
    version = "client.authentication.k8s.io/v1"
    settings["users"][0]["user"] = {
        "exec": {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}
    }
    config.write_text(json.dumps(settings))
    [line] = to_type(run_in(root, "k8s://ml/train-0"), "kubectl get pods --namespace={} must work first")
    assert "aws-logs-in" in refused(in_shell(root, line))
    token = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "x"}}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(token)}'\n")
    program.chmod(0o755)
    assert "train-0" in well(in_shell(root, line))
    assert found(root) == "k8s://ml/train-0"
