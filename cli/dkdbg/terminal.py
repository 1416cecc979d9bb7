"""Lay out tables, colours and a bar for a terminal with rich. Pure: no output, and no access to a terminal.

The caller makes text printable first: rich passes escape sequences on. Its markup (`[red]`, `:smile:`) is off, so
that a container called `[link=...]` keeps its name.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rich.console import RenderableType

#: Columns for text that goes to a program or a file: no line wraps.
_UNLIMITED_COLUMNS = 100_000
_BAR_COLUMNS = 20
#: Minimum columns of a cell that wraps.
_MIN_CELL_COLUMNS = 9


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    columns: int | None = None,
    styles: Mapping[str, Mapping[str, str]] | None = None,
    whole: Collection[str] = (),
) -> list[str]:
    """Return the lines of a table.

    Args:
        rows: rows of printable cells, each as long as `header`.
        columns: width of the terminal, to which cells wrap. None without a terminal: no colours, and no line wraps.
        styles: heading -> text of a cell -> the rich style of that cell.
        whole: headings of columns to copy from, whose cells wrap only where the others would get too narrow.
    """
    widest = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    kept = {at for at, heading in enumerate(header) if heading in whole}
    needed = sum(
        widest[at] if at in kept else min(_MIN_CELL_COLUMNS, widest[at]) for at in range(len(header))
    )
    has_room = columns is None or needed + 2 * (len(header) - 1) <= columns
    made = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="" if columns is None else "bold"
    )
    for at, heading in enumerate(header):
        made.add_column(Text(heading), overflow="fold", no_wrap=has_room and at in kept)
    for row in rows:
        chosen = [
            (styles or {}).get(heading, {}).get(cell, "") for heading, cell in zip(header, row, strict=True)
        ]
        made.add_row(*(Text.assemble((cell, style)) for cell, style in zip(row, chosen, strict=True)))
    return [line.rstrip() for line in _rendered(made, columns).splitlines()]


def coloured(word: str, style: str) -> str:
    """Return a word in a rich style, for a terminal."""
    return _rendered(Text.assemble((word, style)), _UNLIMITED_COLUMNS)


def bar(share: float, text: str, columns: int) -> str:
    """Return a progress bar and the text beside it, as one line of a terminal.

    Args:
        share: from 0 to 1.
    """
    drawn = _rendered(ProgressBar(total=1.0, completed=share, width=_BAR_COLUMNS), columns)
    return f"{drawn} {cropped(text, columns - _BAR_COLUMNS - 1)}"


def cropped(text: str, columns: int) -> str:
    """Return as much of a line as fits; wide characters take two columns."""
    return text if cell_len(text) <= columns else set_cell_size(text, max(0, columns))


def _rendered(what: RenderableType, columns: int | None) -> str:
    out = io.StringIO()
    # rich obeys NO_COLOR, TERM and COLORTERM only with `force_terminal`.
    console = Console(
        file=out, force_terminal=columns is not None, width=columns or _UNLIMITED_COLUMNS, markup=False, emoji=False,
        highlight=False, legacy_windows=False,
    )  # fmt: skip
    console.print(what, end="")
    return out.getvalue()
