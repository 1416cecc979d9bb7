"""Four ranks of one job on two machines, two under each agent: an editor that attaches late has them all in one iteration."""

from pathlib import Path

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions

#: `python3 launcher.py NODE HOST`. There is no PyTorch there: this stands in for torchrun on a node (NODE is 0 or 1), and
#: a barrier over sockets, which node 0 serves at HOST, for a collective. Ends when there is a file `stop` on node 0.
LAUNCHER = """\
import os, socket, subprocess, sys
node = int(sys.argv[1])
env = dict(os.environ, WORLD_SIZE="4", LOCAL_WORLD_SIZE="2", MASTER=sys.argv[2])
server = socket.create_server(("", 29500)) if node == 0 else None
ranks = [
    subprocess.Popen([sys.executable, "rank.py"], env=dict(env, RANK=str(2 * node + local), LOCAL_RANK=str(local)))
    for local in range(2)
]
socks = [server.accept()[0] for _ in range(4)] if server else []
over = not socks
while not over:
    over = os.path.exists("stop")
    for sock in socks:
        sock.recv(1)
    for sock in socks:
        sock.sendall(b"!" if over else b".")
sys.exit(max(rank.wait() for rank in ranks))
"""
RANK = """\
import os, socket, time
while True:
    try:
        sock = socket.create_connection((os.environ["MASTER"], 29500))
        break
    except OSError:
        time.sleep(0.1)
step, over = 0, False
while not over:
    sock.sendall(b".")
    over = sock.recv(1) == b"!"
    step += 1  # all ranks come here
    open("up" + os.environ["RANK"], "a").close()
    time.sleep(0.01)
"""
FILES = {"launcher.py": LAUNCHER, "rank.py": RANK}
LINE = 1 + next(number for number, line in enumerate(RANK.splitlines()) if "all ranks" in line)


def stop_and_go_together(port: int, here: Path, there: str, names: list[str]) -> None:
    """Attach to the running ranks: all of them stop in one iteration, and one key lets all go to the next one.

    Args:
        port: of `dkdbg attach`. here, there: the folder with rank.py on this side, and on the machines.
        names: of the ranks' sessions, in order.
    """
    options = AttachOptions(host="127.0.0.1", port=port, path_mappings=((str(here), there),))
    with Debugger(options) as debugger:
        debugger.set_breakpoints(str(here / "rank.py"), [LINE])
        debugger.attach(timeout=300)
        stops = [debugger.wait_stopped(300) for _ in names]
        assert (found := sorted(each.session.name for each in stops)) == names, found
        [step] = {debugger.evaluate("step", debugger.stack(each)[0]) for each in stops}
        debugger.continue_(stops[0])
        stops = [debugger.wait_stopped(300) for _ in names]
        steps = {debugger.evaluate("step", debugger.stack(each)[0]) for each in stops}
        assert steps == {str(int(step) + 1)}
