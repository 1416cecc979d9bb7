"""A real Ray of two nodes, each a container with an address of its own; the dashboard is reached from this machine."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests import frameworks
from tests.engine.attach_proxies import docker
from tests.engine.projects import unique

#: Of one node: what Ray takes on a small machine. Each node has a resource of its own, by which tasks are sent to it.
_START = "start --num-cpus=4 --object-store-memory=80000000 --disable-usage-stats"
#: Ray gives its raylet 30 s and no more (`ray/_private/node.py`), which a busy machine may not have.
_TRIES = 8
#: Ends what runs from /job; the image has no pkill.
_END_DRIVERS = """
import glob, os, signal
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if b"/job/" in open(path, "rb").read() and int(path.split("/")[2]) != os.getpid():
            os.kill(int(path.split("/")[2]), signal.SIGKILL)
    except OSError:
        pass
"""


def mount() -> str:
    """Ray's packages for a container, as `docker -v` has it; to be on its PYTHONPATH."""
    python = Path(frameworks.python_with("ray"))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{python.parents[1] / 'lib' / version / 'site-packages'}:/opt/ray:ro"


class Cluster:
    """Starts with `start`; `stop` takes everything away.

    Args:
        folder: below it lies what drivers run; it is /job on each node.

    Attributes:
        address: of the head. nodes: the containers, the head first.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self.folder = folder
        self.address = ""
        self._base = base
        self._network = unique("ray")
        self.nodes = [f"{self._network}-{number}" for number in range(2)]
        self._drivers: list[subprocess.Popen[str]] = []

    def start(self) -> "Cluster":
        docker("network", "create", self._network)
        for number, name in enumerate(self.nodes):
            docker(
                "run", "-d", "--name", name, "--hostname", f"node{number}", "--network", self._network, "--shm-size", "1g", "--init",
                "-v", mount(), "-v", f"{self.folder}:/job", "-w", "/job", "-e", "PYTHONPATH=/opt/ray",
                "-e", "RAY_DEDUP_LOGS=0", "-e", "RAY_prestart_worker_first_driver=0", "-e", "PYTHONUNBUFFERED=1", self._base, "sleep", "infinity",
            )  # fmt: skip
        version = docker(
            "exec", self.nodes[0], "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
        )
        if version != f"{sys.version_info[0]}.{sys.version_info[1]}":
            pytest.fail(f"the image has Python {version}, and Ray was installed for another one")
        self.address = docker(
            "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", self.nodes[0]
        )
        self._start_node(0, "--head", "--dashboard-host=0.0.0.0")
        self._start_node(1, f"--address={self.nodes[0]}:6379")
        return self

    def stop(self) -> None:
        subprocess.run(["docker", "rm", "-f", *self.nodes], capture_output=True, check=False, timeout=300)
        subprocess.run(
            ["docker", "network", "rm", self._network], capture_output=True, check=False, timeout=300
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def drive(self, name: str, **environment: str) -> subprocess.Popen[str]:
        flags = [word for key, value in environment.items() for word in ("-e", f"{key}={value}")]
        driver = subprocess.Popen(
            ["docker", "exec", *flags, self.nodes[0], "python3", f"/job/{name}"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._drivers.append(driver)
        return driver

    def end_drivers(self) -> None:
        """End what is left of a test; Ray ends the workers of a driver that is gone."""
        for driver in self._drivers:
            if driver.poll() is None:
                for node in self.nodes:
                    docker("exec", node, "python3", "-c", _END_DRIVERS)
                driver.kill()
            driver.wait(300)
            if driver.stdout:
                driver.stdout.close()
        self._drivers.clear()

    def _start_node(self, number: int, *words: str) -> None:
        resources = f'--resources={{"node{number}": 100}}'
        ray = ["docker", "exec", self.nodes[number], "python3", "-m", "ray.scripts.scripts"]
        said = ""
        for _ in range(_TRIES):
            done = subprocess.run(
                [*ray, *_START.split(), resources, *words], capture_output=True, text=True, check=False, timeout=600
            )  # fmt: skip
            if not done.returncode:
                return
            said = done.stdout + done.stderr
            subprocess.run([*ray, "stop", "--force"], capture_output=True, check=False, timeout=300)
        raise AssertionError(said[-2000:])


def wait_until(is_so, what: str, limit: float = 300.0):
    end = time.monotonic() + limit
    while not (found := is_so()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found
