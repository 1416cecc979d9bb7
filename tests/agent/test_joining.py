"""A process joins an adapter that is not there, or is busy, and from a working directory that is gone."""

import os
import subprocess
import sys
from pathlib import Path

from dkdbg.agent.inprocess import bundle, entered
from tests.agent.dap_probe import Editor, wait_for

#: A member of a session, whose adapter is a listening socket without more.
MEMBER = """
import json, os, socket, sys, time, types
files, session, search = (os.environ[name] for name in ("FILES", "SESSION", "SEARCH"))
names = {"__name__": "_dkdbg_entered", "__package__": "_dkdbg", "__file__": files + "/entered.py"}
exec(open(files + "/entered.py").read(), names)
assert names["enter"](files, session) == "entered"
(member,) = [found.member for found in sys.meta_path if type(found).__name__ == "_DkdbgFinder"]

def listen():
    adapter = socket.socket(socket.AF_UNIX)
    adapter.bind(session + "/adapter")
    return adapter

with open(session + "/join.json", "w") as file:
    json.dump({"adapter": session + "/adapter", "token": "x", "ppid": os.getpid(), "search": [search], "deadline": 1,
               "runtime": session}, file)
listen().close()
for _ in range(2):
    print(member.join(False))
os.unlink(session + "/adapter")
adapter, waiting = listen(), []
adapter.listen(1)
try:
    while True:
        waiting.append(socket.socket(socket.AF_UNIX))
        waiting[-1].setblocking(False)
        waiting[-1].connect(session + "/adapter")
except BlockingIOError:
    pass
from _dkdbg.pydevd_patches import connection
connection.time = types.SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: adapter.accept())
print(member.join(False))
print(member.join(False), flush=True)
os._exit(0)
"""


def test_a_process_joins_after_a_refused_connection_and_as_soon_as_a_busy_adapter_accepts_it(
    session, tmp_path
):
    files, search = str(Path(entered.__file__).parent), bundle.ensure_debugpy([], str(tmp_path))
    environment = dict(os.environ, FILES=files, SESSION=str(session), SEARCH=search)
    command = [sys.executable, "-c", MEMBER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    refused = "not joined: ConnectionRefusedError: [Errno 111] Connection refused"
    assert done.stdout.splitlines() == [refused, refused, "joined", "already joined"], done.stderr


GONE = """import os, tempfile, time
root, folder = os.getcwd(), tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
open(root + "/runs", "w").close()
while not os.path.exists(root + "/end"):
    time.sleep(0.05)
"""


def test_a_process_whose_working_directory_is_gone_says_why_it_is_not_debugged(program, under, tmp_path):
    """Up to Python 3.8 the script's path stays relative, which debugpy needs the working directory for."""
    running = program(GONE, wait="0", **under(8))
    wait_for((tmp_path / "runs").exists, bool)
    with Editor(running.port, {}) as editor:
        editor.wait_output("cannot be debugged: not joined: FileNotFoundError")
        (tmp_path / "end").touch()
        assert running.finish()[0] == 0
