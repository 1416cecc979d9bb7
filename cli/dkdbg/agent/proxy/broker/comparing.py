"""Compares the answers of many processes as text: marks differences and shows the spread of numbers. Pure.

The agent prints the table in an editor's Debug Console, and `dkdbg ranks` in a terminal. All values come from the
program, so unprintable characters are escaped.
"""

from __future__ import annotations

import collections
import math
import re

from dkdbg.agent import console
from dkdbg.agent.inprocess import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    Row = Dict[str, Any]

#: Maximum rows that are shown one by one; with more, equal rows are grouped.
MAX_SINGLE_ROWS = 16
#: Maximum characters of a value in a row.
MAX_WIDTH = 200
#: Numeric fields of a tensor; integers from _MAX_INTEGER on are left out.
_FIGURES = ("norm", "mean", "low", "high", "nan", "inf", "count", "read")
_MAX_INTEGER = 1e300
_NUMBER = re.compile(r"(?:np\.\w+\()?([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))\)?", re.IGNORECASE)


def figures(answer: Dict[str, Any]) -> Dict[str, float]:
    """Return the numeric fields of a tensor that `%g` can format: JSON has integers larger than any float."""
    numbers = {name: answer[name] for name in _FIGURES if type(answer.get(name)) in (int, float)}
    return {
        name: each for name, each in numbers.items() if isinstance(each, float) or abs(each) < _MAX_INTEGER
    }


def key_of(row: Row) -> Tuple[str, ...]:
    """Return a key that is equal for equal values: for a tensor its shape, type and digest."""
    if row["state"] != "value":
        return (row["state"], row["text"])
    tensor = row.get("tensor")
    if tensor and tensor.get("digest"):
        return ("tensor", tensor.get("shape", ""), tensor.get("dtype", ""), tensor["digest"])
    if row.get("frames"):
        return ("stack", *("%s:%s" % (each["path"], each["line"]) for each in row["frames"]))
    return ("value", row["text"])


def number_of(row: Row) -> Optional[float]:
    """Return the value as a number, None if it is not one; a tensor of one element is a number."""
    if row["state"] != "value" or row["type"] in ("str", "bool"):
        return None
    tensor = row.get("tensor")
    if tensor:
        if tensor.get("count") != 1 or tensor.get("read") != 1:
            return None
        if tensor.get("nan"):
            return math.nan
        return None if tensor.get("inf") else float(tensor.get("low", math.nan))
    found = _NUMBER.fullmatch(row["text"].strip())
    return float(found.group(1)) if found else None


def majority(rows: Sequence[Row]) -> Optional[Tuple[str, ...]]:
    """Return the key that more than half of the rows with a value share; None without a majority."""
    keys = [key_of(row) for row in rows if row["state"] == "value"]
    if not keys:
        return None
    best, count = collections.Counter(keys).most_common(1)[0]
    return best if 2 * count > len(keys) else None


def summary(rows: Sequence[Row]) -> Dict[str, Any]:
    """Return the summary of all rows: `answers`, `same`, `differ` (labels), for numbers `min`, `max`, `spread`, `mean`."""
    values = [row for row in rows if row["state"] == "value"]
    majority_key = majority(values)
    found: Dict[str, Any] = {
        "answers": len(values),
        "same": bool(values) and len({key_of(row) for row in values}) == 1,
        "differ": [label(row) for row in values if majority_key is not None and key_of(row) != majority_key],
    }
    numbers = [
        (number, row) for number, row in ((number_of(row), row) for row in values) if number is not None
    ]
    finite = [(number, row) for number, row in numbers if math.isfinite(number)]
    if finite and len(numbers) == len(values):
        low, high = min(finite, key=lambda each: each[0]), max(finite, key=lambda each: each[0])
        found.update(min=low[0], max=high[0], spread=high[0] - low[0])
        found.update(mean=sum(number for number, _ in finite) / len(finite))
        found.update(min_at=label(low[1]), max_at=label(high[1]))
    return found


def table(rows: Sequence[Row], *, frames: bool = False) -> str:
    """Return the rows as text, differences marked, then the summary; `frames` shows whole stacks."""
    if not rows:
        return "no such process"
    majority_key = majority(rows)
    lines = [(label(row), row) for row in rows]
    if len(rows) > MAX_SINGLE_ROWS or frames:
        lines = _together(rows)
    width = min(40, max(len(name) for name, _ in lines))
    at = min(40, max(len(row["where"]) for _, row in lines))
    shown: List[str] = []
    for name, row in lines:
        suffix = (
            "  <- differs"
            if row["state"] == "value" and majority_key is not None and key_of(row) != majority_key
            else ""
        )
        cells = [clean(name).ljust(width), clean(row["where"]).ljust(at), _text(row) + suffix]
        shown.append("  ".join(word for word in cells if word.strip()).rstrip())
        if frames:
            shown += [
                "    %s  %s:%d" % (clean(each["name"]), clean(each["path"]), each["line"])
                for each in row.get("frames", ())
            ]
    return "\n".join(shown + ([] if frames else _of_all(rows)))


def label(row: Row) -> str:
    """Return a row's label: its rank, else its name, and the target if several were queried."""
    name = "rank %d" % row["rank"] if isinstance(row.get("rank"), int) else str(row["name"])
    return "%s on %s" % (name, row["on"]) if row.get("on") else name


def clean(text: object) -> str:
    """Return a text as one line of bounded length, with unprintable characters escaped."""
    line = console.printable(" ".join(str(text)[: MAX_WIDTH * 8].split()))
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 3] + "..."


def _together(rows: Sequence[Row]) -> List[Tuple[str, Row]]:
    """Group equal rows; return the label and the first row of each group, the rarest group first."""
    groups: Dict[Tuple[str, ...], List[Row]] = {}
    for row in rows:
        groups.setdefault((row["where"], *key_of(row)), []).append(row)
    ordered = sorted(groups.values(), key=len)
    return [(_labels(group), group[0]) for group in ordered]


def _labels(group: Sequence[Row]) -> str:
    numbers = sorted(row["rank"] for row in group if isinstance(row.get("rank"), int) and not row.get("on"))
    if len(group) == 1 or len(numbers) != len(group):
        return ", ".join(label(row) for row in group)
    return "ranks " + ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in ranks.spans(numbers))


def _text(row: Row) -> str:
    tensor = row.get("tensor")
    if tensor and tensor.get("digest") and tensor.get("count") != 1:
        return "%s  norm %.6g  #%s" % (
            clean(row["text"]),
            tensor.get("norm", math.nan),
            clean(tensor["digest"]),
        )
    if row["state"] in ("value", "done"):
        return clean(row["text"])
    if row["state"] == "error":
        return "! " + clean(row["text"])
    return "(%s)" % clean(row["text"] or row["state"])


def _of_all(rows: Sequence[Row]) -> List[str]:
    found = summary(rows)
    if found["answers"] < 2:
        return []
    lines: List[str] = []
    if "spread" in found and not found["same"]:
        text = "min %.6g (%s), max %.6g (%s), spread %.6g, mean %.6g"
        lines.append(
            text % (found["min"], clean(found["min_at"]), found["max"], clean(found["max_at"]), found["spread"], found["mean"])
        )  # fmt: skip
    if found["same"]:
        lines.append("all %d the same" % found["answers"])
    elif not found["differ"] and "spread" not in found:
        keys = [key_of(row) for row in rows if row["state"] == "value"]
        lines.append("no two of them agree" if len(set(keys)) == len(keys) else "no value has a majority")
    return lines
