"""Limits of inotify: their names, and the command that raises one."""

from __future__ import annotations

#: Minimum value to suggest for each limit; a watch costs 1 KB of kernel memory.
_FLOORS = {"watches": 524288, "instances": 512}


def names(what: str) -> tuple[str, str]:
    """Return the sysctl names of the limit on `watches` or `instances`: of the machine, and of a user namespace."""
    return f"fs.inotify.max_user_{what}", f"user.max_inotify_{what}"


def more(what: str, name: str, value: int) -> str:
    """Return the command that raises a limit.

    Args:
        what: watches or instances.
        name: sysctl name of the limit. value: its present value.
    """
    return f"sudo sysctl {name}={max(2 * value, _FLOORS[what])}"
