"""Find a launcher by its names, and answer questions about all launchers."""

from __future__ import annotations

from functools import lru_cache

from dkdbg.launchers.launcher import SERVER, Launcher, number_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class _Index:
    """The launchers by their names."""

    def __init__(self, launchers: tuple[Launcher, ...]) -> None:
        self.names = {name: launcher for launcher in launchers for name in launcher.names}
        # A name that two launchers share belongs to the launcher that has it as its first name.
        self.names.update({launcher.name: launcher for launcher in launchers})
        self.programs = {word: launcher for launcher in launchers for word in launcher.programs}
        self.modules = {module: launcher for launcher in launchers for module in launcher.modules}
        self.scripts = {script: launcher for launcher in launchers for script in launcher.scripts}
        self.patterned = tuple(one for one in launchers if type(one).starts is not Launcher.starts)


@lru_cache(maxsize=None)
def launchers() -> tuple[Launcher, ...]:
    """Return all launchers in the order of the table, which loads on first use: the agent starts without it."""
    from dkdbg.launchers.table import LAUNCHERS  # noqa: PLC0415

    return LAUNCHERS


@lru_cache(maxsize=None)
def _index() -> _Index:
    return _Index(launchers())


def named(name: str) -> Launcher | None:
    """Return the launcher with this name, as in `EntryPoint.launcher`; None for an unknown word."""
    return _index().names.get(name)


def of_program(word: str) -> Launcher | None:
    """Return the launcher for the first word of a command line: a name, a path, `$PYTHON`."""
    launcher = _index().programs.get(word.rsplit("/", 1)[-1])
    return launcher or next((one for one in _index().patterned if one.starts(word)), None)


def of_module(module: str) -> Launcher | None:
    """Return the launcher for `python -m MODULE`, None for a module of the user."""
    return _index().modules.get(module)


def of_script(path: str) -> Launcher | None:
    """Return the launcher for a Python file such as manage.py."""
    return _index().scripts.get(path.rsplit("/", 1)[-1])


def role_of(name: str) -> str:
    """Return the role (see launcher.JOB) of the launcher with this name; empty for an unknown word."""
    launcher = named(name)
    return launcher.role if launcher else ""


def side_ports() -> frozenset[int]:
    """Return the ports of pages beside a program. Publishing such a port does not make a training job a server.

    Default ports of servers are left out: 5000 is MLflow's, but also Flask's.
    """
    servers = {launcher.port for launcher in launchers() if launcher.role == SERVER}
    return frozenset(port for launcher in launchers() for port in launcher.side_ports).difference(servers)


def helpers() -> tuple[tuple[str, str], ...]:
    """Return (fragment of a command line, name) of the helper processes of all launchers."""
    return tuple(pair for launcher in launchers() for pair in launcher.helpers)


def worker(argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:
    """Return the name of a worker process by its command line, empty for any other process."""
    return next((name for name in (one.worker(argv, pid, parent) for one in launchers()) if name), "")


def is_spread(environment: dict[str, str]) -> bool:
    """Return whether a process's environment shows that its job has ranks on other machines."""
    for launcher in launchers():
        local, world = (
            number_in(environment, launcher.local_sizes),
            number_in(environment, launcher.world_sizes),
        )
        machines = number_in(environment, launcher.nodes)
        if (local is not None and world is not None and local < world) or (machines or 0) > 1:
            return True
    return False


def ranks(environment: dict[str, str]) -> tuple[int | None, int | None, int | None]:
    """Return (global rank, local rank, number of ranks) from a process's environment, None where unknown."""
    known = (launcher.rank_of(environment) for launcher in launchers())
    local = tuple(name for launcher in launchers() for name in launcher.local_ranks)
    world = tuple(name for launcher in launchers() for name in launcher.world_sizes)
    rank = next((number for number in known if number is not None), None)
    return rank, number_in(environment, local), number_in(environment, world)
