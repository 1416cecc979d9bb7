"""PaddlePaddle (paddle/distributed/launch)."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader


class Paddle(Spreader):
    """paddle.distributed.launch, fleetrun."""

    names = ("paddle",)
    programs = ("fleetrun",)
    modules = ("paddle.distributed.launch",)
    value_options = (
        "--master", "--rank", "--log_level", "--nnodes", "--nproc_per_node", "--log_dir", "--run_mode", "--job_id", "--devices",
        "--gpus", "--ips", "--host", "--servers", "--trainers", "--trainer_num", "--server_num", "--max_restart",
    )  # fmt: skip
    count_options = ("--nproc_per_node",)
    ranks = ("PADDLE_TRAINER_ID",)
    local_ranks = ("PADDLE_LOCAL_RANK",)
    world_sizes = ("PADDLE_TRAINERS_NUM",)


LAUNCHER = Paddle()
