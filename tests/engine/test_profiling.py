"""`dkdbg run --on CONTAINER --nsys ... --pull`: the chosen program is profiled there, and its files come here."""

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests import frameworks
from tests.agent import nsys
from tests.checkout import run_dkdbg
from tests.engine.attach_proxies import docker
from tests.engine.projects import command, must, start
from tests.pages import Page, environment
from tests.torchrun import TORCHRUN

pytestmark = pytest.mark.engine


#: A function that is on the stack for long enough to be seen there.
SPINS = """\
import time

def spin():
    end = time.process_time() + 2
    while time.process_time() < end:
        pass

spin()
"""


@pytest.fixture
def with_nsys(start_container, tmp_path):
    """Make a container with a stand-in for nsys and a train.py, and a repository with nothing in it: its name, and that folder."""

    def make(program, at="/w"):
        name, repository = start_container("-w", at), tmp_path / "repository"
        bin_ = nsys.install(tmp_path / "bin", python="/usr/bin/env -S python3")
        repository.mkdir()
        (tmp_path / "train.py").write_text(program)
        docker("cp", str(tmp_path / "train.py"), f"{name}:{at}/train.py")
        docker("cp", str(bin_ / "nsys"), f"{name}:/usr/local/bin/nsys")
        return name, repository

    return make


@pytest.mark.parametrize(
    ("folder", "pulled", "code"), [("/w", "dkdbg-profiles/*", 0), ("/", "*.nsys-rep", 3)]
)
def test_profiles_of_a_container_are_fetched_at_end(with_nsys, monkeypatch, *, folder, pulled, code):
    """With a stand-in for nsys. A program that fails is profiled too."""
    monkeypatch.setenv("DKDBG_NSYS_OPTIONS", "-t osrt")
    name, repository = with_nsys(f"print('trained', flush=True)\nraise SystemExit({code})\n", folder)
    where = f"docker://{name}"

    def run(*options, before=()):
        return run_dkdbg(repository, "run", "--on", where, *options, "--", *before, "python3", "train.py")

    with monkeypatch.context() as patched:  # the variable of NeMo RL says the same as the flag
        patched.setenv("NRL_NSYS_WORKER_PATTERNS", "*train*" if folder == "/" else "")
        done = run(*(("--nsys", "*train*") if folder == "/w" else ()), "--pull")
    assert done.returncode == code, done.stderr
    assert "trained" in done.stdout
    (report,) = repository.glob(f"dkdbg-pulled/*/{pulled}")
    assert report.name.startswith("train_")
    assert report.suffix == ".nsys-rep"
    told = json.loads(report.read_text())
    assert told["program"][-1] == "train.py"
    assert told["argv"][:5] == ["profile", "-s", "none", "-t", "osrt"], "as the variable here says"
    if folder != "/w":
        return  # nothing says where the code lies, and the rest is the same
    nothing = run("--pull")
    assert nothing.returncode == 2
    assert "none were asked for" in nothing.stderr
    done = run("--nsys-ranks", "0", "--pull", before=("env", "RANK=0"))
    assert done.returncode == code, done.stderr
    assert len(list(repository.glob(f"dkdbg-pulled/*/{pulled}"))) == 2
    docker("exec", name, "sh", "-c", "mkdir logs && echo loss >logs/log.txt")
    must(run_dkdbg(repository, "sync", where, "--pull", "logs"))
    assert [each.read_text() for each in repository.rglob("log.txt")] == ["loss\n"]
    docker("exec", name, "rm", "/usr/local/bin/nsys")
    missing = run("--nsys-ranks", "0")
    assert missing.returncode == 2
    assert "nsys is not installed here" in missing.stderr
    assert "trained" not in missing.stdout


def test_the_rank_that_a_page_names_is_watched_by_py_spy_in_a_container(tmp_path, start_container):
    """With a stand-in for torchrun, and the real py-spy."""
    name = start_container("-w", "/w")
    py_spy = Path(frameworks.python_with("py-spy")).with_name("py-spy")
    page = Page.of("how-to/profile.md")
    words = page.take("dkdbg run --on docker://").replace("docker://trainer", f"docker://{name}")
    (tmp_path / "train.py").write_text(SPINS)
    (tmp_path / "torchrun").write_text(TORCHRUN)
    (tmp_path / "torchrun").chmod(0o755)
    docker("cp", str(tmp_path / "train.py"), f"{name}:/w/train.py")
    docker("cp", str(tmp_path / "torchrun"), f"{name}:/usr/local/bin/torchrun")
    docker("cp", "-L", str(py_spy), f"{name}:/usr/local/bin/py-spy")
    done = command(["sh", "-c", words], tmp_path, env=environment())
    files = docker("exec", name, "ls", "/w/dkdbg-profiles").split()
    assert {each.partition("_")[0] for each in files} == {"train-rank1"}, done.stderr
    (file,) = (each for each in files if each.endswith(".speedscope.json"))
    told = json.loads(docker("exec", name, "cat", f"/w/dkdbg-profiles/{file}"))
    assert "spin" in {each["name"] for each in told["shared"]["frames"]}


#: Before the real one on PATH: once a program has said so, what is started next never answers, as over a line that is dead.
DEAD_LINE = """\
#!/bin/sh
[ ! -e /tmp/dead ] || exec sleep 100000
exec {python} "$@"
"""


def test_ctrl_c_leaves_while_profiles_are_fetched_or_their_folder_is_not_known_and_what_is_said_fetches_them(
    tmp_path, with_nsys
):
    """With stand-ins for nsys, and for a line on which nothing comes any more. Without `pwd` no folder is known."""
    name, repository = with_nsys("open('/tmp/dead', 'w').close()\n")
    python = docker("exec", name, "sh", "-c", "command -v python3")
    (tmp_path / "python3").write_text(DEAD_LINE.format(python=python))
    (tmp_path / "python3").chmod(0o755)
    docker("cp", str(tmp_path / "python3"), f"{name}:/usr/local/sbin/python3")
    words = f"run --on docker://{name} --nsys *train* --pull -- python3 train.py".split()
    running = start(repository, *words, stdout=subprocess.DEVNULL)
    said = []
    for line in running.stderr:
        said.append(line)
        if "fetching" in line:
            running.send_signal(signal.SIGINT)
    assert running.wait(300) == 130, said

    def fetched(said):
        line = said[said.index("dkdbg sync ") :].splitlines()[0].replace("/FOLDER", "/w")
        must(run_dkdbg(repository, *shlex.split(line)[1:]))
        return len(list(repository.glob("dkdbg-pulled/*/dkdbg-profiles/*.nsys-rep")))

    docker("exec", name, "rm", "/usr/local/sbin/python3", "/tmp/dead")
    assert fetched(said[-1]) == 1
    docker("exec", name, "rm", "-f", "/bin/pwd", "/usr/bin/pwd")
    done = run_dkdbg(repository, *words)
    assert "the remote folder is unknown" in done.stderr
    assert fetched(done.stderr) == 2
