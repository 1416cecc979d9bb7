"""Frames and messages of the Debug Adapter Protocol. No I/O."""
