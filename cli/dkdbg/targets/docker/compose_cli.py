"""Build, start and remove a compose service with `docker compose`."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.settings import ENV_TOKEN
from dkdbg.targets.docker.engine_errors import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.plan import GpuKind
    from dkdbg.targets.docker.compose import ComposeService

    #: Prints one line of progress.
    Report = Callable[[str], None]


def environment(*, port: int, gpu: GpuKind, token: str = "") -> dict[str, str]:
    """Return this process's environment with this machine's values for the compose files' variables.

    The token is passed only in the environment, not in a file or on a command line.

    For the provenance of an image, buildx runs git in the build context, with the repository's own git configuration.
    That could run programs on this machine, so BUILDX_GIT_INFO tells buildx not to run git.
    """
    variables = {"DKDBG_PORT": str(port), "DKDBG_GPU": gpu, ENV_TOKEN: token, "BUILDX_GIT_INFO": "false"}
    return {**os.environ, **variables}


def remove_with_other_token(target: ComposeService, root: Path, token: str) -> bool:
    """Remove the service if it runs with another token than `token`: compose does not compare the values of secrets.

    Raises:
        DkdbgError: it runs and cannot be removed.
    """
    held = process.run(target.wrap(("sh", "-c", 'cat "${DKDBG_TOKEN_FILE:-/dev/null}"')), cwd=root)
    if held.code or held.stdout.strip() == token:
        return False
    check(process.run(target.down(), cwd=root, timeout=120.0))
    return True


def check_project(
    target: ComposeService, root: Path, *, env: dict[str, str] | None = None
) -> dict[str, object]:
    """Return the project as merged by compose (`docker compose config`).

    Raises:
        DkdbgError: compose does not accept the project's files; the message contains compose's reason.
    """
    model: dict[str, object] = json.loads(check(process.run(target.config(), cwd=root, env=env)).stdout)
    return model


def run(
    target: ComposeService, argv: tuple[str, ...], root: Path, *, env: dict[str, str], report: Report
) -> None:
    """Run `argv`, the service's command line to build or create. Raises DkdbgError: compose failed."""
    check(process.stream(argv, cwd=root, env=env, report=report, stdin_text=target.model))


def up(
    target: ComposeService, argv: tuple[str, ...], root: Path, *, env: dict[str, str], report: Report
) -> None:
    """Start the service with `argv`, the command line from `up` or `up_unseen`.

    Raises:
        DkdbgError: the start failed; the last lines of the program's output have been reported.
    """
    result = process.stream(argv, cwd=root, env=env, report=report, stdin_text=target.model)
    if result.code and _others_have_ended(result.stderr or result.stdout) and _is_running(target, root, env):
        alone = (*(word for word in argv[:-1] if word != "--build"), "--no-deps", "--no-recreate", argv[-1])
        result = process.stream(alone, cwd=root, env=env, report=report, stdin_text=target.model)
    if result.code:
        report_last_lines(target, root, env=env, report=report)
    check(result)


def _others_have_ended(output: str) -> bool:
    """Return whether `up --wait` gave up because a container has exited with 0, as a one-shot setup container does.

    Compose waits for all services that it starts, including those in `depends_on` (docker/compose #10596).
    """
    return re.search(r"container \S+ exited \(0\)", output) is not None


def _is_running(target: ComposeService, root: Path, env: dict[str, str]) -> bool:
    return bool(process.run(target.running(), cwd=root, env=env).stdout.strip())


def report_last_lines(target: ComposeService, root: Path, *, env: dict[str, str], report: Report) -> None:
    """Report the last lines of the program's output."""
    # Some versions of compose print a code that clears the terminal's line before each line.
    tail = process.run(target.logs(), cwd=root, env=env).stdout.replace("\x1b[2K", "").strip()
    if tail:
        report("last lines of the program:\n" + "\n".join(f"  | {line}" for line in tail.splitlines()))
