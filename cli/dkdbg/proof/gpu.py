"""Check that torch sees the GPU that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import DkdbgError
from dkdbg.proof.finding import BrokenError, Finding

if TYPE_CHECKING:
    from dkdbg.core.target import Target

#: Seconds for torch to look for a GPU.
_TIMEOUT_S = 180.0
_CODE = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda or torch.version.hip)"


def check_given(given: tuple[str, str], wish: str) -> None:
    """Raise BrokenError if a GPU was asked for, and the container got none.

    Args:
        given: how the container gets a GPU, and why.
        wish: what asks for one; empty without a wish.
    """
    kind, why = given
    if kind == "none" and wish:
        raise BrokenError(
            Finding(
                link="gpu", cause="gpu-absent", says=f"{wish} asks for a GPU, and the container got none: {why}",
                remedy="nvidia-smi on this machine must list it; install the NVIDIA Container Toolkit, restart the engine, and run "
                "dkdbg verify again; DKDBG_GPU=nvidia forces it",
            )
        )  # fmt: skip


def seen(given: tuple[str, str], target: Target, executable: str) -> str:
    """Return what torch sees of a given GPU, as text; empty if none was given.

    Args:
        given: how the container gets a GPU, and why.
        executable: the program's interpreter there.

    Raises:
        BrokenError: torch does not see it.
    """
    kind, why = given
    if kind == "none":
        return ""
    try:
        done = process.read(
            target.wrap([executable or "python3", "-c", _CODE]), most=1 << 16, timeout=_TIMEOUT_S
        )
    except DkdbgError as error:
        return f"{kind}; torch could not be asked: {error.message}"
    words = done.stdout.split()
    if done.code or len(words) != 3:
        return f"{kind} ({why}); torch is not installed for {executable}"
    if words[0] != "True":
        raise BrokenError(
            Finding(
                link="gpu", cause="gpu-unseen", says=f"the container got a GPU ({kind}: {why}), and torch sees none (built for CUDA {words[2]})",
                remedy="a torch build for this driver: nvidia-smi names its CUDA; pip install torch from the index of that version",
            )
        )  # fmt: skip
    return f"{words[1]} seen by torch (CUDA {words[2]})"
