"""RQ (rq/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import QueueWorker


class Rq(QueueWorker):
    """rq."""

    names = ("rq",)
    programs = ("rq",)
    modules = ("rq",)
    verbs = ("worker", "worker-pool", "scheduler")
    child = "rq work horse"
    child_by = "fork"


LAUNCHER = Rq()
