"""Query several targets; a target that cannot be queried is reported beside the answers of the others."""

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
    """Why a target cannot be queried: the first line of the error; `hint` is the error's hint."""

    __slots__ = ("hint",)
    hint: str


def query(
    targets: Iterable[S],
    ask: Callable[[S], Iterable[T]],
    missing: dict[str, str],
    *,
    name: Callable[[S], str] = str,
) -> list[T]:
    """Return the results of `ask` for all targets; record in `missing`, by `name`, why a target cannot be queried.

    Raises:
        DkdbgError: no target can be queried (the first target's error), or a target is invalid (EXIT_USAGE).
    """
    found: list[T] = []
    first: tuple[str, DkdbgError] | None = None
    has_answer = False
    for each in targets:
        try:
            found += ask(each)
            has_answer = True
        except DkdbgError as error:  # noqa: PERF203 - one failing target must not hide the others
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
    """Print why each target in `missing` cannot be queried, with its hint."""
    for name, reason in missing.items():
        is_named = reason.startswith((f"{name} ", f"{name}:"))
        text = printable(reason if is_named else f"{name} cannot be queried: {reason}")
        console.failure(DkdbgError(text, hint=reason.hint if isinstance(reason, Reason) else ""))
