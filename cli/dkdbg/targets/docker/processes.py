"""Choose how many processes a launcher starts: the documented number, limited by this machine."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.repository import dotenv
from dkdbg.repository.transaction import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.plan import DebugService, GpuKind
    from dkdbg.targets.docker.host import HostFacts

ENV_PROCESSES = "DKDBG_PROCESSES"


def choose_processes(
    root: Path, service: DebugService, gpu: GpuKind, host: HostFacts, *, report: Callable[[str], None]
) -> dict[str, str]:
    """Return the variable for compose's files; empty if the user sets the number, or it is undocumented.

    Each rank gets its own GPU (NCCL rejects two on one). Without GPUs each gets a core, if the program runs on a CPU.
    """
    env = read(root, PurePosixPath(".env"))
    written = dotenv.value_of(env.decode("utf-8", errors="replace"), ENV_PROCESSES) if env else None
    if not service.processes or os.environ.get(ENV_PROCESSES) or written:
        return {}
    if gpu != "none":
        can, of_what = host.gpus, f"{host.gpus} GPU{'s' * (host.gpus != 1)}"
    elif service.needs_gpu:
        can, of_what = 1, "no GPU"
    else:
        can, of_what = host.cores, f"no GPU and {host.cores} core{'s' * (host.cores != 1)}"
    count = max(1, min(service.processes, can))
    why = (
        "as documented"
        if count == service.processes
        else f"the documentation has {service.processes}, and here is {of_what}"
    )
    report(f"{count} process{'es' * (count != 1)} ({why}); {ENV_PROCESSES} sets the number")
    return {ENV_PROCESSES: str(count)}
