"""An editor and a pdb want the same process: one has it, and the other is told so and comes next."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.pythons import need

SPIN = "import time\n\ndef spin(n):\n    n += 1\n    time.sleep(0.01)\n    return n\n\nn = 0\nwhile True:\n    n = spin(n)\n"


class Terminal:
    """`agent.sh pdb` with pipes as its terminal."""

    def __init__(self, layout: Path, runtime: Path, name: str) -> None:
        command = [sys.executable, "-I", "-S", str(layout / "agent.pyz"), "pdb", "--name", name]
        self.process = subprocess.Popen(
            command, env={"DKDBG_RUNTIME_DIR": str(runtime)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.said = b""  # on stderr, once it has ended

    def until(self, mark: bytes) -> bytes:
        text = b""
        while mark not in text:
            data = self.process.stdout.read1(4096)  # type: ignore[attr-defined]
            if not data:
                self.said = self.process.communicate()[1]
            assert data, (text, self.said)
            text += data
        return text

    def say(self, line: str) -> None:
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()


@pytest.fixture
def terminal(layout, runtime):
    opened: list[Terminal] = []

    def start(name):
        opened.append(Terminal(layout, runtime, name))
        return opened[-1]

    yield start
    for each in opened:
        with contextlib.suppress(OSError):
            each.process.kill()
        each.process.communicate()


def entered(terminal, running) -> Terminal:
    """A pdb in the process; it is refused until that has heard that its editor has left."""
    end = time.monotonic() + 300
    while True:
        pdb = terminal(running.name)
        try:
            pdb.until(b"(dkdbg) ")
        except AssertionError as error:
            assert b"an editor is attached to this process" in pdb.said, error  # noqa: PT017
            assert time.monotonic() < end
        else:
            return pdb


@pytest.mark.parametrize("minor", [10, 14])
def test_pdb_is_refused_while_an_editor_is_there_and_works_afterwards(program, terminal, minor):
    running = program(SPIN, python=need(minor))
    with Editor(running.port, {running.script: [5]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        refused = terminal(running.name).process
        assert refused.wait(300) == 1
        assert b"an editor is attached to this process" in refused.stderr.read()
        session = stop["session"]
        session.request("next", threadId=stop["thread"])  # the editor's session is unharmed
        assert editor.wait_stops(2)[1]["line"] == 6
    wait_for(lambda: running.record()["client"], lambda client: not client)
    pdb = entered(terminal, running)
    pdb.say("b 5")
    pdb.say("c")
    assert b"train.py(5)spin()" in pdb.until(b"spin()")
    pdb.say("q")
    pdb.until(b"detached")
    running.process.terminate()
    assert b"PYDEV DEBUGGER WARNING" not in running.process.communicate(timeout=300)[1]


@pytest.mark.parametrize("minor", [10, 14])
def test_an_editor_that_attaches_meanwhile_gets_the_process_when_pdb_leaves(program, terminal, minor):
    running = program(SPIN, python=need(minor))
    assert running.port  # it has begun
    wait_for(lambda: running.record()["processes"], bool)
    pdb = terminal(running.name)
    pdb.until(b"(dkdbg) ")
    with Editor(running.port, {running.script: [6]}, hold=True) as editor:
        pdb.until(b"an editor has attached: quit pdb (q) to hand this process over to it")
        pdb.say("b 4")
        pdb.say("c")
        assert b"train.py(4)spin()" in pdb.until(b"spin()")  # pdb goes on working
        assert editor.stops == []
        pdb.say("q")
        assert editor.wait_stops(1)[0]["line"] == 6


def test_a_pdb_client_that_was_killed_is_in_nobodys_way(program, terminal):
    running = program(SPIN)
    running.wait_state("running")
    wait_for(lambda: running.record()["processes"], bool)
    pdb = terminal(running.name)
    pdb.until(b"(dkdbg) ")
    pdb.say("c")
    second = terminal(running.name).process
    assert second.wait(300) == 1
    assert b"another pdb is connected to this process" in second.stderr.read()
    pdb.process.kill()
    pdb.process.wait()
    with Editor(running.port, {running.script: [6]}, hold=True) as editor:
        assert editor.wait_stops(1)[0]["line"] == 6


def test_of_several_processes_rank_0_is_entered_and_another_by_its_rank(program, tmp_path):
    (tmp_path / "train.py").write_text(SPIN)
    running = program(
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.executable, 'train.py'], env=dict(os.environ, RANK=str(n))) for n in (1, 0)]\n"
        "print('up', flush=True)\n"
        "for rank in ranks: rank.wait()\n",
        name="launcher.py",
    )
    wait_for(lambda: running.record().get("processes", []), lambda found: len(found) == 3)
    for words, rank in (([], 0), (["--rank", "1"], 1)):
        _, out, err = running.ask("pdb", *words, text="import os\np 'rank', os.environ['RANK']\nq\n")
        assert f"('rank', '{rank}')" in out, err
        assert f"rank {rank}; others: " in err
        assert f"rank {1 - rank}" in err
