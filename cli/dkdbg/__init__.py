"""dkdbg: debug a training job from the inside, in its container, without changing its code.

`dkdbg.breakpoint()` stops at its line when the program runs under dkdbg and an editor is attached. Elsewhere it
does nothing. This file is also copied into containers with the agent: keep it compatible with Python 3.8, and
import nothing before the first call.
"""

__version__ = "0.1.0"

_ON_DEMAND = ("breakpoint", "set_trace", "settrace")


def __getattr__(name: str) -> object:
    if name in _ON_DEMAND:
        from dkdbg.agent.inprocess import on_demand  # noqa: PLC0415 - nothing is imported before a call

        return getattr(on_demand.of_this_process(), name)
    raise AttributeError(f"module 'dkdbg' has no attribute {name!r}")
