"""Target for a service of this repository's compose project: `compose://trainer` means its debug service, if any."""

from __future__ import annotations

import hashlib
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import hints, process
from dkdbg.core.address import Address
from dkdbg.core.target import Capability, Kind
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.docker import client, containers, image_build
from dkdbg.targets.docker.compose import ComposeService
from dkdbg.targets.docker.container import choose, not_running, only_debug_service
from dkdbg.targets.docker.container_target import ContainerTarget
from dkdbg.targets.docker.engine_errors import check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.plan import DebugService
    from dkdbg.core.target import Executor
    from dkdbg.core.target_values import AtEnd, Once, Prepared, Start, Started, Trial
    from dkdbg.sync.report import Event
    from dkdbg.targets.docker.container import Container
    from dkdbg.targets.docker.remote_project import Filled

SCHEME = "compose"
#: Maximum bytes of a file to compare with the mounted one.
_MAX_COMPARED_BYTES = 16 << 20


class ComposeTarget(ContainerTarget):
    """A compose service; see `core/target.py`. An empty name means the only running debug service.

    Args:
        root: the compose project's folder, resolved.
        seen: see ContainerTarget.
    """

    capabilities = ContainerTarget.capabilities | {Capability.START, Capability.ONE_OFF}

    def __init__(self, address: Address, root: Path, seen: Container | None = None) -> None:
        super().__init__(address, seen)
        self._root = root
        self._project: tuple[Container, ...] = ()

    @property
    def label(self) -> str:
        """Return the service's name."""
        return self.address.rest or "debug"

    def inspect(self) -> Container | None:
        """Find the container of the service, or of its debug service."""
        self._project = containers.of_project(self._root)
        return choose(self._project, self.address.rest or only_debug_service(self._project))

    def others(self) -> Sequence[str]:
        """Return advice on how to start the debug service."""
        return (hints.SERVICE_UP(),)

    def absent(self) -> DkdbgError:
        """Return the error for a missing container; it lists the running services."""
        return not_running(self._project, self.address.rest)

    def called(self, found: Container) -> str:
        """Return service and container name."""
        return f"{SCHEME}://{found.service} ({found.name})"

    def up(self, wanted: Start, *, report: Callable[[str], None], moved: Callable[[int], None]) -> Started:
        """Start with `docker compose up`, with this machine's GPU and port; first copy the files to a remote engine."""
        if client.endpoint().is_local:
            from dkdbg.targets.docker.compose_up import start  # saves other verbs 20 ms

            return start(self._root, wanted, report=report, moved=moved)
        from dkdbg.targets.docker import remote_up

        return remote_up.start(self._root, wanted, report=report, fill=_filling(self._root, report))

    def once(self, wanted: Once, *, report: Callable[[str], None]) -> Prepared:
        """Prepare a `docker compose run`."""
        if not client.endpoint().is_local:
            raise DkdbgError(
                "the Docker engine is on another machine, and has your files only in the debug service, after dkdbg up",
                hint=f"dkdbg up, then: dkdbg run --on {SCHEME}://{wanted.service.name} -- {shlex.join(wanted.command)}",
                exit_code=EXIT_USAGE,
            )
        from dkdbg.targets.docker.compose_once import prepare

        return prepare(self._root, wanted, report=report)

    def trial(self, wanted: Once, *, report: Callable[[str], None], at_end: AtEnd) -> Trial:
        """Start a `docker compose run --detach` of the service's own command."""
        from dkdbg.targets.docker.compose_trial import start

        if client.endpoint().is_local:
            return start(self._root, wanted, report=report, at_end=at_end)
        from dkdbg.targets.docker.remote_up import RemoteCopies

        copies = RemoteCopies(self._root, wanted.service, _filling(self._root, report))
        return start(self._root, wanted, report=report, at_end=at_end, copies=copies)

    def replaced(self) -> tuple[str, ...]:
        """Return mounted files replaced on this machine, judging by inode and content; empty on a remote engine."""
        found = self.inspect() if client.endpoint().is_local else None
        stale = []
        for remote, local in found.binds.items() if found is not None and found.running else ():
            with suppress(OSError, DkdbgError):
                if Path(local).is_file() and self._is_stale(remote, Path(local)):
                    stale.append(remote)
        return tuple(stale)

    def _is_stale(self, remote: str, local: Path) -> bool:
        info = local.stat()
        seen = process.run(self.wrap(["stat", "-c", "%i %s", remote]), cwd=self._root).stdout.split()
        if len(seen) != 2 or seen[0] == str(info.st_ino):
            return False
        if seen[1] != str(info.st_size) or info.st_size > _MAX_COMPARED_BYTES:
            return True
        # If the engine runs in a virtual machine, its inode numbers differ from this machine's, so compare the
        # contents.
        digest = process.run(self.wrap(["sha256sum", remote]), cwd=self._root).stdout.split()[:1]
        return bool(digest) and digest != [hashlib.sha256(local.read_bytes()).hexdigest()]

    def start_again(self) -> None:
        """Run `docker compose restart`, which mounts each path anew, and starts a container that has ended."""
        if self.inspect() is None:
            raise self.absent()
        check(process.run(ComposeService(service=self.address.rest).restart(), cwd=self._root, timeout=None))

    def down(self, service: DebugService, *, everything: bool) -> str:
        """Remove the service (`docker compose rm`) or the project (`down`); return a summary for the user."""
        from dkdbg.targets.docker import compose_cli, compose_up, remote_up

        target, is_local = ComposeService(service=self.address.rest), client.endpoint().is_local
        project = str(compose_cli.check_project(target, self._root).get("name", ""))
        kept: tuple[str, ...] = ()
        if is_local:
            compose_up.check_name(project, self._root)
        else:
            remote_up.check_origin(project, self._root)
            kept = remote_up.volumes_left(target, self._root)
        check(image_build.remove_with_volumes(self._root, target, service.image_volumes))
        if everything:
            check(image_build.remove_project(self._root, target, service))
        down = "the project is down" if everything else f"{self.address.rest} is down"
        existing = () if everything else containers.of_project(self._root)
        if not everything and not existing:  # compose has made the networks for this service alone
            process.run(target.down_project(), cwd=self._root, timeout=120.0)
        if is_local and service.image_files and not existing:  # even if no container could be created
            for argv in image_build.removal_of_copies(project):
                process.run(argv, cwd=self._root, timeout=120.0)
        image_build.remove_dead_links(self._root, service)
        if left := sorted(
            {each.service for each in existing if each.running and each.service and not each.one_off}
        ):
            down += f"; still running: {', '.join(left)} (dkdbg down --all ends the project)"
        if kept:  # the program's output exists only in the volume
            down += f"; its files remain in a volume (to delete them: docker volume rm {' '.join(kept)})"
        return down


def _filling(root: Path, report: Callable[[str], None]) -> Callable[[Executor, Filled], None]:
    """Return a function that copies a local folder to a volume; it raises DkdbgError for a file that it cannot copy."""

    def fill(executor: Executor, folder: Filled) -> None:
        from dkdbg.sync.beneath import local_root
        from dkdbg.sync.report import as_line
        from dkdbg.sync.roots import Roots
        from dkdbg.sync.rules.rules import ConfiguredRules
        from dkdbg.sync.session import Session

        def shown(happened: Event) -> None:
            if happened.name != "connected" and (line := as_line(happened)):
                report(printable(line))

        local = local_root(root, folder.local)
        report(
            f"copying {printable(local)} to {folder.remote}, in the volume {folder.volume} of the remote engine"
        )
        session = Session(
            Roots(local=local, remote=folder.remote, rules=ConfiguredRules(report)),
            lambda: executor,
            report=shown,
        )
        session.once()
        if session.failed:
            raise DkdbgError(
                f"{len(session.failed)} files could not be copied to the remote engine, such as {printable(min(session.failed))}",
                hint="dkdbg sync --explain PATH shows whether a file is synced; to leave it out, add it to `ignore` under [sync] in dkdbg.toml",
            )

    return fill


def _target(address: Address, root: Path) -> ComposeTarget:
    if len(address.parts) > 1:
        raise DkdbgError(f"{address} names no service", hint="compose://SERVICE", exit_code=EXIT_USAGE)
    return ComposeTarget(address, root)


def _named(name: str, root: Path) -> ComposeTarget | None:
    """Return the target of a service that has a container, running or ended; None without one."""
    found = choose(containers.of_project(root), name)
    return ComposeTarget(Address(scheme=SCHEME, rest=name), root, found) if found else None


KIND = Kind(target=_target, named=_named, begin=lambda _address, _ran: hints.SERVICE_UP())
