"""What the hook does in a driver of Ray and in the processes around it: the real Ray's functions, without a cluster."""

import io
import os
import subprocess
import sys
import types
import zipfile

import pytest

from dkdbg.agent.inprocess.ray import driver, hook
from dkdbg.agent.ray import guard
from tests.agent.dap_probe import wait_for
from tests.frameworks import python_with

#: Prints what a driver, and one by way of Ray Client, give their workers.
DRIVER = """\
from ray._private import worker
from ray.util import client

driver = worker._maybe_modify_runtime_env({"env_vars": {}}, False)
print(sorted(driver), sorted(client._apply_uv_hook_for_client({}) or ()), driver["env_vars"], flush=True)
"""
SETUP = "worker_process_setup_hook"
#: Has words of `ray job submit` in its command line.
LAUNCHER = """\
import os, subprocess, sys
python = sys.executable
os.environ["PYTHONPATH"] = "src"
for command in ([python, "driver.py"], "PYTHONPATH=src %s driver.py" % python, [python, "-I", "driver.py"]):
    subprocess.run(command, shell=isinstance(command, str))
print([each for each in os.environ if each.endswith("_HOOK")])
"""


@pytest.fixture
def prints(program, tmp_path):
    """Return what a program that starts drivers prints."""

    def run(text, *arguments, **env):
        (tmp_path / "driver.py").write_text(DRIVER)
        more = {"python": python_with("ray"), "options": ("--ray-workers", "*"), "env": env}
        code, out, err = program(text, *arguments, name="launch.py", **more).finish()
        assert code == 0, err
        return out.splitlines()

    return run


def test_drivers_that_a_launcher_starts_without_the_hook_run_undebugged(prints):
    """Ray could not import the hook that the launcher's environment named."""
    plain = "['env_vars'] [] {}"
    assert prints(LAUNCHER, "job", "submit") == [plain, plain, plain, "[]"]


def test_the_users_own_hook_runs_before_ours(prints, tmp_path):
    (tmp_path / "mine.py").write_text("def hook(runtime_env):\n    return {'env_vars': {'MINE': '1'}}\n")
    assert prints(DRIVER, RAY_RUNTIME_ENV_HOOK="mine.hook") == [f"['env_vars', '{SETUP}'] [] {{'MINE': '1'}}"]


@pytest.mark.parametrize("is_on", [True, False])
def test_workers_of_a_driver_below_uv_run_get_its_environment_as_ray_is_told(prints, tmp_path, is_on):
    """With `false` they got it although it was off, and those of Ray Client never did."""
    (tmp_path / "run").write_text('"$1" driver.py\nexit\n')  # a shell with uv's command line
    launcher = 'import subprocess, sys\nsubprocess.run(["uv", "run", sys.executable], executable="/bin/sh")\n'
    of_uv = ["py_executable", "working_dir"] if is_on else []
    expected = f"{sorted(['env_vars', SETUP, *of_uv])} {of_uv} {{}}"
    assert prints(launcher, RAY_ENABLE_UV_RUN_RUNTIME_ENV="1" if is_on else "false") == [expected]


def test_code_that_is_compiled_meanwhile_keeps_no_worker_from_its_files(monkeypatch, tmp_path):
    """CPython writes `x.pyc.PID` and renames it."""
    (tmp_path / "debugpy/__pycache__").mkdir(parents=True)
    (tmp_path / "debugpy/__init__.py").touch()
    (tmp_path / "debugpy/__pycache__/__init__.pyc.140551").symlink_to("renamed")
    found = types.SimpleNamespace(NoDebugpy=OSError, ensure_debugpy=lambda *_: str(tmp_path / "debugpy"))
    monkeypatch.setitem(sys.modules, "_dkdbg.bundle", found)
    with zipfile.ZipFile(io.BytesIO(driver._files(str(tmp_path)))) as packed:
        names = packed.namelist()
    assert {"debugpy/__init__.py", "inprocess/ray/worker.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize("theirs", [None, "mine.hook"])
def test_an_old_ray_finds_the_hook_only_until_it_starts_processes(monkeypatch, theirs):
    """A fake of `ray.init()` in Ray 2.9."""
    name = "RAY_RUNTIME_ENV_HOOK"
    monkeypatch.delenv(name, raising=False)
    if theirs:
        monkeypatch.setenv(name, theirs)
    monkeypatch.setitem(sys.modules, "mine", types.SimpleNamespace(hook=lambda given: [*given, "theirs"]))
    monkeypatch.setattr(driver, "set_up", lambda given: [*given, "ours"])

    def init(given):
        return hook._load(os.environ[name])(given), os.environ.get(name)

    worker = types.SimpleNamespace(init=init)
    hook._wrap(worker)
    assert worker.init([]) == (["theirs", "ours"] if theirs else ["ours"], theirs)
    assert os.environ.get(name) == theirs


#: Begins a run with each line of its input, beside a run of another driver.
AGAIN = """\
import signal, subprocess, sys
from ray._private import worker

worker._maybe_modify_runtime_env(None, False)
if len(sys.argv) > 1:
    signal.pause()
subprocess.Popen([sys.executable, __file__, "other"])
for _ in sys.stdin:
    worker._maybe_modify_runtime_env(None, False)
"""


def test_each_driver_of_a_session_keeps_the_secret_of_its_last_run(program, runtime, monkeypatch):
    """They wrote one file, and workers of all but one could not be joined."""
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(runtime))
    options = {"options": ("--ray-workers", "*"), "stdin": subprocess.PIPE}
    running = program(AGAIN, python=python_with("ray"), **options)

    def runs():
        return {each.id for each in guard.runs()}

    before = wait_for(runs, lambda found: len(found) == 2)
    running.process.stdin.write(b"\n")
    running.process.stdin.flush()
    after = wait_for(runs, lambda found: len(found) == 2 and found != before)
    assert len(before & after) == 1


@pytest.mark.parametrize("function", ["_maybe_modify_runtime_env", "init"])  # init: of Ray 2.9
def test_another_init_of_a_driver_that_has_its_workers_begins_no_run(monkeypatch, function):
    """`ray.init(ignore_reinit_error=True)`: the new run had none of the workers that are there."""
    monkeypatch.setattr(driver, "set_up", lambda given: [*given, "ours"])

    def theirs(given, *_):
        return hook._load(os.environ["RAY_RUNTIME_ENV_HOOK"])(given) if function == "init" else given

    worker = types.SimpleNamespace(global_worker=types.SimpleNamespace(connected=False), **{function: theirs})
    hook._wrap(worker)
    again = getattr(worker, function)
    arguments = ([],) if function == "init" else ([], False)
    assert again(*arguments) == ["ours"]
    worker.global_worker.connected = True
    assert again(*arguments) == []
