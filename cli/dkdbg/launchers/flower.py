"""Flower, the page about Celery (flower/command.py); `celery flower` is it, too."""

from __future__ import annotations

from dkdbg.launchers.launcher import MONITOR, Launcher


class Flower(Launcher):
    """flower; it watches workers and holds no code of the person's."""

    names = ("flower",)
    programs = ("flower",)
    role = MONITOR
    is_program = False
    port = 5555
    side_ports = (5555,)


LAUNCHER = Flower()
