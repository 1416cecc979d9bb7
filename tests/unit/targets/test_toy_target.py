"""A new kind of targets is one file (toy.py) and one line of the registry; then every verb works on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from dkdbg.verbs.up import startable
from tests.agent.dap_probe import wait_for
from tests.commands import command
from tests.engine.attach_proxies import AttachProxy
from tests.ports import free_port
from tests.unit.targets.toy import ToyTarget

pytestmark = pytest.mark.xdist_group("toy")

REPOSITORY = Path(__file__).parents[3]
#: The line, and the command line of dkdbg.
LINE = 'registry.Entry(scheme="toy", form="toy://NAME", module="tests.unit.targets.toy")'
DKDBG = f"""import sys
from dkdbg.main import main
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
registry.ENTRIES = (*registry.ENTRIES, {LINE})
sys.exit(main())
"""
SCRIPT = "import time\nn = 0\nwhile n < 50000:\n    n += 1\n    time.sleep(0.02)\n"
LAUNCH = ("supervise", "--port", "0", "--wait", "0", "--reload", "--name", "job", "--", sys.executable)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder with one toy target, `there`, and no docker."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "places" / "there").mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("env", "sh", "git"):
        if found := next((d for d in ("/usr/bin", "/bin") if Path(d, name).exists()), None):
            (folder / "bin" / name).symlink_to(Path(found, name))
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("TOY_PLACES", str(folder / "places"))
        settings.setenv("PATH", str(folder / "bin"))
        settings.setenv("PYTHONPATH", str(REPOSITORY))
        yield folder


@pytest.fixture(autouse=True)
def _runtime(environment, monkeypatch):
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(environment / "here"))


@pytest.fixture(scope="module")
def repository(environment):
    """A program, synced to the toy target by `dkdbg sync`."""
    root = environment / "repo"
    root.mkdir()
    (root / "train.py").write_text(SCRIPT)
    done = dkdbg(root, "sync", "toy://there", "--once", "--python", sys.executable)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="module")
def job(repository):  # noqa: ARG001 - its program is the repository's
    """The program there, under the agent that the target names."""
    target = toy("toy://there")
    with (target.folder / "output.log").open("w") as log:
        process = subprocess.Popen(
            target.wrap([*target.agent(), *LAUNCH, "code/train.py"]),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_for(lambda: [each.state == "running" and each.processes for each in target.sessions()], any)
        yield process
    finally:
        process.terminate()
        process.wait(300)


def dkdbg(root, *words, stdin=""):
    return command([sys.executable, "-c", DKDBG, *words], root, text=stdin, check=False)


def toy(address):
    return ToyTarget(registry.addresses.parse(address))


def test_sync_puts_the_files_where_the_place_says_that_its_code_lies(repository, environment):
    assert (environment / "places" / "there" / "code" / "train.py").read_text() == SCRIPT
    done = dkdbg(repository, "sync", "toy://there", "--verify", "--python", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ps_lists_its_sessions_with_an_address_that_every_verb_takes(job, repository):  # noqa: ARG001
    done = dkdbg(repository, "ps", "--json")
    found = json.loads(done.stdout)
    assert [(each["target"], each["address"], each["name"], each["state"]) for each in found["sessions"]] == [
        ("toy there", "toy://there", "job", "running")
    ]
    assert found["missing"] == {"docker": "there is no program 'docker' here"}


@pytest.mark.parametrize("target", [(), ("toy://there",), ("job",)])
def test_pdb_enters_the_program_there_by_address_by_name_or_as_the_only_one(job, repository, target):
    done = dkdbg(repository, "pdb", *target, stdin="p 'n is', n > 0\nq\n")
    assert (done.returncode, "('n is', True)" in done.stdout) == (0, True), done.stdout + done.stderr
    assert job.poll() is None


def test_attach_stops_there_and_restart_starts_the_program_again(job, repository):  # noqa: ARG001
    command = [sys.executable, "-c", DKDBG, "attach", "toy://there", "--port", str(free_port()), "--json"]
    attach = subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True)
    proxy = AttachProxy(attach)
    try:
        mapping = (str(repository), f"{os.environ['TOY_PLACES']}/there/code")
        with Debugger(AttachOptions(port=proxy.port, path_mappings=(mapping,))) as debugger:
            debugger.set_breakpoints(str(repository / "train.py"), [4])
            debugger.attach()
            first = debugger.wait_stopped(300)
            assert debugger.stack(first)[0].path == str(repository / "train.py")
            done = dkdbg(repository, "restart", "toy://there")
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("toy there: restarted, run ")
            second = debugger.wait_stopped(300)
            assert debugger.local_values(debugger.stack(second)[0])["n"] == "0"
        assert proxy.end() == 0
    finally:
        attach.kill()
        attach.wait()


@pytest.mark.usefixtures("environment")
def test_what_cannot_be_started_from_here_says_so():
    with pytest.raises(DkdbgError, match="toy://there cannot be started or ended from here"):
        startable(toy("toy://there"))


def test_usage_texts_and_hints_name_the_new_kind(repository):
    assert "toy://NAME" in dkdbg(repository, "attach", "--help").stdout
    assert "HOST:PORT or toy://NAME" in dkdbg(repository, "sync", "sge://login/7").stderr
