"""Two folders of one name are two projects, a folder behind a link is one, and F5 in one does not debug the other."""

import pytest

from tests.agent.dap_probe import Client
from tests.engine.attach_proxies import docker
from tests.engine.projects import LOOP, command, dkdbg, must, repo, take_away, unique
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("restart")]


@pytest.fixture
def two(base_image, tmp_path):
    """Two repositories in folders of the same name, the first one's program running."""
    port, name = free_port(), unique("same")
    toml = f"[debug]\nport = {port}\nwait = 0\n"
    files = {"train.py": LOOP, "requirements.txt": "# nothing\n", "dkdbg.toml": toml}
    roots = [repo(tmp_path / parent / name, files) for parent in ("a", "b")]
    for root in roots:
        must(dkdbg(root, "init", "--yes"))
        with (root / ".env").open("a") as env:
            env.write(f"DKDBG_BASE={base_image}\n")
    try:
        must(f5(roots[0]))
        yield (*roots, port)
    finally:
        for root in roots:
            take_away(root, {})


def f5(root, *words):
    """What F5 runs first."""
    return command(["sh", ".dkdbg/up.sh", *words], root, check=False)


def started(root):
    """When the container of the project started; empty without one."""
    label = f"label=com.docker.compose.project.working_dir={root}"
    ids = docker("ps", "-aq", "--filter", label).split()
    return docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}} {{.State.Running}}", *ids) if ids else ""


def test_a_folder_of_the_same_name_neither_replaces_nor_debugs_the_other(two, tmp_path):
    first, second, port = two
    before = started(first)
    assert "true" in before
    # The same folder behind a link: the same project, and the same container.
    link = tmp_path / "another-name"
    link.symlink_to(first)
    must(f5(link))
    assert started(first) == before
    # A shell that came through the link says so in PWD.
    must(dkdbg(link, "up", env={"PWD": str(link)}))
    assert started(first) == before

    ours = [dkdbg(second, *words) for words in (("up",), ("down",), ("down", "--all"))]
    for done in (f5(second), f5(second, "stop"), f5(second, "down"), *ours):
        assert done.returncode != 0
        assert f"{first} has a compose project called {first.name} too" in done.stderr
        hint = f"printf '\\nCOMPOSE_PROJECT_NAME={first.name}-2\\n' >> .env"
        assert hint in done.stderr
    assert started(first) == before
    with Client(port) as client:  # Debug Anyway
        entry = {"host": "127.0.0.1", "port": port, "project": "vision-01234567"}
        assert "`dkdbg up`" in client.refusal("attach", connect=entry)["message"]

    command(["sh", "-c", hint], second)  # what the message says
    done = must(dkdbg(second, "up"))
    assert f"port {port} is taken" in done.stdout
    assert "true" in started(second)
    assert started(first) == before

    must(dkdbg(link, "down", env={"PWD": str(link)}))
    assert not started(first)
