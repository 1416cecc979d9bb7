"""Dask: scheduler and workers on the command line (distributed/cli)."""

from __future__ import annotations

from dkdbg.launchers.launcher import WORKER, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Dask(Launcher):
    """dask worker, dask scheduler."""

    names = ("dask",)
    programs = ("dask", "dask-worker", "dask-scheduler")
    role = WORKER
    is_program = False
    side_ports = (8787,)

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Tell whether it stays up: `dask config` ends."""
        return not rest or not rest[0].isalpha() or rest[0] in ("worker", "scheduler")


LAUNCHER = Dask()
