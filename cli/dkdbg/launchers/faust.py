"""Faust (faust/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import QueueWorker


class Faust(QueueWorker):
    """faust."""

    names = ("faust",)
    programs = ("faust",)
    modules = ("faust",)
    verbs = ("worker",)


LAUNCHER = Faust()
