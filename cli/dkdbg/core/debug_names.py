"""The names and profiles that the debug service of a user's service may have: the planner gives them, others look for them."""

from __future__ import annotations

import re

#: Compose's profile of it, and of the service that "Reopen in Container" opens.
PROFILE, DEVCONTAINER_PROFILE = "debug", "devcontainer"
#: As compose has it, and no option of a command line either. It stands in shell scripts and YAML as it is.
_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,200}")


def is_name(text: str) -> bool:
    """Whether a service may be called so."""
    return _NAME.fullmatch(text) is not None


def names(service: str) -> tuple[str, ...]:
    """Names of the twin of `service`, the preferred one first: a later one where a user's service has the earlier."""
    return (
        f"{service}-debug",
        f"{service}-dkdbg",
        *(f"{service}-dkdbg-{number}" for number in range(2, 100)),
    )


def devcontainer(name: str) -> str:
    """Return the name of the service that Reopen in Container starts, for a debug service called `name`."""
    return f"{name}-devcontainer"


def rank(service: str, name: str) -> int | None:
    """How well the service `name` fits when `service` is asked for, 0 is best: a twin goes before the service itself."""
    order = (*names(service), service)
    return order.index(name) if name in order else None
