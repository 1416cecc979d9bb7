"""taskiq (taskiq/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import QueueWorker


class Taskiq(QueueWorker):
    """taskiq."""

    names = ("taskiq",)
    programs = ("taskiq",)
    modules = ("taskiq",)
    verbs = ("worker", "scheduler")


LAUNCHER = Taskiq()
