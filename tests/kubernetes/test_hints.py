"""Errors of a cluster have their cause, and two hints are typed: the real kubectl asks a stand-in for the API server."""

import json
import subprocess

import pytest

from dkdbg import hints
from dkdbg.errors import EXIT_ENGINE
from dkdbg.targets import registry
from tests.engine.projects import dkdbg, must
from tests.hints import hinted, in_shell
from tests.kubernetes import objects
from tests.kubernetes.cluster import Pod


@pytest.fixture
def pod(cluster):
    cluster.put(Pod("train-0", {"main": None}, labels={"app": "train"}))
    return cluster


def said(root, *words: str) -> str:
    done = dkdbg(root, *words)
    assert done.returncode, done.stdout
    return done.stderr


def run_in(root, target: str) -> str:
    return said(root, "run", "--on", target, "--", "true")


@pytest.mark.usefixtures("pod")
def test_a_pod_that_is_not_there_leads_to_those_that_are(root):
    [line] = hinted(run_in(root, "k8s://ml/nope"), hints.PODS)
    assert "train-0" in must(in_shell(root, line)).stdout


def test_a_right_that_is_missing_is_named_and_there_when_kubectl_says_yes(root, pod):
    for verb, resource, words in (
        ("get", "pods", ("run", "--on", "k8s://ml/train-0", "--", "true")),
        ("list", "pods", ("run", "--on", "k8s://ml/app=train", "--", "true")),
        ("create", "pods/exec", ("run", "--on", "k8s://ml/train-0", "--", "true")),
        ("create", "pods/exec", ("sync", "--once", "--to", "/srv", "k8s://ml/train-0")),
        ("get", "deployments", ("run", "--on", "k8s://ml/deployment/bert", "--", "true")),
    ):
        pod.denied = {(verb, resource)}
        done = dkdbg(root, *words)
        assert done.returncode == EXIT_ENGINE, words
        assert f"dkdbg: you may not {verb} {resource} in the namespace ml\n" in done.stderr
        [line] = hinted(done.stderr, hints.POD_PERMISSION)
        assert in_shell(root, line).stdout == "no\n"
        pod.denied = set()
        assert must(in_shell(root, line)).stdout == "yes\n"


@pytest.mark.parametrize(
    ("attributes", "words", "cause"),
    [
        ({"trouble": (500, "InternalError", "an error on the server: etcd is full")}, ("logs", "k8s://ml/train-0"), "(InternalError)"),
        ({"exec_refusal": "cannot exec into a container in a completed pod; current phase is Succeeded"},
         ("run", "--on", "k8s://ml/train-0", "--", "true"), "is no longer running"),
        ({}, ("up", "--on", "k8s://ml/pytorchjob/bert", "--diff"), "no objects of this kind"),
        ({"quota": 'deployments.apps "bert-dkdbg" is forbidden: exceeded quota: small, requested: count/deployments.apps=1, '
          "used: count/deployments.apps=1, limited: count/deployments.apps=1"},
         ("up", "--on", "k8s://ml/deployment/bert", "--yes"), "the quota of the namespace ml"),
    ],
    ids=["unknown", "completed", "no kind", "quota"],
)  # fmt: skip
def test_what_kubectl_refuses_has_its_cause(attributes, words, cause, root, pod):
    containers = [{"name": "main", "command": ["python3", "train.py"]}]
    spec = {
        "selector": {"matchLabels": {"app": "bert"}},
        "template": {"metadata": {}, "spec": {"containers": containers}},
    }
    pod.objects.put("deployments", "bert", {"spec": spec})
    for name, value in attributes.items():
        setattr(pod, name, value)
    assert cause in said(root, *words)


def test_an_object_of_a_kind_that_is_there_is_missed_by_its_name(root, pod, monkeypatch):
    kinds = [("pytorchjobs", "PyTorchJob", ["get", "list"], [])]
    monkeypatch.setitem(objects.KINDS, "kubeflow.org/v1", kinds)
    pod.objects.put("pytorchjobs", "bart", {})
    refused = said(root, "up", "--on", "k8s://ml/pytorchjob/bert", "--diff")
    assert "no such object in the namespace ml" in refused


def test_a_pod_that_makes_no_sense_is_refused(root, cluster):
    cluster.put(Pod("train-0", {"main": None}, container={"name": "no name"}))
    assert "kubectl config current-context" in run_in(root, "k8s://ml/train-0")


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
    assert "the login program in the kubeconfig" in run_in(root, "k8s://ml/train-0")
    token = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "x"}}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(token)}'\n")
    program.chmod(0o755)
    assert registry.target_of("k8s://ml/train-0", root).find().label == "k8s://ml/train-0"
