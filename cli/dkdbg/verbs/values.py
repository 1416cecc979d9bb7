"""Parsers of option values. Each raises ArgumentTypeError for malformed text."""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING

from dkdbg.agent.inprocess.duration import seconds_of
from dkdbg.launchers.words import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

#: Help text of `--ranks`, for verbs that start or attach.
RANKS = "debug only these ranks, the others run free: 0,3 or 0-7:2 or failing (all)"

#: Help text of `--for`, for verbs that open a port.
FOR = "close the port after this time: 2h, 30m, 90s"


def seconds(text: str) -> int:
    """Parse a number of seconds, whole and at least 1."""
    found = whole_number(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds above 0")
    return found


def duration(text: str) -> float:
    """Parse a duration (`2h`, `30m`, `90s`, `90`), from 1 second to 365 days; return seconds."""
    found = seconds_of(text, least=1.0)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2h, 30m or 90s (1s to 8760h)")
    return found


def has_passed(limit: float | None) -> Callable[[], bool]:
    """Return a function that reports whether `limit` seconds have passed since now.

    For None it always returns False. It uses the wall clock, which also runs while a laptop sleeps.
    """
    end = math.inf if limit is None else time.time() + limit
    return lambda: time.time() >= end


def count(text: str) -> int:
    """Parse a whole number, at least 0."""
    found = whole_number(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return found


def port(text: str) -> int:
    """Parse a TCP port."""
    found = whole_number(text, 65535)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 1 to 65535")
    return found


def process(text: str) -> int:
    """Parse a PID."""
    found = whole_number(text, (1 << 22) - 1)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a PID; ps -e on the target lists them")
    return found


def rank_count(text: str) -> int:
    """Parse a number of ranks on one machine."""
    found = whole_number(text, 8)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks from 1 to 8")
    return found


def forwarded(text: str) -> tuple[int | None, int]:
    """Parse `6006` or `8006:6006`: return the local port (None if missing) and the remote port."""
    local, colon, remote = text.rpartition(":")
    return (port(local) if colon else None), port(remote)


def listened(text: str) -> tuple[str, int]:
    """Parse `5670`, `10.0.0.5:5670` or `[::1]:5670`: return host and port."""
    host, _, number = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port(number)


def size(text: str) -> int:
    """Parse a size such as `20GB`: return bytes."""
    from dkdbg.core import config

    found = config.size(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 20GB")
    return found
