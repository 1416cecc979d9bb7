"""The adapter is killed, or the controller leaves: the remaining editors continue without any action."""

import contextlib
import ctypes
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.adapter import backend
from tests.agent.dap_probe import Client, Editor, Session, wait_for
from tests.processes import children, thread_states

LINE = 4  # of the loop's `n += 1`
#: Two workers that stop in line 6, and leave a file each at their end.
WORKERS = """\
import multiprocessing, os, time

def work(name):
    n = 0
    while n < 50000 and not os.path.exists("stop"):  # ends at some time
        n += 1
        time.sleep(0.02)
    open(name, "w").close()

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=("done%d" % number,)) for number in range(2)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    raise SystemExit(sum(each.exitcode for each in workers))
"""


def kill_adapter(running: Any) -> None:
    (pid,) = children(running.process.pid, "adapter.py")
    os.kill(pid, signal.SIGKILL)


def unread_by(pid: int) -> list[bytes]:
    """Return the unread data of each connection of this stopped process."""
    found = []
    process = os.pidfd_open(pid)
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if str(entry.readlink()).startswith("socket:["):
            copy = ctypes.CDLL(None).syscall(438, process, int(entry.name), 0)  # pidfd_getfd(2)
            with (
                socket.socket(fileno=copy) as sock,
                contextlib.suppress(OSError),
            ):  # a listening socket, or no socket
                found.append(sock.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    os.close(process)
    return found


def test_a_killed_adapter_leaves_the_editors_session_and_breakpoints(loop, tmp_path):
    running = loop()
    port, script = running.port, running.script
    with Editor(port, {script: [LINE]}, hold=True) as editor:
        root, first = editor.sessions[0], editor.wait_stops(1)[0]
        for times in range(1, 4):
            kill_adapter(running)
            stop = editor.wait_stops(times + 1)[-1]
            assert (stop["path"], stop["line"]) == (script, LINE)
            assert editor.errors == []
            assert stop["session"] is not first["session"]
            wait_for(lambda: first["session"].seen, lambda seen: "terminated" in seen)  # noqa: B023
            assert not root.closed
            assert "terminated" not in root.seen
            assert root.request("threads")["threads"] == [{"id": 1, "name": "dkdbg agent"}]
            assert stop.value("n > 0") == "True"
            first = stop
        assert any("adapter died; a new one is starting" in line for line in editor.output)
        (tmp_path / "stop").touch()
        stop.go_on(without=script)
        running.ends()
    assert editor.exit_codes[-1] == 0


def test_an_adapter_that_dies_too_often_ends_the_editors_sessions_and_says_so(loop, tmp_path):
    port = (running := loop()).port
    with Editor(port, {}) as editor:
        editor.wait_attached(2)
        killed: set[int] = set()
        for _ in range(backend.MAX_RESTARTS + 1):
            (new,) = wait_for(lambda: set(children(running.process.pid, "adapter.py")) - killed, bool)
            os.kill(new, signal.SIGKILL)
            killed.add(new)
        wait_for(lambda: editor.sessions[0].closed, bool)
        assert any("debugging is off for the rest of this run" in line for line in editor.output), (
            editor.output
        )
        assert "terminated" in editor.sessions[0].seen
    (tmp_path / "stop").touch()
    err = running.ends()
    assert "died 6 times: debugging is off for the rest of this run" in err


@pytest.mark.parametrize("left", ["held after a step", "stepping"])
def test_a_thread_stops_at_breakpoints_only_after_its_adapter_died(program, tmp_path, left):
    """The program is in line 5 almost always: leftovers of the former adapter would stop it in line 6."""
    (tmp_path / "waiting.py").write_text(
        "import os, time\ndef here():\n    time.sleep(0.4)\n    while os.path.exists('hold'): time.sleep(0.02)\n"
    )
    running = program(
        "import os, waiting\nn = 0\nwhile not os.path.exists('stop'):\n    n += 1\n    waiting.here()\n    n += 0\n"
    )
    script = running.script
    with Editor(running.port, {script: [LINE]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        stop["session"].request("next", threadId=stop["thread"])
        stop = editor.wait_stops(2)[-1]
        if left == "stepping":
            (tmp_path / "hold").touch()  # it is in line 5 until the adapter is dead
            stop["session"].request("next", threadId=stop["thread"])
        before = len(editor.stops)
        kill_adapter(running)
        wait_for(lambda: stop["session"].seen, lambda seen: "terminated" in seen)
        (tmp_path / "hold").unlink(missing_ok=True)
        assert editor.wait_stops(before + 1)[-1]["line"] == LINE
        (tmp_path / "stop").touch()


def test_the_broker_answers_the_open_requests_of_a_killed_adapter(loop):
    port = (running := loop()).port
    with Client(port).attach() as root, root.child() as child:
        (pid,) = children(running.process.pid, "adapter.py")
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: thread_states(pid), lambda states: set(states) == {"T"})
        asked = root.session.send("threads")
        childs = child.session.send("threads")
        wait_for(lambda: sum(b'"threads"' in each for each in unread_by(pid)), lambda count: count == 2)
        os.kill(pid, signal.SIGKILL)
        for client, number in ((root, asked), (child, childs)):
            with pytest.raises(AssertionError, match="adapter died"):
                client.session.wait(number)
        child.event("terminated")
        assert child.session.request("disconnect") == {}
        root.event("debugpyAttach", count=2)
        assert root.session.request("threads")["threads"] == [{"id": 1, "name": "dkdbg agent"}]


def test_a_new_adapter_is_no_new_editor_for_a_program_that_waits_for_one(program):
    running = program("print('run')\n", verb="supervise", wait="300")
    with Editor(running.port, {}) as editor:
        running.wait_state("idle")
        (former,) = children(running.process.pid, "adapter.py")
        os.kill(former, signal.SIGKILL)
        # The editor counts as gone before the new adapter.
        wait_for(lambda: set(children(running.process.pid, "adapter.py")) - {former}, bool)
        wait_for(lambda: running.record()["client"], bool)
        assert editor.sessions[0].request("threads")["threads"]
        assert (running.record()["state"], running.record()["runs"]) == ("idle", 1)


def test_an_observer_gets_the_session_when_the_controller_leaves(loop, tmp_path):
    running = loop()
    port, script = running.port, running.script
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Editor(port, {}))
        first.wait_attached(2)
        second = stack.enter_context(Editor(port, {script: [LINE]}, hold=True))
        third = stack.enter_context(Editor(port, {}))
        for editor in (second, third):
            editor.wait_attached(2)
        assert second.stops == []
        for session in first.sessions.values():
            session.close()
        stop = second.wait_stops(1)[0]
        assert stop["line"] == LINE
        assert stop.value("6 * 7") == "42"
        second.wait_output("you control this session now")
        wait_for(lambda: third.stops, bool)  # observes the second one now
        assert len(second.sessions) == 2
        assert second.errors == third.errors == []
        with pytest.raises(AssertionError, match="take-over"):
            third.stops[0].go_on()
        stop.go_on(without=script)
        (tmp_path / "stop").touch()
        running.ends()


def test_an_editor_that_comes_back_at_once_keeps_its_session(loop):
    port = loop().port
    with Client(port).attach() as first, Client(port).attach() as second:
        second.event("output", text="you are an observer")
        first.session.send("disconnect", restart=True)
        first.event("terminated")
        with Client(port).attach() as again:
            second.event("output", text="you are an observer", count=2)
            again.event("debugpyAttach")
            with pytest.raises(AssertionError, match="take-over"):
                second.session.request("pause", threadId=1)


def test_editors_that_never_answer_or_are_gone_when_asked_to_open_a_session_keep_nobody_out(loop):
    """Regression: the adapter waited for their answer forever, and refused later editors: already being debugged."""
    port = loop().port
    with Client(port).attach() as first:
        first.event("debugpyAttach")
    for number in range(20 if os.environ.get("DKDBG_TEST_FULL") else 6):
        waits = number % 2  # until it is asked, and does not answer
        with socket.create_connection(("127.0.0.1", port), 300) as silent:
            initialize = {"clientID": "vscode", "supportsStartDebuggingRequest": True}
            for command, arguments, said in (
                ("initialize", initialize, b'"response"'),
                ("attach", {}, b'"initialized"'),
                ("configurationDone", {}, b'"startDebugging"' if waits else b""),
            ):
                silent.sendall(frames.wrap(messages.request(1, command, arguments)))
                heard = b""
                while said not in heard:
                    data = silent.recv(1 << 16)
                    assert data, heard
                    heard += data
    with Client(port).attach() as after:
        after.event("debugpyAttach")


def count_attaches(editor: Editor) -> list[int]:
    """Return a list that gets the pid of each session which the editor opens from now on."""
    opened: list[int] = []
    attach = editor.attach

    def counted(pid=0, arguments=None):
        opened.append(pid)
        return attach(pid, arguments)

    editor.attach = counted  # type: ignore[method-assign]
    return opened


def inherit(stack: contextlib.ExitStack, port: int, script: str) -> tuple[Editor, list[int]]:
    """Return an editor at the moment in which it gets a stopped process from one that leaves, and its sessions."""
    first = stack.enter_context(Editor(port, {script: [LINE]}, hold=True))
    first.wait_stops(1)
    second = Editor(port, {}, hold=True)
    opened = count_attaches(second)
    stack.enter_context(second)
    wait_for(lambda: second.stops, bool)
    for session in first.sessions.values():
        session.close()
    second.wait_output("you control this session now")
    return second, opened


@pytest.mark.parametrize("pause", [0, 0.03])
def test_a_take_over_at_the_moment_of_inheriting_gets_the_process(loop, tmp_path, pause):
    running = loop()
    port, script = running.port, running.script
    with contextlib.ExitStack() as stack:
        second, _ = inherit(stack, port, script)
        time.sleep(pause)
        third = Editor(port, {script: [LINE]}, hold=True)
        stack.push(third)
        connect = {"host": "127.0.0.1", "port": port}
        third.attach(0, {"justMyCode": True, "connect": connect, "dkdbgRole": "take-over"})
        stop = third.wait_stops(1)[0]
        assert (stop["line"], stop.value("6 * 7")) == (LINE, "42")
        wait_for(lambda: [session.closed for session in list(second.sessions.values())], all)
        assert (len(third.sessions), third.errors, second.errors) == (2, [], [])
        stop.go_on(without=script)
        (tmp_path / "stop").touch()
        running.ends()


def test_who_inherits_a_process_has_one_session_of_it(loop):
    running = loop()
    port, script = running.port, running.script
    with contextlib.ExitStack() as stack:
        second, opened = inherit(stack, port, script)
        child = next(session for pid, session in second.sessions.items() if pid)
        child.request("setBreakpoints", source={"path": script}, breakpoints=[{"line": LINE}])
        wait_for(lambda: second.stops, lambda stops: stops[-1]["line"] == LINE and len(stops) == 2)
        assert second.stops[-1]["session"] is child
        assert len(opened) == 2


def test_an_observer_survives_a_killed_adapter(loop):
    running = loop()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Editor(running.port, {}))
        first.wait_attached(2)
        second = stack.enter_context(Editor(running.port, {running.script: [LINE]}, hold=True))
        second.wait_attached(2)
        before = second.sessions.copy()
        first.hold, first.breakpoints = True, {running.script: [LINE]}
        kill_adapter(running)
        assert first.wait_stops(1)[0]["line"] == LINE
        stop = second.wait_stops(1)[0]
        assert stop["line"] == LINE
        assert second.sessions[0] is before[0]
        assert stop["session"] not in before.values()
        with pytest.raises(AssertionError, match="take-over"):
            stop.go_on()
        assert first.errors == second.errors == []


@pytest.fixture
def workers(program, tmp_path):
    yield program(WORKERS)
    (tmp_path / "stop").touch()


def two_stops(editor: Editor) -> list[Session]:
    wait_for(lambda: {id(stop["session"]) for stop in editor.stops}, lambda found: len(found) == 2)
    return [stop["session"] for stop in editor.stops]


def leave_root(editor: Editor) -> None:
    """Press Shift+F5 in the root session as VS Code does, and wait for the end of all other sessions."""
    editor.wait_attached(4)
    sessions = dict(editor.sessions)
    assert sessions[0].request("disconnect", terminateDebuggee=False) == {}
    for pid, session in sessions.items():
        wait_for(lambda session=session: session.closed, bool)
        assert not pid or "terminated" in session.seen
    assert (editor.errors, len(editor.sessions)) == ([], 4)


def test_one_stop_ends_all_sessions_the_processes_run_on_and_a_new_attach_stops_again(workers, tmp_path):
    """VS Code's button disconnects only the session in focus; the configuration can limit it to that."""
    port = workers.port
    for leaving in ("the process", "restart", "break"):
        more = {"dkdbgStop": "process"} if leaving == "the process" else {}
        with Editor(port, {workers.script: [6]}, hold=True, more=more) as editor:
            first, second = two_stops(editor)
            root = editor.sessions[0]
            left = first if leaving == "the process" else root
            if leaving == "break":
                root.close()
            else:
                left.send("disconnect", restart=leaving == "restart")
            wait_for(lambda left=left: left.closed, bool)
            if left is root:
                time.sleep(0.5)
                assert first.request("threads")["threads"]
            assert second.request("threads")["threads"]
            assert left is root or not root.closed
    for focus in ("the program", "a worker", "the root session", ""):
        with Editor(port, {workers.script: [6]}, hold=True) as editor:
            held = two_stops(editor)
            editor.wait_attached(4)
            others = [one for pid, one in editor.sessions.items() if pid and one not in held]
            if focus == "the root session":
                leave_root(editor)
            elif focus:
                session = others[0] if focus == "the program" else held[0]
                assert session.request("disconnect", terminateDebuggee=False) == {}
                for one in editor.sessions.values():
                    wait_for(lambda one=one: one.closed, bool)
                assert (editor.errors, len(editor.sessions)) == ([], 4), focus
    (tmp_path / "stop").touch()
    workers.ends()
    assert sorted(path.name for path in tmp_path.glob("done*")) == ["done0", "done1"]


def test_with_an_observers_root_session_its_others_end_and_with_the_controllers_it_gets_all_processes(
    workers,
):
    port, script = workers.port, workers.script
    with Editor(port, {script: [6]}, hold=True) as first:
        stops = two_stops(first)
        with Editor(port, {}) as second:
            wait_for(lambda: second.stops, lambda found: len(found) == 2)
            leave_root(second)
        for session in stops:
            assert session.request("threads")["threads"]
        with Editor(port, {script: [6]}, hold=True) as third:
            third.wait_attached(4)
            before = dict(third.sessions)
            two_stops(third)  # the other's
            third.stops.clear()
            leave_root(first)
            for session in two_stops(third):
                assert session in before.values()
            assert third.errors == []
            third.wait_output("you control this session now")
