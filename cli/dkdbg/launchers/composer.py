"""MosaicML Composer (composer/cli/launcher.py); its ranks have the variables of torchrun."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader


class Composer(Spreader):
    """composer."""

    names = ("composer",)
    programs = ("composer",)
    modules = ("composer.cli.launcher", "composer")
    value_options = (
        "-n", "--nproc", "--stdout", "--stderr", "--world_size", "--base_rank", "--node_rank", "--master_addr", "--master_port",
    )  # fmt: skip
    count_options = ("-n", "--nproc")


LAUNCHER = Composer()
