"""The hook: it registers a process, stays out of its way, and costs next to nothing."""

# ruff: noqa: PLW1510

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dkdbg.agent.inprocess import forking
from dkdbg.agent.state import processes

HOOK = Path(processes.__file__).parents[1] / "inprocess" / "hook"


def python(session: Path, *arguments: str, env: dict[str, str] | None = None, **more: object) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DKDBG"))}
    environment |= {"PYTHONPATH": str(HOOK), "DKDBG_SESSION_DIR": str(session), "DKDBG_DEBUG": "1"} | (
        env or {}
    )
    result = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, **more
    )
    assert result.stderr == ""
    return result.stdout


def test_an_unattached_process_loads_nothing_heavy_and_what_a_fork_needs_only_then(session):
    code = (
        "import os, sys\n"
        "heavy = {'debugpy', 'pydevd', 'json', 'socket', 'importlib.util', 'dkdbg'}\n"
        "print(sorted(heavy & set(sys.modules)), os.environ['HOOK'] in sys.path)\n"
        "def mine(): return sorted(name for name in sys.modules if '_dkdbg' in name)\n"
        "print(mine())\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(mine())\n"
    )
    out = python(session, "-c", code, env={"HOOK": str(HOOK)})
    assert out == "[] False\n[]\n['_dkdbg', '_dkdbg.forking', '_dkdbg.standard', '_dkdbg_standard']\n"


def test_a_process_announces_itself_with_its_rank(session):
    code = "import os, time; print(open(os.environ['DKDBG_SESSION_DIR'] + '/p/%d.json' % os.getpid()).read())"
    text = python(session, "-c", code, 'ünï"q', env={"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"})
    entry = json.loads(text)
    assert entry["argv"][-1] == 'ünï"q'
    assert entry["env"] == {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    path = session / "p" / f"{entry['pid']}.json"
    process = processes._read(str(path))
    assert (process["rank"], process["local_rank"], process["world_size"]) == (3, 1, 8)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_users_own_sitecustomize_is_the_one_that_is_imported_and_its_error_is_reported_as_always(
    session, tmp_path
):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import sys\nsys.from_user = 42\n")
    environment = {"PYTHONPATH": f"{HOOK}{os.pathsep}{mine}"}
    code = "import sys, sitecustomize; print(sys.from_user, sitecustomize.__file__)"
    assert python(session, "-c", code, env=environment) == f"42 {mine / 'sitecustomize.py'}\n"
    (mine / "sitecustomize.py").write_text("import no_such_module\n")
    environment = {**os.environ, **environment, "DKDBG_SESSION_DIR": str(session)}
    result, bare = (
        subprocess.run([sys.executable, "-c", "print('on')"], env=env, capture_output=True, text=True)
        for env in (environment, {**environment, "PYTHONPATH": str(mine)})
    )
    assert (result.stdout, result.stderr) == (bare.stdout, bare.stderr)
    assert len(list((session / "p").glob("*.json"))) == 2


def test_a_session_folder_that_is_gone_or_broken_is_not_noticed(tmp_path):
    (tmp_path / "lacks p").mkdir()
    (tmp_path / "file").touch()
    for name in ("missing", "lacks p", "file"):
        assert python(tmp_path / name, "-c", "print('on')", env={"DKDBG_DEBUG": ""}) == "on\n"


def test_housekeeping_processes_and_those_of_the_users_skip_list_do_not_register(session):
    for arguments in (
        ["-m", "pip", "--version"],
        ["-c", "from multiprocessing.resource_tracker import main"],
        ["-c", "pass", "/x/torch/_inductor/compile_worker/__main__.py"],
        ["-c", "pass  # my_sidecar"],
    ):
        python(session, *arguments, env={"DKDBG_SKIP": "other,my_sidecar"})
        assert list((session / "p").iterdir()) == [], arguments


def test_a_forking_program_has_no_more_threads_than_it_made(session):
    code = (
        "import os, warnings; warnings.simplefilter('error')\n"
        "for _ in range(20):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: os._exit(0 if os.path.exists('%s/p/%d.sock' % (os.environ['DKDBG_SESSION_DIR'], os.getpid())) else 1)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "print('forked', len(os.listdir('/proc/self/task')))\n"
    )
    assert python(session, "-c", code) == "forked 2\n"


def test_a_fork_in_a_handler_waits_for_no_message_that_the_starting_thread_has_yet_to_read(session):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unread:
        unread.bind(str(session / "p" / f"{os.getpid()}.sock"))
        member = SimpleNamespace(
            fork_armed=True, joined=False, forking=0, running=True, directory=str(session), user=0,
            starter=threading.get_ident(), _get_ident=threading.get_ident,
        )  # fmt: skip
        for _ in range(40):
            forking.before(member)
    assert member.forking == 40


def test_a_fork_that_cannot_end_the_hooks_thread_waits_for_its_answer(tmp_path):
    """As in a sandbox that permits no socket: a child of a half answered query would announce nothing, not even that."""
    member = SimpleNamespace(
        fork_armed=True, joined=False, forking=0, running=True, directory=str(tmp_path), user=0, answering=True,
    )  # fmt: skip

    def refuse():
        threading.Timer(0.2, setattr, (member, "answering", False)).start()
        raise PermissionError

    member.register_again = refuse
    with pytest.raises(PermissionError):
        forking.before(member)
    assert not member.answering


def test_python_2_runs_the_users_sitecustomize_and_no_more(session, tmp_path):
    found = [*Path.home().glob(".pyenv/versions/2.7.*/bin/python2.7"), Path(shutil.which("python2.7") or "-")]
    if not found[0].exists():
        pytest.skip("no Python 2.7 here")
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    hook = shutil.copytree(HOOK, tmp_path / "hook", ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
    path = f"{hook}{os.pathsep}{tmp_path}"
    environment = dict(os.environ, PYTHONPATH=path, DKDBG_SESSION_DIR=str(session), DKDBG_DEBUG="1")
    command = [str(found[0]), "-c", "import sys; print(sys.version_info[0])"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("mine\n2\n", "")
    assert list((session / "p").iterdir()) == []
