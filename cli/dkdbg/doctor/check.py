"""Rows of the table of checks, and their findings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dkdbg.doctor.situation import Situation

#: error: something that was set up does not work; warning: it may fail; note: explains surprising behaviour.
Severity: TypeAlias = Literal["error", "warning", "note"]
#: Values for the `{...}` fields in a check's `cause` and `next`. A value named `severity` overrides the check's own.
Values: TypeAlias = "Mapping[str, object]"
_Read: TypeAlias = "Callable[[Situation], Iterable[Values]]"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row of the table of checks.

    Attributes:
        name: stable name, for `--json` and bug reports.
        severity: severity of its findings.
        read: function that returns the values of each finding, none on a healthy machine. It reads only the
            `Situation`.
        cause: what is wrong, with a `{...}` field for each value.
        next: the exact command to type, or the line to change, with fields as in `cause`.
        safe: whether `--fix` may run `next`, a command line of dkdbg that asks before it writes.
    """

    name: str
    severity: Severity
    read: _Read
    cause: str
    next: str
    safe: bool = False


#: All checks; `table` imports the modules that add them.
CHECKS: list[Check] = []


def _check(
    severity: Severity, name: str, cause: str = "{message}", todo: str = "{hint}", *, safe: bool = False
) -> Callable[[_Read], _Read]:
    """Return a decorator that adds a check to CHECKS; the decorated function becomes its `read`."""

    def add(read: _Read) -> _Read:
        CHECKS.append(Check(name=name, severity=severity, read=read, cause=cause, next=todo, safe=safe))
        return read

    return add


error, warning, note = partial(_check, "error"), partial(_check, "warning"), partial(_check, "note")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem that a check has found: the check's attributes, with values in the fields of `cause` and `next`."""

    check: str
    severity: Severity
    cause: str
    next: str
    safe: bool = False


def examine(checks: Iterable[Check], situation: Situation) -> list[Finding]:
    """Return the findings of all checks, errors first."""
    found = [
        Finding(
            check=check.name,
            severity=cast("Severity", values.get("severity", check.severity)),
            cause=check.cause.format_map(values),
            next=check.next.format_map(values),
            safe=check.safe,
        )
        for check in checks
        for values in check.read(situation)
    ]
    order = ("error", "warning", "note")
    return sorted(found, key=lambda each: order.index(each.severity))
