"""Facts that may explain why a breakpoint does not stop: its line, F5's launch entry, and the loaded files."""

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

#: Source of a mapping that is not from a launch entry.
PLANNED = "the mapping that dkdbg init planned"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A line in which a breakpoint does not stop, and the facts that may explain it.

    Attributes:
        path, line: the local file and the line.
        entry: the editor's launch entry.
        remote: remote path by the entry's mapping; empty if no mapping has the file.
        session: the session.
        remote_file: the file at `remote`, None if it was not queried.
        root: the repository's root.
        isolated: whether the program's loopback is not this machine's.
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
        """Facts about the local file, as agent/dap/sources.py returns them; empty if it cannot be read."""
        return sources.describe(str(self.path))

    @cached_property
    def loaded(self) -> list[tuple[Process, LoadedFile]]:
        """The loaded files that may be the file at `path`, with their processes; those at the mapped path first."""
        found = [
            (process, file)
            for process in self.session.processes
            for file in process.files
            if self.is_mapped(file) or self._may_be(file)
        ]
        return sorted(found, key=lambda pair: not self.is_mapped(pair[1]))

    def is_mapped(self, file: LoadedFile) -> bool:
        """Return whether a process has loaded the file by the name that the mapping gives it."""
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
        if not found.path:  # frozen
            return file.module == ".".join(own).removesuffix(".py").removesuffix(".__init__")
        folder, _, name = found.path.rpartition("/")
        source = f"{folder}/{name.partition('.')[0]}.py"
        if INSTALLED.search(source):
            return below_packages(source) == "/".join(own)
        local = self.entry.local_of(source)
        is_another = bool(local) and local != str(self.path) and Path(local).is_file()
        return not is_another and source.split("/")[-len(own) :] == own


def below_packages(path: str) -> str:
    """Return an installed file's path relative to its site-packages or standard library; any other path unchanged."""
    return re.split(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/(?!(?:site|dist)-packages/)", path)[-1]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The arguments that an editor sends with its attach.

    Attributes:
        port: on 127.0.0.1; None without an entry.
        mappings: (local root, remote root), both absolute, in order.
        just_my_code, sub_process: as in debugpy.
        source: where the arguments come from, for messages.
    """

    port: int | None
    mappings: tuple[tuple[str, str], ...]
    just_my_code: bool = True
    sub_process: bool = True
    source: str = editor_files.LAUNCH

    def remote_of(self, path: str) -> str:
        """Return the remote path of a local file, as debugpy maps it; empty if no mapping covers it."""
        found = paths.mapped(path, self.mappings)
        return found[1] if found else ""

    def local_of(self, path: str) -> str:
        """Return the local path of a remote file; empty if no mapping covers it."""
        found = paths.mapped(path, [(remote, local) for local, remote in self.mappings])
        return found[1] if found else ""


def of_repository(root: Path, planned: Iterable[tuple[str, str]] = ()) -> Entry:
    """Return dkdbg's entry in launch.json; without one, an entry with the planned mapping.

    `root` is resolved, and folders in `planned` are relative to it.
    """
    entry = editor_files.attach_entry(root)
    if not entry:
        return Entry(port=None, mappings=absolute(root, planned), source=PLANNED)
    return _of_launch(root, entry)


def of_launch(root: Path) -> list[Entry]:
    """Return all attach entries of launch.json; any of them may be for the target."""
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
    """Return the (local, remote) pairs with their local folders made absolute."""
    return tuple((str(root if local == "." else root / local), remote) for local, remote in pairs)
