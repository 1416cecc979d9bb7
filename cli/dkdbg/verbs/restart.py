"""`dkdbg restart`: restart the program in place; the attached editor stays.

If that is impossible, for example after the program has ended, restart the debug service's container.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.core import sessions
from dkdbg.core.known_errors import last_line
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.targets import registry
from dkdbg.verbs.parts.repository import check_root, debug_service

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Target
    from dkdbg.verbs.parser import Parser

#: Maximum seconds for an agent to notice that its program has ended.
_END_TIMEOUT_S = 3.0


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg restart`."""
    parser.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")


def call(options: argparse.Namespace, root: Path) -> int:
    """Let the target's agent restart the program; return the exit code.

    Raises:
        DkdbgError: no program runs there, or it was not restarted.
    """
    name = options.target
    if name is None:
        check_root(root, "restart")
        service = debug_service(root, starts=True)
        target = registry.home(root, service.name)
        with contextlib.closing(target):
            if replaced := target.replaced():
                files = ", ".join(map(printable, replaced))
                return _start_again(
                    root,
                    target,
                    f"{files} is mounted as a single file, and was replaced after the container started",
                )
            which = _which(target, None)
            failure = _failure(root, target, which) if which else "its agent is gone"
            if failure and not _has_ended(target):
                raise _not_restarted(target, failure)
            return _start_again(root, target, f"its program had ended ({failure})") if failure else 0
    with contextlib.closing(registry.target_of(name, root)) as target:
        if failure := _failure(root, target, _which(target, name)):
            raise _not_restarted(target, failure)
        return 0


def _not_restarted(target: Target, failure: str) -> DkdbgError:
    return DkdbgError(
        f"{target.label} was not restarted: {failure}",
        hint=f"dkdbg ps {target.address} shows what runs there",
    )


def _failure(root: Path, target: Target, which: Sequence[str]) -> str:
    """Let the agent on the target restart the program; return why it did not, or "" if it did."""
    result = process.run(target.wrap([*target.running_agent(), "restart", *which]), cwd=root)
    if not result.code:
        console.say(f"{target.label}: {result.stdout.strip().removeprefix('dkdbg: ')}")
        return ""
    last = (
        last_line(result.stderr) or last_line(result.stdout) or f"{result.argv[0]} ended with {result.code}"
    )
    return last.removeprefix("dkdbg: ").removeprefix("not restarted: ")


def _start_again(root: Path, target: Target, why: str) -> int:
    target.start_again()
    # Until the agent listens, an editor that attaches is disconnected; so wait, unless the program has ended.
    process.run(target.wrap([*target.running_agent(), "health", "--wait"]), cwd=root)
    console.say(f"{target.label}: its container is restarted, so editors must attach again: {why}")
    return 0


def _which(target: Target, name: str | None) -> list[str]:
    """Return the option that names the session; without it, the agent would restart the newest one.

    Raises:
        DkdbgError: several sessions fit, or the container is paused.
    """
    found = target.sessions()
    seen = list(filter(_is_live, found))
    if not seen:  # no session is known: the agent reports that
        if paused := next((each for each in found if each.state == sessions.PAUSED), None):
            raise DkdbgError(f"{target.label} was not restarted", hint=paused.detail)
        return []
    return ["--name", sessions.choose(seen, name, naming="dkdbg restart {}".format).id]


def _is_live(seen: SeenSession) -> bool:
    return not seen.is_ended and seen.started is not None


def _has_ended(target: Target) -> bool:
    """Return whether no program runs on the target; give its agent time to notice an end."""
    end = time.monotonic() + _END_TIMEOUT_S
    while any(each.state != "idle" for each in filter(_is_live, target.sessions())):
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True
