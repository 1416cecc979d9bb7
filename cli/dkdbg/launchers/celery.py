"""Celery (celery/bin)."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launch
from dkdbg.launchers.shapes import QueueWorker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Line


class Celery(QueueWorker):
    """celery worker, celery beat; its tasks run in a pool of forked processes. `celery flower` is Flower."""

    names = ("celery",)
    programs = ("celery",)
    modules = ("celery",)
    verbs = ("worker", "beat", "flower", "multi")
    child = "celery pool worker"
    child_by = "fork"

    def launch(self, line: Line) -> Launch | None:
        """Return the module of the app; what only asks a running worker starts nothing."""
        if "worker" in line.rest or "beat" in line.rest:
            return super().launch(line)
        return Launch(command=self.shown(line), launcher="flower") if "flower" in line.rest else None


LAUNCHER = Celery()
