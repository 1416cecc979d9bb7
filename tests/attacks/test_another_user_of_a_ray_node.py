"""Another user of a node of Ray: he connects to whatever listens there, and reads command lines and folders."""

import subprocess

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.attacks.conftest import FRAME
from tests.engine.attach_proxies import attach_proxy
from tests.pages import environment
from tests.ray.cluster import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]
LIMIT = 300.0
DRIVER = """\
    import os
    import time

    import ray

    ray.init(address="auto", namespace="attacked")


    @ray.remote(resources={"node0": 1})
    class Policy:
        def step(self, batch):
            open("/job/there", "w").close()
            while not os.path.exists("/job/go"):
                time.sleep(0.05)  # step
            return batch + 1


    print("got", ray.get(Policy.remote().step.remote(5)))
    """
#: Speaks DAP to each port that listens here, and prints who answers as a debugger, and which tokens he is shown.
SCAN = """
import glob, re
from concurrent.futures import ThreadPoolExecutor
def answer(place):
    return ask(place[1], attach(justMyCode=False), until=b'"initialized"', host=place[0], timeout=30)
fields = [line.split() for path in ("tcp", "tcp6") for line in list(open("/proc/net/" + path))[1:]]
ports = sorted({int(each[1].rpartition(":")[2], 16) for each in fields if each[3] == "0A"})
places = [(host, port) for port in ports for host in ("127.0.0.1", socket.gethostbyname(socket.gethostname()))]
adapters = 0
with ThreadPoolExecutor(len(places)) as pool:
    for place, said in zip(places, pool.map(answer, places)):
        adapters += b"pydevdAuthorize" in said
        if b'"initialized"' in said:
            print("let in at", place)
        for token in re.findall(rb'"debugServerAccessToken": ?("[^"]*")', said):
            print("shown a token at", place, token)
for path in glob.glob("/proc/[0-9]*/cmdline"):
    words = open(path, "rb").read()
    if b"access-token" in words or b"--for-server" in words:
        print("read a token", words)
for path in glob.glob("/tmp/dkdbg-ray-*"):
    print("folder", bool(glob.glob(path + "/*") or glob.glob(path + "/session/p/adapter")))
print("adapters", adapters)
"""


@pytest.mark.attack(0)
def test_another_user_of_the_node_attaches_to_no_worker_that_was_opened(ray, tmp_path):
    """Attaches at each port of a node where `dkdbg run --on ray+...` has opened a worker, and reads all command lines and its folder: no port is a debugger's, no token is shown, the folder is closed; the user gets in."""
    ray.write("attacked.py", DRIVER)
    line = 1 + [*DRIVER.splitlines()].index("                time.sleep(0.05)  # step")
    target = f"ray+docker://{ray.nodes[0]}"
    words = ["dkdbg", "run", "--on", target, "--workers", "*", "--", "python3", "/job/attacked.py"]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()
    ) as process:
        try:
            wait_until((ray.folder / "there").exists, "the actor does not run")
            scan = ["docker", "exec", "-i", "--user", "61002", ray.nodes[0], "python3", "-"]
            done = subprocess.run(
                scan, input=FRAME + SCAN, capture_output=True, text=True, check=True, timeout=LIMIT
            )
            # A worker of an earlier run may have a folder still.
            assert set(done.stdout.splitlines()) == {"folder False", "adapters 0"}
            with (
                attach_proxy(tmp_path, target) as proxy,
                Debugger(AttachOptions(port=proxy.port)) as debugger,
            ):
                debugger.set_breakpoints("/job/attacked.py", [line])
                debugger.attach(timeout=LIMIT)
                stop = debugger.wait_stopped(LIMIT)
                assert debugger.stack(stop, timeout=LIMIT)[0].line == line
                (ray.folder / "go").touch()
                debugger.continue_(stop, timeout=LIMIT)
                assert process.wait(LIMIT) == 0
        finally:
            (ray.folder / "go").touch()
