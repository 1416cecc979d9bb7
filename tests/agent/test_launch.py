"""The agent around a program: waiting, signals, exit codes, output, and what is left behind."""

# ruff: noqa: ARG001, PLW1510, PTH115, PTH123, SIM115

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dkdbg.agent import contract
from dkdbg.agent.record import procfs
from tests.agent.dap_probe import wait_for
from tests.processes import children, members, thread_states


def test_nobody_comes_and_the_program_is_not_started(launch) -> None:
    running = launch("touch", "started", wait="0.3")
    code, out, err = running.finish()
    record = running.record()
    assert code == contract.EXIT_NOBODY_CAME == 124
    assert out == ""
    first, second = err.splitlines()
    assert first == f"dkdbg: waiting for a debugger on 127.0.0.1:{record['port']}, up to 0.3 s"
    assert second == "dkdbg: no debugger within 0.3 s: the program was not started"
    assert not (Path(os.readlink("/proc/self/cwd")) / "started").exists()
    assert running.record()["exit_code"] == 124


def test_nobody_comes_and_the_program_runs_when_asked_to(launch) -> None:
    running = launch("echo", "ran", wait="0.3", env={"DKDBG_THEN": "run"})
    code, out, err = running.finish()
    assert (code, out) == (0, "ran\n")
    assert err.splitlines()[-1] == "dkdbg: no debugger within 0.3 s: going on without"


def test_python_is_python3_where_nothing_else_is_called_so(launch, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    code, out, err = launch("python", "-c", "print(6 * 7)", env={"PATH": str(programs)}).finish()
    assert (code, out) == (0, "42\n"), err
    assert "dkdbg: no program is called 'python' here: running python3\n" in err


def test_openpais_variable_is_understood_and_ours_wins(launch) -> None:
    running = launch("true", wait="", env={"DEBUG_TIMEOUT": "0.2"})
    assert running.finish()[0] == 124
    running = launch("true", wait="0", env={"DEBUG_TIMEOUT": "60"})
    assert running.finish()[0] == 0


def test_options_win_over_the_environment(launch) -> None:
    running = launch("true", wait="300", options=("--wait", "0"))
    assert running.finish()[0] == 0


def test_until_when_it_waits_is_in_the_record(launch) -> None:
    record = launch("true", wait="300").wait_state("waiting")
    assert record["expires"] >= record["started"] + 300


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exit 255", 255)],
)
def test_the_exit_code_is_the_programs(launch, command: str, code: int) -> None:
    running = launch("sh", "-c", command)
    assert running.finish()[0] == code
    assert running.record()["exit_code"] == code
    assert running.record()["state"] == "exited"


def test_the_record_says_how_the_program_was_ended(launch) -> None:
    running = launch("sh", "-c", "kill -SEGV $$")
    running.finish()
    assert running.record()["detail"] == "was ended by SIGSEGV (code 139)"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("no-such-command", 127, "dkdbg: command not found: no-such-command (PATH="),
        ("./missing.py", 127, "dkdbg: no such file: ./missing.py (in "),
        ("./plain.txt", 126, "dkdbg: cannot execute ./plain.txt: Permission denied"),
        (
            "./orphan.py",
            127,
            "dkdbg: cannot start ./orphan.py: the interpreter in its first line does not exist",
        ),
    ],
)
def test_a_command_that_cannot_start_is_named(
    launch, tmp_path: Path, command: str, code: int, message: str
) -> None:
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "orphan.py").write_text("#!/no/such/python\n")
    (tmp_path / "orphan.py").chmod(0o755)
    result, _, err = launch(command).finish()
    assert result == code
    assert err.splitlines()[-1].startswith(message)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGWINCH"])
def test_a_signal_reaches_the_program_once(program, name: str) -> None:
    running = program(
        "import signal, time\nseen = []\n"
        f"signal.signal(signal.{name}, lambda n, f: seen.append(n))\n"
        "print('ready', flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.1)\nprint(len(seen), flush=True)\nraise SystemExit(9)\n",
        name="t.py",
    )
    assert running.process.stdout.readline() == b"ready\n"
    os.kill(running.process.pid, getattr(signal, name))
    code, out, _ = running.finish()
    assert (code, out) == (9, "1\n")


def test_sigterm_ends_a_program_that_does_not_handle_it(launch) -> None:
    running = launch("sleep", "600")
    running.wait_state("running")
    running.process.terminate()
    assert running.finish()[0] == 143


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_while_waiting_ends_the_agent_without_a_start(launch, tmp_path: Path, name: str) -> None:
    running = launch("touch", "started", wait="300")
    running.wait_state("waiting")
    os.kill(running.process.pid, getattr(signal, name))
    assert running.finish()[0] == 128 + getattr(signal, name)
    assert not (tmp_path / "started").exists()


def test_the_program_inherits_ignored_signals_and_an_empty_mask(launch) -> None:
    code = (
        "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []) or 'none');"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    )
    assert launch(sys.executable, "-S", "-c", code).finish()[1] == "none\nTrue\n"
    command = ("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    bare = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    inherited = launch(*command).finish()[1].splitlines()
    # glibc's posix_spawn leaves its own two signals, 32 and 33, ignored; it sets them itself where it needs them.
    masks = [int(line.split()[1], 16) & ~(3 << 31) for line in inherited]
    assert masks == [int(line.split()[1], 16) & ~(3 << 31) for line in bare.splitlines()]


def test_nothing_is_left_behind(launch) -> None:
    running = launch(sys.executable, "-c", "pass")
    running.finish()
    record = running.record()
    assert members(record) == []
    assert not any(record["id"] in line for line in open("/proc/net/unix"))
    assert sorted(path.name for path in (running.runtime / record["id"]).iterdir()) == ["session.json"]


def test_a_killed_agent_takes_its_adapter_along(launch) -> None:
    running = launch("sleep", "600")
    record = running.wait_state("running")
    (adapter,) = children(record["pid"], "adapter.py")
    running.process.kill()
    wait_for(lambda: procfs.alive(adapter), lambda lives: not lives)


def test_an_agent_that_was_stopped_for_a_while_goes_on(loop, tmp_path: Path) -> None:
    """Ctrl-Z and fg."""
    running = loop()
    pid = running.wait_state("running")["pid"]
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: thread_states(pid), lambda states: set(states) == {"T"})
    stopped = time.monotonic()
    wait_for(time.monotonic, lambda now: now > stopped + 1.5)  # beyond the longest wait for a signal
    os.kill(pid, signal.SIGCONT)
    (tmp_path / "stop").touch()
    assert running.finish()[0] == 0


def test_output_is_the_programs_byte_for_byte(launch, tmp_path: Path) -> None:
    data = bytes(range(256)) * 300
    (tmp_path / "data").write_bytes(data)
    running = launch("cat", "data")
    out, _ = running.process.communicate(timeout=300)
    assert out == data


def test_descriptors_and_the_terminal_stay_what_they_are(launch, layout: Path, runtime: Path) -> None:
    import pty

    master, slave = pty.openpty()
    environment = dict(
        os.environ, DKDBG_RUNTIME_DIR=str(runtime), DKDBG_PORT="0", DKDBG_PYTHON=sys.executable
    )
    code = "import os; print(os.isatty(0), os.isatty(1), os.getpgrp() == os.tcgetpgrp(0))"
    process = subprocess.Popen(
        [str(layout / "agent.pyz"), "launch", "--", "setsid", "-c", "-w", sys.executable, "-c", code],
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.wait(300) == 0
    assert os.read(master, 100).split() == [b"True", b"True", b"True"]
    os.close(master)
    os.close(slave)


def test_ctrl_c_in_a_terminal_reaches_the_program_once(layout: Path, runtime: Path, tmp_path: Path) -> None:
    import pty

    (tmp_path / "t.py").write_text(
        "import signal, time\nseen = []\nsignal.signal(signal.SIGINT, lambda n, f: seen.append(n))\n"
        "print('ready', flush=True)\nwhile not seen: time.sleep(0.01)\ntime.sleep(0.2)\nprint('seen', len(seen), flush=True)\n"
    )
    environment = dict(
        os.environ, DKDBG_RUNTIME_DIR=str(runtime), DKDBG_PORT="0", DKDBG_PYTHON=sys.executable
    )
    command = [str(layout / "agent.pyz"), "launch", "--", sys.executable, str(tmp_path / "t.py")]
    pid, master = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment)
    text = b""
    while b"ready" not in text:
        text += os.read(master, 1000)
    os.write(master, b"\x03")
    while b"seen" not in text or not text.endswith(b"\n"):
        text += os.read(master, 1000)
    assert b"seen 1" in text
    assert os.waitpid(pid, 0)[1] == 0
    os.close(master)


def test_a_busy_port_is_named_and_nothing_starts(launch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        code, _, err = launch("touch", "started", env={"DKDBG_PORT": str(port)}).finish()
    assert code == contract.EXIT_AGENT
    assert (
        err
        == f"dkdbg: cannot listen on 127.0.0.1:{port}: Address already in use; choose another port: --port or DKDBG_PORT\n"
    )
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"DKDBG_PORT": "http"}, "a port (DKDBG_PORT) must be a number up to 65535, not 'http'"),
        (
            {"DKDBG_WAIT": "soon"},
            "a time to wait (DKDBG_WAIT) must be a number of seconds or `forever`, not 'soon'",
        ),
        ({"DKDBG_THEN": "stop"}, "--then (DKDBG_THEN) takes exit or run, not 'stop'"),
    ],
)
def test_a_wrong_setting_is_named(launch, env: dict[str, str], message: str) -> None:
    code, _, err = launch("true", env=env).finish()
    assert code == 2
    assert err.splitlines()[0] == f"dkdbg: {message}"


def test_agent_sh_says_when_there_is_no_python(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    root = tmp_path / "opt"
    root.mkdir()
    content = (layout / "agent.pyz").read_bytes()
    for place in (b"/usr/local/bin/python3", b"/usr/bin/python3", b"/opt/conda/bin/python"):
        content = content.replace(place, b"/nowhere/python")
    (root / "agent.pyz").write_bytes(content)
    result = subprocess.run(
        ["/bin/sh", str(root / "agent.pyz"), "health"],
        env={"PATH": str(tmp_path / "bin")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 127
    assert result.stderr == "dkdbg: no Python found here; set DKDBG_PYTHON to its path\n"


def test_the_working_directory_cannot_shadow_the_agents_modules(launch, tmp_path: Path) -> None:
    for name in ("json.py", "socket.py", "dkdbg.py", "threading.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')\n")
    running = launch("echo", "fine", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert running.finish()[:2] == (0, "fine\n")
