"""List the kinds of targets, and resolve a name or an address to a target, in the same way for every verb."""

from __future__ import annotations

import contextlib
import importlib
import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.core import address as addresses
from dkdbg.core import config
from dkdbg.core.address import Address
from dkdbg.core.compose_names import DEFAULT_NAMES
from dkdbg.errors import EXIT_NO_PROGRAM, EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.jobs import Queue
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Kind, Target


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the registry; its module is loaded on demand.

    Attributes:
        scheme: scheme of the kind's addresses.
        form: how addresses are typed, for usage texts and hints.
        module: module with the Kind, as `KIND`.
        around: whether addresses SCHEME+OTHER:// exist: a target of this kind, reached through one of another kind.
        system, submitter: name of a batch system and of its program that submits scripts; empty for other kinds. The
            login node of an address may be empty then: SCHEME:///JOB.
    """

    scheme: str
    form: str
    module: str
    around: bool = False
    system: str = ""
    submitter: str = ""

    @property
    def kind(self) -> Kind:
        """Return the module's Kind."""
        kind: Kind = importlib.import_module(self.module).KIND
        return kind


def _batch(scheme: str, system: str, submitter: str) -> Entry:
    form, module = f"{scheme}://LOGIN/JOB[/NODE]", f"dkdbg.targets.batch.{scheme}"
    return Entry(scheme=scheme, form=form, module=module, system=system, submitter=submitter)


#: Entries in the order in which a name without a scheme is looked up.
ENTRIES: Sequence[Entry] = (
    Entry(scheme="compose", form="compose://SERVICE", module="dkdbg.targets.docker.compose_target"),
    Entry(scheme="docker", form="docker://CONTAINER", module="dkdbg.targets.docker.docker_target"),
    Entry(scheme="k8s", form="k8s://NAMESPACE/POD[/CONTAINER]", module="dkdbg.targets.kubernetes.target"),
    Entry(scheme="local", form="local:[SESSION or /FOLDER]", module="dkdbg.targets.local"),
    Entry(scheme="ssh", form="ssh://HOST[,HOST][/FOLDER]", module="dkdbg.targets.ssh.target"),
    _batch("slurm", "Slurm", "sbatch"),
    _batch("pbs", "PBS", "qsub"),
    _batch("lsf", "LSF", "bsub"),
    Entry(scheme="pai", form="pai://HOST/USER/JOB[/ROLE/INDEX]", module="dkdbg.targets.openpai.target"),
    Entry(scheme="ray", form="ray://HEAD:8265", module="dkdbg.targets.ray", around=True),
    Entry(scheme="call", form="call://JOB", module="dkdbg.targets.reverse.target"),
    Entry(scheme="endpoint", form="HOST:PORT", module="dkdbg.targets.endpoint"),
)
#: Scheme of the debug service that `init` writes.
HOME = "compose"


def forms() -> str:
    """Return the forms of an address, for messages."""
    shown = [entry.form for entry in ENTRIES]
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def address_of(text: str) -> Address:
    """Parse `text` as an address. Raises DkdbgError: it is not an address, or its scheme is unknown."""
    found = _parse(text)
    _entry(found)
    return found


def target_at(address: Address, root: Path) -> Target:
    """Return the target at an address, without looking for it yet.

    Args:
        root: the repository's root, resolved.

    Raises:
        DkdbgError: the scheme is unknown, or the address is invalid for it.
    """
    kind, inner = _entry(address).kind, _inner(address)
    if inner is not None and kind.around is not None:
        return kind.around(address, lambda: target_at(inner, root))
    return kind.target(address, root)


def target_of(name: str, root: Path) -> Target:
    """Return the target that a user names by its address, or by the name of a service, a container or a session.

    A name is looked up in this order: dkdbg.toml's [targets], the services of this repository's compose project, the
    containers, the sessions of this machine, the sessions that remote agents report. An unknown name means a service
    that does not run yet.

    Args:
        root: the repository's root, resolved.

    Raises:
        DkdbgError: `name` is not a valid address or name, or dkdbg.toml is invalid.
    """
    if not addresses.is_name(name):
        known = f"{forms()}, or a name that dkdbg ps shows"
        with contextlib.suppress(DkdbgError):  # report the invalid address instead
            known += "".join(f", {each}" for each in names(root))
        return target_at(_parse(name, known), root)
    if (uri := names(root).get(name)) is not None:
        return target_at(config.configured_address(name, uri, parse=_parse, inner=_inner), root)
    silent: DkdbgError | None = None
    for entry in ENTRIES:
        try:
            if (target := entry.kind.named(name, root)) is not None:
                return target
        except DkdbgError as error:  # noqa: PERF203 - this kind cannot be queried now; try the others
            silent = silent or error
    named = {each.address for each in sessions()[0] if name in {each.name, each.id} and not each.is_ended}
    if len(named) == 1:
        return target_at(_parse(named.pop()), root)
    if silent is not None and not any(os.path.lexists(root / each) for each in DEFAULT_NAMES):
        raise DkdbgError(
            f"nothing here is called {name!r}: it is not in [targets] of dkdbg.toml, there is no compose file "
            f"with services, and the engine cannot be queried for a container of that name: {silent.message.splitlines()[0]}",
            hint=f"a target is {forms()}; if it is a container: {silent.hint}",
            exit_code=silent.exit_code,
        )
    return home(root, name)


def targets_of(name: str, root: Path) -> Sequence[Target]:
    """Return the targets that a user names: a job may have many sessions. Raises DkdbgError: as `target_of`."""
    return target_of(name, root).each()


def batch_systems() -> Sequence[Entry]:
    """Return the kinds that accept jobs; the first one is the default."""
    return [entry for entry in ENTRIES if entry.system]


def batch_help() -> str:
    """Return the help text about batch systems."""
    default, *_ = known = batch_systems()
    shown = [f"{_queue_form(each)} ({each.submitter})" for each in known]
    return (
        f"TARGET is {', '.join(shown[:-1])} or {shown[-1]}; by default it is this machine's {default.system}. "
        "All other options go to the program in parentheses."
    )


def queue_of(name: str) -> Queue:
    """Return the queue that jobs are submitted to. Raises DkdbgError: the target is not a batch system."""
    address = _parse(name, " or ".join(map(_queue_form, batch_systems())))
    queue = _entry(address).kind.queue
    if queue is None:
        raise DkdbgError(
            f"{address} is not a batch system",
            hint=f"dkdbg submit --on {_queue_form(batch_systems()[0])}; to run a command at once: dkdbg run --on {address}",
            exit_code=EXIT_USAGE,
        )
    return queue(address)


def home(root: Path, service: str = "") -> Target:
    """Return the target of this repository's debug service.

    Args:
        root: the repository's root, resolved.
        service: its name; empty for the only debug service that runs.
    """
    return target_at(Address(scheme=HOME, rest=service), root)


def names(root: Path) -> dict[str, str]:
    """Return the names that this repository gives to targets, and their addresses.

    Raises:
        DkdbgError: its dkdbg.toml is unreadable or invalid.
    """
    return dict(configuration(root).targets)


def configuration(root: Path) -> config.Config:
    """Return the contents of this repository's dkdbg.toml. Raises DkdbgError: it is unreadable or invalid."""
    if not os.path.lexists(root / config.FILE_NAME):
        return config.Config()
    from dkdbg.repository.transaction import read  # loaded late: most repositories have no such file

    return config.parse(config.decode(read(root, PurePosixPath(config.FILE_NAME)) or b""))


def sessions(*, installed: bool = False) -> tuple[list[SeenSession], dict[str, str]]:
    """Return all sessions visible from this machine, and for each scheme that could not be queried the reason.

    Args:
        installed: do not report kinds whose program is not on this machine.
    """
    seen: list[SeenSession] = []
    missing: dict[str, str] = {}
    for entry in ENTRIES:
        try:
            seen += entry.kind.sessions()
        except DkdbgError as error:  # noqa: PERF203 - each kind on its own
            if not installed or error.exit_code != EXIT_NO_PROGRAM:
                missing[entry.scheme] = error.message.splitlines()[0]
    return seen, missing


def how_to_begin(address: str, seen: Sequence[SeenSession] = ()) -> str:
    """Return the hint shown when no session is running.

    Args:
        seen: the target's sessions, all ended.
    """
    return _entry(address_of(address)).kind.begin(address, bool(seen))


def _queue_form(entry: Entry) -> str:
    return f"{entry.scheme}://LOGIN"


def _parse(text: str, known: str = "") -> Address:
    """Parse `text` as an address. Raises DkdbgError with the forms in `known`, by default all."""
    return addresses.parse(
        text, forms=known or forms(), local_schemes={each.scheme for each in batch_systems()}
    )


def _inner(address: Address) -> Address | None:
    """Return the address inside this one: `ssh://node` of `ray+ssh://node`.

    Raises:
        DkdbgError: the scheme is unknown, or the address is invalid for it.
    """
    inner = _entry(address).kind.inner
    return None if inner is None else inner(address)


def _entry(address: Address) -> Entry:
    for entry in ENTRIES:
        if entry.scheme == address.scheme or (entry.around and address.scheme.startswith(f"{entry.scheme}+")):
            return entry
    raise DkdbgError(
        f"{address}: unknown target scheme {address.scheme}://",
        hint=f"a target is {forms()}",
        exit_code=EXIT_USAGE,
    )
