"""`dkdbg run -- CMD` in a repository that is set up: run a command instead of the debug service's own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dkdbg import console, hints, process, signals
from dkdbg.core.target import Capability
from dkdbg.core.target_values import Once
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.repository.dotenv import local_port
from dkdbg.setup.render.editor_files import launch_port
from dkdbg.targets import registry
from dkdbg.verbs.parts.service_token import choose_token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.plan import DebugService


def run_in_service(
    root: Path, service: DebugService, command: Sequence[str], *, port: int | None, wait: int, ranks: str
) -> int:
    """Run `command` with the debug service's image, mounts and environment; return its exit code.

    No file changes, and a running debug service is left alone. Terminating signals are passed on to the command.

    Args:
        root: absolute, symlinks resolved.
        service: the debug service that `init` wrote.
        command: list of words, as `program` returns it.
        port: local port; None for the launch entry's.
        wait: seconds for which the command waits for an editor before its first line.
        ranks: ranks to debug; empty for the service's own setting.

    Raises:
        DkdbgError: the command cannot run, with the cause and what to do next.
    """
    target = registry.home(root, service.name)
    if Capability.ONE_OFF not in target.capabilities:
        raise DkdbgError(
            f"{target.address} cannot run another command",
            hint="dkdbg up runs its configured program",
            exit_code=EXIT_USAGE,
        )
    wished = port or launch_port(root) or local_port(root, service.port)
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    wanted = Once(
        service=service, token=lambda: choose_token(service, report=console.warn), command=program(command), port=wished,
        wait=wait, ranks=ranks, tty=tty,
    )  # fmt: skip
    prepared = target.once(wanted, report=console.warn)
    console.warn(f"dkdbg: in the service {service.name} (--on local: runs it on this machine instead)")
    if prepared.port != wished:
        console.warn(f"dkdbg: {hints.PORT_TAKEN(wished=wished, port=prepared.port)}")
    elif prepared.is_met:
        console.warn(f"dkdbg: press F5 to attach to it, on port {prepared.port}")
    else:
        console.warn(f"dkdbg: {hints.ATTACH_WITH(target=f'127.0.0.1:{prepared.port}')}")

    def tell(number: int) -> None:
        if not prepared.tell(number):
            raise KeyboardInterrupt  # the command has not started: give up

    try:
        return process.attached(prepared.argv, tty=tty, on_signal=tell, cwd=root, env=prepared.environment)
    finally:
        with signals.ignored():
            process.run(prepared.cleaning, cwd=root)


def program(command: Sequence[str]) -> tuple[str, ...]:
    """Complete a command line: run `train.py` and `-m package` with Python, a notebook with Jupyter.

    Args:
        command: words as typed, at least one.
    """
    first, rest = command[0], tuple(command[1:])
    if first in {"-m", "-c"} or first.endswith(".py"):
        return ("python3", first, *rest)
    if first.endswith(".ipynb"):
        return ("jupyter", "execute", first, *rest)
    return (first, *rest)
