"""Build and start services with Podman behind its Docker API, and check the agent's health directly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.targets.docker import client, compose_cli, containers, podman
from dkdbg.targets.docker.engine_errors import check, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from dkdbg.targets.docker.compose import ComposeService

#: Timeout for one health check by the agent, which itself waits 20 s for an agent to start, and later 2 s.
_HEALTH_TIMEOUT_S = 40.0
#: Seconds between two checks of a container that cannot run a command yet.
_POLL_S = 0.3


def build(
    model: Mapping[str, Any],
    service: str,
    root: Path,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
) -> None:
    """Build the images of a service and of the services started with it, using `podman build`.

    Raises:
        DkdbgError: a build failed.
    """
    if not process.is_installed("podman"):
        raise DkdbgError(
            "the engine is Podman, but the podman command, which dkdbg needs to build images, is not installed",
            hint="install podman on this machine (Debian: apt install podman)",
            exit_code=127,
        )
    for argv in podman.builds(model, service, client.endpoint().host):
        check(process.stream(argv, cwd=root, env=env, report=report))


def up(
    target: ComposeService,
    root: Path,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
    wait_timeout: int,
) -> None:
    """Start the service and return when attaching will work.

    Podman checks a container's health with systemd timers, and not at all without systemd. So the agent is
    queried directly.

    Args:
        wait_timeout: seconds.

    Raises:
        DkdbgError: the start failed; the last lines of the program's output have been reported.
    """
    compose_cli.up(target, target.up_unseen(), root, env=env, report=report)
    deadline = time.monotonic() + wait_timeout
    while True:
        seen = containers.of_service(target, root)
        if seen is None or seen.status not in {"running", "created", "initialized", "starting"}:
            compose_cli.report_last_lines(target, root, env=env, report=report)
            code = seen.code if seen else 1
            raise explain(1, f"container {seen.name if seen else target.service} exited ({code})")
        if time.monotonic() > deadline:
            compose_cli.report_last_lines(target, root, env=env, report=report)
            raise DkdbgError(
                f"the debugger did not start to listen within {wait_timeout} s",
                hint="the program's last lines are above; dkdbg doctor looks for a cause on this machine, dkdbg verify for one in the service",
                exit_code=EXIT_TIMEOUT,
            )
        argv = ("docker", "exec", seen.id, *seen.agent, "health", "--wait")
        health = process.run(argv, timeout=_HEALTH_TIMEOUT_S)
        if not health.code:
            return
        time.sleep(_POLL_S)
