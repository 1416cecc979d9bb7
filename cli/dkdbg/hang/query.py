"""Query all targets in parallel for the stacks of their processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.state import deadlines
from dkdbg.core import stacks
from dkdbg.core.known_errors import last_line
from dkdbg.core.record import BadRecord
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.stacks import Session
    from dkdbg.core.target import Target

#: Maximum bytes of an answer; timeout of a query in seconds, without and with native frames (C, C++); maximum number
#: of parallel queries.
_MAX_ANSWER_BYTES, _TIMEOUT_S, _NATIVE_TIMEOUT_S, _MAX_PARALLEL = 64 << 20, 20.0, 120.0, 32


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A query to one target.

    Attributes:
        label: the target's name in sessions and messages.
        ids: sessions to query; empty for all.
        waiting: names of sessions whose program has not started because it waits for an editor.
    """

    target: Target
    label: str
    ids: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def ask(wanted: Sequence[Wanted], *, native: bool) -> tuple[list[Session], dict[str, str]]:
    """Query the targets in parallel; return their sessions, and the reason for each target that failed."""
    found: list[Session] = []
    missing: dict[str, str] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=_MAX_PARALLEL) as pool:
        asked = [(each, pool.submit(_ask, each, native=native)) for each in wanted]
        for each, future in asked:
            try:
                found += future.result()
            except DkdbgError as error:  # noqa: PERF203 - one failing target must not hide the others
                missing[each.label] = error.message.splitlines()[0]
    return found, missing


def _ask(wanted: Wanted, *, native: bool) -> list[Session]:
    with contextlib.closing(wanted.target) as target:
        agent = target.running_agent()
        arguments = ["where", *(["--native"] if native else [])]
        for each in wanted.ids:
            arguments += ["--name", each]
        done = process.read(
            target.wrap([*agent, *arguments]),
            max_bytes=_MAX_ANSWER_BYTES,
            timeout=_NATIVE_TIMEOUT_S if native else _TIMEOUT_S,
        )
        beside = target.deadlines()
    if done.code:
        text = last_line(done.stderr).removeprefix("dkdbg: ") or f"its agent ended with exit code {done.code}"
        if "usage" in done.stderr:
            text = "its agent is older than dkdbg where: restart the program under this dkdbg"
        raise DkdbgError(f"{wanted.label}: {text}")
    try:
        found = stacks.parse(done.stdout, target=wanted.label, address=str(target.address))
        return [replace(each, deadlines=tuple(deadlines.merged(beside, each.deadlines))) for each in found]
    except BadRecord as error:
        raise DkdbgError(f"{wanted.label}: its agent's answer cannot be understood: {error}") from error
