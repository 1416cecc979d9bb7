"""Validates the heads of the host's frames. Pure; a wrong type means a broken host, and ends the stream."""

from __future__ import annotations

from dkdbg.sync.receiver import wire
from dkdbg.sync.receiver.problems import Fatal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_ENTRY = {"id": int, "path": str, "mode": int, "size": int, "digest": str, "stamp": str}
_FIELDS: Dict[int, Dict[str, type]] = {
    wire.HELLO: {"version": int, "root": str},
    wire.STAT: {"paths": list},
    wire.PUT: dict(_ENTRY, mtime_ns=int),
    wire.BEGIN: dict(_ENTRY, mtime_ns=int),
    wire.PACK: {"folder": str, "files": list},
    wire.DATA: {"id": int},
    wire.END: {"id": int},
    wire.MKDIR: {"id": int, "path": str, "mode": int},
    wire.LINK: {"id": int, "path": str, "target": str, "stamp": str},
    wire.MODE: {"id": int, "path": str, "mode": int, "stamp": str},
    wire.ADOPT: dict(_ENTRY, kind=str),
    wire.DELETE: {"id": int, "path": str},
    wire.VERIFY: {},
    wire.LIST: {"path": str},
    wire.GET: {"path": str},
    wire.SHOW: {"folders": list},
    wire.PING: {"n": int},
    wire.BYE: {},
}
_OPTIONAL: Dict[str, type] = {
    "probe": bool,
    "create": bool,
    "write": bool,
    "by": str,
    "summary": bool,
    "silence_s": int,
    "source": str,
}
_WITH_BODY = (wire.PUT, wire.PACK, wire.DATA)
#: id, name, mode, size, mtime_ns, digest, stamp
_PACKED = [{int}, {str}, {int}, {int}, {int}, {str}, {str}]

#: Minimum and maximum of each number. A time may lie before 1970.
_RANGES = {
    "id": (1, 1 << 53),
    "mode": (0, 0o777),
    "size": (0, 1 << 60),
    "mtime_ns": (wire.EARLIEST, wire.LATEST),
    "silence_s": (0, 1 << 31),
}
_MAX_ID, (_EARLIEST, _LATEST) = _RANGES["id"][1], _RANGES["mtime_ns"]
_MAX_STAMP = 300
_HEX = frozenset("0123456789abcdef")


def check(kind: int, head: Dict[str, Any], body: bytes) -> None:
    """Raise Fatal unless the frame is one that a host may send, with fields of the right types and ranges."""
    fields = _FIELDS.get(kind)
    if fields is None:
        raise Fatal("a host does not send %s" % wire.NAMES[kind])
    for name, wanted in fields.items():
        value = head.get(name)
        if type(value) is not wanted:
            raise Fatal("%s needs %s as %s, not %.60r" % (wire.NAMES[kind], name, wanted.__name__, value))
        if name in _RANGES:
            _check_range(kind, name, head[name])
    if body and kind not in _WITH_BODY:
        raise Fatal("%s has no body" % wire.NAMES[kind])
    if "stamp" in fields and len(head["stamp"]) > _MAX_STAMP:
        raise Fatal("a stamp of %d characters" % len(head["stamp"]))
    if kind in (wire.PUT, wire.BEGIN):
        _check_digest(head["digest"])
    elif kind == wire.PACK:
        _check_packed(head["files"], len(body))
        if "make" in head:
            _check_made(head["folder"], head["make"])
    elif kind == wire.ADOPT:
        _check_adopted(head)
    elif kind == wire.HELLO:
        _check_hello(head)
    elif kind == wire.GET and "size" in head:
        if type(head["size"]) is not int:
            raise Fatal("GET: size must be int, not %.60r" % head["size"])
        _check_range(kind, "size", head["size"])


def _check_range(kind: int, name: str, value: int) -> None:
    least, most = _RANGES[name]
    if not least <= value <= most:
        raise Fatal("%s: %s is %d, out of range" % (wire.NAMES[kind], name, value))


def _check_digest(digest: str) -> None:
    if len(digest) != 64 or not _HEX.issuperset(digest):
        raise Fatal("not a sha256 in hex: %.80r" % digest)


def _check_packed(files: List[Any], size: int) -> None:
    """Check that each file entry is valid, and that the body holds exactly their bytes.

    Digests are checked later.

    The checks work column by column: one by one would slow down a first copy.
    """
    if not files:
        raise Fatal("PACK without files")
    if set(map(type, files)) != {list} or set(map(len, files)) != {len(_PACKED)}:
        raise Fatal("PACK: not a file: %.60r" % (files,))
    columns = list(zip(*files))
    if [set(map(type, column)) for column in columns] != _PACKED:
        raise Fatal("PACK: not a file: a value of %.60r has another type" % (files,))
    numbers, names, modes, sizes, times, _, stamps = columns
    if (
        min(numbers) <= 0
        or max(numbers) > _MAX_ID
        or min(modes) < 0
        or max(modes) > 0o777
        or min(sizes) < 0
        or max(sizes) > size
    ):
        raise Fatal("PACK: id, mode or size of a file is out of range")
    if sum(sizes) != size:
        raise Fatal("PACK: %d bytes belong to no file, or are missing" % abs(size - sum(sizes)))
    if any("/" in name for name in names):
        raise Fatal("PACK: not a name: %.60r" % next(name for name in names if "/" in name))
    if min(times) < _EARLIEST or max(times) > _LATEST or max(map(len, stamps)) > _MAX_STAMP:
        raise Fatal("PACK: mtime_ns or stamp of a file is out of range")
    if len(set(names)) != len(names):  # after a kill the log would know only the last of them
        raise Fatal("PACK: a name comes twice")


def _check_made(folder: str, made: object) -> None:
    if not folder or type(made) is not list or [type(one) for one in made] != [int, int]:
        raise Fatal("PACK: make is %.60r, not id and mode of its folder" % (made,))
    if not (0 < made[0] <= _MAX_ID and 0 <= made[1] <= 0o777):
        raise Fatal("PACK: id or mode of the folder is out of range: %.60r" % (made,))


def _check_adopted(head: Dict[str, Any]) -> None:
    if head["kind"] not in ("f", "d", "l"):
        raise Fatal("ADOPT: kind is %.20r, not f, d or l" % head["kind"])
    if head["kind"] != "d" or head["digest"]:
        _check_digest(head["digest"])


def _check_hello(head: Dict[str, Any]) -> None:
    for name, wanted in _OPTIONAL.items():
        if name in head:
            if type(head[name]) is not wanted:
                raise Fatal("HELLO: %s must be %s, not %.60r" % (name, wanted.__name__, head[name]))
            if name in _RANGES:
                _check_range(wire.HELLO, name, head[name])
    if head["version"] != wire.VERSION:
        raise Fatal(
            "the host speaks version %.20s of the sync stream, this receiver %d"
            % (head["version"], wire.VERSION)
        )
