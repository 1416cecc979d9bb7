"""TensorBoard (tensorboard/main.py)."""

from __future__ import annotations

from dkdbg.launchers.launcher import MONITOR, Launcher


class TensorBoard(Launcher):
    """tensorboard, beside a training."""

    names = ("tensorboard",)
    programs = ("tensorboard",)
    modules = ("tensorboard.main", "tensorboard")
    role = MONITOR
    is_program = False
    port = 6006
    side_ports = (6006,)


LAUNCHER = TensorBoard()
