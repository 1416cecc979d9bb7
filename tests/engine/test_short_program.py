"""A program that ends well before the editor is there, and did not wait for it: F5 is no failure."""

from __future__ import annotations

import subprocess
import time

import pytest

from dkdbg.commands.init import debug_service
from dkdbg.dap.debugger import Debugger
from dkdbg.engine import compose, compose_up
from dkdbg.targets.compose import ComposeService
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
    text = (root / "compose.yaml").read_text()
    (root / "compose.yaml").write_text(text.replace('DKDBG_LINGER: "6"', 'DKDBG_LINGER: "600"'))
    try:
        must(
            subprocess.run(
                ["sh", ".dkdbg/up.sh"], cwd=root, capture_output=True, text=True, check=False, timeout=300
            )
        )
        with Debugger(launch_options(root)) as debugger:
            debugger.attach()
            debugger.wait_ended(300)
        said = "".join(each.text for each in debugger.output)
        assert "the program ended before the editor attached; with DKDBG_WAIT=60 it waits for one" in said
        ended = subprocess.run(
            ["docker", "compose", "--profile", "debug", "ps", "--all", "--format", "{{.ExitCode}}"],
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ended.stdout.split() == ["0"]
    finally:
        take_away(root, {"DKDBG_BASE": base_image})


def test_a_program_that_fails_after_compose_saw_it_healthy_is_no_start(base_image, tmp_path):
    toml = f"[debug]\nport = {free_port()}\nwait = 0\n"
    files = {
        "train.py": "print('no data here')\nraise SystemExit(3)\n",
        "requirements.txt": "# nothing\n",
        "dkdbg.toml": toml,
    }
    root = repo(tmp_path / unique("failing"), files)
    must(dkdbg(root, "init", "--yes"))
    with (root / ".env").open("a") as env:
        env.write(f"DKDBG_BASE={base_image}\n")
    text = (root / "compose.yaml").read_text()
    (root / "compose.yaml").write_text(text.replace('DKDBG_LINGER: "6"', 'DKDBG_LINGER: "600"'))
    service = debug_service(root)
    up = ["docker", "compose", "--profile", "debug", "up", "--build", "--detach", service.name]

    def look() -> tuple[str, bool]:
        running = compose.running(ComposeService(service=service.name), root, service.port)
        assert running is not None
        return running.state, compose_up.has_failed(running)

    try:
        must(subprocess.run(up, cwd=root, capture_output=True, text=True, check=False, timeout=300))
        end = time.monotonic() + 300
        while (seen := look()) != ("running", True):  # kept for an editor
            assert time.monotonic() < end, seen
        must(subprocess.run([*up[:4], "stop"], cwd=root, capture_output=True, text=True, check=False))
        assert look() == ("exited", True)
    finally:
        take_away(root, {"DKDBG_BASE": base_image})
