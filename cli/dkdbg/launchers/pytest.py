"""pytest, and the workers of pytest-xdist."""

from __future__ import annotations

from dkdbg.launchers.launcher import TOOL, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Pytest(Launcher):
    """pytest; it runs tests, which are no program of the repository."""

    names = ("pytest",)
    programs = ("pytest", "py.test")
    modules = ("pytest",)
    role = TOOL
    is_program = False

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:
        """Return the name of a worker: execnet's first line, below pytest."""
        below = any("pytest" in word or "py.test" in word for word in parent[:4])
        is_worker = below and any("exec(eval(sys.stdin.readline()))" in word for word in argv)
        return f"pytest-xdist worker ({pid})" if is_worker else ""


LAUNCHER = Pytest()
