"""What an interrupted test run leaves, and the next one removes."""

import os
import signal
import subprocess
import sys

import pytest

from tests import leftovers

#: Each run of these removes what ended runs have left.
pytestmark = pytest.mark.xdist_group("leftovers")


@pytest.fixture
def ended_run() -> int:
    done = subprocess.Popen(["true"])
    done.wait()
    return done.pid


def test_processes_of_an_ended_run_are_killed_also_those_without_its_environment_and_no_others(
    ended_run, tmp_path
):
    def start(run: int, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, env={**os.environ, "DKDBG_TEST_RUN": str(run)})

    line = f"env -i sleep 300 & echo $! >{tmp_path}/pid; wait"
    dead, shell = start(ended_run, "sleep", "300"), start(ended_run, "sh", "-c", line)
    living = start(leftovers.run_pid(), "sleep", "300")
    try:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
            assert shell.poll() is None
        removed = leftovers.remove_of_ended_runs()
        assert f"process {dead.pid}: sleep 300 " in removed
        assert any(each.startswith(f"process {(tmp_path / 'pid').read_text().strip()}: ") for each in removed)
        assert (dead.wait(60), shell.wait(60)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert living.poll() is None
    finally:
        for each in (dead, shell, living):
            each.kill()


@pytest.mark.engine
def test_what_an_ended_run_left_on_the_engine_is_removed(ended_run, base_image):
    def docker(*words: str) -> str:
        return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout

    name = leftovers.unique("left").replace(f"-p{leftovers.run_pid()}-", f"-p{ended_run}-")
    own = leftovers.unique("left")
    for each in (name, own):
        docker("network", "create", each)
        docker("volume", "create", each)
        mount = f"{each}:/x"
        docker(
            "run", "-d", "--init", "--name", each, "--network", each, "-v", mount, base_image, "sleep", "300"
        )
    try:
        removed = leftovers.remove_of_ended_runs()
        assert {f"container {name}", f"network {name}", f"volume {name}"} <= set(removed)
        assert name not in docker("ps", "-a") + docker("network", "ls") + docker("volume", "ls")
        assert own in docker("ps")
    finally:
        for each in (name, own):
            for words in (("rm", "-f"), ("network", "rm"), ("volume", "rm", "-f")):
                subprocess.run(["docker", *words, each], capture_output=True, check=False)


def test_the_workers_of_a_run_name_things_after_its_controller(tmp_path):
    test = tmp_path / "test_it.py"
    test.write_text(
        "import os\nfrom tests.leftovers import unique\n"
        f"def test_name():\n    open({str(tmp_path / 'name')!r}, 'w').write(f\"{{os.getpid()}} {{unique('x')}}\")\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "DKDBG_TEST_RUN"}
    words = ["-n", "1", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(test)]
    command = [sys.executable, "-m", "pytest", *words]
    controller = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    assert controller.wait() == 0
    worker, name = (tmp_path / "name").read_text().split()
    assert f"-p{controller.pid}-" in name
    assert int(worker) != controller.pid
