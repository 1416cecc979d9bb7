"""Stop, edit, F5: what `init` wrote runs the new code; the tasks restart and stop the program with plain Docker."""

import pytest

from tests.engine.projects import (
    LOOP,
    command,
    container,
    dkdbg,
    launch_options,
    must,
    repo,
    running,
    stop_in,
    unique,
)
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("restart")]


@pytest.fixture(scope="module")
def root(base_image, tmp_path_factory):
    """A service whose program goes round, healthy."""
    toml = f"[debug]\nport = {free_port()}\nwait = 0\n"
    files = {"train.py": LOOP, "requirements.txt": "# nothing\n", "dkdbg.toml": toml}
    folder = repo(tmp_path_factory.mktemp("edited") / unique("edited"), files)
    must(dkdbg(folder, "init", "--yes"))
    (folder / ".env").write_text(f"DKDBG_BASE={base_image}\n")
    with running(folder, base_image):
        yield folder


def task(root, *words):
    """What the tasks `dkdbg: up`, `restart` and `stop` run."""
    return command(["sh", ".dkdbg/up.sh", *words], root)


def press_f5(root):
    """F5 with a breakpoint in the loop; where it stops, and how often the loop has gone round. Then Shift+F5."""
    task(root)
    stopped = stop_in(root, "train.py")
    return stopped.path, stopped.line, stopped.values["n"]


def test_stop_edit_f5_runs_what_the_editor_shows_and_the_tasks_restart_and_stop_it(root):
    before, source = container(root), root / "train.py"
    path, line, _ = press_f5(root)
    source.write_text("# one\n# two\n" + source.read_text())
    assert press_f5(root) == (path, line + 2, "0")
    assert press_f5(root)[2] != "0"  # nothing was changed: the same run
    assert "dkdbg: restarted, run 3" in task(root, "restart").stdout
    assert container(root) == before
    task(root, "stop")
    assert container(root) == ""
    task(root, "restart")  # what does not run is started
    assert container(root) != ""
    assert press_f5(root)[:2] == (path, line + 2)


def test_up_writes_a_port_that_a_person_has_chosen_to_launch_json(root):
    port, env = free_port(), root / ".env"
    env.write_text(f"{env.read_text()}DKDBG_PORT={port}  # mine\n")
    before = env.read_text()
    said = must(dkdbg(root, "up")).stdout
    assert launch_options(root).port == port
    assert f"using {port}, written to .vscode/launch.json" in said
    assert env.read_text() == before
    assert stop_in(root, "train.py").function == "step"
    assert must(dkdbg(root, "up")).stdout.count("launch.json") == 0
