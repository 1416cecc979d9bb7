"""joblib and loky: worker processes below a program."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launcher
from dkdbg.launchers.words import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Joblib(Launcher):
    """loky's workers; nobody types them."""

    names = ("joblib",)
    is_program = False

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:  # noqa: ARG002
        """Return `loky worker 2`: the number stands in `--process-name LokyProcess-2`."""
        if not any("loky.backend.popen_loky" in word for word in argv):
            return ""
        number = (value_of(argv, ("--process-name",)) or "").rpartition("-")[2]
        return f"loky worker {number}" if number.isdigit() else f"loky worker ({pid})"


LAUNCHER = Joblib()
