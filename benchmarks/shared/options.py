"""The command line that all benchmarks share: `--smallest`, and the programs that a benchmark cannot do without."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows a benchmark's docstring as its help text."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def parse(
    command: argparse.ArgumentParser, needs: Sequence[str] = (), **smallest: object
) -> argparse.Namespace:
    """Parse the command line; exit with an error if a needed program is missing.

    Args:
        command: the benchmark's parser, with all of its own options.
        needs: names of programs that have to be on PATH.
        smallest: the values that `--smallest` gives to options that are not on the command line.
    """
    command.add_argument(
        "--smallest",
        action="store_true",
        help="one run with the fewest iterations: it works, its figures mean nothing",
    )
    if "--smallest" in sys.argv[1:]:
        command.set_defaults(**smallest)
    options = command.parse_args()
    for each in needs:
        if shutil.which(each) is None:
            command.error(f"{each} is not installed, and this benchmark needs it")
    return options


def rival(program: str) -> str:
    """Return the path of a program to compare with; without it, print a line that says so and return ''."""
    found = shutil.which(program)
    if found is None:
        print(f"left out: no {program}", flush=True)
    return found or ""
