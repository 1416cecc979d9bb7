"""Prove that a breakpoint stops, or name the first broken link and its remedy: `dkdbg verify` and `dkdbg why`."""
