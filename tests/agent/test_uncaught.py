"""What leaves the program stops in the editor that asked for it, once, whatever the program has done to its hooks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from tests.agent.dap_probe import Client
from tests.pythons import EDGES, need

if TYPE_CHECKING:
    from pathlib import Path

EXIT = "import sys\n\ndef main():\n    sys.exit(3)\n\nmain()\n"
ARGPARSE = (
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('file')\nparser.parse_args()\n"
)
OWN_HOOK = (
    "import sys\nsys.excepthook = lambda kind, value, trace: print('mine', value)\nraise ValueError('x')\n"
)


def end(launch: Any, command: tuple[str, ...], **attach: object) -> tuple[int, str, list[tuple[str, int]]]:
    """Run a program to its end: (exit code, its stdout, exceptions that it stopped at, with their lines)."""
    python = str(attach.pop("python", sys.executable))
    running = launch(
        python,
        *command,
        wait="300",
        python=python,
        **{name: attach.pop(name) for name in ("layout", "options") if name in attach},
    )
    options = AttachOptions(port=running.wait_state("waiting")["port"], extra=attach)
    stops = []
    with Debugger(options) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        try:
            while True:
                stop = debugger.wait_stopped()
                stops.append((stop.text, debugger.stack(stop)[0].line))
                debugger.continue_(stop)
        except DkdbgError as error:
            assert "no program is left" in str(error)  # noqa: PT017
    code, out, _ = running.finish()
    return code, out, stops


@pytest.mark.parametrize("minor", EDGES)
def test_an_exit_with_a_code_stops_under_old_and_new_pythons(
    launch, under, tmp_path: Path, minor: int
) -> None:
    (tmp_path / "train.py").write_text(EXIT)
    found = end(launch, ("train.py",), **under(minor))
    assert found == (3, "", [("SystemExit", 4)])


def test_what_argparse_says_is_looked_at_where_it_was_called(launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ARGPARSE)
    assert end(launch, ("train.py",)) == (2, "", [("SystemExit", 4)])


@pytest.mark.parametrize(("codes", "stops"), [(None, []), ([], []), ([0], [("SystemExit", 4)])])
def test_which_exit_codes_stop_is_the_editors_choice(
    launch, tmp_path: Path, codes: list[int] | None, stops: list[tuple[str, int]]
) -> None:
    (tmp_path / "train.py").write_text(EXIT.replace("3", "0"))
    assert end(launch, ("train.py",), breakOnSystemExit=codes) == (0, "", stops)


@pytest.mark.parametrize("minor", [8, 11, 13])
def test_a_program_with_a_hook_of_its_own_stops(launch, under, tmp_path: Path, minor: int) -> None:
    (tmp_path / "train.py").write_text(OWN_HOOK)
    found = end(launch, ("train.py",), **under(minor))
    assert found == (1, "mine x\n", [("ValueError", 3)])


def test_a_held_crash_of_a_program_with_a_hook_of_its_own_stops_once(launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OWN_HOOK)
    found = end(launch, ("train.py",), options=("--on-crash", "hold=1m"))
    assert found == (1, "mine x\n", [("ValueError", 3)])


@pytest.mark.parametrize("minor", [8, 11])
@pytest.mark.parametrize("name", ["-m", "-c", "folder"])
def test_modules_commands_and_folders_stop_like_scripts(
    launch, under, tmp_path: Path, minor: int, name: str
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "__main__.py").write_text(EXIT)
    command = {"-m": ("-m", "package"), "-c": ("-c", EXIT), "folder": ("package",)}[name]
    assert end(launch, command, **under(minor))[2] == [("SystemExit", 4)]


FINE = """
import contextlib

class Rounds:
    def __init__(self):
        self.left = 3
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if not self.left:
            raise StopIteration
        return self.left

try:
    1 / 0
except ZeroDivisionError:
    pass
with contextlib.suppress(ValueError):
    raise ValueError
for _ in Rounds(): pass
"""


@pytest.mark.parametrize("minor", [8, 10, 11, 13])
def test_a_program_that_handles_its_exceptions_does_not_stop(
    launch, under, tmp_path: Path, minor: int
) -> None:
    (tmp_path / "train.py").write_text(FINE)
    assert end(launch, ("train.py",), **under(minor)) == (0, "", [])


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    raise ValueError('x')\nfinally:\n    print('end')\n",
        "import contextlib\nwith contextlib.suppress(KeyError):\n    raise ValueError('x')\n",
        "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('x')\n",
        "import threading\ndef fail():\n    raise ValueError('x')\nthreading.Thread(target=fail).start()\n",
    ],
)
def test_it_stops_once(launch, tmp_path: Path, code: str) -> None:
    (tmp_path / "train.py").write_text(code)
    stops = end(launch, ("train.py",))[2]
    lines = [code.splitlines().index(line) + 1 for line in code.splitlines() if "ValueError('x')" in line]
    assert stops == [("ValueError", lines[0])]


@pytest.mark.parametrize("minor", [10, 11, 13])
def test_an_exception_has_its_name_and_the_outermost_frame_too(launch, tmp_path: Path, minor: int) -> None:
    (tmp_path / "train.py").write_text("def fail():\n    raise ValueError('x')\n\nfail()\n")
    python = need(minor)
    running = launch(python, "train.py", wait="300", python=python)
    with Client(running.port) as root:
        root.attach()
        with Client(running.port) as child:
            body = {k: v for k, v in root.event("debugpyAttach").items() if k != "request"}
            number = child.session.send("attach", **body)
            child.event("initialized")
            child.session.request("setExceptionBreakpoints", filters=["uncaught"])
            child.session.request("configurationDone")
            child.session.wait(number)
            thread = child.event("stopped")["threadId"]
            info = child.session.request("exceptionInfo", threadId=thread)
            frames = child.session.request("stackTrace", threadId=thread)["stackFrames"]
            child.session.request("continue", threadId=thread)
    assert (info["exceptionId"], info["details"]["typeName"]) == ("ValueError", "ValueError")
    assert [frame["name"] for frame in frames] == ["fail", "<module>"]
