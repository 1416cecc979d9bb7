"""Time limits outside a program that go on while it is held: who tells them, and what is said."""

import math
from dataclasses import replace

import pytest

from dkdbg.agent.state import deadlines
from dkdbg.core.address import parse
from dkdbg.targets.docker.container import LABEL, Container
from dkdbg.targets.docker.container_target import ContainerTarget
from dkdbg.targets.kubernetes import target as kubernetes
from dkdbg.targets.kubernetes.pod import Pod

NOW = 1_000_000.0
SLURM = {"SLURM_JOB_ID": "12", "SLURM_JOB_END_TIME": str(int(NOW) + 3120)}


def test_slurm_tells_a_job_when_it_ends_and_the_line_has_the_command_for_more_time():
    found = deadlines.of_environment(SLURM)
    assert deadlines.line(found, NOW) == (
        "keeps running while you hold the program: Slurm ends job 12 in 52 min (more time: scontrol update JobId=12 TimeLimit=+60)"
    )
    lift = "scontrol update JobId=12 TimeLimit=+60"
    said = {"what": "Slurm ends job 12", "left_s": 3120.0, "after_s": None, "lift": lift}
    assert deadlines.as_json(found, NOW) == [said]
    assert deadlines.line(found, NOW + 4000) == ""


def test_the_year_that_slurm_gives_a_job_without_a_limit_is_not_told():
    found = [deadlines.of_job("Slurm", "4711", NOW + 365 * 86400)]
    assert (deadlines.line(found, NOW), deadlines.soonest(found, NOW)) == ("", "")


@pytest.mark.parametrize("end", ["", "soon", "nan", "inf", "-1"])
def test_an_environment_that_tells_no_end_has_no_deadline(end):
    assert deadlines.of_environment({**SLURM, "SLURM_JOB_END_TIME": end}) == []
    assert deadlines.of_environment({}) == []


@pytest.mark.parametrize(
    "said",
    [
        None, {}, "x", [None], [{}], [{"what": "a"}], [{"what": "", "ends": 1, "after": None, "lift": ""}],
        [{"what": "a", "ends": 1, "after": 1, "lift": ""}],
        [{"what": "a", "ends": math.nan, "after": None, "lift": ""}], [{"what": "a", "ends": True, "after": None, "lift": ""}],
        [{"what": "a", "ends": "1", "after": None, "lift": ""}], [{"what": "a", "ends": 1e300, "after": None, "lift": ""}],
    ],
)  # fmt: skip
def test_what_is_no_deadline_is_left_out(said):
    assert deadlines.parse(said) == []


def test_texts_of_others_are_bounded_and_command_no_terminal():
    one = {"what": "\x1b]0;owned\x07" + "a" * 9999, "ends": 5, "after": None, "lift": "\n"}
    found = deadlines.parse([one] * 9999)
    assert len(found) == deadlines.MAX_DEADLINES
    assert len(found[0]["what"]) == deadlines.MAX_CHARACTERS
    assert deadlines.described(found[0], 0.0).isprintable()


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (180000, "50 h")]
)
def test_spans_are_rounded_down(seconds, text):
    assert deadlines.span(seconds) == text


def inspected(check, **labels):
    return Container.of({
        "Id": "a", "Name": "/web", "State": {"Running": True}, "HostConfig": {}, "NetworkSettings": {},
        "Config": {"Healthcheck": check, "Labels": labels},
    })  # fmt: skip


def test_a_healthcheck_of_a_users_container_goes_on_and_that_of_a_debug_service_does_not():
    second = 1_000_000_000
    check = {"Test": ["CMD", "curl"], "Interval": 5 * second, "Timeout": second, "Retries": 2}
    (found,) = inspected(check).deadlines
    assert deadlines.described(found, NOW) == (
        "the container web becomes unhealthy, and services that depend on it do not start, after 12 s without an answer"
    )
    assert "autoheal restarts it" in inspected(check, autoheal="true").deadlines[0]["what"]
    assert inspected({"Test": ["CMD", "true"]}).deadlines[0]["after"] == 180.0
    for none in (None, {}, {"Test": ["NONE"]}):
        assert inspected(none).deadlines == ()
    assert inspected(check, **{LABEL: "web-debug"}).deadlines == ()


def pod(**spec):
    container = {"name": "main", **spec.pop("container", {})}
    return {
        "metadata": {"name": "train-0", **spec.pop("metadata", {})}, "spec": {"containers": [container], **spec},
        "status": {"phase": "Running", "startTime": "1970-01-12T13:46:40Z",
                   "containerStatuses": [{"name": "main", "state": {"running": {}}}]},
    }  # fmt: skip


def of_pod(monkeypatch, found):
    monkeypatch.setattr(kubernetes.kubectl, "pods", lambda _: [Pod.of(found)])
    monkeypatch.setattr(kubernetes.kubectl, "program", lambda: "kubectl")
    monkeypatch.setattr(kubernetes.kubectl, "owner", lambda *_: None)
    target = kubernetes.PodTarget(parse("k8s://ml/train-0"))
    assert target.deadlines() == ()
    target.find()
    return [deadlines.described(each, NOW) for each in target.deadlines()]


def test_probes_and_the_active_deadline_of_a_pod_go_on(monkeypatch):
    http = {"httpGet": {"port": 80}, "periodSeconds": 5}
    container = {
        "livenessProbe": http,
        "startupProbe": {"exec": {"command": ["true"]}},
        "readinessProbe": http,
    }
    copy = " (more time: dkdbg up k8s://ml/deployment/NAME)"
    assert of_pod(monkeypatch, pod(container=container, activeDeadlineSeconds=600)) == [
        "activeDeadlineSeconds ends the pod train-0 in 10 min" + copy,
        "the livenessProbe restarts the container main after 15 s without an answer" + copy,
        "the startupProbe restarts the container main after 30 s without an answer" + copy,
    ]


def test_a_probe_that_the_kernel_answers_and_one_of_a_debug_copy_end_nothing(monkeypatch):
    socket, widened = {"tcpSocket": {"port": 80}}, {"httpGet": {"port": 80}, "failureThreshold": 1_000_000}
    assert of_pod(monkeypatch, pod(container={"livenessProbe": socket, "startupProbe": widened})) == []


def test_a_healthcheck_is_known_once_its_container_is_found(monkeypatch):
    check = {"Test": ["CMD", "true"]}
    monkeypatch.setattr(ContainerTarget, "inspect", lambda _: replace(inspected(check), running=True))
    monkeypatch.setattr(ContainerTarget, "called", lambda *_: "web")
    target = ContainerTarget(parse("docker://web"))
    assert target.deadlines() == ()
    target.find()
    assert len(target.deadlines()) == 1


def test_the_end_of_a_job_is_read_with_the_pod_and_is_not_that_of_another_pod(monkeypatch):
    asked, owner = [], {"ownerReferences": [{"kind": "Job", "name": "train"}]}
    pods = [pod(metadata=owner), pod(metadata={**owner, "creationTimestamp": "1970-01-12T14:46:40Z"}), pod()]
    monkeypatch.setattr(kubernetes.kubectl, "pods", lambda _: [Pod.of(pods[0])])
    monkeypatch.setattr(kubernetes.kubectl, "program", lambda: "kubectl")
    ends = iter((300, 600))

    def read(*_):
        asked.append(1)
        return {
            "spec": {"activeDeadlineSeconds": next(ends)},
            "status": {"startTime": "1970-01-12T13:46:40Z"},
        }

    monkeypatch.setattr(kubernetes.kubectl, "owner", read)
    target = kubernetes.PodTarget(parse("k8s://ml/train-0"))
    found = []
    for _ in range(3):
        for _ in range(2):
            target.find()
        before = len(asked)
        found.append([each["ends"] for each in target.deadlines()])
        assert len(asked) == before
        pods.pop(0)
    assert found == [[NOW + 300], [NOW + 600], []]
