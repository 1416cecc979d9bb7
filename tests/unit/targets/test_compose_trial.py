"""A proof's run in compose: each thing that it has created is removed, although another cannot be."""

from types import SimpleNamespace

import pytest

from dkdbg import process
from dkdbg.core.target_values import Prepared
from dkdbg.errors import DkdbgError
from dkdbg.targets.docker import client, compose_cli, compose_trial, containers


class Engine:
    """An engine: its containers (id -> service, empty for one-off ones) and volumes, and the commands that it was given.

    Commands that begin with words in `broken` fail.
    """

    def __init__(self, monkeypatch, *, broken=()):
        self.containers, self.volumes, self.broken = {"old": "web"}, ["p_old"], broken
        self.stopped, self.ran, self.at_end = set(), [], []
        mounts = [{"type": "volume", "source": "db"}]
        program = {"command": ["--", "python", "train.py"], "depends_on": ["db"]}
        model = {
            "name": "p",
            "services": {"p": program, "db": {"volumes": mounts}},
            "volumes": {"db": {"name": "p_db"}},
        }
        monkeypatch.setattr(client, "endpoint", lambda: SimpleNamespace(is_local=True))
        monkeypatch.setattr(compose_cli, "check_project", lambda *_: model)
        monkeypatch.setattr(compose_trial, "runs_nothing", lambda *_: False)
        monkeypatch.setattr(containers, "of_project", self.of_project)
        monkeypatch.setattr(containers, "of_name", lambda *_, **__: None)
        monkeypatch.setattr(compose_trial, "prepare", self.prepare)
        monkeypatch.setattr(process, "run", self.run)
        monkeypatch.setattr(process, "stream", self.stream)

    def of_project(self, _root):
        return tuple(
            SimpleNamespace(id=each, name=each, published={}, outside_ports=set(), service=service, one_off=not service, running=each not in self.stopped)
            for each, service in self.containers.items()
        )  # fmt: skip

    def prepare(self, *_args, **_options):
        self.volumes.append("p_dkdbg-image")
        self.containers["started during the build"] = "web"
        return Prepared(
            argv=("up",), environment={}, port=1, tell=lambda _: True, cleaning=("docker", "rm", "run"), name="run"
        )  # fmt: skip

    def stream(self, argv, **_options):
        self.containers |= {"run": "", "new db": "db"}
        self.volumes.append("p_db")
        return process.Result(argv=argv, code=0, stdout="", stderr="")

    def run(self, argv, **_options):
        said = " ".join(argv)
        if is_listing := argv[1:3] == ("volume", "ls"):
            self.listings = getattr(self, "listings", 0) + 1
            said += f" {self.listings}"
        else:
            self.ran.append(said)
        is_broken = said.startswith(tuple(self.broken)) if self.broken else False
        shown = "\n".join(self.volumes) if is_listing and not is_broken else ""
        return process.Result(argv=argv, code=int(is_broken), stdout=shown, stderr="in use" * is_broken)

    def start(self, tmp_path, report=lambda _: None):
        wanted = SimpleNamespace(service=SimpleNamespace(name="p", port=5678, image_files=""))
        return compose_trial.start(tmp_path, wanted, report=report, at_end=self.at_end.append)

    def end(self):
        """Call what the start has handed over, and return what cannot be removed."""
        left = []
        for stop in reversed(self.at_end):
            try:
                stop()
            except DkdbgError as error:  # noqa: PERF203 - the next is called all the same
                left.append(error.message)
        return left


def test_the_id_of_the_new_container_is_not_reported(tmp_path, monkeypatch):
    engine, reported = Engine(monkeypatch), []
    stream = engine.stream

    def printing(argv, *, report, **options):
        for line in (" Network p_default  Created", "5f" * 32):
            report(line)
        return stream(argv, **options)

    monkeypatch.setattr(process, "stream", printing)
    engine.start(tmp_path, reported.append)
    assert reported == [" Network p_default  Created"]


REMOVED = [
    "docker rm run",
    "docker rm --force --volumes new db",
    "docker volume rm --force p_db",
    "docker rm --force p_dkdbg-image-copy",
    "docker volume rm --force p_dkdbg-image",
]


def test_only_what_the_start_has_created_is_removed_nothing_of_another_command_then_or_later(
    tmp_path, monkeypatch
):
    engine = Engine(monkeypatch)
    stream = engine.stream

    def beside(argv, **options):
        engine.containers |= {"up": "p", "another run": "", "another service": "web"}
        engine.volumes.append("p_another")
        return stream(argv, **options)

    monkeypatch.setattr(process, "stream", beside)
    engine.start(tmp_path)
    engine.containers["of the user"] = "db"
    engine.volumes.append("p_of-the-user")
    assert engine.end() == []
    assert engine.ran == REMOVED


@pytest.mark.parametrize("ran", [True, False])
def test_a_service_that_had_a_container_keeps_it_although_compose_has_replaced_it(tmp_path, monkeypatch, ran):
    engine = Engine(monkeypatch)
    engine.containers["old db"] = "db"
    engine.volumes.append("p_db")
    engine.stopped = set() if ran else {"old db"}
    stream = engine.stream

    def replacing(argv, **options):
        del engine.containers["old db"]
        return stream(argv, **options)

    monkeypatch.setattr(process, "stream", replacing)
    engine.start(tmp_path)
    assert engine.end() == []
    assert engine.ran == [REMOVED[0], *([] if ran else ["docker stop new db"]), *REMOVED[3:]]


@pytest.mark.parametrize(
    ("condition", "running", "code", "health", "met"),
    [
        ("service_started", False, 1, None, True), ("service_healthy", True, 0, "starting", False),
        ("service_healthy", True, 0, "healthy", True), ("service_healthy", True, 0, "unhealthy", "is unhealthy"),
        ("service_healthy", True, 0, None, "without a healthcheck"), ("service_healthy", False, 3, "starting", r"exited \(3\)"),
        ("service_completed_successfully", True, 0, None, False), ("service_completed_successfully", False, 0, None, True),
        ("service_completed_successfully", False, 3, None, "exit 3"),
    ],
)  # fmt: skip
def test_a_condition_of_depends_on_is_met_not_yet_met_or_never(condition, running, code, health, met):
    state = {"Running": running, "ExitCode": code, "Health": health and {"Status": health}}
    if isinstance(met, bool):
        assert compose_trial._is_met(condition, "db", state) is met
        return
    with pytest.raises(DkdbgError, match=met) as failed:
        compose_trial._is_met(condition, "db", state)
    assert "yours depends on is unhealthy, or has ended" in failed.value.message


@pytest.mark.parametrize("listing", [1, 2, 3])
def test_an_engine_that_fails_to_answer_once_costs_no_volume_of_the_user(tmp_path, monkeypatch, listing):
    engine = Engine(
        monkeypatch,
        broken=[f"docker volume ls --quiet --filter label=com.docker.compose.project=p {listing}"],
    )
    engine.containers["db"] = "db"
    engine.volumes.append("p_db")
    with pytest.raises(DkdbgError):
        engine.start(tmp_path)
    engine.end()
    assert not [each for each in engine.ran if "p_db" in each or "p_old" in each]


def test_each_removal_is_tried_and_those_that_fail_are_told(tmp_path, monkeypatch):
    engine = Engine(monkeypatch, broken=["docker rm"])
    engine.start(tmp_path)
    left, copies_left = engine.end()
    assert copies_left == "left behind: docker rm --force p_dkdbg-image-copy: in use"
    assert left == "left behind: docker rm run: in use; docker rm --force --volumes 'new db': in use"
    assert engine.ran == REMOVED


def test_a_look_into_an_image_that_takes_too_long_leaves_no_container(tmp_path, monkeypatch):
    """A hostile image's python never ends; the look has no more rights than the program, and nothing of this machine's environment."""
    engine, asked = Engine(monkeypatch), []
    trial = engine.start(tmp_path)
    config = {"User": "1000", "Env": ["A=1"]}
    monkeypatch.setattr(containers, "inspected", lambda _: {"Config": config, "Image": "sha256:1"})

    def outrun(argv, **_options):
        asked.extend(argv)
        raise DkdbgError("it took too long")

    monkeypatch.setattr(process, "read", outrun)
    assert trial.probe("true") == ""
    assert engine.ran == [f"docker rm --force {asked[asked.index('--name') + 1]}"]
    assert asked[asked.index("--user") + 1] == "1000"
    assert "--env" not in asked
