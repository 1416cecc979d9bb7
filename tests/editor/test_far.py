"""F5 in VS Code on what `dkdbg init TARGET` wrote: the program runs two ssh hops away, and the editor stands in it."""

import shlex

import pytest

from tests.editor.test_f5 import TRAIN
from tests.engine.projects import dkdbg, must, repo, unique
from tests.far.conftest import hosts, laptop  # noqa: F401 - fixtures
from tests.pages import environment
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]


def test_f5_runs_it_two_hops_away_a_save_stops_again_and_nothing_outlives_it(
    laptop,  # noqa: ARG001, F811 - it looks at the end what is left
    tmp_path,
    open_editor,
):
    places = '[targets.node]\nuri = "ssh://login,node1/~/code"\n'
    root = repo(tmp_path / unique("editor"), {"train.py": TRAIN, "dkdbg.toml": places})
    words = ("--command", "python3 train.py", "--port", str(free_port()), "--yes")
    must(dkdbg(root, "init", "--on", "node", *words))
    with_dkdbg = {"HOME": str(home_with_dkdbg(tmp_path / "home")), "SHELL": "/bin/bash"}
    (own := tmp_path / "sockets").mkdir(mode=0o700)
    editor = open_editor(root, "train.py", line=5, **with_dkdbg, XDG_RUNTIME_DIR=str(own))
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.stops_at("train.py", 5, speed="1")
    editor.insert_above("speed = 1", "pace = 2")
    editor.stops_at("train.py", 6, pace="2", speed="1")


def home_with_dkdbg(home):
    """A home whose login shell has `dkdbg` in its PATH, which is the one that VS Code asks."""
    wanted = environment()
    tools = home / "bin"
    tools.mkdir(parents=True)
    program = tools / "dkdbg"
    named = " ".join(
        f"{name}={shlex.quote(wanted[name])}" for name in ("PATH", "XDG_RUNTIME_DIR") if name in wanted
    )
    program.write_text(f'#!/bin/sh\nexport {named}\nexec dkdbg "$@"\n')
    program.chmod(0o755)
    (home / ".profile").write_text(f"export PATH={shlex.quote(str(tools))}:$PATH\n")
    return home
