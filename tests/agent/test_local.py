"""The agent of an installed dkdbg around a program of another Python, as the `local:` target has it."""

# ruff: noqa: PLW1510

import os
import subprocess
import sys

import pytest

from tests.agent.conftest import Launch


def test_a_program_of_a_python_without_debugpy_can_be_debugged(tmp_path):
    python = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([python, "-c", "import debugpy"], capture_output=True).returncode == 0:
        pytest.skip(f"{python} has a debugpy of its own")
    script = tmp_path / "train.py"
    script.write_text("import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
    agent = [sys.executable, "-m", "dkdbg.agent", "launch", "--port", "0", "--runtime", str(tmp_path / "run")]
    process = subprocess.Popen(
        [*agent, "--name", "job", "--", python, str(script)], cwd=tmp_path, env=dict(os.environ)
    )
    running = Launch(process, tmp_path / "run", "job")
    running.script = str(script)
    try:
        with running.debugged(3) as debugger:
            assert debugger.stack(debugger.wait_stopped(300))[0].line == 3
            (tmp_path / "stop").touch()
            debugger.set_breakpoints(str(script), [])
        assert process.wait(300) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("start", ["dkdbg run --on local:", "dkdbg.agent launch --port 0"])
def test_a_program_starts_where_a_standard_stream_is_closed(start, closed, tmp_path):
    program = (
        "import os, sys; [os.fstat(n) for n in range(3)]; open('ran', 'w').write(repr(sys.stdin.read()))"
    )
    line = f'exec "$0" -m {start} -- "$0" -c "$1" {closed}'
    env = {**os.environ, "DKDBG_RUNTIME_DIR": str(tmp_path)}
    ran = subprocess.run(
        ["sh", "-c", line, sys.executable, program],
        cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    assert (ran.returncode, (tmp_path / "ran").read_text()) == (0, "''"), ran.stderr


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_was_closed_takes_any_text(name):
    """A name of a file that is not UTF-8 has no encoding."""
    code = f"import sys; from dkdbg.agent import console; console.open_closed_streams(); print('\\udcff', file=sys.{name})"
    line = f'exec "$0" -c "$1" {">&-" if name == "stdout" else "2>&-"}'
    ran = subprocess.run(["sh", "-c", line, sys.executable, code], capture_output=True)
    assert ran.returncode == 0, ran.stderr
