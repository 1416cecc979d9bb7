"""Processes that start while an editor is attached: one joins when it is about to execute a file with a breakpoint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from dkdbg.agent.door import breakpoints
from dkdbg.agent.door.connection import HOLDING, ROOT, Connection, Phase
from dkdbg.agent.door.replay import Settings
from dkdbg.agent.door.stops import Stops
from dkdbg.agent.record import processes
from dkdbg.agent.record.waiting import WaitingFile, key
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import Editor, wait_for
from tests.pythons import need

if TYPE_CHECKING:
    from pathlib import Path

#: Imports a module late, whose second line has the breakpoint.
LATE = "import time\ntime.sleep(0.1)\nimport {0}\n"
STEPS = "x = 1\ny = 2\n\n\ndef work(n):\n    return n + 1\n"
#: The program: starts one child, and ends with it.
STARTS = "import os, subprocess, sys\n{0}\n"


def _in_program(launch, tmp_path: Path, program: str, **more: object) -> tuple[object, Editor]:
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "steps.py").write_text(STEPS)
    running = launch(sys.executable, "train.py", wait="300", **more)
    return running, Editor(running.wait_state("waiting")["port"], {str(tmp_path / "steps.py"): [2]})


CHILDREN = {
    "a module that is imported late, in -c code": "subprocess.run([sys.executable, '-c', 'import json, steps'])",
    "the script itself": "subprocess.run([sys.executable, 'steps.py'])",
    "a module by -m": "subprocess.run([sys.executable, '-m', 'steps'])",
    "a package's main module": (
        "os.mkdir('pkg'); os.link('steps.py', 'pkg/real.py'); open('pkg/__init__.py', 'w').close();"
        "open('pkg/__main__.py', 'w').write('import steps'); subprocess.run([sys.executable, '-m', 'pkg'])"
    ),
    "a link to the file": "os.symlink('steps.py', 'other.py'); subprocess.run([sys.executable, 'other.py'])",
    "after exec": (
        "subprocess.run([sys.executable, '-c', "
        "'import os, sys; os.execv(sys.executable, [sys.executable, \"steps.py\"])'])"
    ),
    "a grandchild": (
        "subprocess.run([sys.executable, '-c', "
        "'import subprocess, sys; subprocess.run([sys.executable, \"steps.py\"])'])"
    ),
    "a fork of a child": (
        "subprocess.run([sys.executable, '-c', "
        "'import os\\nif os.fork() == 0:\\n    import steps\\nelse:\\n    os.wait()'])"
    ),
    "compiled by the program": (
        "subprocess.run([sys.executable, '-c', "
        '\'exec(compile(open("steps.py").read(), os.path.abspath("steps.py"), "exec"))\'.replace(\'exec(\', '
        "'import os; exec(', 1)])"
    ),
    "a thread": (
        "subprocess.run([sys.executable, '-c', "
        "'import threading; t = threading.Thread(target=__import__, args=(\"steps\",)); t.start(); t.join()'])"
    ),
}


@pytest.mark.parametrize("start", CHILDREN.values(), ids=CHILDREN.keys())
def test_a_child_stops_at_a_breakpoint_of_its_first_lines(launch, tmp_path: Path, start: str) -> None:
    running, editor = _in_program(launch, tmp_path, STARTS.format(start))
    with editor:
        assert [stop["line"] for stop in editor.wait_stops(1)] == [2]
        assert running.finish()[0] == 0


POOL = """
import multiprocessing, steps_of_pool

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(steps_of_pool.work, range(4)) == [1, 2, 3, 4]
"""


def test_a_function_that_a_spawn_pool_gets_stops(launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(POOL)
    (tmp_path / "steps_of_pool.py").write_text(STEPS)
    running = launch(sys.executable, "train.py", wait="300")
    port = running.wait_state("waiting")["port"]
    with Editor(port, {str(tmp_path / "steps_of_pool.py"): [6]}) as editor:
        assert {stop["line"] for stop in editor.wait_stops(4)} == {6}
        assert running.finish()[0] == 0


SERVES = """
import subprocess, sys
code = 'import steps, os, time\\nwhile not os.path.exists("stop"):\\n    steps.work(1)\\n    time.sleep(0.01)'
subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_a_breakpoint_that_is_set_while_the_child_waits_stops_it(launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SERVES)
    (tmp_path / "steps.py").write_text(STEPS)
    running = launch(sys.executable, "train.py", wait="300")
    script = str(tmp_path / "train.py")
    with Editor(running.wait_state("waiting")["port"], {script: [4]}) as editor:
        editor.wait_stops(1)
        wait_for(lambda: len(running.record()["processes"]), lambda count: count == 2)
        editor.breakpoints = {str(tmp_path / "steps.py"): [6]}
        for session in list(editor.attached.values()):
            where = {"path": str(tmp_path / "steps.py")}
            session.request("setBreakpoints", source=where, breakpoints=[{"line": 6}])
        assert editor.wait_stops(2)[1]["line"] == 6
        (tmp_path / "stop").touch()
        assert running.finish()[0] == 0


def test_a_child_without_a_breakpoint_to_hit_does_not_join_until_it_lives_for_long(
    launch, tmp_path: Path
) -> None:
    code = 'import sys, time\\nprint("debugpy" in sys.modules)\\nsys.stdout.flush()\\n'
    program = "import time; began = time.monotonic()\n"
    program += f"subprocess.run([sys.executable, '-c', '{code}'], stdout=open('short', 'w'), check=True)\n"
    program += "open('took', 'w').write(str(time.monotonic() - began))\n"
    waits = 'import os, time\\nwhile not os.path.exists("stop"):\\n    time.sleep(0.02)'
    program += f"subprocess.run([sys.executable, '-c', '{waits}'], check=True)"
    running, editor = _in_program(launch, tmp_path, STARTS.format(program))
    with editor:
        took = tmp_path / "took"
        wait_for(lambda: took.exists() and took.read_text(), bool)  # the first one has ended
        stayed_out = (tmp_path / "short").read_text() == "False\n"
        assert stayed_out or _lived_for_long(tmp_path)
        # The root, the program, the one that lives.
        wait_for(lambda: len(editor.attached), lambda count: count >= (3 if stayed_out else 4))
        (tmp_path / "stop").touch()
        assert running.finish()[0] == 0


def _lived_for_long(folder: Path) -> bool:
    """On a machine that stands still for a moment any child does, and is then asked to join."""
    return float((folder / "took").read_text()) > processes.WAIT_LIMIT


def _holder(key: int, *settings: tuple[str, dict], client: str = "vscode", **attach: object) -> Connection:
    one = Connection("127.0.0.1", Settings(), Stops(lambda _: None))
    one.phase = Phase(one)
    one.phase.name = HOLDING
    one.key, one.configured = key, True
    one.initialize = {"arguments": {"clientID": client}}
    one.attach = {"arguments": attach}
    for command, arguments in settings:
        one.settings.note({"command": command, "arguments": arguments})
    return one


def _points(path: str) -> tuple[str, dict]:
    return "setBreakpoints", {"source": {"path": path}, "breakpoints": [{"line": 1}]}


def test_what_is_wanted_is_the_files_of_all_sessions_as_the_client_and_its_mappings_have_them() -> None:
    mapping = [{"localRoot": "C:\\Work", "remoteRoot": "/workspace"}]
    holders = [
        _holder(ROOT, _points("/a/root.py")),
        _holder(7, _points("c:\\work\\pkg\\x.py"), pathMappings=mapping, redirectOutput=False),
    ]
    assert breakpoints.wanted(holders) == (
        {"/a/root.py", "c:\\work\\pkg\\x.py", "/workspace/pkg/x.py"},
        set(),
    )


@pytest.mark.parametrize(
    "setting",
    [
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "work"}]}),
        ("setExceptionBreakpoints", {"filters": ["raised"]}),
        ("setExceptionBreakpoints", {"filters": [], "filterOptions": [{"filterId": "userUnhandled"}]}),
        ("setExceptionBreakpoints", {"filters": [], "exceptionOptions": [{"breakMode": "always"}]}),
        _points("/a/templates/index.html"),
        _points("/usr/lib/python3.11/json/decoder.py"),
    ],
)
def test_where_a_breakpoint_could_be_anywhere_every_process_joins_at_its_start(
    setting: tuple[str, dict],
) -> None:
    assert breakpoints.wanted([_holder(ROOT), _holder(7, setting)]) is None


def test_every_process_joins_at_its_start_until_a_process_has_a_session() -> None:
    assert breakpoints.wanted([_holder(ROOT, _points("/a/b.py"))]) is None
    assert breakpoints.wanted([_holder(ROOT, client="dkdbg-ports"), _holder(7, _points("/a/b.py"))]) is None
    assert breakpoints.wanted([_holder(ROOT), _holder(7)]) is None  # it wants nothing that we know of
    assert breakpoints.wanted([_holder(ROOT, client="unknown"), _holder(7, _points("/a/b.py"))]) is None


def test_a_file_more_calls_those_that_wait_and_a_file_less_does_not(tmp_path: Path) -> None:
    waiting = WaitingFile(str(tmp_path / "breakpoints"))
    assert waiting.write(({"/a/b.py", "/a/c.py"}, {"uncaught"}))
    assert not waiting.write(({"/a/b.py", "/a/c.py"}, {"uncaught"}))
    assert not waiting.write(({"/a/b.py"}, set()))
    assert waiting.version == 1
    assert waiting.write(({"/a/b.py", "/a/d.py"}, set()))
    assert (tmp_path / "breakpoints").read_text() == "2\n\nb.py\nd.py\n"
    assert waiting.write(None)
    assert (waiting.version, (tmp_path / "breakpoints").exists()) == (0, False)
    assert not waiting.write(None)
    assert waiting.write(({"/a/b.py"}, set()))
    assert waiting.version == 3


def test_a_packages_main_file_is_known_with_its_folder() -> None:
    assert key("C:\\a\\Pkg\\__init__.py") == "pkg/__init__.py"
    assert key("./__main__.py") == "__main__.py"
    assert key("/a/B.py") == "b.py"


FAILS = {
    "in the main thread": "def fail():\n    raise ValueError(1)\nfail()\n",
    "with a hook of its own": "import sys\nsys.excepthook = lambda *_: None\nraise ValueError(1)\n",
    "in a thread": (
        "import threading\ndef fail():\n    raise ValueError(1)\nt = threading.Thread(target=fail)\nt.start()\nt.join()\n"
    ),
}


@pytest.mark.parametrize("program", FAILS.values(), ids=FAILS.keys())
def test_an_exception_that_nobody_catches_stops_in_a_child_that_waits(
    launch, tmp_path: Path, program: str
) -> None:
    (tmp_path / "fails.py").write_text(program)
    (tmp_path / "train.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'fails.py'], stderr=subprocess.DEVNULL)\n"
    )
    running = launch(sys.executable, "train.py", wait="300")
    with Debugger(AttachOptions(port=running.wait_state("waiting")["port"])) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        stop = debugger.wait_stopped(300)
        assert debugger.stack(stop)[0].path == str(tmp_path / "fails.py")
        debugger.continue_(stop)
        assert running.finish()[0] == 0


LEAVES = {
    "sys.exit": "import sys\n\ndef main():\n    sys.exit(3)\n\nmain()\n",
    "raised by name": "def main():\n    return 3\n\nraise SystemExit(main())\n",
    "what argparse says": "import argparse\nparser = argparse.ArgumentParser()\n\nparser.parse_args(['-x'])\n",
}


@pytest.mark.parametrize("minor", [8, 11, 13])
@pytest.mark.parametrize("program", LEAVES.values(), ids=LEAVES.keys())
def test_an_exit_that_says_of_a_failure_stops_in_a_child_that_waits(
    launch, request, tmp_path: Path, program: str, minor: int
) -> None:
    (tmp_path / "leaves.py").write_text(program)
    (tmp_path / "train.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'leaves.py'], stderr=subprocess.DEVNULL)\n"
    )
    python, layout = need(minor), request.getfixturevalue("old_layout" if minor < 10 else "layout")
    running = launch(python, "train.py", wait="300", python=python, layout=layout)
    with Debugger(AttachOptions(port=running.wait_state("waiting")["port"])) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        stop = debugger.wait_stopped(300)
        frame = debugger.stack(stop)[0]
        assert (stop.text, frame.path, frame.line) == ("SystemExit", str(tmp_path / "leaves.py"), 4)
        debugger.continue_(stop)
        assert running.finish()[0] == 0


def test_a_child_that_ends_well_by_sys_exit_does_not_join(launch, tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(
        "import atexit, sys\n"
        "atexit.register(lambda: open('joined', 'w').write(str('pydevd' in sys.modules)))\n"
        "sys.exit(0)\n"
    )
    (tmp_path / "train.py").write_text(
        "import subprocess, sys, time\nbegan = time.monotonic()\n"
        "subprocess.run([sys.executable, 'leaves.py'], check=True)\n"
        "open('took', 'w').write(str(time.monotonic() - began))\n"
    )
    running = launch(sys.executable, "train.py", wait="300")
    with Debugger(AttachOptions(port=running.wait_state("waiting")["port"])) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        assert running.finish()[0] == 0
    assert (tmp_path / "joined").read_text() == "False" or _lived_for_long(tmp_path)


@pytest.mark.parametrize(
    ("attach", "more"),
    [
        ({}, {"uncaught", "exits"}),
        ({"breakOnSystemExit": []}, {"uncaught"}),
        ({"breakOnSystemExit": [0]}, {"uncaught", "every-exit"}),
    ],
)
def test_which_exits_are_wanted_is_the_editors_choice(attach: dict, more: set[str]) -> None:
    setting = ("setExceptionBreakpoints", {"filters": ["uncaught"]})
    found = breakpoints.wanted([_holder(ROOT), _holder(7, setting, redirectOutput=False, **attach)])
    assert found == (set(), more)


def test_what_a_child_prints_to_the_programs_own_output_is_in_the_editor(launch, tmp_path: Path) -> None:
    child = "print('shown'); import sys; sys.stderr.write('too\\n')"
    captured = "print('kept', 'debugpy' in __import__('sys').modules)"
    (tmp_path / "train.py").write_text(
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
        f"done = subprocess.run([sys.executable, '-c', {captured!r}], check=True, stdout=subprocess.PIPE)\n"
        "print(done.stdout)\n"
    )
    running = launch(sys.executable, "train.py", wait="300")
    with Editor(running.wait_state("waiting")["port"], {str(tmp_path / "other.py"): [1]}) as editor:
        wait_for(lambda: "".join(editor.output), lambda text: "shown" in text and "too" in text)
        code, out, err = running.finish()
    assert (code, out) == (0, "shown\nb'kept False\\n'\n")
    assert "too\n" in err


def test_the_ranks_of_a_launcher_join_at_their_start(launch, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(
        "import sys\nopen(sys.argv[1], 'w').write(str('pydevd' in sys.modules))\n"
    )
    (tmp_path / "train.py").write_text(
        "import os, subprocess, sys\n"
        "for rank in '01':\n"
        "    subprocess.run([sys.executable, 'rank.py', rank], env=dict(os.environ, RANK=rank), check=True)\n"
    )
    running = launch(sys.executable, "train.py", wait="300")
    with Editor(running.wait_state("waiting")["port"], {str(tmp_path / "other.py"): [1]}):
        assert running.finish()[0] == 0
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["True", "True"]
