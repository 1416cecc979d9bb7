"""`dkdbg attach` as a process, with a program on this machine: no engine is needed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import wait_for
from tests.agent.test_handover import WORKERS
from tests.engine.attach_proxies import AttachProxy, attach_proxy
from tests.engine.projects import dkdbg
from tests.hints import in_shell
from tests.ports import free_port
from tests.processes import running_in

SCRIPT = "import os, time\nn = 0\nwhile not os.path.exists('stop'):\n    n += 1\n    time.sleep(0.02)\n"


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Starts train.py under the agent, as the session `job`; at the end none of it runs, not even what lost its agent."""
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "train.py").write_text(SCRIPT)
    started: list[subprocess.Popen[bytes]] = []

    def start():
        words = ["launch", "--port", "0", "--wait", "300", "--name", "job", "--", sys.executable, "train.py"]
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "dkdbg.agent", *words], cwd=tmp_path, stderr=subprocess.DEVNULL
            )
        )
        return started[-1]

    yield start
    for one in started:
        one.terminate()
        one.wait(300)
    (tmp_path / "stop").touch()
    wait_for(lambda: running_in(tmp_path, "train.py"), [].__eq__)


def status(proxy: AttachProxy, path: str = "/status") -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}{path}") as answer:
        return dict(json.loads(answer.read()))


def test_one_attach_sees_run_after_run_and_reports_each(agent, tmp_path):
    with attach_proxy(tmp_path, "local:job") as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.set_breakpoints(str(tmp_path / "train.py"), [4])
        root = debugger.attach()
        for number in range(3):
            running = agent()
            stop = debugger.wait_stopped(300)
            assert debugger.local_values(debugger.stack(stop)[0])["n"] == "0"
            assert len({each for each in debugger.sessions if each.name == "train.py"}) == number + 1
            said = status(proxy)
            assert (said["state"], said["client"], said["targets"][0]["attached"]) == ("attached", True, True)
            assert status(proxy, "/healthz")["state"] == "attached"
            running.send_signal(signal.SIGTERM if number else signal.SIGKILL)
            debugger.wait_ended(300, session=stop.session)
        assert not root.is_ended
        assert proxy.end() == 0
        debugger.wait_ended(300)


def test_leaving_the_root_or_one_process_ends_all_sessions_of_the_editor_and_a_new_attach_stops_again(
    agent, tmp_path
):
    """VS Code's stop button ends the session in focus, most often a process's."""
    (tmp_path / "train.py").write_text(WORKERS)
    running = agent()
    with attach_proxy(tmp_path, "local:job") as proxy:
        for focus in ("root", "process"):
            with Debugger(AttachOptions(port=proxy.port)) as debugger:
                debugger.set_breakpoints(str(tmp_path / "train.py"), [6])
                root = debugger.attach()
                held = [debugger.wait_stopped(300).session for _ in range(2)]
                assert held[0] is not held[1]
                left = root if focus == "root" else held[0]
                left.request("disconnect", {"terminateDebuggee": False})
                for session in {root, *held} - {left}:
                    debugger.wait_ended(300, session=session)
        assert running.poll() is None
        (tmp_path / "stop").touch()
        assert running.wait(300) == 0


def test_a_taken_port_is_passed_over_and_said(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with attach_proxy(tmp_path, "local:", port=port) as proxy:
            assert proxy.port > port
            assert proxy.wait("port")["port"] == proxy.port
            assert proxy.wait("listening")["entry"]["connect"] == {"host": "127.0.0.1", "port": proxy.port}


@pytest.mark.parametrize("words", [("nowhere://x",), ("local:a", "local:a"), (), ("--port", "0", "local:")])
def test_a_command_line_that_names_nothing_is_refused(tmp_path, words):
    done = dkdbg(tmp_path, "attach", *words)
    assert done.returncode in (1, 2), done.stdout
    assert "hint:" in done.stderr


def test_a_person_reads_where_to_attach_and_what_is_waited_for(tmp_path):
    words = [sys.executable, "-m", "dkdbg", "attach", "local:job", "--port", str(free_port())]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        lines = list(iter(lambda: "" if "waiting" in (line := next(process.stdout, "")) else line, ""))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the second one does not disturb
            process.send_signal(number)
        try:
            assert process.wait(300) == 0
        finally:
            process.kill()
    assert "attach your editor to 127.0.0.1:" in lines[0]
    assert '"request": "attach"' in "".join(lines)


def test_the_agents_decide_who_controls_observes_inherits_or_takes_over(agent, tmp_path):
    agent()
    with attach_proxy(tmp_path, "local:job") as proxy, contextlib.ExitStack() as stack:

        def editor(**extra):
            one = stack.enter_context(Debugger(AttachOptions(port=proxy.port, extra=extra)))
            one.set_breakpoints(str(tmp_path / "train.py"), [4])
            one.attach()
            one.wait_stopped(300)
            return one

        first, second = editor(), editor()
        second.wait_output("you are an observer: another editor")
        third = editor(dkdbgRole="take-over")
        first.wait_output("has taken this session over")
        first.wait_ended(300)
        fourth = editor()
        fourth.wait_output("you are an observer: another editor")
        assert "an observer" not in "".join(each.text for each in third.output)
        second.disconnect()
        third.disconnect()
        fourth.wait_output("you control this session now")
        assert not fourth.sessions[0].is_ended


#: What stands here, and how it is counted in what is said of it; None where nothing is said.
HERE = {
    "same.py": (SCRIPT, None),
    "windows.py": (SCRIPT.replace("\n", "\r\n"), None),
    "longer.py": ("# one\n# two\n# three\n" + SCRIPT, " (3 lines more here)"),
    "other.py": (SCRIPT.replace("0.02", "0.03"), ""),
    "shorter.py": (SCRIPT.replace("n = 0\n", "", 1), " (1 line fewer here)"),
    "only_here.py": (SCRIPT, None),
}
DIFFER = "the file here and the one at job differ{}: the breakpoint may be in different code. Run `"


def test_a_breakpoint_in_a_file_that_differs_at_the_target_says_so_and_what_it_says_mends_it(
    agent, tmp_path, tmp_path_factory
):
    local = tmp_path_factory.mktemp("here")
    for name, (text, _) in HERE.items():
        (local / name).write_text(text)
        os.utime(local / name, (1, 1))
        if name != "only_here.py":
            (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "new.py").write_text("x = 1\n")
    options = {"path_mappings": ((str(local), str(tmp_path)),)}
    with (
        attach_proxy(tmp_path, "local:job") as proxy,
        Debugger(AttachOptions(port=proxy.port, **options)) as debugger,
    ):

        def messages(name, line=4):
            found = debugger.set_breakpoints(str(local / name), [line])
            return [each.message for each in found if DIFFER.partition("{")[0] in each.message]

        debugger.attach()
        agent()
        wait_for(lambda: [each.name for each in debugger.sessions], lambda names: "train.py" in names)
        wait_for(lambda: debugger.set_breakpoints(str(local / "same.py"), [4]), lambda found: len(found) == 2)
        for name, (_, count) in HERE.items():
            found = messages(name)
            told = "".join(each.text for each in debugger.output)
            assert (told.count(f"{name}:4: "), len(found)) == (count is not None, count is not None), name
            if count is not None:
                assert DIFFER.format(count) in found[0]
                assert f"{name}:4: {found[0]}\n" in told
                line = found[0].rpartition("Run `")[2].removesuffix("`")
        # One that was saved a moment ago is told only if nothing brings it.
        for name in ("train.py", "new.py"):
            (local / name).write_text("y = 2\n")
            assert messages(name, 1) == []
        (tmp_path / "new.py").write_text("y = 2\n")
        debugger.wait_output("train.py:1: the file here and the one at job differ (4 lines fewer here)")
        assert "new.py:1: " not in "".join(each.text for each in debugger.output)
        (local / "train.py").unlink()
        done = in_shell(tmp_path, f"{line} --once")
        assert done.returncode == 0, done.stdout + done.stderr
        for name, (text, count) in HERE.items():
            if count is not None:
                assert (tmp_path / name).read_text() == text
                assert messages(name) == []
