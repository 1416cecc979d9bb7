"""One question to all ranks: from the Debug Console by `@all`, and by the agent's verb beside an editor."""

import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.agent import conftest
from tests.agent.dap_probe import Editor, wait_for
from tests.engine.projects import dkdbg

pytestmark = pytest.mark.xdist_group("agent-ranks")  # one torchrun for all of them

TRAIN = """import os, time, torch
rank = int(os.environ["RANK"])
x = torch.ones(4, 8)
loss = 0.25
if rank == 2:
    x[1, 1], loss = 5, 0.75
def hang():
    while not os.path.exists("go"): time.sleep(0.01)
hostile = "\\x1b]0;owned\\x07 line\\nfeed"
print("stop")
while not os.path.exists("finish"): time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def stopped(layout, runtime, tmp_path_factory):
    """Four ranks of torchrun, each held at the last line by one editor through one port."""
    folder = tmp_path_factory.mktemp("ranks")
    script = folder / "train.py"
    script.write_text(TRAIN)
    starting = conftest.launch.__wrapped__(layout, runtime, folder)
    start = next(starting)
    running = start(*conftest.torchrun_words(4), wait="300")
    port = running.wait_state("waiting")["port"]
    with Editor(port, {str(script): [10]}, hold=True) as editor:
        editor.wait_stops(4, 400)
        yield running, editor
    for _ in starting:
        pass


def _console(editor: Editor, expression: str) -> dict:
    """What the Debug Console of one rank's session answers, as a whole response."""
    stop = editor.stops[0]
    session = stop["session"]
    number = session.send("evaluate", expression=expression, frameId=stop["frame"], context="repl")
    session.wait_for(lambda: number in session.answers, 300)
    return session.answers[number]


def _ask(running, *words: str) -> dict:
    _, said, err = running.ask("ranks", "--json", *words)
    assert said, err
    return json.loads(said)


def test_the_console_of_each_session_shows_all_ranks_in_one_table(stopped):
    _, editor = stopped
    assert _console(editor, "@all loss")["body"]["result"].splitlines() == [
        "rank 0  train.py:10  0.25",
        "rank 1  train.py:10  0.25",
        "rank 2  train.py:10  0.75  <- differs",
        "rank 3  train.py:10  0.25",
        "min 0.25 (rank 0), max 0.75 (rank 2), spread 0.5, mean 0.375",
    ]
    assert _console(editor, "@0,2 x.shape")["body"]["result"].splitlines() == [
        "rank 0  train.py:10  torch.Size([4, 8])",
        "rank 2  train.py:10  torch.Size([4, 8])",
        "all 2 the same",
    ]
    lines = _console(editor, "@all x")["body"]["result"].splitlines()
    assert lines[0].startswith(
        "rank 0  train.py:10  Tensor(4, 8) float32 cpu, min 1 max 1 mean 1, 0 NaN 0 Inf  norm 5.65685  #"
    )
    assert [line.endswith("<- differs") for line in lines] == [False, False, True, False]
    root = editor.sessions[0]
    number = root.send("evaluate", expression="@0,1 rank", context="repl")
    assert root.wait(number)["result"].splitlines() == [
        "rank 0  train.py:10  0",
        "rank 1  train.py:10  1",
        "min 0 (rank 0), max 1 (rank 1), spread 1, mean 0.5",
    ]


def test_what_is_wrong_is_named_and_what_is_python_stays(stopped):
    _, editor = stopped
    said = _console(editor, "@all nothing")["body"]["result"]
    assert said.count("! NameError(\"name 'nothing' is not defined\")") == 4
    assert "dkdbg: not a set of ranks: 'x7'" in _console(editor, "@x7 loss")["message"]
    assert _console(editor, "@9 loss")["body"]["result"] == "no such process"
    assert "@all EXPRESSION" in _console(editor, "@all")["message"]
    assert _console(editor, "@staticmethod\ndef one(): pass")["success"]
    result = _console(editor, "@all hostile")["body"]["result"]
    assert result.isprintable() or all(line.isprintable() for line in result.splitlines())
    assert len(result.splitlines()) == 5


def test_a_rank_that_never_answers_is_named_and_holds_up_nobody(stopped):
    running, editor = stopped
    folder = Path(next(iter(editor.breakpoints))).parent
    wanted = [(0, "value"), (1, "no answer"), (2, "value"), (3, "value")]
    found = wait_for(  # another rank that stands still for a moment has no answer within 2 s either
        lambda: _ask(running, "--limit", "2", "eval", "rank if rank != 1 else hang()")["rows"],
        lambda rows: [(row["rank"], row["state"]) for row in rows] == wanted,
    )
    assert found[1]["text"] == "no answer within 2 s"
    (folder / "go").touch()
    assert _console(editor, "@0,2,3 rank")["body"]["result"].splitlines()[-1] == (
        "min 0 (rank 0), max 3 (rank 3), spread 3, mean 1.66667"
    )


def _dkdbg(running, *words: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess:
    """`dkdbg ranks ...`, outside of an editor's terminal unless `more` of its environment says otherwise."""
    env = {"DKDBG_RUNTIME_DIR": str(running.runtime), "TERM_PROGRAM": "", **more}
    return dkdbg(cwd or running.runtime, "ranks", "--on", f"local:{running.name}", *words, env=env)


def test_the_command_line_shows_the_same_table(stopped):
    running, _ = stopped
    done = _dkdbg(running, "eval", "loss")
    assert (done.returncode, done.stdout.splitlines()[2:]) == (
        0,
        [
            "rank 2  train.py:10  0.75  <- differs",
            "rank 3  train.py:10  0.25",
            "min 0.25 (rank 0), max 0.75 (rank 2), spread 0.5, mean 0.375",
        ],
    ), done.stderr
    found = json.loads(_dkdbg(running, "--json", "--ranks", "0-3:2", "eval", "x").stdout)
    assert [row["tensor"]["shape"] for row in found["rows"]] == ["(4, 8)", "(4, 8)"]
    assert (found["summary"]["same"], found["summary"]["answers"]) == (False, 2)
    wrong = _dkdbg(running, "--ranks", "3-1", "eval", "x")
    assert (wrong.returncode, wrong.stderr) == (
        2, "dkdbg: --ranks: '3-1' ends before it begins\n  hint: write the lower rank first: 1-3\n"
    )  # fmt: skip
    assert "<module>  " in _dkdbg(running, "stack").stdout


def test_a_tensor_is_drawn_and_no_file_is_overwritten(stopped, tmp_path):
    running, _ = stopped
    expression = "torch.where(x > 4, float('nan'), torch.arange(32.0).reshape(4, 8))"
    first = _dkdbg(running, "--ranks", "0,2", "eval", "--plot", expression, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert [line.rpartition(", ")[2] for line in first.stdout.splitlines()[:2]] == [
        "0 NaN 0 Inf",
        "1 NaN 0 Inf",
    ]
    assert _dkdbg(running, "--ranks", "0,2", "eval", "--plot", "x", cwd=tmp_path).returncode == 0
    # A stand-in for the `code` that a terminal of VS Code has in its PATH.
    code = tmp_path / "bin" / "code"
    code.parent.mkdir()
    code.write_text(f'#!/bin/sh\nprintf "%s " "$@" > {code.parent}/asked\n')
    code.chmod(0o755)
    in_editor = {"TERM_PROGRAM": "vscode", "PATH": f"{code.parent}:{os.environ['PATH']}"}
    shown = _dkdbg(running, "--ranks", "0", "eval", "--plot", "x", cwd=tmp_path, **in_editor)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "opened in your editor (code -r)")
    assert (code.parent / "asked").read_text() == f"-r {tmp_path}/x-2.png "
    names = [path.name for path in sorted(tmp_path.iterdir()) if path.is_file()]
    assert names == ["torch-where-x-4-float-nan-torch-arange-3.png", "x-2.png", "x.png"]
    # One of 4 by 8 elements is none, on one of two ranks.
    assert _pixels((tmp_path / names[0]).read_bytes()) == (408, 408, 192 * 192 // 32)
    again = _dkdbg(running, "--ranks", "0", "eval", "--plot", "--out", "x.png", "x", cwd=tmp_path)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    none = _dkdbg(running, "eval", "--plot", "rank", cwd=tmp_path)
    assert "it is not a tensor or array" in none.stderr
    assert "eval rank" in none.stderr
    shown = _dkdbg(running, "eval", "rank", cwd=tmp_path)
    assert (shown.returncode, "rank 3  train.py:10  3" in shown.stdout) == (0, True), (
        shown.stdout + shown.stderr
    )


def _pixels(data: bytes) -> tuple[int, int, int]:
    """Width, height and red dots of a PNG of 8-bit RGB without filters; its checksums are looked at."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        found[kind], at = body, at + 12 + size
    width, height = struct.unpack(">II", found[b"IHDR"][:8])
    lines = zlib.decompress(found[b"IDAT"])
    assert len(lines) == height * (1 + 3 * width)
    rows = [lines[at + 1 : at + 1 + 3 * width] for at in range(0, len(lines), 1 + 3 * width)]
    return width, height, sum(row[at : at + 3] == b"\xff\0\0" for row in rows for at in range(0, len(row), 3))


def test_the_verb_asks_beside_the_editor_and_a_rank_that_was_continued_is_paused_again(stopped):
    running, _ = stopped
    values = _ask(running, "eval", "x", "--ranks", "0,2")["rows"]
    assert [row["tensor"]["norm"] for row in values] == pytest.approx([32**0.5, 56**0.5])
    stacks = _ask(running, "stack", "--ranks", "3")["rows"]
    assert stacks[0]["frames"][0]["name"] == "<module>"
    assert _ask(running, "eval", "x", "--ranks", "x")["hint"]
    assert _ask(running, "--ranks", "3", "continue")["rows"][0]["state"] == "done"
    found = _ask(running, "eval", "rank")["rows"]
    assert [(row["state"], row["text"]) for row in found[2:]] == [("value", "2"), ("running", "it runs")]
    assert [row["state"] for row in _ask(running, "pause")["rows"]] == ["done"] * 4
    found = _ask(running, "--ranks", "3", "eval", "rank")["rows"]
    assert [(row["text"], row["where"]) for row in found] == [("3", "train.py:11")]


LOOP = """import os, time, threading
rank, n = int(os.environ["RANK"]), 0
if rank == 1:
    open("inside-a-call", "w").close()
    gate = threading.Lock(); gate.acquire(); gate.acquire(timeout=3600)
while not os.path.exists("stop"):
    n += 1
    if n == 1:
        open("goes-%d" % rank, "w").close()
    time.sleep(0.01)
open("end-%d" % rank, "w").write(str(n))
"""
START = """import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "train.py"], env=dict(os.environ, RANK=str(r), WORLD_SIZE="3")) for r in range(3)]
[each.wait() for each in (ranks[0], ranks[2])]
ranks[1].kill()
"""


def test_without_an_editor_they_are_held_for_a_moment_and_run_on(launch, tmp_path):
    """Also where the port asks for a token: the verb has it from the agent."""
    (tmp_path / "train.py").write_text(LOOP)
    (tmp_path / "start.py").write_text(START)
    running = launch(sys.executable, "start.py", env={"DKDBG_TOKEN": "open sesame"})
    there = {"inside-a-call", "goes-0", "goes-2"}
    wait_for(lambda: {path.name for path in tmp_path.iterdir()}, there.issubset)
    processes = lambda: {each["rank"] for each in running.wait_state("running")["processes"]}
    wait_for(processes, {0, 1, 2}.issubset)
    said = [
        (0, "value", "0"),
        (1, "running", "asked to stop; it is inside a call, and stops at its next line"),
        (2, "value", "2"),
    ]
    wait_for(  # a busy machine may need longer for rank 0 or 2, too
        lambda: _ask(running, "--limit", "5", "eval", "n > 0 and rank")["rows"],
        lambda rows: [(row["rank"], row["state"], row["text"]) for row in rows] == said,
    )
    wait_for(lambda: running.record()["client"], lambda client: not client)
    refused = _ask(running, "pause")["rows"]
    assert {(row["state"], row["text"]) for row in refused} == {
        ("not attached", "no editor is attached to it")
    }
    stack = _ask(running, "--ranks", "2", "stack")["rows"][0]
    assert stack["frames"][-1]["name"] == "<module>"
    wait_for(lambda: running.record()["client"], lambda client: not client)
    (tmp_path / "stop").touch()
    running.ends()
    assert int((tmp_path / "end-0").read_text()) > 0
