"""A program that ends well before the editor is there, and did not wait for it: F5 is no failure."""

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.targets.docker import compose_up, containers
from dkdbg.targets.docker.compose import ComposeService
from dkdbg.verbs.parts.repository import debug_service
from tests.agent.dap_probe import wait_for
from tests.engine.projects import command, launch_options, project, unique
from tests.ports import free_port

pytestmark = pytest.mark.engine
COMPOSE = ["docker", "compose", "--profile", "debug"]


def test_f5_on_an_ended_program_says_so_and_one_that_fails_when_healthy_is_no_start(base_image, tmp_path):
    """The service does not wait and keeps what has ended for ten minutes."""
    toml = f"[debug]\nport = {free_port()}\nwait = 0\n"
    files = {"train.py": "print('done')\n", "requirements.txt": "# nothing\n", "dkdbg.toml": toml}
    with project(tmp_path / unique("short"), files, "init", "--yes") as root:
        (root / ".env").write_text(f"DKDBG_BASE={base_image}\n")
        text = (root / ".dkdbg/service.compose").read_text()
        (root / ".dkdbg/service.compose").write_text(text.replace('DKDBG_LINGER: "6"', 'DKDBG_LINGER: "600"'))
        service = debug_service(root)

        def look():
            running = containers.of_service(ComposeService(service=service.name), root)
            return running.status, compose_up.has_failed(running)

        command(["sh", ".dkdbg/up.sh"], root)
        with Debugger(launch_options(root)) as debugger:
            debugger.attach()
            debugger.wait_ended(300)
        said = "".join(each.text for each in debugger.output)
        assert "the program ended before the editor attached; with DKDBG_WAIT=60 it waits for one" in said
        ended = command([*COMPOSE, "ps", "--all", "--format", "{{.ExitCode}}"], root)
        assert ended.stdout.split() == ["0"]

        (root / "train.py").write_text("print('no data here')\nraise SystemExit(3)\n")
        command([*COMPOSE, "up", "--build", "--detach", service.name], root)
        wait_for(look, lambda seen: seen == ("running", True))  # kept for an editor
        command([*COMPOSE, "stop"], root)
        assert look() == ("exited", True)
