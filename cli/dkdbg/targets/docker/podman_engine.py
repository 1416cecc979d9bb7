"""What is different with Podman behind its Docker API: who builds, and who looks whether the agent is there."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.targets.docker import client, compose_cli, podman
from dkdbg.targets.docker.compose import ComposeService
from dkdbg.targets.docker.engine_errors import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

#: Seconds that one look of the agent's may take; it waits by itself, 20 s for an agent and later 2 s.
_LOOK_LIMIT = 40.0
#: Seconds until a container is asked again that cannot run a command yet.
_PAUSE = 0.3


def build(
    model: Mapping[str, Any],
    service: str,
    root: Path,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
) -> None:
    """Build the images of a service and of what is started with it by `podman build`.

    Raises:
        DkdbgError: whatever hindered it.
    """
    if not process.is_installed("podman"):
        raise DkdbgError(
            "the engine is Podman, and there is no podman command here, which builds images for it",
            hint="install podman here too (Debian: apt install podman)",
            exit_code=127,
        )
    for argv in podman.builds(model, service, client.endpoint().host):
        done = process.stream(argv, cwd=root, env=env, report=report)
        if done.code:
            raise explain(done.code, done.stdout)


def up(
    target: ComposeService,
    root: Path,
    port: int,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
    wait_timeout: int,
) -> None:
    """Start the service and return when an attach will work.

    Podman looks at a container's health by timers of systemd; where there are none, nobody looks. So the agent is asked.

    Args:
        port: its debug port.
        wait_timeout: seconds.

    Raises:
        DkdbgError: whatever hindered it, with the program's last lines reported before.
    """
    done = process.stream(target.up_unseen(), cwd=root, env=env, report=report, said=target.model)
    if done.code:
        compose_cli.report_last_lines(target, root, env=env, report=report)
        raise explain(done.code, done.stdout)
    deadline = time.monotonic() + wait_timeout
    while True:
        seen = compose_cli.running(target, root, port)
        if seen is None or seen.state not in {"running", "created", "initialized", "starting"}:
            compose_cli.report_last_lines(target, root, env=env, report=report)
            code = seen.code if seen else 1
            raise explain(1, f"container {seen.name if seen else target.service} exited ({code})")
        if time.monotonic() > deadline:
            compose_cli.report_last_lines(target, root, env=env, report=report)
            raise DkdbgError(
                f"the debugger did not start to listen within {wait_timeout} s",
                hint="the program's last lines are above; DKDBG_DEBUG=1 makes the agent say more",
                exit_code=EXIT_TIMEOUT,
            )
        look = process.run(
            ("docker", "exec", seen.id, "sh", "/opt/dkdbg/agent.pyz", "health", "--wait"), timeout=_LOOK_LIMIT
        )
        if not look.code:
            return
        time.sleep(_PAUSE)


def given(model: Mapping[str, Any], target: ComposeService, root: Path) -> ComposeService:
    """The service of a project that is given to compose as it is to be."""
    return ComposeService(service=target.service, model=json.dumps(model), folder=str(root))
