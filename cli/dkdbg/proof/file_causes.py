"""Find why the file with the breakpoint is not the file that runs: mapping, copies, content."""

from __future__ import annotations

import time
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.agent.dap import sources
from dkdbg.proof.asked import INSTALLED, PLANNED
from dkdbg.proof.finding import Finding, with_lf
from dkdbg.setup.render.editor_files import LAUNCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dkdbg.proof.asked import Asked, Entry
    from dkdbg.proof.line_answer import LineSession, LoadedFile, Process, RemoteFile

_IN_PLACE = "install the package in place: pip install -e . in the image instead of pip install ."


def of_file(path: Path, remote_file: RemoteFile, entry: Entry, session: LineSession) -> Finding | None:
    """Return the finding for a mapped file that is missing or different on the target; None if both sides are equal."""
    if not remote_file.exists:
        return _wrong_root(path, remote_file.path, entry, session, actual="")
    local_facts = sources.describe(str(path))
    if local_facts and remote_file.digest and local_facts["digest"] != remote_file.digest:
        return _differs(path, remote_file, local_facts, session.name)
    return None


def of_mapping(
    asked: Asked,
    mapped: Sequence[tuple[Process, LoadedFile]],
    copies: Sequence[tuple[Process, LoadedFile]],
) -> Iterator[Finding]:
    """Yield the finding if no mapping covers the file, or the mapping leads to no file or to one that is not loaded.

    Args:
        mapped: files that processes have loaded from the mapped path.
        copies: files loaded from another path that may be the same file.
    """
    remote_file, entry, session = asked.remote_file, asked.entry, asked.session
    actual = copies[0][1].file.path if copies else ""
    if not asked.remote:
        if INSTALLED.search(str(asked.path)) and not asked.path.is_relative_to(asked.root):
            return
        roots = ", ".join(local for local, _ in entry.mappings) or "nothing"
        yield Finding(
            link="mapping", cause="not-mapped", says=f"{asked.path} is in no mapped folder; {entry.source} maps {roots}",
            remedy=_mapping_line(asked.path, actual, asked.root) if actual else planned_mapping(entry), subject="" if actual else entry.source,
        )  # fmt: skip
        return
    if mapped:
        return
    if remote_file is not None and not remote_file.exists:
        yield _wrong_root(asked.path, asked.remote, entry, session, actual=actual)
        return
    if copies:
        yield _other_copy(asked, copies[0][0], copies[0][1])


def planned_mapping(entry: Entry) -> str:
    """Return the remedy that writes the mapping planned by `init`; `init` itself does not change an edited entry."""
    if entry.source == LAUNCH:
        return f"dkdbg verify --fix writes the mapping of the repository to {LAUNCH} (dkdbg init keeps your edited entry)"
    return "dkdbg init writes the mapping of the repository"


def _wrong_root(path: Path, remote: str, entry: Entry, session: LineSession, *, actual: str) -> Finding:
    known = [remote_root for _, remote_root in session.mappings]
    known_text = f"; the session maps the repository to {', '.join(known)}" if known else ""
    where = f"; the program has loaded {actual}" if actual else known_text
    root = actual.removesuffix(_tail(path, actual)).rstrip("/") if actual else (known[0] if known else "")
    if entry.source == LAUNCH:
        remedy = (f'"remoteRoot": "{root}" in {LAUNCH}; or: ' if root else "") + planned_mapping(entry)
    elif entry.source == PLANNED:
        remedy = planned_mapping(entry)
    else:
        remedy = f'{{"localRoot": "${{workspaceFolder}}", "remoteRoot": "{root or "FOLDER THERE"}"}} in pathMappings of launch.json'
    return Finding(
        link="mapping", cause="wrong-root", says=f"{entry.source} maps {path.name} to {remote}, where no such file exists{where}",
        remedy=remedy, subject=entry.source,
    )  # fmt: skip


def _other_copy(asked: Asked, process: Process, file: LoadedFile) -> Finding:
    loaded, name = file.file, process.name or f"process {process.pid}"
    if file.origin == "frozen":
        return Finding(
            link="file", cause="frozen", says=f"{file.module} is frozen into the interpreter of {name}: it has no source file",
            remedy="python -X frozen_modules=off runs the file instead",
        )  # fmt: skip
    if file.origin in {"compiled", "zip"}:
        what = "a compiled file" if file.origin == "compiled" else "an archive"
        return Finding(
            link="file", cause="compiled-file" if file.origin == "compiled" else "zipped",
            says=f"{name} has loaded {file.module} from {what}: {loaded.path}",
            remedy="remove it there, so that Python loads the source; or build it without Cython or zip",
        )  # fmt: skip
    same = asked.remote_file is not None and asked.remote_file.digest == loaded.digest
    if asked.remote_file is not None and asked.remote_file.exists and loaded.real == asked.remote_file.real:
        return Finding(
            link="mapping", cause="symlink", says=f"{name} has loaded the file as {loaded.path}, the mapping says {asked.remote}, and a symlink connects the two: a stop shows the target's file, not yours",
            remedy=f"map that name too: {_mapping_line(asked.path, loaded.path, asked.root)}",
        )  # fmt: skip
    if asked.remote_file is not None and asked.remote_file.exists and loaded.is_same(asked.remote_file):
        return Finding(
            link="mapping", cause="wrong-root", says=f"{name} has loaded the file as {loaded.path}, and {asked.entry.source} maps it to {asked.remote}: one file, in two mounts, and breakpoints stop only under the loaded name",
            remedy=f"put this before the other mappings: {_mapping_line(asked.path, loaded.path, asked.root)}",
        )  # fmt: skip
    local_facts = asked.local_facts
    stale = bool(local_facts and loaded.digest) and local_facts["digest"] != loaded.digest
    cause = "two-copies" if INSTALLED.search(loaded.path) or same or not stale else "stale-copy"
    age = ", with the same content" if local_facts and loaded.digest else ""
    if stale:
        age = f", and it differs from yours since {_when(loaded.changed)}"
    remedy = (
        _IN_PLACE
        if INSTALLED.search(loaded.path)
        else "set the breakpoint in that file, or remove it"
        if asked.remote == str(asked.path)  # the program runs on this machine, without an image
        else f"mount the repository over {PurePosixPath(loaded.path).parent} instead of COPY, or rebuild: docker compose build; dkdbg init plans the mount"
    )
    return Finding(
        link="file", cause=cause, says=f"{name} has loaded another copy: {loaded.path}{age}; the mapping leads to {asked.remote}",
        remedy=remedy,
    )  # fmt: skip


def installed_copy(loaded: str, local: str) -> Finding:
    """Return the finding for a program that runs another copy of the user's file.

    Args:
        loaded: path of the copy on the target.
        local: the user's file; empty if unknown.
    """
    origin = f" of {local}" if local else ""
    return Finding(
        link="file", cause="two-copies", says=f"the program has loaded another copy{origin}: {loaded}",
        remedy=_IN_PLACE if INSTALLED.search(loaded) else "mount the repository over that folder; or let Python find the mounted folder first, by PYTHONPATH or by the folder that the program starts in",
    )  # fmt: skip


def of_edit(asked: Asked, mapped: Sequence[tuple[Process, LoadedFile]]) -> Finding | None:
    """Return the finding for a file that changed after a process had loaded it; None if no process has an older one."""
    for process, file in mapped:
        if not file.same and process.started and file.file.placed > process.started + 1.0:
            return Finding(
                link="file", cause="edited", says=f"{asked.path.name} was changed at {_when(file.file.placed)}, after {process.name or process.pid} had started: the previous code runs",
                remedy=asked.restart,
            )  # fmt: skip
    return None


def of_line_ends(asked: Asked, remote_file: RemoteFile) -> Finding | None:
    """Return the finding if the local and the remote file differ only in line endings; otherwise None."""
    ends = asked.local_facts.get("line_ends")
    if not ends or not remote_file.line_ends or ends == remote_file.line_ends:
        return None
    return Finding(
        link="file", cause="crlf", says=f"only the line ends differ: {ends} here, {remote_file.line_ends} there; the lines are the same",
        remedy=f"breakpoints work anyway; for equal digests, on the side with CRLF: {with_lf(asked.path.name)}",
    )  # fmt: skip


def _differs(path: Path, remote_file: RemoteFile, local_facts: dict[str, object], name: str) -> Finding:
    lines = local_facts["lines"]
    count = f" ({lines} lines here, {remote_file.lines} there)" if lines != remote_file.lines else ""
    changed = local_facts["changed"]
    newer = "here" if isinstance(changed, float) and changed > remote_file.changed else "there"
    if remote_file.kind == "image":
        return Finding(
            link="file", cause="stale-copy",
            says=f"{remote_file.path} is a copy in the image, and differs from {path.name} here{count}; the newer one is {newer}, and the copy is from {_when(remote_file.changed)}",
            remedy="mount the repository (dkdbg init plans it), or build the image again: docker compose build",
        )  # fmt: skip
    return Finding(
        link="file", cause="digest-differs",
        says=f"{path.name} here and {remote_file.path} at {name} differ{count} since {_when(max(remote_file.changed, changed if isinstance(changed, float) else 0.0))}; the newer one is {newer}",
        remedy="dkdbg sync copies it there, then dkdbg restart runs it; if they still differ, another folder is mounted there",
    )  # fmt: skip


def _tail(path: Path, actual: str) -> str:
    """Return the longest common end of two paths, in whole parts."""
    pairs = zip(reversed(path.parts), reversed(actual.split("/")), strict=False)
    common = [part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "/".join(reversed(common))


def _mapping_line(path: Path, actual: str, root: Path) -> str:
    tail = _tail(path, actual)
    local = str(path)[: -len(tail)].rstrip("/") if tail else str(path.parent)
    shown = "${workspaceFolder}" + local.removeprefix(str(root)) if local.startswith(str(root)) else local
    remote = actual[: -len(tail)].rstrip("/") if tail else str(PurePosixPath(actual).parent)
    return f'{{"localRoot": "{shown}", "remoteRoot": "{remote or "/"}"}} in pathMappings of launch.json'


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "an unknown time"
