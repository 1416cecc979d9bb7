"""The tutorial and the how-tos, run as they are written, on small repositories and a real engine."""

import os
import shutil
from importlib import metadata

import pytest

from dkdbg.dap.debugger import Debugger
from tests.engine.attach_proxies import typed_proxy
from tests.engine.projects import (
    at,
    command,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    stop_in,
    stopped_in,
    take_away,
    unique,
)
from tests.pages import Page, begun
from tests.ports import free_port
from tests.torchrun import TORCHRUN

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("how-to")]

LOOP = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.1)\n"
TESTS = "def test_total():\n    total = 1 + 1\n    assert total == 2  # breakpoint\n"
#: pytest and what it imports; the base image of the tests has none of it.
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
RANKS = """\
    import os
    import time


    class Loss:
        def __init__(self, value):
            self.value = value

        def item(self):
            return self.value


    def step(rank):
        loss = Loss(rank / 2)
        return loss  # breakpoint


    while not os.path.exists("stop"):
        loss = step(int(os.environ["RANK"]))
        time.sleep(0.05)
    """


@pytest.fixture
def repository(tmp_path, base_image):
    """Make a repository, with ports of its own; its containers are taken away at the end."""
    made = []

    def make(port="", **files):
        root = repo(tmp_path / unique("how-to"), {"train.py": LOOP, **files})
        wait = "[debug]\nwait = 0\n"
        (root / "dkdbg.toml").write_text(wait)
        (root / ".env").write_text(f"DKDBG_BASE={base_image}\nDKDBG_PORT={free_port()}\n{port}")
        made.append(root)
        return root

    yield make
    for root in made:
        take_away(root, dict(os.environ))


def compose(base_image):
    """A project of a person's, with a server on port 8000."""
    return (
        f"services:\n  api:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n"
        "    command: [python3, -m, http.server, '8000']\n    ports: ['8000:8000']\n"
        f"  worker:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n    command: python3 train.py\n"
    )


def install(folder, *names):
    """Copy packages of this Python into a folder."""
    for each in (file for name in names for file in metadata.files(name) if ".." not in file.parts):
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each.locate(), folder / each)


def test_the_tutorial_and_beside_pycharm(repository):
    page, pycharm = Page.of("tutorial.md"), Page.of("how-to/pycharm.md")
    root = repository(**{"train.py": page.block("python", "def step")})
    with page.all_run(), pycharm.all_run():
        must(page.run("dkdbg init --yes", cwd=root))
        assert "ready: attach to 127.0.0.1:" in must(page.run("dkdbg up", cwd=root)).stdout
        assert "set up" in must(page.run("dkdbg", cwd=root)).stdout
        must(pycharm.run("dkdbg up", cwd=root))
        for each in (page, pycharm):
            assert "app-debug" in must(each.run("dkdbg ps", cwd=root)).stdout
        must(page.run("dkdbg logs", cwd=root))
        must(page.run("dkdbg restart", cwd=root))
        must(page.run("dkdbg down", cwd=root))
        must(page.run("dkdbg init --undo", cwd=root))
    assert not (root / ".dkdbg").exists()


def test_compose_and_one_test(repository, base_image):
    page, one = Page.of("how-to/compose.md"), Page.of("how-to/pytest.md")
    files = {"compose.yaml": compose(base_image), "tests/test_sums.py": TESTS}
    root = repository(f"DKDBG_APP_PORT_8000={free_port()}\n", **files)
    with page.all_run(), one.all_run():
        must(page.run("dkdbg init --service api --yes", cwd=root))
        assert "is port 8000 of your program" in must(page.run("dkdbg up", cwd=root)).stdout
        must(page.run("dkdbg logs", cwd=root))
        must(page.run("docker compose up --detach worker", cwd=root))
        with typed_proxy(root, page.take("dkdbg attach compose://worker")) as proxy:
            options = at(proxy.port, root, "/workspace")
            with Debugger(launch_options(root)) as api:
                api.attach()
                with stopped_in(root / "train.py", options, 4) as (worker, stop):
                    assert worker.stack(stop)[0].line == 4
        install(root, *PYTEST)
        assert "1 passed" in must(one.run("dkdbg run -- python3 -m pytest", cwd=root)).stdout
        must(page.run("dkdbg down", cwd=root))
        with begun(one.words("dkdbg run --wait"), root) as waiting:
            said = iter(waiting.stdout.readline, "")
            assert any("press F5 to attach to it" in line for line in said)
            assert any("waiting for a debugger" in line for line in said)
            assert stop_in(root, "tests/test_sums.py").values["total"] == "2"
            assert any("1 passed" in line for line in said)
            assert waiting.wait(300) == 0


def test_torchrun_with_all_ranks_and_with_some(repository, base_image):
    """With a stand-in for torchrun in the image."""
    page = Page.of("how-to/torchrun.md")
    root = repository(**{"train.py": RANKS})
    image = f"dkdbg-test-{root.name}"
    recipe = f"FROM {base_image}\nCOPY --chmod=755 <<'END' /usr/local/bin/torchrun\n{TORCHRUN}END\n"
    command(["docker", "build", "-q", "-t", image, "-"], text=recipe)
    (root / ".env").write_text((root / ".env").read_text().replace(base_image, image))
    line = marked_line(root / "train.py")
    try:
        with page.all_run():
            must(page.run("dkdbg init", cwd=root))
            must(dkdbg(root, "up"))
            with Debugger(launch_options(root)) as debugger:
                debugger.set_breakpoints(str(root / "train.py"), [line])
                debugger.attach()
                assert stopped(debugger, 4) == {f"rank {rank}": str(rank / 2) for rank in range(4)}
            values = must(page.run("dkdbg ranks eval", cwd=root)).stdout
            assert all(str(rank / 2) in values for rank in range(4)), values
            assert "rank" in must(page.run("dkdbg where", cwd=root)).stdout
            must(dkdbg(root, "down"))
            with begun(page.words("dkdbg run --ranks"), root) as running:
                assert any("can attach on" in said for said in iter(running.stdout.readline, ""))
                with Debugger(launch_options(root)) as debugger:
                    debugger.set_breakpoints(str(root / "train.py"), [line])
                    debugger.attach()
                    assert stopped(debugger, 2) == {"rank 0": "0.0", "rank 3": "1.5"}
                (root / "stop").touch()
                assert running.wait(300) == 0
    finally:
        take_away(root, dict(os.environ))
        command(["docker", "image", "rm", "-f", image], check=False)


def stopped(debugger, count):
    """The loss of so many ranks that have stopped, by their sessions' names."""
    stops = [debugger.wait_stopped(300) for _ in range(count)]
    return {each.session.name: debugger.evaluate("loss.item()", debugger.stack(each)[0]) for each in stops}


@pytest.mark.parametrize(
    ("name", "writes", "says"),
    [
        ("dev-container", ".devcontainer/devcontainer.json", "app-debug-devcontainer"),
        ("shared-machine", ".vscode/launch.json", "dkdbgToken"),
    ],
)
def test_what_init_writes_for(repository, name, writes, says):
    page = Page.of(f"how-to/{name}.md")
    root = repository()
    if name == "shared-machine":
        (root / "dkdbg.toml").write_text(page.block("toml"))
    with page.all_run():
        must(page.run("dkdbg init", cwd=root))
    assert says in (root / writes).read_text()
