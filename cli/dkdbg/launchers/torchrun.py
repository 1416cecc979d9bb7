"""torchrun, by its name or as a module (torch/distributed/run.py, get_args_parser)."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader


class Torchrun(Spreader):
    """torchrun and its older forms; its ranks know themselves by RANK, LOCAL_RANK and WORLD_SIZE."""

    names = ("torchrun",)
    programs = ("torchrun",)
    modules = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic")
    value_options = (
        "--nnodes", "--nproc-per-node", "--nproc_per_node", "--rdzv-backend", "--rdzv_backend", "--rdzv-endpoint",
        "--rdzv_endpoint", "--rdzv-id", "--rdzv_id", "--rdzv-conf", "--rdzv_conf", "--max-restarts", "--max_restarts",
        "--monitor-interval", "--monitor_interval", "--start-method", "--start_method", "--role", "--log-dir",
        "--log_dir", "-r", "--redirects", "-t", "--tee", "--local-ranks-filter", "--local_ranks_filter", "--node-rank",
        "--node_rank", "--master-addr", "--master_addr", "--master-port", "--master_port", "--local-addr",
        "--local_addr", "--logs-specs", "--logs_specs", "--duplicate-stdout-filters", "--duplicate-stderr-filters",
    )  # fmt: skip
    count_options = ("--nproc_per_node", "--nproc-per-node")
    gpu = "no fallback"
    ranks = ("RANK",)
    local_ranks = ("LOCAL_RANK",)
    world_sizes = ("WORLD_SIZE",)
    local_sizes = ("LOCAL_WORLD_SIZE",)


LAUNCHER = Torchrun()
