"""The question about one line, and which of the loaded files it means. No I/O but the local file's digest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap import sources

if TYPE_CHECKING:
    from dkdbg.proof.editor import Entry
    from dkdbg.proof.line_answer import LineSession, LoadedFile, Process, RemoteFile

#: Folders of installed code.
INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question, and the facts that answer it.

    Attributes:
        path, line: the local file and the line.
        entry: the editor's launch entry.
        remote: path by its mapping; empty if no mapping has the file.
        session: the session. there: the file at `remote`, None if it was not looked at.
        root: the repository's root.
        isolated: whether the program's loopback is not this machine's.
        restart: command that restarts the program.
    """

    path: Path
    line: int
    entry: Entry
    remote: str
    session: LineSession
    there: RemoteFile | None
    root: Path
    isolated: bool = False
    restart: str = "dkdbg restart"

    @property
    def where(self) -> str:
        """The line, for messages."""
        return f"{self.path.name}:{self.line}"

    @cached_property
    def here(self) -> dict[str, Any]:
        """The local file, see agent/dap/sources.py; empty if it cannot be read."""
        return sources.look(str(self.path))

    @cached_property
    def loaded(self) -> list[tuple[Process, LoadedFile]]:
        """The files that may be the asked one, with their processes; those at the mapped path first."""
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
        """Return whether a file of the same name is a copy of the asked one: by content, or by the folders above."""
        found, here = file.file, self.here
        if self.there is not None and self.there.exists and found.real == self.there.real:
            return True
        if here and here["lines"] and self.path.name != "__init__.py" and found.digest == here["digest"]:
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
    """Return the part of an installed file's path below the folder of packages; the whole path of another file."""
    return re.split(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/(?!(?:site|dist)-packages/)", path)[-1]
