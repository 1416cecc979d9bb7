"""Prove that a breakpoint stops, or name the first link that is broken and its remedy: `dkdbg verify`, `dkdbg why`."""
