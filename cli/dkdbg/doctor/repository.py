"""Read the files of this repository that decide whether a start works."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg import __version__, process
from dkdbg.agent.contract import DEFAULT_PORT
from dkdbg.core.plan import FROM_NOWHERE
from dkdbg.delivery import single_file
from dkdbg.doctor.situation import Context, Repository
from dkdbg.errors import DkdbgError
from dkdbg.repository import dotenv, transaction
from dkdbg.setup.detect.docker.dockerfile import read_dockerfile
from dkdbg.setup.detect.files import SKIP_DIRS, decode
from dkdbg.setup.detect.repo import inspect
from dkdbg.setup.render import fetched_agent, jsonc, manifest, token_file
from dkdbg.sync.rules.patterns import Patterns, dockerignore_lines
from dkdbg.targets import registry
from dkdbg.targets.docker import client, compose_cli, containers
from dkdbg.targets.docker.compose import ComposeService, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.core.plan import DebugService

#: Maximum seconds to count the files of one folder, and to wait for docker's answer.
_WALK_S, _TIMEOUT_S = 5.0, 60.0


def repository(root: Path, *, has_engine: bool, cuda: bool) -> Repository:
    """Return the facts in a repository's files. None of its code runs; the compose file is read by `docker compose`.

    Args:
        root: absolute, symlinks resolved.
        has_engine: whether docker and compose can be queried.
        cuda: whether to find the CUDA version of the torch that the repository requires, which takes a second.
    """
    errors: list[DkdbgError] = []
    service, port = None, DEFAULT_PORT
    try:
        config = registry.configuration(root)
        service = manifest.debug_service(root, changed=True)
        port = dotenv.local_port(root, service.port if service else config.port or DEFAULT_PORT)
        if service is not None and service.token != FROM_NOWHERE:
            token_file.read(os.environ)
        if service is not None:
            errors += _unusable(root)
    except DkdbgError as error:
        errors.append(error)
    model: dict[str, Any] = {}
    if service is not None and has_engine:
        try:
            model = compose_cli.check_project(ComposeService(service=service.name), root)
        except DkdbgError as error:
            errors.append(error)
    return Repository(
        root=root,
        service=service,
        model=model,
        errors=tuple(errors),
        agent=_agent(root),
        installed=__version__,
        port=port,
        holder=_holder(root, port, has_engine=has_engine) if service is not None else "",
        folders=_folders(root),
        contexts=tuple(_contexts(root, model, service)) if service is not None else (),
        images_user=_user(root),
        torch_cuda=_torch_cuda(root) if cuda else None,
        is_git=os.path.lexists(root / ".git"),
    )


def _read(root: Path, path: str) -> bytes | None:
    return transaction.read(root, PurePosixPath(path))


def _unusable(root: Path) -> Iterator[DkdbgError]:
    """Yield errors for a missing or damaged agent, and for an invalid launch.json."""
    agent, launch = f"{manifest.FOLDER}/{single_file.NAME}", ".vscode/launch.json"
    if _agent(root) is None and not fetched_agent.is_fetched(root):
        yield DkdbgError(f"{agent} is missing or damaged", hint=f"rm -f {agent} && dkdbg init")
    try:
        jsonc.loads(decode(_read(root, launch) or b""), file=launch)
    except DkdbgError as error:
        yield error


def _agent(root: Path) -> str | None:
    try:
        return single_file.version_in(_read(root, f"{manifest.FOLDER}/{single_file.NAME}") or b"")
    except DkdbgError:
        return None


def _folders(root: Path) -> int:
    """Count the folders that `dkdbg sync` would watch, for at most _WALK_S seconds."""
    until, found = time.monotonic() + _WALK_S, 0
    for _, folders, _ in os.walk(root):
        found += 1
        folders[:] = [each for each in folders if each not in SKIP_DIRS]
        if time.monotonic() > until:
            break
    return found


def _user(root: Path) -> tuple[str, str] | None:
    try:
        text = _read(root, "Dockerfile")
    except DkdbgError:
        return None
    fact = read_dockerfile(decode(text), "Dockerfile") if text is not None else None
    return (fact.user, "Dockerfile") if fact is not None and fact.user else None


def _torch_cuda(root: Path) -> tuple[str, str] | None:
    try:
        torch = inspect(root).torch
    except DkdbgError:
        return None
    return (torch.cuda, torch.source) if torch is not None and torch.cuda else None


def _contexts(root: Path, model: dict[str, Any], service: DebugService) -> Iterator[Context]:
    """Yield the build contexts in this repository of which a started service's Dockerfile copies all (`COPY . ...`)."""
    for name in started(model, service.name):
        build = model["services"][name].get("build") or {}
        folder = Path(str(build.get("context") or ""))
        if not folder.is_absolute() or not folder.is_relative_to(root):
            continue
        dockerfile = folder / str(build.get("dockerfile") or "Dockerfile")
        if not dockerfile.is_relative_to(root):
            continue
        own, usual = (
            f"{dockerfile.relative_to(root).as_posix()}.dockerignore",
            (folder / ".dockerignore").relative_to(root).as_posix(),
        )
        try:
            text = _read(root, own.removesuffix(".dockerignore")) or b""
            ignore = usual if _read(root, own) is None else own  # it has priority over .dockerignore
            patterns = Patterns(ignore, dockerignore_lines(_read(root, ignore) or b""))
        except DkdbgError:
            continue
        copies = read_dockerfile(decode(text), dockerfile.name).copies
        if any(source == "." for source, _ in copies):  # BuildKit sends only the files that are copied
            size, largest = _size(folder, patterns)
            where = folder.relative_to(root).as_posix()
            yield Context(service=name, folder=where, ignore=ignore, size=size, largest=largest)


def _size(folder: Path, ignored: Patterns) -> tuple[int, tuple[str, int]]:
    """Return the bytes in a folder without its ignored files, and its largest top-level entry (name, bytes)."""
    until, sizes = time.monotonic() + _WALK_S, dict[str, int]()
    for at, folders, files in os.walk(folder):
        inside = os.path.relpath(at, folder)
        prefix = "" if inside == "." else f"{inside}/"
        folders[:] = [each for each in folders if not _is_out(ignored, each, prefix, is_dir=True)]
        for name in files:
            if _is_out(ignored, name, prefix, is_dir=False):
                continue
            top = (prefix + name).split("/", 1)[0]
            try:
                sizes[top] = sizes.get(top, 0) + os.lstat(os.path.join(at, name)).st_size  # noqa: PTH118 - for speed
            except OSError:
                continue
        if time.monotonic() > until:
            break
    largest = max(sizes.items(), key=lambda each: each[1], default=("", 0))
    return sum(sizes.values()), largest


def _is_out(ignored: Patterns, name: str, prefix: str, *, is_dir: bool) -> bool:
    rule = ignored.last(name, prefix + name, is_dir)
    return rule is not None and not rule.negated


def _holder(root: Path, port: int, *, has_engine: bool) -> str:
    """Name the program that listens on a local port; return "" for a free port or a session of this repository."""
    listening = [each for each in _listening() if each[0] == port]
    if not listening:
        return ""
    if has_engine:
        form = '{{.Names}}\t{{.Label "com.docker.compose.project.working_dir"}}'
        done = process.run(
            ["docker", "ps", "--filter", f"publish={port}", "--format", form], timeout=_TIMEOUT_S
        )
        for line in done.stdout.splitlines() if not done.code else ():
            name, _, folder = line.partition("\t")
            is_of_project = bool(folder) and os.path.realpath(folder) == containers.project_folder(root)
            return "" if is_of_project else f"container {name}"
    found = _process_of({inode for _, inode in listening})
    try:
        if has_engine and _is_of_service(found, root):
            return ""
        if found is None:
            return "another program"
        return (
            "" if _is_own_dkdbg(found, root) else f"{(found / 'comm').read_text().strip()} (PID {found.name})"
        )
    except OSError:
        return ""  # the process has ended


def _is_of_service(process_folder: Path | None, root: Path) -> bool:
    """Return whether a process may belong to a debug service that uses the host's network.

    `process_folder` is None for another user's process, which may belong to any such service.
    """
    with contextlib.suppress(DkdbgError):
        running = [
            each for each in containers.of_project(root) if each.running and each.label and each.host_network
        ]
        if not running or not client.endpoint().is_local:
            return False
        group = (process_folder / "cgroup").read_text() if process_folder is not None else ""
        return process_folder is None or any(each.id in group for each in running)
    return False


def _is_own_dkdbg(process_folder: Path, root: Path) -> bool:
    """Return whether a process is a `dkdbg` command or an agent, started in this repository, such as `dkdbg attach`."""
    argv = (process_folder / "cmdline").read_bytes().split(b"\0")
    first = argv[:8]  # Python, its options, and the program or zip that it runs
    return Path(os.readlink(process_folder / "cwd")).is_relative_to(root) and any(  # noqa: PTH115 - a link in /proc
        each.endswith((b"dkdbg/__main__.py", b"dkdbg/agent/__main__.py"))
        or each.rpartition(b"/")[2] in {b"dkdbg", single_file.NAME.encode()}
        for each in first
    )


def _listening() -> Iterator[tuple[int, str]]:
    """Yield port and inode of each listening TCP socket on Linux, without connecting to any port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("ascii", errors="replace").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if len(fields) > 9 and fields[3] == "0A":
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _process_of(inodes: set[str]) -> Path | None:
    """Return the /proc folder of the process with one of these sockets; None if it belongs to another user."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process_folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(each) in wanted for each in (process_folder / "fd").iterdir()):  # noqa: PTH115
                return process_folder
        except OSError:  # noqa: PERF203 - the process has ended, or belongs to another user
            continue
    return None
