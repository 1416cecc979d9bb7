"""What the program prints reaches the attached editor too, and nothing else about it changes."""

import io
import os
import pty
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.inprocess import output
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import Client, Editor, wait_for
from tests.processes import children

LINES = 100_000


def said(debugger: Debugger, *categories: str, by: str = "") -> str:
    return "".join(
        each.text for each in debugger.output if each.category in categories and by in each.session.name
    )


def run(running: Any, **options: Any) -> Debugger:
    with Debugger(AttachOptions(port=running.wait_state("waiting")["port"], **options)) as debugger:
        debugger.attach()
        debugger.wait_ended(300)
        return debugger


@pytest.mark.parametrize(("version", "unbuffered"), [(8, ""), (13, "1")])
def test_prints_and_a_traceback_reach_the_editor_apart_and_the_log_as_before(
    program, under, version, unbuffered
):
    environment = {"PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "utf-8"}
    running = program(
        "import atexit, logging, sys\n"
        "print('loss', 0.5)\n"
        "sys.stdout.buffer.write(b'raw \\xc3\\xa4\\n') if sys.stdout.write_through else print('raw \\u00e4')\n"
        "logging.warning('slow')\n"
        "print('step', end=''); print(' one')\n"
        "raise ValueError('bad batch')\n",
        wait="300",
        env=environment,
        **under(version),
    )
    debugger = run(running)
    code, out, err = running.finish()
    assert (code, out) == (1, "loss 0.5\nraw ä\nstep one\n")
    assert said(debugger, "stdout", by="train.py") == out
    printed = "".join(line + "\n" for line in err.splitlines() if not line.startswith("dkdbg: "))
    assert "ValueError: bad batch" in printed
    assert said(debugger, "stderr", by="train.py") == printed


def test_a_hundred_thousand_lines_arrive_all_in_order_in_few_events(program):
    running = program(
        f"for i in range({LINES}): print('line', i)\n", wait="300", env={"PYTHONUNBUFFERED": "1"}
    )
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(running.process.stdout.read().decode()))
    reader.start()
    debugger = run(running)
    reader.join(300)
    wanted = "".join(f"line {i}\n" for i in range(LINES))
    assert read == [wanted]
    assert said(debugger, "stdout") == wanted
    assert len([each for each in debugger.output if each.category == "stdout"]) < LINES / 10
    assert running.process.wait(300) == 0


def test_each_rank_prints_in_its_own_session_and_the_one_that_failed_is_named_in_the_roots(program, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, sys\nrank = os.environ['RANK']\nprint('rank', rank, 'is up')\n"
        "if rank == '2': raise ValueError('no data')\n"
    )
    running = program(
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.executable, 'train.py'], env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r),"
        " WORLD_SIZE='4')) for r in range(4)]\n"
        "if any([rank.wait() for rank in ranks]): sys.exit('a rank has failed')\n",
        wait="300",
        name="start.py",
    )
    debugger = run(running)
    code, out, _ = running.finish()
    assert code == 1
    assert sorted(out.splitlines()) == [f"rank {rank} is up" for rank in range(4)]
    for rank in range(4):
        assert said(debugger, "stdout", by=f"rank {rank}") == f"rank {rank} is up\n"
    assert said(debugger, "stderr", by="rank 2").endswith("ValueError: no data\n")
    root = "".join(each.text for each in debugger.output if "debugger" in each.session.name)
    assert "the program exited with code 1; rank 2 said last on stderr:" in root
    assert "ValueError: no data" in root


def test_what_was_printed_before_a_stop_is_there_before_it(program):
    running = program("for i in range(20):\n    print('before', i)\n    i += 0\nprint('end')\n", wait="300")
    with running.debugged(3) as debugger:
        for i in range(20):
            stop = debugger.wait_stopped(300)
            assert said(debugger, "stdout").endswith(f"before {i}\n")
            stop.session.request("continue", {"threadId": stop.thread_id})
        debugger.wait_output("end\n")
    running.ends()


@pytest.mark.parametrize("version", [8, 13])
def test_a_step_into_a_print_comes_to_the_next_line(program, under, version):
    running = program("a = 1\nprint(a)\nb = 2\n", wait="300", **under(version))
    with Editor(running.port, {running.script: [2]}, hold=True) as editor:
        first = editor.wait_stops(1)[0]
        first["session"].send("stepIn", threadId=first["thread"])
        second = editor.wait_stops(2)[1]
        second["session"].send("continue", threadId=second["thread"])
        running.ends(0, "1\n")
        assert second["line"] == 3


def test_an_editor_can_do_without(program):
    running = program("print('loss', 0.5)\n", wait="300")
    debugger = run(running, extra={"redirectOutput": False})
    running.ends(0, "loss 0.5\n")
    assert said(debugger, "stdout", "stderr") == ""


def test_the_streams_stay_what_they_were_and_are_bare_when_the_editor_has_left(program, tmp_path):
    running = program(
        "import io, os, sys, time\n"
        "assert sys.stdout is sys.__stdout__ and type(sys.stdout) is io.TextIOWrapper, sys.stdout\n"
        "print('attached', flush=True)\n"
        "while not os.path.exists('left'): time.sleep(0.01)\n"
        "end = time.monotonic() + 300\n"
        "layers = [sys.stdout, sys.stdout.buffer, sys.stderr, sys.stderr.buffer]\n"
        "while any('write' in layer.__dict__ for layer in layers) and time.monotonic() < end: time.sleep(0.01)\n"
        "print([layer.__dict__.get('write') for layer in layers])\n",
        wait="300",
    )
    with running.debugged() as debugger:
        debugger.wait_output("attached\n")
    (tmp_path / "left").touch()
    running.ends(0, "attached\n[None, None, None, None]\n")


def test_a_terminal_stays_a_terminal(program):
    ours, theirs = pty.openpty()
    running = program(
        "import os, sys\nprint(sys.stdout.isatty(), os.isatty(1), os.ttyname(1), sys.stdout.line_buffering)\n",
        wait="300",
        stdin=theirs,
        stdout=theirs,
    )
    printed = f"True True {os.ttyname(theirs)} True"
    debugger = run(running)
    assert running.process.wait(300) == 0
    assert said(debugger, "stdout") == f"{printed}\n"
    assert os.read(ours, 1000).decode() == f"{printed}\r\n"
    os.close(ours)
    os.close(theirs)


def test_a_forked_worker_that_fails_says_so_in_its_own_session_and_once(program):
    running = program(
        "import multiprocessing, sys\n"
        "def work():\n    print('in the worker'); raise ValueError('bad sample')\n"
        "if __name__ == '__main__':\n"
        "    print('before the fork')\n"
        "    worker = multiprocessing.get_context('fork').Process(target=work, name='loader')\n"
        "    worker.start(); worker.join(); print('after it')\n",
        wait="300",
        env={"PYTHONUNBUFFERED": "1"},
    )
    debugger = run(running)
    running.ends()
    assert said(debugger, "stdout", by="loader") == "in the worker\n"
    assert said(debugger, "stderr", by="loader").endswith("ValueError: bad sample\n")
    everything = said(debugger, "stdout")
    assert [everything.count(each) for each in ("before the fork", "in the worker", "after it")] == [1, 1, 1]


class Deaf(Client):
    """An editor that, once attached, stops to read at the next print of the program until it is told to go on."""

    def __init__(self, port: int) -> None:
        self.hears = threading.Event()
        super().__init__(port)

    def _event(self, session: Any, name: str, body: dict[str, Any]) -> None:
        if name == "output" and body.get("category") == "stdout":
            self.hears.wait(300)
        super()._event(session, name, body)


def attach_deaf(running: Any, folder: Path) -> tuple[Client, Deaf]:
    port = running.wait_state("waiting")["port"]
    root = Client(port).attach()
    deaf = Deaf(port)
    deaf.hears.set()
    deaf.attach(**root.child_arguments())
    deaf.hears.clear()
    (folder / "go").touch()
    return root, deaf


def resident(pid: int) -> int:
    """Mebibytes of memory of a process; of one that has just ended, none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int((status.partition("VmRSS:")[2].split() or ["0"])[0]) >> 10


@pytest.mark.parametrize("ends", [False, True])
def test_an_editor_that_does_not_read_holds_up_neither_the_program_nor_its_end_and_nothing_grows(
    program, tmp_path, ends
):
    lines = 1500
    running = program(
        "import os, sys, time\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        f"for i in range({lines}): print(i, 'x' * 40000)\n"
        "print('the last line', file=sys.stderr)\n"
        "open('printed', 'w').close()\n"
        f"while not {ends} and not os.path.exists('stop'): time.sleep(0.02)\n",
        wait="300",
        env={"PYTHONUNBUFFERED": "1"},
    )
    read: list[int] = []
    reader = threading.Thread(target=lambda: read.append(len(running.process.stdout.read())))
    reader.start()
    root, deaf = attach_deaf(running, tmp_path)
    with root, deaf:
        wait_for((tmp_path / "printed").exists, bool)
        record = running.record()
        if ends:
            pid = root.event("debugpyAttach")["subProcessId"]
            wait_for(Path(f"/proc/{pid}").exists, lambda exists: not exists)
            deaf.hears.set()
        else:
            below = children(record["pid"])
            assert len(below) >= 2
            grown = {pid: resident(pid) for pid in (*below, record["pid"])}
            assert max(grown.values()) < 110, grown
            deaf.hears.set()
            deaf.event("output", text="lines are omitted because the editor was not reading")
            deaf.event("output", text="the last line")
            (tmp_path / "stop").touch()
            deaf.event("terminated")
        reader.join(300)
        assert running.process.wait(300) == 0
    assert read == [sum(len(f"{i} ") + 40001 for i in range(lines))]


def test_a_handler_of_a_signal_may_print_in_the_middle_of_a_print(program):
    running = program(
        "import signal, sys\ncount = 0\n"
        "def handler(*_):\n    global count\n    count += 1\n    sys.stderr.write('tick\\n')\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "for i in range(20000): print(i)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\nprint('ticks', count)\n",
        wait="300",
        env={"PYTHONUNBUFFERED": "1"},
    )
    threading.Thread(target=running.process.stdout.read, daemon=True).start()
    debugger = run(running)
    assert running.process.wait(300) == 0
    out = said(debugger, "stdout")
    ticks = int(out.split()[-1])
    assert ticks > 0
    assert out == "".join(f"{i}\n" for i in range(20000)) + f"ticks {ticks}\n"
    assert said(debugger, "stderr") == "tick\n" * ticks


def test_a_program_that_is_killed_leaves_what_it_had_printed_before(program, tmp_path):
    running = program(
        "import os, time\nprint('step 1')\nwhile not os.path.exists('go'): time.sleep(0.01)\nos.kill(os.getpid(), 9)\n",
        wait="300",
    )
    with running.debugged() as debugger:
        debugger.wait_output("step 1\n")  # stdout has it in its buffer still: the log never gets it
        (tmp_path / "go").touch()
        debugger.wait_ended(300)
    running.ends(128 + signal.SIGKILL, "")


def test_a_write_that_the_program_puts_over_ours_keeps_nothing_without_an_editor_and_each_line_once_with_one():
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    pending = output._pending

    def attach():
        pending.is_on = True
        output._shadow(stream, "stdout")

    attach()
    ours = stream.write

    def over(text):
        return ours(text)

    stream.write = over
    output._restore()
    try:
        stream.write("while no editor is there\n")
        assert not pending.pieces
        attach()
        stream.write("once\n")
        assert list(pending.pieces) == ["once\n"]
        output._restore()
        del stream.write  # by the program, too
        attach()
        stream.write("again\n")
        assert list(pending.pieces) == ["once\n", "again\n"]
    finally:
        output._restore()
        pending.clear()
        output._covered.clear()
    assert "write" not in vars(stream)
