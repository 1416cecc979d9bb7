"""What the values of options are read as, and what is said to those that make no sense."""

from __future__ import annotations

import argparse

#: What --ranks means to the verbs that start or attach.
RANKS = "debug only these ranks, the others run free: 0,3 or 0-7:2 or failing (all)"


def seconds(text: str) -> int:
    """At least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds above 0")
    return int(text)


def count(text: str) -> int:
    """From 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def port(text: str) -> int:
    """Of TCP."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return int(text)


def process(text: str) -> int:
    """A pid."""
    if not text.isdecimal() or not 0 < int(text) < 1 << 22:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a process")
    return int(text)


def rank_count(text: str) -> int:
    """As many as one machine is asked for."""
    if not text.isdecimal() or not 1 <= int(text) <= 8:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks from 1 to 8")
    return int(text)


def forwarded(text: str) -> tuple[int | None, int]:
    """`6006`, or `8006:6006`: here and there."""
    here, colon, there = text.rpartition(":")
    return (port(here) if colon else None), port(there)


def listened(text: str) -> tuple[str, int]:
    """`5670`, or `10.0.0.5:5670`, or `[::1]:5670`."""
    host, _, number = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port(number)


def size(text: str) -> int:
    """Bytes, from `20GB` and the like."""
    from dkdbg.core import config

    found = config.size(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 20GB")
    return found
