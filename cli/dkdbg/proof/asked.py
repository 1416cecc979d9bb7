"""The facts that may explain why a breakpoint does not stop: its line, the launch entry, and the loaded files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap import paths, sources
from dkdbg.core.mapping import ROOT
from dkdbg.setup.render import editor_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.proof.line_answer import LineSession, LoadedFile, Process, RemoteFile

#: Folders of installed code.
INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/")

#: Source of a mapping that does not come from a launch entry.
PLANNED = "the mapping that dkdbg init planned"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A line whose breakpoint does not stop, and the facts that may explain it.

    Attributes:
        path, line: the local file and the line's number.
        entry: the editor's launch entry.
        remote: the file's path on the target by the entry's mapping; empty if no mapping covers the file.
        session: the session that runs the program.
        remote_file: the file at `remote`; None if the agent was not asked about it.
        root: the repository's root on this machine.
        isolated: whether 127.0.0.1 of the program is not that of this machine, as in a container.
        restart: command that restarts the program.
    """

    path: Path
    line: int
    entry: Entry
    remote: str
    session: LineSession
    remote_file: RemoteFile | None
    root: Path
    isolated: bool = False
    restart: str = "dkdbg restart"

    @property
    def where(self) -> str:
        """The line as `FILE:LINE`, for messages."""
        return f"{self.path.name}:{self.line}"

    @cached_property
    def local_facts(self) -> dict[str, Any]:
        """Facts about the local file from agent/dap/sources.py; empty if it cannot be read."""
        return sources.describe(str(self.path))

    @cached_property
    def loaded(self) -> list[tuple[Process, LoadedFile]]:
        """Loaded files that may be the file at `path`, each with its process; files at the mapped path come first."""
        found = [
            (process, file)
            for process in self.session.processes
            for file in process.files
            if self.is_mapped(file) or self._may_be(file)
        ]
        return sorted(found, key=lambda pair: not self.is_mapped(pair[1]))

    def is_mapped(self, file: LoadedFile) -> bool:
        """Return whether a loaded file has the remote path to which the mapping translates `path`."""
        return bool(self.remote) and file.origin == "source" and file.file.path == self.remote

    def _may_be(self, file: LoadedFile) -> bool:
        """Return whether a loaded file may be the file at `path`, by its real path, content or parent folders."""
        found, local_facts = file.file, self.local_facts
        if self.remote_file is not None and self.remote_file.exists and found.is_same(self.remote_file):
            return True
        if (
            local_facts
            and local_facts["lines"]
            and self.path.name != "__init__.py"
            and found.digest == local_facts["digest"]
        ):
            return True
        if not self.path.is_relative_to(self.root):
            return below_packages(found.path) == below_packages(str(self.path))
        own = [each for each in self.path.relative_to(self.root).parts if each != "src"]
        if not found.path:  # a frozen module has no path
            return file.module == ".".join(own).removesuffix(".py").removesuffix(".__init__")
        folder, _, name = found.path.rpartition("/")
        source = f"{folder}/{name.partition('.')[0]}.py"
        if INSTALLED.search(source):
            return below_packages(source) == "/".join(own)
        local = self.entry.local_of(source)
        is_another = bool(local) and local != str(self.path) and Path(local).is_file()
        return not is_another and source.split("/")[-len(own) :] == own


def below_packages(path: str) -> str:
    """Return an installed file's path below site-packages or the standard library; other paths unchanged."""
    return re.split(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/(?!(?:site|dist)-packages/)", path)[-1]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The arguments with which an editor attaches.

    Attributes:
        port: debug port on 127.0.0.1; None if there is no launch entry.
        mappings: (local root, remote root), both absolute, in the order of the entry.
        just_my_code, sub_process: debugpy's arguments of these names.
        source: file or plan that has these arguments, for messages.
    """

    port: int | None
    mappings: tuple[tuple[str, str], ...]
    just_my_code: bool = True
    sub_process: bool = True
    source: str = editor_files.LAUNCH

    def remote_of(self, path: str) -> str:
        """Return the remote path of a local file by debugpy's rules; empty if no mapping covers the file."""
        found = paths.mapped(path, self.mappings)
        return found[1] if found else ""

    def local_of(self, path: str) -> str:
        """Return the local path of a remote file; empty if no mapping covers the file."""
        found = paths.mapped(path, [(remote, local) for local, remote in self.mappings])
        return found[1] if found else ""


def of_repository(root: Path, planned: Iterable[tuple[str, str]] = ()) -> Entry:
    """Return dkdbg's entry in launch.json; if it is missing, an entry with the planned mapping.

    `root` has its symlinks resolved. The local folders in `planned` are relative to it.
    """
    entry = editor_files.attach_entry(root)
    if not entry:
        return Entry(port=None, mappings=absolute(root, planned), source=PLANNED)
    return _of_launch(root, entry)


def of_launch(root: Path) -> list[Entry]:
    """Return all attach entries of launch.json, because any of them may be for the target."""
    return [_of_launch(root, each) for each in editor_files.attach_entries(root)]


def _of_launch(root: Path, entry: Mapping[str, Any]) -> Entry:
    connect = entry.get("connect")
    port = connect.get("port") if isinstance(connect, dict) else None
    pairs = paths.pairs(entry.get("pathMappings"))
    return Entry(
        port=port if isinstance(port, int) else None,
        mappings=tuple((os.path.normpath(local.replace(ROOT, str(root))), remote) for local, remote in pairs),
        just_my_code=entry.get("justMyCode") is not False,
        sub_process=entry.get("subProcess") is not False,
    )


def absolute(root: Path, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the (local, remote) pairs with absolute local folders."""
    return tuple((str(root if local == "." else root / local), remote) for local, remote in pairs)
