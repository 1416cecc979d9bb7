"""Query several targets; name the targets that cannot be queried beside the others' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dkdbg import console
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    S = TypeVar("S")
    T = TypeVar("T")


class Reason(str):
    """Why a target cannot be queried: the first line of an error, with its hint."""

    __slots__ = ("hint",)
    hint: str


def query(
    targets: Iterable[S],
    ask: Callable[[S], Iterable[T]],
    missing: dict[str, str],
    *,
    name: Callable[[S], str] = str,
) -> list[T]:
    """Return what `ask` returns for all targets; note in `missing`, by `name`, why some cannot be queried.

    Raises:
        DkdbgError: no target can be queried (the first one's error), or a target is invalid (EXIT_USAGE).
    """
    found: list[T] = []
    first: tuple[str, DkdbgError] | None = None
    has_answer = False
    for each in targets:
        try:
            found += ask(each)
            has_answer = True
        except DkdbgError as error:  # noqa: PERF203 - each target on its own
            if error.exit_code == EXIT_USAGE:
                raise
            first = first or (name(each), error)
            missing[name(each)] = reason = Reason(error.message.splitlines()[0])
            reason.hint = error.hint
    if first is not None and not has_answer:
        warn({key: reason for key, reason in missing.items() if key != first[0]})
        raise first[1]
    return found


def warn(missing: Mapping[str, str]) -> None:
    """Print why targets cannot be queried, each with its hint."""
    for name, reason in missing.items():
        is_named = reason.startswith((f"{name} ", f"{name}:"))
        text = printable(reason if is_named else f"{name} cannot be queried: {reason}")
        console.failure(DkdbgError(text, hint=reason.hint if isinstance(reason, Reason) else ""))
