"""Detects sources that have changed since the program's start, so that the editor shows other code than runs."""

from __future__ import annotations

import os

from dkdbg.agent import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List

#: Age in seconds beyond which an attach does not end a run: its results so far may be wanted.
MAX_RESTART_AGE_S = 3600.0


def own_files(paths: Iterable[str], record: contract.Record, runtime: str) -> List[str]:
    """Return the user's own files among these: below a mapped folder, else below the working directory.

    Args:
        paths: absolute. runtime: the agent's own folder, where its hook and debugpy are unpacked.
    """
    mapped = [entry["remoteRoot"] for entry in record["mappings"] if entry["exists"]]
    roots = [os.path.realpath(root) for root in mapped or [record["cwd"]]]
    ours = os.path.realpath(runtime)
    return sorted(path for path in set(paths) if _below(path, roots) and not _below(path, [ours]))


def should_restart(changed: List[str], restart: str, age: float, *, is_held: bool) -> bool:
    """Tell whether an attach restarts the program.

    Args:
        restart: one of contract.RESTART. age: age of this run, in seconds.
        is_held: a process waits for an editor, after a crash or at a `breakpoint()`: the editor attaches to see that.
    """
    return bool(changed) and restart == contract.RESTART_AUTO and age < MAX_RESTART_AGE_S and not is_held


def described(changed: List[str]) -> str:
    """Describe the changed files in one line."""
    more = " and %d more" % (len(changed) - 1) if len(changed) > 1 else ""
    was = "were" if len(changed) > 1 else "was"
    return "%s%s %s changed after the program had been started" % (os.path.relpath(changed[0]), more, was)


def note(changed: List[str], restart: str) -> str:
    """Return the message for an editor's user when the program is not restarted."""
    how = "Restart in this editor (Ctrl+Shift+F5), the task `dkdbg: restart` or `dkdbg restart`"
    if restart == contract.RESTART_NEVER:
        how = "the task `dkdbg: restart` or `dkdbg restart`"
    text = "%s: the previous code is running, and breakpoints may not stop or stop elsewhere. To run what you see: %s"
    return text % (described(changed), how)


def _below(path: str, roots: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(f"{real}/".startswith(root.rstrip("/") + "/") for root in roots if root != "/")
