"""DeepSpeed (deepspeed/launcher/runner.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader
from dkdbg.launchers.words import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Line


class DeepSpeed(Spreader):
    """deepspeed, and the process that it starts on each machine; below that ranks are torchrun's."""

    names = ("deepspeed",)
    programs = ("deepspeed", "ds")
    modules = ("deepspeed.launcher.runner", "deepspeed.launcher.launch", "deepspeed")
    value_options = (
        "-H", "--hostfile", "-i", "--include", "-e", "--exclude", "--num_nodes", "--num_gpus", "--master_port",
        "--master_addr", "--node_rank", "--launcher", "--launcher_args", "--autotuning", "--bind_core_list",
        "--ssh_port", "--venv_script",
    )  # fmt: skip
    count_options = ("--num_gpus", "--num_accelerators")
    gpu = "always"

    def shown(self, line: Line) -> str:
        """Return it as typed; there is no `python -m deepspeed`."""
        if line.as_module and line.word == "deepspeed":
            return join(line.words[line.words.index("-m") + 1 :])
        return super().shown(line)


LAUNCHER = DeepSpeed()
