"""Dramatiq (dramatiq/cli.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import QueueWorker


class Dramatiq(QueueWorker):
    """dramatiq."""

    names = ("dramatiq",)
    programs = ("dramatiq",)
    modules = ("dramatiq",)


LAUNCHER = Dramatiq()
