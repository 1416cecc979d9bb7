"""Which mapping `dkdbg why --on TARGET` asks about."""

import json
from dataclasses import replace

import pytest

from dkdbg.core.address import parse
from dkdbg.core.mapping import Workspace
from dkdbg.core.sessions import SeenSession
from dkdbg.core.target import Target
from dkdbg.errors import DkdbgError
from dkdbg.proof import line_answer
from dkdbg.targets import registry
from dkdbg.targets.local import LocalTarget
from dkdbg.verbs import why as verb

SEEN = SeenSession(target="node", address="ssh://node", id="1", name="train", state="running", started=1.0)
SERVICE = {
    "name": "dkdbg: service",
    "request": "attach",
    "pathMappings": [{"localRoot": "${workspaceFolder}", "remoteRoot": "/app"}],
}
PRINTED = {
    "name": "dkdbg: attach and stay",
    "request": "attach",
    "pathMappings": [{"localRoot": "${workspaceFolder}", "remoteRoot": "/home/me/code"}],
}


class Far(Target):
    """A target that is neither a container nor of this machine, such as a Ray cluster."""

    endpoint = None
    folder = ""

    def sessions(self):
        return [SEEN]

    def workspace(self):
        if not self.folder:
            raise DkdbgError("names no folder")
        return Workspace(local=".", remote=self.folder, why="WORKDIR")


@pytest.fixture
def why(script, dkdbg, monkeypatch):
    """Ask about train.py, which is in /home/me/code there; return the answer, with the remote paths that were asked."""

    def ask(entries=(), *, mappings=(), folder="", processes=()):
        asked = []

        def answer(_target, path, _line, **_):
            asked.append(path)
            file = {"path": path, "real": path, "exists": path == "/home/me/code/train.py", "kind": "disk"}
            said = {
                "id": "1",
                "name": "train",
                "state": "running",
                "mappings": mappings,
                "processes": processes,
            }
            return line_answer.parse(
                json.dumps({"version": 1, "files": [file], "sessions": [said]}), is_container=False
            )

        (script / ".vscode").mkdir(exist_ok=True)
        (script / ".vscode/launch.json").write_text(json.dumps({"configurations": [*entries]}))
        monkeypatch.setattr(line_answer, "ask", answer)
        monkeypatch.setattr(Far, "folder", folder)
        monkeypatch.setattr(registry, "target_of", lambda name, _root: Far(parse(name)))
        said = json.loads(dkdbg(script, "why", "train.py:1", "--on", "ray://node:8265", "--json").out)
        return {**said, "asked": asked[1:]}

    return ask


def test_an_entry_of_launch_json_that_leads_to_the_file_is_the_mapping(why):
    said = why([SERVICE, PRINTED])
    assert "maps to    /home/me/code/train.py (disk), by .vscode/launch.json" in said["facts"]
    assert not {each["cause"] for each in said["findings"]} & {"not-mapped", "wrong-root"}


def test_the_mapping_of_the_session_comes_first_and_the_folder_of_the_target_last(why):
    there = [{"localRoot": "${workspaceFolder}", "remoteRoot": "/home/me/code"}]
    assert "by the mapping of the session" in str(why([PRINTED], mappings=there)["facts"])
    assert "by the target (WORKDIR)" in str(why([SERVICE], folder="/home/me/code")["facts"])


def test_a_target_that_is_not_this_machine_is_not_called_so_and_the_remedy_names_what_to_type(why):
    said = why([], folder="/job")
    finding = said["findings"][0]  # before the process, which has loaded nothing
    assert finding["says"].startswith(
        "the target (WORKDIR) maps train.py to /job/train.py, where no such file exists"
    )
    assert finding["remedy"].endswith("in pathMappings of launch.json")


def test_the_target_is_asked_about_each_path_once_a_few_paths_and_no_more_after_the_first_that_leads(why):
    """Each question is a round trip, and a repository may bring any number of entries."""

    def entry(folder):
        return {**SERVICE, "pathMappings": [{"localRoot": "${workspaceFolder}", "remoteRoot": folder}]}

    there = [{"localRoot": "${workspaceFolder}", "remoteRoot": "/home/me/code"}]
    many = [entry(f"/{number}") for number in range(400)]
    assert why(many, mappings=there, folder="/job")["asked"] == ["/home/me/code/train.py"]
    assert why([SERVICE] * 400 + [PRINTED])["asked"] == ["/app/train.py", "/home/me/code/train.py"]
    said = why(many)
    assert said["asked"] == [f"/{number}/train.py" for number in range(8)]
    assert "maps to    /0/train.py (no such file there), by .vscode/launch.json" in said["facts"]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("epoch 1\n", "node has ended"),
        ("Traceback (most recent call last):\n  File \"a.py\"\nValueError: bad shape\n", "node has ended: ValueError: bad shape"),
        ("usage: a.py\na.py: error: unrecognized arguments: --datta\n", "node has ended: the program refuses its arguments: unrecognized arguments: --datta"),
    ],
)  # fmt: skip
def test_the_end_of_a_container_is_named_with_what_the_program_printed(script, monkeypatch, output, says):
    monkeypatch.setattr(verb, "_output", lambda _target: output)
    assert verb._ended(script, Far(parse("ssh://node")), SEEN).says == says


def test_an_ended_local_run_is_named_with_its_exit_code_and_how_to_start_one(script, monkeypatch):
    monkeypatch.setattr(verb, "_output", lambda _target: "")
    ended = replace(SEEN, target="local", state="exited", detail="exited with code 3")
    said = verb._ended(script, registry.target_of("local:train", script), ended)
    assert said.says == "train has ended: exited with code 3"
    assert said.remedy == "dkdbg run -- python train.py starts one"


def test_a_name_that_no_local_session_has_lists_the_sessions(script, dkdbg, monkeypatch):
    monkeypatch.setattr(LocalTarget, "sessions", lambda _: [])
    here = replace(SEEN, target="local", address="local:python-7")
    monkeypatch.setattr(registry, "sessions", lambda: ([SEEN, here], {}))
    done = dkdbg(script, "why", "train.py:1", "--on", "local:train.py")
    assert "no session is called local:train.py; there are: local:python-7\n" in done.err
    assert "dkdbg why FILE:LINE --on local:python-7" in done.err


@pytest.mark.parametrize(("python", "ran"), [("3.11.7", "may have run"), ("3.13.1", "has not run")])
def test_a_function_is_only_said_not_to_have_run_where_each_call_leaves_a_trace(why, python, ran):
    file = {
        "path": "/home/me/code/train.py",
        "origin": "source",
        "code": True,
        "function": "root",
        "ran": False,
    }
    there = [{"localRoot": "${workspaceFolder}", "remoteRoot": "/home/me/code"}]
    process = {"pid": 7, "name": "train.py", "answer": {"python": python, "files": [file]}}
    assert f"in root, which {ran}; Python {python}" in str(why(mappings=there, processes=[process])["facts"])
