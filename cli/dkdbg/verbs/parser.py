"""argparse with dkdbg's errors and suggestions; accepts `--on TARGET` for a positional TARGET."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NoReturn

from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises DkdbgError.

    Attributes:
        shows_batch_systems: whether the help describes TARGET as a batch system.
    """

    shows_batch_systems = False

    def error(self, message: str, *, near: str = "") -> NoReturn:
        """Raise DkdbgError; its hint suggests `near`, the closest valid word."""
        unknown = _CHOICE.search(message)
        if unknown is not None:
            kind = "verb" if "VERB" in message else "choice"
            known = re.findall(r"[\w-]+", unknown[2])
            near = nearest(unknown[1], known)
            message = f"there is no {kind} {unknown[1]!r}" + (
                f"; there are {', '.join(known)}" if kind != "verb" else ""
            )
            if near:
                near = f"{self.prog} {near}"
        hint = f"did you mean {near}? " if near else ""
        raise DkdbgError(message, hint=f"{hint}{self.prog} --help lists the options", exit_code=EXIT_USAGE)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, and accept `--on TARGET` for a positional TARGET."""
        if args is not None and any(each.metavar == "TARGET" for each in self._get_positional_actions()):
            args = self._target_first(args)
        return super().parse_known_args(args, namespace)

    def _target_first(self, argv: Sequence[str]) -> list[str]:
        """Return `argv` with the values of `--on` first, where TARGET is expected."""
        named, others, left = [], [], iter(argv)
        for word in left:
            option, has_value, value = word.partition("=")
            if option != "--on":
                others.append(word)
                continue
            value = value if has_value else next(left, "-")
            if value.startswith("-"):
                self.error("argument --on: expected one argument")
            named.append(value)
        return [*named, *others]

    def format_help(self) -> str:
        """Return the usual help with the forms of a TARGET. Only here are the kinds of targets loaded."""
        if self.epilog is None and any(action.metavar == "TARGET" for action in self._actions):
            from dkdbg.targets import registry

            self.epilog = (
                registry.batch_help()
                if self.shows_batch_systems
                else f"TARGET is the name of a target in dkdbg.toml, a service, a container or a session, or {registry.forms()}."
            )
        return super().format_help()


#: argparse's message about a word that is not one of the choices.
_CHOICE = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word closest to `word`; empty if no other is similar."""
    from difflib import get_close_matches

    word = word.partition("=")[0]  # without the value of `--option=value`
    found = get_close_matches(word, [each for each in known if each != word], n=1, cutoff=0.6)
    return found[0] if found else ""
