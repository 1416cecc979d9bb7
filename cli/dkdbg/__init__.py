"""dkdbg: stand inside the training job at a breakpoint, in a container, with no change to the code."""

__version__ = "0.1.0"
