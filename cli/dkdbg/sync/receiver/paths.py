"""Paths of the stream: untrusted text in, safe components out. Pure.

Paths on the wire and in the ledger are text (surrogateescape); for the file system they are bytes in UTF-8,
whatever the target's locale is.
"""

from __future__ import annotations

from dkdbg.sync.receiver.problems import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

#: The receiver's own folder in the root; names that begin with `.dkdbg-sync.` are its temporary files elsewhere.
OWN = ".dkdbg-sync"
_OWN = OWN.encode()
#: Prefix of temporary names outside that folder, on file systems that are mounted below the root.
STRAY = _OWN + b"."

MAX_NAME = 255
MAX_PATH = 4095


def components(path: str) -> List[bytes]:
    """Return the components of a path below the root.

    Raises:
        Refused: it is not a plain relative path below the root, or leads into sync's own folder.
    """
    parts = _split(path)
    for part in parts:
        if part in (b"", b".", b".."):
            raise Refused("not a path below the root: an absolute path, or an empty, . or .. component")
        if part.startswith(_OWN):
            raise Refused(
                "names that begin with %s are reserved for dkdbg sync" % OWN, "rename it, or leave it out"
            )
    return parts


def is_plain(path: str) -> bool:
    """Return whether a path of the ledger, which may have been tampered with, stays below the root."""
    walled = "/%s/" % path
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return not ("//" in walled or "/./" in walled or "/../" in walled or "\0" in path)


def check_target(path: str, target: str) -> bytes:
    """Return the target of a symlink at `path` as bytes.

    The target may begin with as many `..` as the link has parent folders. After these, only names are allowed: a `..`
    after a name could lead anywhere, because the name may be a symlink.

    Raises:
        Refused: the target may lead out of the root.
    """
    depth = path.count("/")
    named = False
    for part in _split(target):
        if part == b"..":
            depth -= 1
            if named or depth < 0:
                raise Refused("the symlink's target leads out of the root: %.200s" % printable(target))
        elif part == b"":
            raise Refused("the symlink's target is absolute or empty: %.200s" % printable(target))
        elif part != b".":
            named = True
    return encode(target)


def encode(path: str) -> bytes:
    """Return a path as bytes for the file system. Raises Refused: it contains a lone surrogate."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refused("the path contains a character that cannot be encoded (a lone surrogate)") from None


def decode(name: bytes) -> str:
    """Return a file system name as text for the wire."""
    return name.decode("utf-8", "surrogateescape")


def printable(path: str) -> str:
    """Return a path for a message, with unprintable characters escaped."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _split(path: str) -> List[bytes]:
    data = encode(path)
    if b"\0" in data:
        raise Refused("the path holds a NUL byte")
    if len(data) > MAX_PATH:
        raise Refused("the path is too long: %d bytes, %d are allowed" % (len(data), MAX_PATH))
    parts = data.split(b"/")
    if len(data) > MAX_NAME:
        for part in parts:
            if len(part) > MAX_NAME:
                raise Refused("the name is too long: %d bytes, %d are allowed" % (len(part), MAX_NAME))
    return parts
