"""torch.compile: the pool of compile workers below a program."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launcher


class TorchCompile(Launcher):
    """torch's compile workers; nobody types them."""

    names = ("torch.compile",)
    is_program = False
    helpers = (
        ("torch/_inductor/compile_worker", "torch compile worker"),
        ("torch._inductor.compile_worker", "torch compile worker"),
    )


LAUNCHER = TorchCompile()
