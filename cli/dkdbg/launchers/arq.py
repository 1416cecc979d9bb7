"""arq (arq/cli.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import QueueWorker


class Arq(QueueWorker):
    """arq."""

    names = ("arq",)
    programs = ("arq",)
    modules = ("arq",)


LAUNCHER = Arq()
