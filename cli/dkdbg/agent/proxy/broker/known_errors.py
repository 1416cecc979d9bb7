"""Known framework errors under a debugger, and advice for each. No I/O."""

from __future__ import annotations

#: Part of the printed error (torch/cuda/__init__.py, `_lazy_init`) -> advice, printed in the same console.
KNOWN_ERRORS = {
    "Cannot re-initialize CUDA in forked subprocess": (
        "CUDA was used in this process's parent before it was forked: by the program, or by an expression in the "
        "debugger (torch.cuda...). Start workers with spawn: multiprocessing.set_start_method('spawn'), "
        "DataLoader(..., multiprocessing_context='spawn')"
    ),
    "EOFError: EOF when reading a line": (
        "input() has no terminal to read from where F5 starts the program: start it in one with dkdbg run -- COMMAND, and "
        "press F5 while it waits"
    ),
}


def advice(printed: object) -> str:
    """Return the advice for a piece of a program's stderr, empty for none."""
    if not isinstance(printed, str):
        return ""
    return next((text for mark, text in KNOWN_ERRORS.items() if mark in printed), "")
