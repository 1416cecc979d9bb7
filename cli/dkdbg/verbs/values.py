"""Parsers of option values; each raises ArgumentTypeError for text that it cannot read."""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING

from dkdbg.agent.inprocess.duration import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Help of --ranks for the verbs that start or attach.
RANKS = "debug only these ranks, the others run free: 0,3 or 0-7:2 or failing (all)"

#: Help of --for for the verbs that open a port.
FOR = "close it after this time: 2h, 30m, 90s"


def seconds(text: str) -> int:
    """Return whole seconds, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds above 0")
    return int(text)


def duration(text: str) -> float:
    """Return the seconds of `2h`, `30m`, `90s` or `90`, from 1 second to 365 days."""
    found = seconds_of(text, least=1.0)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2h, 30m or 90s (1s to 8760h)")
    return found


def has_passed(limit: float | None) -> Callable[[], bool]:
    """Return a function that tells whether so many seconds have passed since now; None never pass.

    The clock is the wall's, which goes on while a laptop sleeps.
    """
    end = math.inf if limit is None else time.time() + limit
    return lambda: time.time() >= end


def count(text: str) -> int:
    """Return a whole number, at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def port(text: str) -> int:
    """Return a TCP port."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return int(text)


def process(text: str) -> int:
    """Return a PID."""
    if not text.isdecimal() or not 0 < int(text) < 1 << 22:
        raise argparse.ArgumentTypeError(f"{text!r} is not a PID")
    return int(text)


def rank_count(text: str) -> int:
    """Return a number of ranks on one machine."""
    if not text.isdecimal() or not 1 <= int(text) <= 8:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks from 1 to 8")
    return int(text)


def forwarded(text: str) -> tuple[int | None, int]:
    """Return the local port, if named, and the remote port of `6006` or `8006:6006`."""
    here, colon, there = text.rpartition(":")
    return (port(here) if colon else None), port(there)


def listened(text: str) -> tuple[str, int]:
    """Return host and port of `5670`, `10.0.0.5:5670` or `[::1]:5670`."""
    host, _, number = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port(number)


def size(text: str) -> int:
    """Return the bytes of `20GB` and the like."""
    from dkdbg.core import config

    found = config.size(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 20GB")
    return found
