"""Huey (huey/bin/huey_consumer.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import QueueWorker


class Huey(QueueWorker):
    """huey_consumer."""

    names = ("huey_consumer",)
    programs = ("huey_consumer", "huey_consumer.py")
    modules = ("huey.bin.huey_consumer",)


LAUNCHER = Huey()
