"""`dkdbg completion SHELL`: print a script by which argcomplete completes command lines, and dkdbg.toml's targets."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import argcomplete
from argcomplete.shell_integration import shellcode

from dkdbg import console
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg completion`."""
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help='eval "$(dkdbg completion bash)", ... fish | source'
    )


def call(options: argparse.Namespace, _root: Path) -> int:
    """Print the text that a shell's start file has to evaluate; return the exit code."""
    console.say(shellcode(["dkdbg"], shell=options.shell))
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Print completions and exit, if a shell started this process for them; otherwise return."""
    for each in _typed(parser):
        for action in each._actions:  # noqa: SLF001 - argcomplete reads them, too
            if action.metavar == "TARGET":
                action.completer = _targets  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _typed(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of the typed verb only, because accessing a parser loads its module."""
    words = os.environ.get("COMP_LINE", "").split()
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from (action.choices[name] for name in action.choices if name in words)


def _targets(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the names of targets in dkdbg.toml, and the schemes of addresses."""
    try:
        names = [*registry.names(Path(parsed_args.directory).resolve())]
    except (DkdbgError, OSError):  # the verb itself reports the error
        names = []
    return [*names, *(f"{each.scheme}://" for each in registry.ENTRIES if "://" in each.form)]
