"""Hugging Face Accelerate: `accelerate launch` (accelerate/commands/launch.py)."""

from __future__ import annotations

from dkdbg.launchers.launcher import Line
from dkdbg.launchers.shapes import Spreader
from dkdbg.launchers.words import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Launch


class Accelerate(Spreader):
    """accelerate launch; below it ranks are torchrun's."""

    names = ("accelerate",)
    programs = ("accelerate", "accelerate-launch")
    modules = ("accelerate.commands.launch", "accelerate.commands.accelerate_cli", "accelerate")
    value_options = (
        "--config_file", "--num_processes", "--num_machines", "--machine_rank", "--main_process_ip",
        "--main_process_port", "--mixed_precision", "--dynamo_backend", "--dynamo_mode", "--gpu_ids", "--rdzv_backend",
        "--rdzv_conf", "--max_restarts", "--monitor_interval", "--num_cpu_threads_per_process", "--role", "--tee",
        "--log_dir", "--same_network", "--deepspeed_config_file", "--zero_stage", "--fsdp_sharding_strategy",
        "--gradient_accumulation_steps", "--gradient_clipping", "--offload_optimizer_device",
        "--offload_param_device", "--zero3_init_flag", "--zero3_save_16bit_model", "--deepspeed_hostfile",
        "--deepspeed_multinode_launcher", "--fsdp_version", "--fsdp_auto_wrap_policy", "--downcast_bf16",
    )  # fmt: skip
    count_options = ("--num_processes", "--num-processes")

    def launch(self, line: Line) -> Launch | None:
        """Return the script behind `launch`; `accelerate config` starts none."""
        if line.word in ("accelerate", "accelerate.commands.accelerate_cli"):
            if line.rest[:1] != ["launch"]:
                return None
            return super().launch(
                Line(line.words, line.word, line.rest[1:], line.read, as_module=line.as_module)
            )
        return super().launch(line)

    def shown(self, line: Line) -> str:
        """Return it as typed; there is no `python -m accelerate`."""
        if line.as_module and line.word == "accelerate":
            return join(line.words[line.words.index("-m") + 1 :])
        return super().shown(line)

    def one_process(self, rest: Sequence[str]) -> tuple[list[str], str] | None:
        """Return it with one process and without `--multi_gpu`, which asks for two at least."""
        words = list(rest[1:] if rest[:1] == ["launch"] else rest)
        found = super().one_process(words)
        if found is None:
            return None
        kept = [word for word in found[0] if word not in ("--multi_gpu", "--multi-gpu")]
        return [*rest[: len(rest) - len(words)], *kept], found[1]


LAUNCHER = Accelerate()
