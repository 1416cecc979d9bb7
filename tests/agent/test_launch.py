"""The agent around a program: waiting, signals, exit codes, output, and what is left behind."""

# ruff: noqa: PLW1510, PTH123, SIM115

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dkdbg.agent import contract, settings
from dkdbg.agent.state import procfs
from dkdbg.agent.supervisor.child import Child, SignalInbox
from tests.agent.dap_probe import wait_for
from tests.commands import executable
from tests.processes import children, members, thread_states


@pytest.mark.parametrize("then", ["exit", "run"])
def test_nobody_comes_and_the_program_is_not_started_or_runs_when_asked_to(launch, tmp_path, then):
    running = launch("touch", "started", wait="0.3", env={"DKDBG_THEN": then})
    code, out, err = running.finish()
    record = running.record()
    first, *_, last = err.splitlines()
    assert first == f"dkdbg: waiting for a debugger on 127.0.0.1:{record['port']}, up to 0.3 s"
    assert out == ""
    if then == "exit":
        assert last == "dkdbg: no debugger within 0.3 s: the program was not started"
        assert code == record["exit_code"] == contract.EXIT_NO_DEBUGGER == 124
    else:
        assert (code, last) == (0, "dkdbg: no debugger within 0.3 s: continuing without one")
    assert (tmp_path / "started").exists() == (then == "run")


def test_python_is_python3_where_nothing_else_is_called_so(launch, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    err = launch("python", "-c", "print(6 * 7)", env={"PATH": str(programs)}).ends(0, "42\n")
    assert "dkdbg: no program is named 'python' here: running python3\n" in err


@pytest.mark.parametrize(
    ("name", "env", "value"),
    [("tini", {}, "1"), ("tini-static", {"TINI_SUBREAPER": "x"}, "x"), ("init", {}, "none")],
)
def test_tini_is_told_to_reap_where_the_agent_is_process_1_in_its_place(launch, tmp_path, name, env, value):
    program = executable(tmp_path / name, 'echo "${TINI_SUBREAPER-none}"')
    launch(str(program), env=env).ends(0, f"{value}\n")


@pytest.mark.parametrize("undebugged", [{}, {"DKDBG_RUNTIME_DIR": "/dev/null"}])
def test_a_script_without_a_first_line_for_the_kernel_is_run_by_the_shell(launch, tmp_path, undebugged):
    scripts = {"bin/start": b"echo $1; exit 3\n", "train.py": b"print(1)\n", "program": b"\x7fELF\0"}
    (tmp_path / "bin").mkdir()
    for name, content in scripts.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", **undebugged}
    for command in ("start", "bin/start"):
        err = launch(command, "a b", env=env).ends(3, "a b\n")
        assert ("runs without the debugger" in err) == bool(undebugged)
    for command in ("./train.py", "./program"):
        err = launch(command, env=env).ends(contract.EXIT_NOT_EXECUTABLE, "")
        assert f"dkdbg: cannot execute {command}: Exec format error\n" in err


def test_openpais_variable_is_understood_ours_wins_and_options_win_over_both(launch):
    running = launch("true", wait="", env={"DEBUG_TIMEOUT": "0.2"})
    running.ends(124)
    launch("true", wait="0", env={"DEBUG_TIMEOUT": "60"}).ends()
    launch("true", wait="300", options=("--wait", "0")).ends()


@pytest.mark.parametrize(
    ("command", "code", "detail"),
    [
        ("exit 0", 0, "exited with code 0"),
        ("exit 3", 3, "exited with code 3"),
        ("exit 255", 255, "exited with code 255"),
        ("kill -TERM $$", 143, "was ended by SIGTERM (code 143)"),
        ("kill -SEGV $$", 139, "was ended by SIGSEGV (code 139)"),
    ],
)
def test_the_exit_code_is_the_programs_and_the_record_says_how_it_was_ended(launch, command, code, detail):
    running = launch("sh", "-c", command)
    running.ends(code)
    record = running.record()
    assert (record["exit_code"], record["state"], record["detail"]) == (code, "exited", detail)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("no-such-command", 127, "command not found: no-such-command (PATH="),
        ("./missing.py", 127, "no such file: ./missing.py (in "),
        ("./plain.txt", 126, "cannot execute ./plain.txt: Permission denied"),
        ("./orphan.py", 127, "cannot start ./orphan.py: the interpreter in its first line does not exist"),
        ("orphan.py", 127, "orphan.py is a file, not a command: to run it, give python3 orphan.py"),
        ("plain.txt", 127, "plain.txt is a file, not a command: to run it, give ./plain.txt"),
    ],
)
def test_a_command_that_cannot_start_is_named(launch, tmp_path, command, code, message):
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "orphan.py").write_text("#!/no/such/python\n")
    (tmp_path / "orphan.py").chmod(0o755)
    err = launch(command).ends(code)
    assert err.splitlines()[-1].startswith(f"dkdbg: {message}")


@pytest.mark.parametrize(("command", "mode"), [("./a.sh", 0o755), ("a.sh", 0o755), ("./a.sh", 0o644)])
def test_a_script_with_crlf_line_ends_is_named(launch, tmp_path, command, mode):
    (tmp_path / "a.sh").write_bytes(b"#!/bin/sh\r\nset -e\r\n")
    (tmp_path / "a.sh").chmod(mode)
    env = {settings.ENV_OWN_CONTAINER: "1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    err = launch(command, env=env).ends(127)
    assert err.splitlines()[-1] == rf"dkdbg: {command} has CRLF line ends (its interpreter is '/bin/sh\r')"


def test_a_python_script_with_crlf_line_ends_that_is_not_executable_runs(launch, tmp_path):
    (tmp_path / "a.py").write_bytes(b"#!/usr/bin/env python3\r\nprint(1)\r\n")
    launch("./a.py", env={settings.ENV_OWN_CONTAINER: "1"}).ends(0, "1\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("pyhton3", "train.py"), "command not found: pyhton3 (PATH="),
        (("./start.sh",), "no such file: ./start.sh (in "),
        ((sys.executable, "tran.py"), "no such file: ./tran.py (in "),
    ],
)
def test_a_command_that_cannot_start_is_named_before_an_editor_is_waited_for(launch, command, message):
    running = launch(*command, wait="300")
    running.wait_state("waiting")
    running.process.send_signal(signal.SIGTERM)
    _, _, err = running.finish()
    assert f"dkdbg: {message}" in err
    assert err.count("the program will fail when a debugger attaches") == 1


def test_each_signal_reaches_the_program_once(program):
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGWINCH")
    numbers = sorted(int(getattr(signal, name)) for name in names)
    running = program(
        "import signal, time\nseen = []\n"
        f"for each in {numbers}: signal.signal(each, lambda n, f: seen.append(n))\n"
        "print('ready', flush=True)\n"
        f"while len(set(seen)) < {len(numbers)}: time.sleep(0.01)\n"
        "time.sleep(0.1)\nprint(sorted(seen), flush=True)\nraise SystemExit(9)\n"
    )
    assert running.process.stdout.readline() == b"ready\n"
    for number in numbers:
        os.kill(running.process.pid, number)
    running.ends(9, f"{numbers}\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_the_record_says_until_when_it_waits_and_a_signal_ends_it_without_a_start(launch, tmp_path, name):
    running = launch("touch", "started", wait="300")
    record = running.wait_state("waiting")
    assert record["expires"] >= record["started"] + 300
    os.kill(running.process.pid, getattr(signal, name))
    running.ends(128 + getattr(signal, name))
    assert not (tmp_path / "started").exists()


def test_the_program_inherits_ignored_signals_and_an_empty_mask(launch):
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


def test_nothing_is_left_behind(launch):
    running = launch(sys.executable, "-c", "pass")
    running.finish()
    record = running.record()
    assert members(record) == []
    assert not any(record["id"] in line for line in open("/proc/net/unix"))
    assert sorted(path.name for path in (running.runtime / record["id"]).iterdir()) == ["session.json"]


def test_a_killed_agent_takes_its_adapter_along(launch):
    running = launch("sleep", "600")
    record = running.wait_state("running")
    (adapter,) = children(record["pid"], "adapter.py")
    running.process.kill()
    wait_for(lambda: procfs.alive(adapter), lambda lives: not lives)


def test_an_agent_that_was_stopped_for_a_while_goes_on(loop, tmp_path):
    """Ctrl-Z and fg."""
    running = loop()
    pid = running.wait_state("running")["pid"]
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: thread_states(pid), lambda states: set(states) == {"T"})
    time.sleep(1.5)  # beyond the longest wait for a signal
    os.kill(pid, signal.SIGCONT)
    (tmp_path / "stop").touch()
    running.ends()


def test_output_is_the_programs_byte_for_byte(launch, tmp_path):
    data = bytes(range(256)) * 300
    (tmp_path / "data").write_bytes(data)
    assert launch("cat", "data").process.communicate(timeout=300)[0] == data


def test_the_terminal_stays_the_programs_and_ctrl_c_reaches_it_once(in_terminal):
    terminal = in_terminal(
        "import os, signal, time\nseen = []\nsignal.signal(signal.SIGINT, lambda n, f: seen.append(n))\n"
        "print('terminal', os.isatty(0), os.isatty(1), os.getpgrp() == os.tcgetpgrp(0), flush=True)\n"
        "while not seen: time.sleep(0.01)\ntime.sleep(0.2)\nprint('seen', len(seen), flush=True)\n"
    )
    terminal.until("terminal True True True")
    terminal.type("\x03")
    assert terminal.end() == 0
    assert "seen 1" in terminal.shown


@pytest.mark.parametrize("step", ["0", ""], ids=["step", "batch script"])
def test_a_signal_of_slurm_to_every_process_of_a_step_is_not_sent_to_the_program_again(program, step):
    """A checkpoint of `sbatch --signal=USR1@120` was made twice. Slurm may signal the first process of a batch script alone."""
    running = program(
        "import os, signal, time\nfor number in (signal.SIGUSR1, signal.SIGUSR2):\n"
        "    signal.signal(number, lambda number, _: os.write(1, b'%d\\n' % number))\n"
        "print('up', flush=True)\nwhile True: time.sleep(0.01)\n",
        env={"SLURM_STEP_ID": step},
    )
    said = running.process.stdout
    assert said.readline() == b"up\n"
    agent = running.record()["pid"]
    slurmstepd = f"open('/proc/self/comm', 'w').write('slurmstepd'); import os, time; os.kill({agent}, {signal.SIGUSR1})"
    with subprocess.Popen(
        [sys.executable, "-c", f"{slurmstepd}; print(flush=True); time.sleep(600)"], stdout=subprocess.PIPE
    ) as sender:
        assert sender.stdout.readline()
        wait_for(lambda: pending(agent), lambda mask: not mask & 1 << signal.SIGUSR1 - 1)
        os.kill(agent, signal.SIGUSR2)
        first = said.readline()
        sender.kill()
    assert int(first) == (signal.SIGUSR2 if step else signal.SIGUSR1)


def pending(pid: int) -> int:
    """Return the signals that wait for a process, as a mask."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"ShdPnd:\s+(\w+)", status)[1], 16)


def test_a_ctrl_c_from_before_the_program_reaches_it():
    inbox = SignalInbox()
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        running = Child(["sleep", "30"], dict(os.environ), inbox.former_mask)
        arrival = inbox.next(60)
        running.pass_on(arrival._replace(is_shared=True))
        assert wait_for(running.poll, lambda code: code is not None) == 128 + signal.SIGINT
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, inbox.former_mask)


def test_a_busy_port_is_named_and_nothing_starts(launch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        err = launch("touch", "started", env={"DKDBG_PORT": str(port)}).ends(contract.EXIT_AGENT)
    assert (
        err
        == f"dkdbg: cannot listen on 127.0.0.1:{port}: Address already in use; choose another port: --port or DKDBG_PORT\n"
    )
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DKDBG_PORT", "http", "a port (DKDBG_PORT) must be a number up to 65535"),
        ("DKDBG_WAIT", "soon", "a time to wait (DKDBG_WAIT) must be a number of seconds or `forever`"),
        ("DKDBG_THEN", "stop", "--then (DKDBG_THEN) takes exit or run"),
        ("DKDBG_ON_CRASH", "hold=soon", "--on-crash (DKDBG_ON_CRASH) takes hold=TIME, such as hold=20m"),
        ("DKDBG_FOR", "later", "DKDBG_FOR takes a time such as 2h, 30m or 90s"),
        ("DKDBG_RESTART", "maybe", "DKDBG_RESTART takes auto, ask, never"),
    ],
)
def test_a_wrong_setting_is_named(launch, name, value, message):
    err = launch("true", env={name: value}).ends(2)
    assert err.splitlines()[0].startswith(f"dkdbg: {message}, not '{value}'")


def test_agent_sh_says_when_there_is_no_python(layout, tmp_path):
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


@pytest.mark.parametrize("named", ["by path", "in a folder here", "in PATH", "too old", "PyPy"])
def test_the_agent_runs_on_the_python_that_the_command_names(launch, tmp_path, named):
    python = tmp_path / "env" / "bin" / "python3.99"
    python.parent.mkdir(parents=True)
    asked = {"too old": "version_info", "PyPy": "implementation"}.get(named)
    fails = f"case $* in *{asked}*) exit 1 ;; esac\n" if asked else ""
    python.write_text(f'#!/bin/sh\n{fails}echo "$*" >>{tmp_path}/starts\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    word = {"in a folder here": "env/bin/python3.99", "in PATH": "python3.99"}.get(named, str(python))
    path = f"{os.environ['PATH']}:{python.parent}"
    launch(word, "-c", "print('ran')", env={"DKDBG_PYTHON": "", "PATH": path}).ends(0, "ran\n")
    assert (" launch " in (tmp_path / "starts").read_text()) == (asked is None)


def test_the_working_directory_cannot_shadow_the_agents_modules(launch, tmp_path):
    for name in ("json.py", "socket.py", "dkdbg.py", "threading.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')\n")
    running = launch("echo", "fine", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    running.ends(0, "fine\n")
