"""Copies folders from the target into a separate local folder: artefacts, never sources."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import posixpath
import secrets
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.repository import git
from dkdbg.sync.beneath import open_absolute
from dkdbg.sync.receiver import content, paths, tree, wire
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.remote.answers import Amount, entries, not_our_receiver
from dkdbg.sync.remote.contact import IS_IT_RUNNING, Contact
from dkdbg.sync.remote.stream import Stream, StreamEndedError, expect
from dkdbg.sync.report import event
from dkdbg.sync.report import size as in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dkdbg.core.target import Executor
    from dkdbg.sync.receiver.wire import Entry
    from dkdbg.sync.report import Event
    from dkdbg.sync.roots import Roots

#: Default folder for pulled folders, relative to the local root; excluded from sync by default.
FOLDER = "dkdbg-pulled"
#: Default maximum bytes to write.
MAX_BYTES = 10 * 10**9
#: Maximum bytes by which a file may grow between its listing and its copy. A file larger than this may double.
_MAX_GROWTH_BYTES = 1 << 20
#: Maximum files to request in advance.
_MAX_AHEAD = 16
_TIMEOUT_S = 300.0
_SYMLINK = "a symlink, which is not followed"
_YOURS = "the local file of this name is not an unchanged copy from --pull; rename it, or pull into another folder: --into DIR"
#: File in the local folder that records the pulled files, as JSON: path -> size and mtime_ns of the copy.
_RECORD = ".dkdbg-pulled"
#: Maximum bytes of a record, enough for half a million files. Any program that can write to the folder may change it.
_MAX_RECORD_BYTES = 64 << 20
#: Names that are never pulled. git, hg, svn and bzr run commands from their settings, editors run tasks and extensions,
#: direnv runs a file that was allowed once. .dkdbg/ and the record are dkdbg's own.
_NEVER = frozenset(
    {
        *git.FOLDERS, ".hg", ".svn", ".bzr", ".dkdbg", ".vscode", ".idea", ".devcontainer", ".devcontainer.json",
        ".envrc", _RECORD,
    }
)  # fmt: skip
#: Names that together make git treat a folder as a bare repository and read its settings (safe.bareRepository).
_BARE = frozenset({"head", "objects", "refs"})


@dataclass
class Pulled:
    """Result of a pull.

    Attributes:
        files, bytes: number of copied files, and their bytes. equal: number of files that were equal already.
        left_out: path -> reason.
        never: the paths in `left_out` that are never pulled from any target.
    """

    files: int = 0
    equal: int = 0
    bytes: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    never: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Return whether every file was copied, apart from symlinks and files that are never pulled."""
        return all(reason == _SYMLINK or path in self.never for path, reason in self.left_out.items())


@dataclass(frozen=True)
class Destination:
    """The local folder for pulled folders.

    Attributes:
        path: absolute, resolved.
        descriptor: open descriptor; leads to this folder even if another folder takes its name.
    """

    path: str
    descriptor: int


def destination(root: str, into: str | None, label: str, roots: Roots) -> Destination:
    """Create the local folder for pulled folders; the default folder gets a .gitignore.

    Raises:
        DkdbgError: the folder takes part in sync, which would send pulled files back; or its path contains a symlink of
            the repository, which may lead anywhere.
    """
    top = os.path.realpath(root)
    if into is None:
        path = os.path.join(top, FOLDER, _name(label))
        return Destination(path, _open(path, lambda: _ignore(os.path.join(top, FOLDER))))
    folder = os.path.realpath(into)
    if not _within(folder, top) and _passes(into, top):
        raise DkdbgError(
            f"{into} leads out of {top}, by a symlink, to {folder}",
            hint=f"to use it anyway: --into {shlex.quote(folder)}",
            exit_code=EXIT_USAGE,
        )
    local = os.path.realpath(roots.local)
    if (
        folder == local
        or _within(local, folder)
        or (
            _within(folder, local) and roots.rules(local).why(os.path.relpath(folder, local) + "/").takes_part
        )
    ):
        raise DkdbgError(
            f"{into} overlaps the local files that dkdbg sync sends to the target",
            hint=f"name a folder outside of {roots.local}, or omit --into for {FOLDER}/{label}",
            exit_code=EXIT_USAGE,
        )
    return Destination(folder, _open(folder))


def _name(label: str) -> str:
    """Convert a target's label into the name of a folder."""
    name = label.replace("/", "_").replace("\0", "_")
    return "target" if name in {"", ".", ".."} else name


def _within(path: str, folder: str) -> bool:
    """Return whether an absolute path is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _passes(path: str, folder: str) -> bool:
    """Return whether `path` as typed passes through `folder`, which is absolute and resolved."""
    at = os.path.abspath(path)
    while at != os.path.dirname(at):
        if _within(os.path.realpath(at), folder):
            return True
        at = os.path.dirname(at)
    return False


def _open(path: str, before: Callable[[], None] = lambda: None) -> int:
    try:
        before()
        return open_absolute(path, make=True)
    except OSError as error:
        if tree.is_absent(error):
            raise DkdbgError(
                f"{path}: a symlink or file is in the way, and dkdbg does not write through symlinks",
                hint="remove it, or name another folder: --into DIR",
            ) from None
        raise DkdbgError(f"cannot create {path}: {error.strerror}", hint="--into DIR") from error


def _ignore(folder: str) -> None:
    """Make `folder` with a .gitignore for everything in it."""
    at = open_absolute(folder, make=True)
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = tree.create_file(at, b".gitignore", 0o644)
            try:
                content.write_all(descriptor, b"*\n")
            finally:
                os.close(descriptor)
    finally:
        os.close(at)


def relative(folder: str, root: str) -> str:
    """Return `folder`, as the user named it, relative to the remote `root`; empty for the root itself.

    Raises:
        DkdbgError: it is an absolute path that is not below the root, or leads out of it.
    """
    path = posixpath.relpath(posixpath.join(root, folder), root)
    if path == ".." or path.startswith("../"):
        raise DkdbgError(
            f"--pull {folder}: it is not below {root}, the folder on the target",
            hint=f"--to {shlex.quote(posixpath.normpath(posixpath.join(root, folder)))} --pull . copies it",
            exit_code=EXIT_USAGE,
        )
    return "" if path == "." else path


def pull(
    roots: Roots, executor: Executor, folders: Sequence[str], into: Destination, *, limit: int = MAX_BYTES,
    report: Callable[[Event], None],
) -> Pulled:  # fmt: skip
    """Copy `folders`, relative to the remote root (`relative`), below the local folder `into`.

    Skip equal files. Leave out files that exist locally and differ from the last pull's: they are the user's. Equal
    means the same size and mtime; a copy gets both only when it is complete and its digest is right.

    Args:
        limit: maximum bytes to write in all.

    Raises:
        DkdbgError: the target cannot be reached, has no such folder, has more than `limit` bytes in it, or sends
            more than it has announced.
    """
    contact = Contact(roots.remote, roots.local, pythons=roots.pythons, look_only=True)
    try:
        contact.start(executor)
        stream, _ = contact.ready()
    except StreamEndedError as error:
        os.close(into.descriptor)
        raise DkdbgError(f"cannot pull from {contact.label}: {error}", hint=IS_IT_RUNNING) from None
    except DkdbgError:
        os.close(into.descriptor)
        raise
    finally:
        contact.stop()
    try:
        for _ in _listing(stream):
            pass  # the listing of the ledger comes first; a pull does not use it
        puller = _Puller(stream, tree.Tree(into.descriptor), limit, report)
        try:
            for folder in folders:
                puller.pull(folder)
        finally:
            puller.record.write()
        return puller.pulled
    except _RefusedByTargetError as error:
        raise DkdbgError(f"{contact.label}: {printable(error)}", hint="try again") from None
    except StreamEndedError as error:
        raise DkdbgError(
            f"{contact.label} disconnected: {error}", hint="run it again: complete files are skipped"
        ) from None
    finally:
        os.close(into.descriptor)
        stream.close()


class _Wanted(NamedTuple):
    """A file to copy, with its size in the listing."""

    path: str
    size: int

    @property
    def max_size(self) -> int:
        """Return the maximum size to accept: a log may have grown since the listing."""
        return self.size + max(self.size, _MAX_GROWTH_BYTES)


class _Record:
    """The files that pulls have written below the local folder with the descriptor `root`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._read: dict[str, list[int]] = {}
        with contextlib.suppress(OSError, Refused, ValueError, RecursionError):
            with open(tree.open_file(root, _RECORD.encode()), "rb") as file:
                text = file.read(_MAX_RECORD_BYTES + 1)
            found = json.loads(text) if len(text) <= _MAX_RECORD_BYTES else {}
            self._read = found if isinstance(found, dict) else {}
        self._stamps = dict(self._read)

    def add(self, path: str, info: os.stat_result) -> None:
        """Record a file as pulled."""
        self._stamps[path] = _stamp(info)

    def allows(self, path: str, found: os.stat_result | None) -> bool:
        """Return whether a pull may write a file: no local file exists, or it is unchanged since a pull wrote it."""
        return found is None or self._stamps.get(path) == _stamp(found)

    def write(self) -> None:
        """Write the record, if it has changed."""
        if self._stamps == self._read:
            return
        name = f".dkdbg-pull-{secrets.token_hex(8)}".encode()
        with contextlib.suppress(OSError):  # without it, a later pull skips remote changes
            try:
                with open(tree.create_file(self._root, name), "w", encoding="utf-8") as file:
                    json.dump(self._stamps, file)
                os.rename(name, _RECORD, src_dir_fd=self._root, dst_dir_fd=self._root)
            finally:
                tree.remove(self._root, name)


def _stamp(info: os.stat_result) -> list[int]:
    return [info.st_size, info.st_mtime_ns]


class _Puller:
    def __init__(self, stream: Stream, local: tree.Tree, limit: int, report: Callable[[Event], None]) -> None:
        self.pulled = Pulled()
        self.record = _Record(local.root)
        self._stream = stream
        self._tree = local
        self._limit, self._left = limit, limit
        self._report = report

    def pull(self, folder: str) -> None:
        """Copy one remote folder with everything in it."""
        self._stream.send(wire.LIST, {"path": folder})
        self._stream.flush()
        folders: list[list[bytes]] = []
        wanted: list[_Wanted] = []
        bare: dict[bytes, set[str]] = {}
        try:
            for entry in _listing(self._stream):
                parts = self._parts(folder, entry)
                if not parts:
                    continue
                for depth, part in enumerate(parts):
                    if (name := _folded(part)) in _BARE:
                        bare.setdefault(b"/".join(parts[:depth]), set()).add(name)
                if entry[1] == "d":
                    folders.append(parts)
                elif self._differs(parts, entry):
                    wanted.append(_Wanted(entry[0], entry[3]))
        except _RefusedByTargetError as error:
            raise DkdbgError(
                f"{folder}: {printable(error)}",
                hint="name a folder relative to the remote root",
                exit_code=EXIT_USAGE,
            ) from None
        total = self._fits(folder, wanted)
        for parts in folders:
            self._make(parts, bare)
        wanted = [one for one in wanted if not self._completes_bare(paths.components(one.path), bare)]
        for start in range(0, len(wanted), _MAX_AHEAD):
            chunk = wanted[start : start + _MAX_AHEAD]
            for one in chunk:
                self._stream.send(wire.GET, {"path": one.path, "size": one.max_size})
            self._stream.flush()
            for one in chunk:
                self._receive(one)
            facts = {"files": self.pulled.files, "files_total": len(wanted)}
            self._report(event("progress", **facts, bytes=self.pulled.bytes, bytes_total=total))

    def _parts(self, folder: str, entry: Entry) -> list[bytes]:
        """Return the components of an entry to copy; empty when it is left out, with the reason in `left_out`."""
        path = entry[0]
        try:
            parts = paths.components(path)
            if folder and not path.startswith(folder + "/"):
                raise Refused("it is not in the requested folder")
            if never := _why_never(parts):
                self.pulled.never.add(path)
                raise Refused(never)
            if entry[1] == "l":
                raise Refused(_SYMLINK)
        except Refused as error:
            self.pulled.left_out[path] = error.reason
            return []
        return parts

    def _differs(self, parts: list[bytes], entry: Entry) -> bool:
        """Return whether a file has to be copied."""
        path, _, _, size, _, mtime = entry
        try:
            found = self._tree.lstat(parts)
        except OSError as error:
            self.pulled.left_out[path] = _why(error)
            return False
        if found is not None and (found.st_size, str(found.st_mtime_ns)) == (size, mtime):
            self.pulled.equal += 1
            self.record.add(path, found)
            return False
        if self.record.allows(path, found):
            return True
        self.pulled.left_out[path] = _YOURS
        return False

    def _fits(self, folder: str, wanted: list[_Wanted]) -> int:
        """Return the total bytes of `wanted`. Raises DkdbgError: they exceed the limit, or the free space."""
        total = sum(one.size for one in wanted)
        if total > self._left:
            raise DkdbgError(
                f"{folder} has {in_words(total)} to copy; the limit is {in_words(self._limit)}",
                hint=f"name a folder in it, or --limit {-(-total // 10**9) + 1}GB",
                exit_code=EXIT_USAGE,
            )
        room = os.fstatvfs(self._tree.root)
        if total > room.f_bavail * room.f_frsize:
            raise DkdbgError(
                f"{folder} has {in_words(total)} to copy, but only {in_words(room.f_bavail * room.f_frsize)} are free locally",
                hint="free disk space, pull a subfolder, or use another disk: --into DIR",
            )
        return total

    def _make(self, parts: list[bytes], bare: dict[bytes, set[str]]) -> None:
        """Create the local copy of a remote folder, unless it is left out."""
        if self._completes_bare(parts, bare):
            return
        try:
            os.close(self._folder(parts))
        except OSError as error:
            self.pulled.left_out[_text(parts)] = _why(error)

    def _completes_bare(self, parts: list[bytes], bare: dict[bytes, set[str]]) -> bool:
        """Return whether a path, or a folder above it, would complete a bare repository; record it as left out then."""
        if not any(self._is_last_of_bare(parts[:depth], bare) for depth in range(1, len(parts) + 1)):
            return False
        self.pulled.never.add(_text(parts))
        self.pulled.left_out[_text(parts)] = (
            "git would treat its folder as a repository and execute commands from its config"
        )
        return True

    def _is_last_of_bare(self, parts: list[bytes], bare: dict[bytes, set[str]]) -> bool:
        """Return whether a path completes a bare repository whose other parts exist locally or are in the listing."""
        name = _folded(parts[-1])
        if name not in _BARE:
            return False
        try:
            above = self._tree.open_folder(parts[:-1])
            try:
                beside = {_folded(each) for each in tree.names(above)}
            finally:
                os.close(above)
        except OSError:
            beside = set()
        return _BARE - {name} <= beside | bare.get(b"/".join(parts[:-1]), set())

    def _receive(self, wanted: _Wanted) -> None:
        path = wanted.path
        try:
            _, head, _ = _frame(self._stream, wire.FILE)
        except _RefusedByTargetError as error:
            self.pulled.left_out[path] = str(error)
            return
        size = head["size"]
        if head["path"] != path or size > wanted.max_size:
            raise not_our_receiver(
                f"requested {path} ({wanted.size:,} bytes), received {head['path']} ({size:,} bytes)"
            )
        self._left -= size
        if self._left < 0:
            raise DkdbgError(
                f"the files have grown since they were listed, and now exceed {in_words(self._limit)}",
                hint="run it again with a larger --limit",
            )
        problem = ""
        name = f".dkdbg-pull-{secrets.token_hex(8)}".encode()
        parts = paths.components(path)
        folder, descriptor = -1, -1
        try:
            folder = self._folder(parts[:-1])
            descriptor = tree.create_file(folder, name)
        except OSError as error:
            problem = _why(error)
        try:
            problem = self._content(descriptor, size, problem)
            if not problem and not self.record.allows(path, tree.lstat_at(folder, parts[-1])):
                problem = _YOURS
            if not problem:
                _dress(descriptor, head)
                os.rename(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
                self.record.add(path, os.fstat(descriptor))
                self.pulled.files += 1
                self.pulled.bytes += size
        except OSError as error:
            problem = _why(error)
        finally:
            if problem:
                self.pulled.left_out[path] = problem
            if descriptor >= 0:
                os.close(descriptor)
                tree.remove(folder, name)
            if folder >= 0:
                os.close(folder)

    def _content(self, descriptor: int, size: int, problem: str) -> str:
        """Write the received content to the file up to END, and return what went wrong, or "".

        After a problem (`problem`, if there was one before), the content is still read to its end, and discarded.

        Raises:
            DkdbgError: more than `size` bytes arrive.
        """
        digest = hashlib.sha256()
        left = size
        while True:
            try:
                kind, head, body = _frame(self._stream, wire.DATA, wire.END)
            except _RefusedByTargetError as error:
                return str(error)
            if kind == wire.END:
                whole = not left and head["digest"] == digest.hexdigest()
                return problem or ("" if whole else "changed while it was copied")
            left -= len(body)
            if left < 0:
                raise not_our_receiver(f"it sent more than the {size:,} bytes it announced for a file")
            digest.update(body)
            if not problem:
                try:
                    content.write_all(descriptor, body)
                except OSError as error:
                    problem = _why(error)

    def _folder(self, parts: list[bytes]) -> int:
        """Return a descriptor of a local folder, created if missing; follow no symlink."""
        at = os.dup(self._tree.root)
        for part in parts:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
                below = tree.open_below(at, part)
            finally:
                os.close(at)
            at = below
        return at


class _RefusedByTargetError(Exception):
    """The receiver has refused a request, with a reason."""


def _frame(stream: Stream, *kinds: int) -> tuple[int, dict[str, Any], bytes]:
    kind, head, body = expect(stream, frozenset((*kinds, wire.FAILED)), _TIMEOUT_S)
    if kind == wire.FAILED:
        raise _RefusedByTargetError(head["reason"])
    return kind, head, body


def _listing(stream: Stream) -> Iterator[Entry]:
    """Return the entries of one answer as they arrive."""
    return entries(lambda: _frame(stream, wire.LISTING), Amount(hint="pull its subfolders one by one"))


def _dress(descriptor: int, head: dict[str, Any]) -> None:
    """Set the mode and mtime of `head`; the owner can always read and write, and no other user can write."""
    os.fchmod(descriptor, head["mode"] & 0o755 | 0o600)
    os.utime(descriptor, ns=(head["mtime_ns"], head["mtime_ns"]))


def _text(parts: list[bytes]) -> str:
    return paths.decode(b"/".join(parts))


def _why(error: OSError) -> str:
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return "a local symlink or file is in the way"
    return f"cannot be written here: {error.strerror}"


def _folded(name: bytes) -> str:
    """Return the name as a case-insensitive file system compares it; see `git.folded`."""
    return git.folded(name.decode("utf-8", "surrogateescape"))


def _why_never(parts: list[bytes]) -> str:
    """Return why a path is never pulled, as a sentence; empty if it may be pulled."""
    for part in parts:
        if _folded(part) in _NEVER:
            return f"{part.decode('utf-8', 'replace')} is never pulled from a target: programs on your machine execute its content"
    return ""
