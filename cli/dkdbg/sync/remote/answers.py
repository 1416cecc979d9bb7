"""Validates a receiver's answers on arrival: a container may run another program in its place. Pure.

A valid answer has the fields, types and ranges that other modules rely on; paths in listings stay below the
root, and texts for users are bounded.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.sync.receiver import paths, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Maximum entries of all listings, and maximum characters of their texts, beyond what the local index accounts for.
MAX_ENTRIES, MAX_CHARACTERS = 200_000, 32_000_000

_LISTINGS = (wire.LISTING, wire.STATS, wire.REMOTE)
_PATH, _STAMP, _NAME, _REASON = 16_000, 300, 200, 1000
_PROBE = re.compile(re.escape(paths.OWN) + "/probe-[0-9a-f]{32}")
_DIGEST, _DIGITS = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]*")
#: Types of path, kind, mode, size, digest and stamp.
_ENTRY, _KINDS = [{str}, {str}, {int}, {int}, {str}, {str}], frozenset("fdl")
_SIZE, _TIME = 1 << 60, 1 << 63


class Amount:
    """Counts the entries of listings, and raises an error for too many.

    Args:
        known: number of local entries. The limit is twice this number plus `MAX_ENTRIES`.
        hint: advice in the error, for a target that really has so many entries.
    """

    def __init__(self, *, known: int = 0, hint: str = "") -> None:
        self._max_entries = MAX_ENTRIES + 2 * known
        self._entries, self._characters = self._max_entries, MAX_CHARACTERS + 500 * known
        self._hint = hint

    def add(self, entries: list[wire.Entry]) -> None:
        """Count one frame. Raises DkdbgError: the limit is exceeded."""
        self._entries -= len(entries)
        self._characters -= sum(sum(map(len, map(itemgetter(text), entries))) for text in (0, 4, 5))
        if self._entries < 0 or self._characters < 0:
            raise DkdbgError(
                f"the target lists more than {self._max_entries:,} files and folders, or names that are too long",
                hint=self._hint,
            )


def entries(take: Callable[[], wire.Frame], amount: Amount) -> Iterator[wire.Entry]:
    """Yield the entries of one answer; each call of `take` returns its next frame."""
    while True:
        _, head, _ = take()
        amount.add(head["entries"])
        yield from head["entries"]
        if head.get("end", True):
            return


def check(kind: int, head: dict[str, Any], body: bytes) -> None:
    """Check one frame, and shorten long texts for users. Raises DkdbgError: our receiver never sends such a frame."""
    if kind not in _NUMBERS and kind not in _LOOKS:
        raise not_our_receiver(f"it sent {wire.NAMES[kind]}, which only the host may send")
    if bool(body) != (kind == wire.DATA):
        raise not_our_receiver(f"{wire.NAMES[kind]} with a body of {len(body)} bytes")
    try:
        if kind in {wire.FAILED, wire.ERROR}:
            head.update({"reason": "", "hint": "", **head})
        for name, least in _NUMBERS.get(kind, {}).items():
            _integer(head, name, least)
        for name, max_chars in _TEXTS.get(kind, {}).items():
            _text(head, name, max_chars)
        if kind in _LOOKS:
            _LOOKS[kind](head)
    except (KeyError, TypeError, ValueError) as error:
        raise not_our_receiver(f"{wire.NAMES[kind]}: {error}") from None


def not_our_receiver(what: str) -> DkdbgError:
    """Return the error for behaviour that our receiver never shows."""
    return DkdbgError(
        f"the program on the target is not the receiver that was sent: {printable(what[:_REASON])}",
        hint="nothing more was sent or written; check whether you can trust that target",
    )


def _entries(head: dict[str, Any]) -> None:
    entries, end = head["entries"], head.get("end", True)
    if type(entries) is not list or type(end) is not bool or len(entries) > wire.LISTING_ENTRIES:
        raise TypeError("no list of entries")
    if not entries and not end:
        raise ValueError("an empty list that is not the last")
    if not entries:
        return
    if set(map(type, entries)) != {list} or set(map(len, entries)) != {6}:
        raise TypeError("an entry is not a list of six values")
    columns = list(zip(*entries, strict=True))  # checking entry by entry would be too slow
    if [set(map(type, column)) for column in columns] != _ENTRY:
        raise TypeError("an entry has a value of the wrong type")
    names, kinds, modes, sizes, digests, stamps = columns
    if max(map(len, names)) > _PATH or not paths.is_plain("/".join(names)):
        raise ValueError(f"not a path below the root: {next(filter(_is_bad, names))!r:.200}")
    if not _KINDS.issuperset(kinds):
        raise ValueError(f"unknown kind: {next(kind for kind in kinds if kind not in _KINDS)!r:.20}")
    if min(modes) < 0 or max(modes) > 0o777 or min(sizes) < 0 or max(sizes) >= _SIZE:
        raise ValueError("mode or size out of range")
    if not {0, 64}.issuperset(map(len, digests)) or not _DIGITS.fullmatch("".join(digests)):
        raise ValueError("no digest")
    if max(map(len, stamps)) > _STAMP:
        raise ValueError("no stamp")


def _is_bad(path: str) -> bool:
    return len(path) > _PATH or not paths.is_plain(path)


def _ready(head: dict[str, Any]) -> None:
    if _integer(head, "version", 0) != wire.VERSION:
        return  # `contact` reports it
    for name in ("python", "user"):
        _text(head, name, _NAME)
    _text(head, "root", _PATH)
    probe = head.get("probe") or ""
    if type(probe) is not str or (probe and not _PROBE.fullmatch(probe)):
        raise ValueError("the probe has an invalid name")
    if type(head["empty"]) is not bool:
        raise TypeError("empty")
    _text(head, "former", _PATH)
    mounts = head["mounts"]
    if type(mounts) is not list or len(mounts) > wire.MAX_MOUNTS or not {str}.issuperset(map(type, mounts)):
        raise TypeError("mounts is not a list of mount points")


def _end(head: dict[str, Any]) -> None:
    if type(head["digest"]) is not str or not _DIGEST.fullmatch(head["digest"]):
        raise ValueError("no digest")


def _integer(head: dict[str, Any], name: str, least: int) -> int:
    value = head[name]
    if type(value) is not int or not least <= value < _TIME:
        raise ValueError(f"{name} is {value!r:.60}")
    return value


def _text(head: dict[str, Any], name: str, max_chars: int) -> None:
    value = head[name]
    if type(value) is not str:
        raise TypeError(f"{name} is not text")
    if len(value) > max_chars:
        head[name] = value[:max_chars] + "..."


#: Numbers in heads, with their minimum.
_NUMBERS: dict[int, dict[str, int]] = {
    wire.DONE: {"upto": 0}, wire.RESUME: {"id": 0, "offset": 0}, wire.FAILED: {"id": 0}, wire.ERROR: {}, wire.KEPT: {},
    wire.FILE: {"size": 0, "mode": 0, "mtime_ns": -_TIME}, wire.DATA: {}, wire.PONG: {},
}  # fmt: skip
#: Texts in heads, with their maximum characters.
_TEXTS = {
    wire.FAILED: {"reason": _REASON, "hint": _REASON}, wire.ERROR: {"reason": _REASON, "hint": _REASON},
    wire.KEPT: {"path": _PATH, "where": _PATH}, wire.FILE: {"path": _PATH},
}  # fmt: skip
#: Frame kind -> further check of its head.
_LOOKS: dict[int, Callable[[dict[str, Any]], None]] = {
    **dict.fromkeys(_LISTINGS, _entries), wire.READY: _ready, wire.END: _end,
}  # fmt: skip
