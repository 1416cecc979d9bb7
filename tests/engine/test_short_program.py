"""A program that ends well before the editor is there, and did not wait for it: F5 is no failure."""

from __future__ import annotations

import subprocess

import pytest

from dkdbg.dap.debugger import Debugger
from tests.engine.projects import dkdbg, launch_options, must, repo, take_away, unique
from tests.ports import free_port

pytestmark = pytest.mark.engine


def test_f5_on_a_program_that_has_ended_says_so_and_does_not_fail(base_image, tmp_path):
    toml = f"[debug]\nport = {free_port()}\nwait = 0\n"
    files = {"train.py": "print('done')\n", "requirements.txt": "# nothing\n", "dkdbg.toml": toml}
    root = repo(tmp_path / unique("short"), files)
    must(dkdbg(root, "init", "--yes"))
    with (root / ".env").open("a") as env:
        env.write(f"DKDBG_BASE={base_image}\n")
    try:
        must(
            subprocess.run(
                ["sh", ".dkdbg/up.sh"], cwd=root, capture_output=True, text=True, check=False, timeout=300
            )
        )
        with Debugger(launch_options(root)) as debugger:
            debugger.attach()
            debugger.wait_ended(60)
        said = "".join(each.text for each in debugger.output)
        assert "the program had ended before the editor came; with DKDBG_WAIT=60 it waits for one" in said
        ended = subprocess.run(
            ["docker", "compose", "--profile", "debug", "ps", "--all", "--format", "{{.ExitCode}}"],
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ended.stdout.split() == ["0"]
    finally:
        take_away(root, {"DKDBG_BASE": base_image})
