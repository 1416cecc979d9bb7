"""Late attach to ranks on old and new Pythons: no PyTorch there, so a barrier over sockets stands in for a collective."""

import os
import sys

import pytest

from tests.agent.dap_probe import Editor, wait_for

RANKS = 4
RANK = """
import os, socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
step = 0
def tick():
    global step
    sock.sendall(b".")
    over = sock.recv(1) == b"!"
    step += 1  # all ranks come here
    time.sleep(0.001)
    return over
open("up" + os.environ["RANK"], "w").close()
while not tick():
    pass
"""
LINE = 1 + next(n for n, line in enumerate(RANK.splitlines()) if "all ranks" in line)
LAUNCHER = f"""
import os, socket, subprocess, sys
server = socket.create_server(("127.0.0.1", 0))
env = dict(os.environ, WORLD_SIZE="{RANKS}")
ranks = [subprocess.Popen([sys.executable, "rank.py", str(server.getsockname()[1])], env=dict(env, RANK=str(n)))
         for n in range({RANKS})]
socks = [server.accept()[0] for _ in ranks]
while True:
    over = os.path.exists("stop")
    for sock in socks:
        sock.recv(1)
    for sock in socks:
        sock.sendall(b"!" if over else b".")
    if over:
        break
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.mark.parametrize("minor", [8, 13])
def test_an_attach_stops_all_ranks_at_the_same_iteration(launch, under, tmp_path, minor):
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    options = under(minor)
    running = launch(options["python"], "launcher.py", python=sys.executable, layout=options["layout"])
    port = running.port
    wait_for(lambda: list(tmp_path.glob("up?")), lambda found: len(found) == RANKS)
    for _ in range(int(os.environ.get("DKDBG_TEST_ATTACHES", "2"))):
        editor = Editor(port, {str(tmp_path / "rank.py"): [LINE]}, hold=True).attach()
        stops = editor.wait_stops(RANKS, 300)
        steps = [one.value("step", context="repl") for one in stops]
        assert len(set(steps)) == 1, steps
        assert "without the others" not in "".join(editor.output)
        stops[0]["session"].request("disconnect", terminateDebuggee=False)
        wait_for(lambda: [one.closed for one in editor.sessions.values()], all)  # noqa: B023
    (tmp_path / "stop").touch()
    running.ends()
