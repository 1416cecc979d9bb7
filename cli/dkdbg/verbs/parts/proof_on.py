"""Prove a run on another target: start it with `dkdbg run --on TARGET`, and attach to the port that an editor uses."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg import process, signals
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.proxy.listener import tokens
from dkdbg.core.address import is_loopback
from dkdbg.core.mapping import folder_name
from dkdbg.core.record import BadRecord
from dkdbg.core.target import Capability
from dkdbg.core.target_values import Trial
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.proof import asked, proving
from dkdbg.targets import registry
from dkdbg.targets.docker.ports import unused_port
from dkdbg.verbs.parts import proof_repair
from dkdbg.verbs.parts.init_target import command_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Target
    from dkdbg.core.target_values import AtEnd
    from dkdbg.proof.proving import Subject

#: Seconds that the program waits for a client; maximum seconds for the run to end; seconds between two polls.
_WAIT_S, _END_TIMEOUT_S, _PAUSE_S = 600, 20.0, 0.3
#: Maximum bytes of output to read; timeout in seconds of the search for interpreters.
_MAX_OUTPUT_BYTES, _TIMEOUT_S = 1 << 20, 60.0
#: States of the run's session before the client attaches; maximum bytes of the last output to show.
_LIVE_STATES, _SHOWN_BYTES = ("waiting", "running"), 20_000


def subject(root: Path, name: str, command: Sequence[str], *, sync: bool, timeout: float) -> Subject:
    """Return the subject of a proof: a run on a target that has not started yet.

    Args:
        root: the repository's root on this machine, symlinks resolved.
        name: address or name of the target.
        command: the program's words; empty for the program in dkdbg.toml or the plan.
        sync: whether to copy the local files to the target first.
        timeout: maximum seconds for the start, and for the first stop.

    Raises:
        DkdbgError: the target cannot be reached, or its code folder or the program is unknown.
    """
    argv = tuple(command) or tuple(command_of(root, None))
    with contextlib.closing(registry.target_of(name, root)) as target:
        if Capability.ATTACH_ONLY in target.capabilities:
            raise DkdbgError(
                f"{target.address} can only be attached to: dkdbg cannot start a program there",
                hint="to check a program that already runs: dkdbg why FILE:LINE --on TARGET", exit_code=EXIT_USAGE,
            )  # fmt: skip
        is_local = (
            Capability.CONTAINER not in target.capabilities and Capability.REMOTE not in target.capabilities
        )
        pairs = [(".", str(root))] if is_local else [_workspace(target, root, sync=sync)]
        host, _ = (LOOPBACK, 0) if is_local else target.listen_address()
        isolated = Capability.CONTAINER in target.capabilities and not is_loopback(host)
    token = tokens.read(os.environ) if is_local else None
    return proving.Subject(
        root=root, entry=asked.Entry(port=None, mappings=asked.absolute(root, pairs), source=f"the target {name}"),
        start=lambda report, at_end: _start(root, name, argv, is_local=is_local, sync=sync, report=report, at_end=at_end),
        target_at=lambda _: registry.target_of(name, root), around=replace(proof_repair.around(root, shlex.join(argv)), installs_from=None),
        isolated=isolated, extra={tokens.PROPERTY: token} if token else {}, timeout=timeout,
    )  # fmt: skip


def _workspace(target: Target, root: Path, *, sync: bool) -> tuple[str, str]:
    found = target.planned_workdir(folder_name(root)) if sync else target.workspace()
    return found.local, found.remote


def _start(
    root: Path,
    name: str,
    argv: Sequence[str],
    *,
    is_local: bool,
    sync: bool,
    report: Callable[[str], None],
    at_end: AtEnd,
) -> Trial:
    """Start `dkdbg run`, which copies the agent to the target and forwards a local port to it.

    On this machine (`is_local`) the agent itself gets a free port, because another session may have the usual one.
    """
    report(f"dkdbg run --on {name} -- {shlex.join(argv)}")
    before: set[str] = set()
    with contextlib.suppress(DkdbgError) if sync else contextlib.nullcontext():  # sync makes the folder
        before = {each.id for each in _sessions(root, name) if not each.is_ended}
    port, local_port = unused_port(), str(unused_port()) if is_local else ""
    flags = ("--sync",) if sync else ("--port", local_port) if is_local else ()
    run_argv = process.ourselves(
        "-C", str(root), "run", "--on", name, "--wait", str(_WAIT_S), *flags, "--attach", str(port), "--", *argv
    )  # fmt: skip
    log = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it

    @signals.ignored()
    def stop() -> None:
        log.close()
        if child.poll() is not None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(_END_TIMEOUT_S)
        except process.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise DkdbgError(
                f"{shlex.join(argv)} may still run on {name}; dkdbg ps {name} shows it"
            ) from error

    with signals.delayed():
        child = process.start(run_argv, cwd=root, stdout=log.fileno(), stderr=log.fileno(), new_session=True)
        at_end(stop)

    def output() -> str:
        size = os.fstat(log.fileno()).st_size  # pread: the child writes at the file's shared position
        return os.pread(log.fileno(), _SHOWN_BYTES, max(0, size - _SHOWN_BYTES)).decode("utf-8", "replace")

    session = [""]

    def ready(limit: float) -> bool:
        end = time.monotonic() + limit
        while time.monotonic() < end and child.poll() is None:
            with contextlib.suppress(DkdbgError):
                found = [
                    each
                    for each in _sessions(root, name)
                    if each.id not in before
                    and each.state in _LIVE_STATES
                    and each.endpoint.endswith(local_port)
                ]
                if found:
                    session[0] = max(found, key=lambda each: each.started or 0.0).id
                    return True
            time.sleep(_PAUSE_S)
        return False

    def probe(script: str) -> str:
        with contextlib.suppress(DkdbgError), contextlib.closing(registry.target_of(name, root)) as target:
            if Capability.CONTAINER in target.capabilities:  # elsewhere one may belong to another user
                return process.read(
                    target.wrap(["sh", "-c", script]), max_bytes=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S
                ).stdout
        return ""

    return Trial(
        address=name, port=port, program=tuple(argv), gpu=("none", "not asked for there"), ready=ready,
        session=lambda: session[0], ended=child.poll, output=output, probe=probe,
    )  # fmt: skip


def _sessions(root: Path, name: str) -> list[SeenSession]:
    """Return the sessions of the target. Raises DkdbgError: they cannot be read."""
    with contextlib.closing(registry.target_of(name, root)) as target:
        try:
            return target.sessions()
        except BadRecord as error:
            raise DkdbgError(f"unreadable answer from the agent on {target.label}: {error}") from error
