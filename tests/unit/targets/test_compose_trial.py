"""A proof's run in compose: each thing that it has created is removed, although another cannot be."""

from types import SimpleNamespace

import pytest

from dkdbg import process
from dkdbg.core.target_values import Prepared
from dkdbg.errors import DkdbgError
from dkdbg.targets.docker import client, compose_cli, compose_trial, containers


class Engine:
    """An engine: its containers and volumes, and the commands that it was given; those in `broken` fail."""

    services, one_off = {"run": "p", "up": "p"}, ("run", "another run")

    def __init__(self, monkeypatch, *, broken=()):
        self.containers, self.volumes, self.broken = ["old"], ["p_old"], broken
        self.ran = []
        service = {"p": {"command": ["--", "python", "train.py"]}}
        monkeypatch.setattr(client, "endpoint", lambda: SimpleNamespace(is_local=True))
        monkeypatch.setattr(compose_cli, "check_project", lambda *_: {"name": "p", "services": service})
        monkeypatch.setattr(compose_trial, "runs_nothing", lambda *_: False)
        monkeypatch.setattr(containers, "of_project", self.of_project)
        monkeypatch.setattr(containers, "of_name", lambda *_, **__: None)
        monkeypatch.setattr(compose_trial, "prepare", self.prepare)
        monkeypatch.setattr(process, "run", self.run)
        monkeypatch.setattr(process, "stream", self.stream)

    def of_project(self, _root):
        return tuple(
            SimpleNamespace(
                id=each, name=each, published={}, service=self.services.get(each, ""), one_off=each in self.one_off
            )
            for each in self.containers
        )  # fmt: skip

    def prepare(self, *_args, **_options):
        self.volumes.append("p_dkdbg-image")
        self.containers.append("started during the build")
        return Prepared(
            argv=("up",), environment={}, port=1, tell=lambda _: True, cleaning=("docker", "rm", "run"), name="run"
        )  # fmt: skip

    def stream(self, argv, **_options):
        self.containers += ["run", "db"]
        self.volumes.append("p_db")
        return process.Result(argv=argv, code=0, stdout="", stderr="")

    def run(self, argv, **_options):
        if argv[1:3] == ("volume", "ls"):
            return process.Result(argv=argv, code=0, stdout="\n".join(self.volumes), stderr="")
        self.ran.append(" ".join(argv))
        is_broken = argv[:2] in self.broken
        return process.Result(argv=argv, code=int(is_broken), stdout="", stderr="in use" * is_broken)

    def start(self, tmp_path):
        wanted = SimpleNamespace(service=SimpleNamespace(name="p", port=5678))
        return compose_trial.start(tmp_path, wanted, report=lambda _: None)


REMOVED = [
    "docker rm run",
    "docker rm --force --volumes db run",
    "docker volume rm --force p_db p_dkdbg-image",
]


def test_only_what_the_start_has_created_is_removed_nothing_of_another_command_then_or_later(
    tmp_path, monkeypatch
):
    engine = Engine(monkeypatch)
    stream = engine.stream

    def beside(argv, **options):
        engine.containers += ["up", "another run"]
        return stream(argv, **options)

    monkeypatch.setattr(process, "stream", beside)
    trial = engine.start(tmp_path)
    engine.containers.append("of the user")
    engine.volumes.append("p_of-the-user")
    trial.stop()
    assert engine.ran == REMOVED


def test_each_removal_is_tried_and_those_that_fail_are_told(tmp_path, monkeypatch):
    engine = Engine(monkeypatch, broken={("docker", "rm")})
    trial = engine.start(tmp_path)
    with pytest.raises(
        DkdbgError, match=r"left behind: docker rm run: in use; docker rm --force.* run: in use"
    ):
        trial.stop()
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
