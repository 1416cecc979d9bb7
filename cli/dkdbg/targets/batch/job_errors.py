"""Turn error messages of a batch system's programs into errors, by a table of each system. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.core.known_errors import Known, first, line_at
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Beginning of the problem in each table.
NO_COMMANDS = "there are no commands of"


class NoCommandsError(DkdbgError):
    """The system's programs are not found; waiting does not help."""


def explain_by(known: Sequence[tuple[str, str, str]], said: str, *, job: str, node: str) -> DkdbgError | None:
    """Return the error of the first pattern that matches, with the line that it matched; None if none does.

    Args:
        known: pattern, problem and hint of each; {0} stands for the pattern's first group, {job} and {node} for the
            arguments.
        said: standard error of a program.
        job, node: job and node of the request; empty if it has none.
    """
    if (found := first((Known(*each) for each in known), said)) is None:
        return None
    (_, problem, hint, _), match = found
    groups = [printable((each or "").strip())[:200] for each in match.groups()]
    quoted = line_at(said, match.start())
    text = problem.format(*groups, job=job or "the job", node=node or "the node")
    kind = NoCommandsError if problem.startswith(NO_COMMANDS) else DkdbgError
    return kind(f"{text}\n{quoted}" if quoted not in text else text, hint=hint.format(*groups, job=job))
