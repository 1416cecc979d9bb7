"""Validate an agent's answers about the ranks of a session: the program may have written any part of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker import comparing
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from dkdbg.agent.inprocess.ranks import RankSet

#: Maximum bytes of an answer, and maximum number of its rows, characters of a text and frames of a stack.
MAX_ANSWER_BYTES = 64 << 20
ROWS, LONGEST, FRAMES = 4096, 30000, 200
_STATES = frozenset({"value", "error", "running", "no answer", "not attached", "done"})
_TENSOR_TEXTS = ("text", "shape", "dtype", "digest")

Row = dict[str, Any]
#: Hint for an agent and a dkdbg of incompatible versions.
_OTHER_VERSION = (
    "restart the program under this dkdbg; for a debug service: dkdbg init, dkdbg down, then dkdbg up"
)


def rank_set(text: str) -> RankSet:
    """Return the set of ranks in a value of --ranks. Raises DkdbgError: the value is invalid."""
    try:
        return ranks.parse(text)
    except ranks.RankSetError as error:
        raise DkdbgError(f"--ranks: {error}", hint=error.hint, exit_code=EXIT_USAGE) from error


def rows_of(stdout: str, label: str) -> list[Row]:
    """Return the rows of an answer.

    Args:
        stdout: output of the agent.
        label: its source, for messages.

    Raises:
        DkdbgError: the agent refused, or its answer is invalid.
    """
    try:
        answer = json.loads(stdout)
        found = answer.get("rows") if isinstance(answer, dict) else None
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            hint = answer.get("hint")
            raise DkdbgError(
                f"{label}: {answer['error'][:LONGEST]}",
                hint=hint if isinstance(hint, str) else _OTHER_VERSION,
            )
        if not isinstance(found, list):
            raise TypeError("no rows")
        return [_row(each) for each in found[:ROWS]]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise DkdbgError(
            f"{label}: unexpected answer of its agent",
            hint=_OTHER_VERSION,
        ) from error


def _row(answer: Any) -> Row:  # noqa: ANN401 - untrusted
    if answer["state"] not in _STATES:
        raise ValueError("no state")
    row: Row = {
        "pid": int(answer["pid"]),
        "rank": None if answer["rank"] is None else int(answer["rank"]),
        "state": answer["state"],
        **{name: str(answer[name])[:LONGEST] for name in ("name", "where", "text", "type")},
    }
    if isinstance(answer.get("frames"), list):
        row["frames"] = [
            {"name": str(each["name"])[:200], "path": str(each["path"])[:4096], "line": int(each["line"])}
            for each in answer["frames"][:FRAMES]
        ]
    if isinstance(answer.get("tensor"), dict):
        tensor: Row = {name: str(answer["tensor"].get(name, ""))[:LONGEST] for name in _TENSOR_TEXTS}
        row["tensor"] = {**tensor, **comparing.figures(answer["tensor"])}
    return row
