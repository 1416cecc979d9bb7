"""The question about one line, and which of the loaded files it means. No I/O but the local file's digest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.agent.dap import sources

if TYPE_CHECKING:
    from pathlib import Path

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
    """

    path: Path
    line: int
    entry: Entry
    remote: str
    session: LineSession
    there: RemoteFile | None
    root: Path
    isolated: bool = False

    @property
    def where(self) -> str:
        """The line, for messages."""
        return f"{self.path.name}:{self.line}"

    def loaded(self) -> list[tuple[Process, LoadedFile]]:
        """Return the files that may be the asked one, with their processes; those at the mapped path first."""
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
        here = sources.look(str(self.path))
        if here and file.file.digest == here["digest"]:
            return True
        if self.there is not None and self.there.exists and file.file.real == self.there.real:
            return True
        if not self.path.is_relative_to(self.root):
            return file.file.path == str(self.path) or below_packages(file.file.path) == below_packages(
                str(self.path)
            )
        own = [each for each in self.path.relative_to(self.root).parts if each != "src"]
        if not file.file.path:
            return file.module.rpartition(".")[2] == self.path.stem
        theirs = file.file.path.split("/")
        stem = theirs[-1].partition(".")[0] + ".py"
        return [*theirs[:-1], stem][-len(own) :] == own


def below_packages(path: str) -> str:
    """Return the part of an installed file's path below the folder of packages; the whole path of another file."""
    return re.split(r"/(?:site|dist)-packages/|/lib/python3[\d.]*/(?!(?:site|dist)-packages/)", path)[-1]
