"""Programs that set, clear or ignore their environment, or change the user, run as they were meant and stop all the same."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from dkdbg.agent.supervisor import hook_check
from dkdbg.dap.debugger import Debugger
from tests.agent.dap_probe import wait_for
from tests.engine.projects import (
    MARK,
    at,
    command,
    dkdbg,
    launch_options,
    marked_line,
    must,
    project,
    repo,
    unique,
)
from tests.ports import free_port
from tests.typed import typed

pytestmark = pytest.mark.engine

#: Each writes who it is into its own file, which its user may do.
PROGRAM = f"import os, sys\nme = os.path.basename(__file__)\nuid = os.getuid()  {MARK}\nprint(me, uid, os.environ.get('OWN'), flush=True)\n"
#: What the entrypoint does, in order: (the program, its line for the shell, the uid as which it has to run).
WAYS = {
    "own_path.py": ("OWN=1 PYTHONPATH=lib python3 own_path.py", 0),
    "empty.py": ("env -i /usr/bin/python3 empty.py", 0),
    "isolated.py": ("python3 -I isolated.py", 0),
    "ignoring.py": ("python3 -E -u ignoring.py", 0),
    "other_user.py": ("setpriv --reuid=4242 --regid=4242 --init-groups python3 other_user.py", 4242),
    "child_of_user.py": ("setpriv --reuid=4242 --regid=4242 --clear-groups sh -c 'python3 child_of_user.py; true'", 4242),
    "logged_in.py": ("su - svc -c 'python3 /app/logged_in.py'", 4242),
    "new_venv.py": ("python3 -m venv --without-pip /tmp/v && python3 start.py /tmp/v/bin/python new_venv.py", 0),
    "executed.py": ("python3 execute.py /usr/bin/python3 executed.py", 0),
    "spawned.py": ("python3 spawn.py /usr/bin/python3 spawned.py", 0),
    "dropped.py": ("python3 drop.py", 4242),
    "forked.py": ("python3 fork.py", 4242),
}  # fmt: skip
STARTERS = {
    "start.py": "import subprocess, sys\nsubprocess.run(sys.argv[1:], env={'PYTHONPATH': 'lib'}, check=True)\n",
    "execute.py": "import os, sys\nos.execve(sys.argv[1], sys.argv[1:], {'PATH': '/nowhere'})\n",
    "spawn.py": "import os, sys\nos.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], {}), 0)\n",
    "drop.py": "import os, subprocess, sys\nif os.fork() == 0:\n    os.setgid(4242)\n    os.setuid(4242)\n"
    "    os.execve(sys.executable, [sys.executable, 'dropped.py'], {})\nos.wait()\n",
    "fork.py": "import os, runpy\nos.setgid(4242)\nos.setuid(4242)\nif os.fork() == 0:\n    runpy.run_path('forked.py')\n    os._exit(0)\nos.wait()\n",
}
DOCKERFILE = """
    FROM {base}
    RUN useradd -u 4242 -m svc
    WORKDIR /app
    COPY . .
    ENTRYPOINT ["sh", "start.sh"]
    CMD ["all", "of", "them"]
    """
COMPOSE = "services:\n  job:\n    build: .\n    volumes: ['.:/app']\n"


@contextlib.contextmanager
def running(tmp_path, base_image, files):
    """Start a project whose entrypoint is `start.sh`, without waiting for an editor; yield its root."""
    files = {"Dockerfile": DOCKERFILE.format(base=base_image), "compose.yaml": COMPOSE, **files}
    with project(tmp_path / unique("ways"), files) as root:
        must(dkdbg(root, "init", "--yes", "--wait", "0"))
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        must(dkdbg(root, "up"))
        yield root


def test_each_program_of_an_entrypoint_stops_whatever_it_does_to_environment_and_user(base_image, tmp_path):
    lines = "\n".join(line for line, _ in WAYS.values())
    start = f"set -ex\nchown svc /home/svc\nid -u\n{lines}\necho $1 done\n"
    files = {"Dockerfile": DOCKERFILE.format(base=base_image), "compose.yaml": COMPOSE, "start.sh": start}
    files = {**dict.fromkeys(WAYS, PROGRAM), **STARTERS, **files}
    with project(tmp_path / unique("ways"), files) as root:
        for path in (root, *root.iterdir()):  # a developer's, whose uid nobody in the container has
            os.chown(path, 1001, 1001)
        must(dkdbg(root, "init", "--yes"))
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        must(dkdbg(root, "up"))
        with Debugger(launch_options(root)) as debugger:
            for name in WAYS:
                debugger.set_breakpoints(str(root / name), [marked_line(root / name)])
            debugger.attach()
            for name, (_, uid) in WAYS.items():
                stop = debugger.wait_stopped(120)
                top = debugger.stack(stop)[0]
                assert (top.path, debugger.evaluate("os.getuid()", top)) == (str(root / name), str(uid))
                debugger.continue_(stop)
            debugger.wait_ended(120)
        said = must(dkdbg(root, "logs")).stdout
        assert "own_path.py 0 1\n" in said
        assert "all done\n" in said


def test_what_dkdbg_run_starts_in_a_container_stops_too_and_nothing_stays_there(start_container, tmp_path):
    port, root = free_port(), repo(tmp_path / "repo", {"own_path.py": PROGRAM, "empty.py": PROGRAM})
    name = start_container("-w", "/srv", "-v", f"{root}:/srv")
    line = "OWN=1 PYTHONPATH=lib python3 own_path.py; env -i /usr/bin/python3 empty.py"
    words = f"dkdbg run --on docker://{name} --wait 300 --attach {port} -- sh -c '{line}'"
    with typed(root, words, tmp_path / "said") as said:
        said.wait("attach an editor to")
        with Debugger(at(port, root, "/srv")) as debugger:
            for each in ("own_path.py", "empty.py"):
                debugger.set_breakpoints(str(root / each), [marked_line(root / each)])
            debugger.attach()
            for each in ("own_path.py", "empty.py"):
                stop = debugger.wait_stopped(300)
                assert debugger.stack(stop)[0].path == str(root / each)
                debugger.continue_(stop)
        said.wait("empty.py 0 None")
        said.process.wait(300)
    left = command(["docker", "exec", name, "find", "/", "-xdev", "-name", "dkdbg*.pth"]).stdout
    assert left == ""


def test_a_program_that_entrypoint_runs_as_another_user_is_known_to_every_verb(base_image, tmp_path):
    """It alone is Python there, and announces itself in a folder of that user's."""
    text = f"import time\nn = 0\nwhile True:\n    n += 1  {MARK}\n    time.sleep(0.1)\n"
    start = "exec setpriv --reuid=4242 --regid=4242 --init-groups python3 serve.py\n"
    with running(tmp_path, base_image, {"start.sh": start, "serve.py": text}) as root:
        with Debugger(launch_options(root)) as debugger:
            debugger.attach()
            debugger.wait(lambda: len(debugger.sessions) == 2, "the session of the program", timeout=120)
            time.sleep(hook_check.TIMEOUT_S + 2)  # what must not come would come by then
            assert hook_check.NOT_LOADED not in must(dkdbg(root, "logs")).stderr
        assert "<module>" in must(dkdbg(root, "where", "--json")).stdout
        why = dkdbg(root, "why", f"serve.py:{marked_line(root / 'serve.py')}").stdout
        assert "hook-missing" not in why
        assert "serve.py" in why
        stopped = dkdbg(root, "pdb", text="p n > 0\nq\n").stdout
        assert "True" in stopped


def test_an_editor_that_comes_later_stops_in_processes_that_have_changed_their_user(base_image, tmp_path):
    """As the workers of gunicorn --user do, and a supervisor's programs: they announced themselves as root."""
    changes = "os.setgid(4242)\n    os.setuid(4242)\n"
    serves = f"import time\nprint('begun', flush=True)\nn = 0\nwhile True:\n    n += 1  {MARK}\n    time.sleep(0.1)\n"
    files = {
        "start.sh": "exec python3 master.py\n",
        "master.py": f"import os, runpy\nif os.fork() == 0:\n    {changes}    runpy.run_path('worker.py')\n"
        f"if os.fork() == 0:\n    {changes}    os.execvp('python3', ['python3', 'program.py'])\nos.wait()\n",
        "worker.py": serves,
        "program.py": serves,
    }
    with running(tmp_path, base_image, files) as root:
        wait_for(lambda: must(dkdbg(root, "logs")).stdout.count("begun"), lambda begun: begun == 2)
        with Debugger(launch_options(root)) as debugger:
            waiting = {str(root / each) for each in ("worker.py", "program.py")}
            for path in waiting:
                debugger.set_breakpoints(path, [marked_line(Path(path))])
            debugger.attach()
            while waiting:
                stop = debugger.wait_stopped(60)
                top = debugger.stack(stop)[0]
                waiting.discard(top.path)
                assert debugger.evaluate("__import__('os').getuid()", top) == "4242"
                debugger.set_breakpoints(top.path, [])
                debugger.continue_(stop)
