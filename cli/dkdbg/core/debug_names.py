"""Names and profiles of the debug service of a user's service: the planner assigns them, other modules look them up."""

from __future__ import annotations

import re

#: Compose profiles of the debug service, and of the service that "Reopen in Container" opens.
PROFILE, DEVCONTAINER_PROFILE = "debug", "devcontainer"
#: Service names that are valid in compose, not a command-line option, and safe without quotes in shell scripts and
#: YAML.
_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,200}")


def is_name(text: str) -> bool:
    """Return whether this is a valid name of a service."""
    return _NAME.fullmatch(text) is not None


def names(service: str) -> tuple[str, ...]:
    """Return the names for the debug service of `service` in order of preference.

    A later name is used if the user's own services already have the earlier ones.
    """
    return (
        f"{service}-debug",
        f"{service}-dkdbg",
        *(f"{service}-dkdbg-{number}" for number in range(2, 100)),
    )


def service_of(name: str) -> str:
    """Return the service whose debug service has this name; empty if no debug service is named so."""
    found = re.fullmatch(r"(.+?)-(?:debug|dkdbg(?:-\d+)?)", name)
    return found[1] if found else ""


def devcontainer(name: str) -> str:
    """Return the name of the service that Reopen in Container starts, for a debug service called `name`."""
    return f"{name}-devcontainer"


def rank(service: str, name: str) -> int | None:
    """Return how well the service `name` fits a request for `service`: 0 is best, None does not fit.

    A debug service precedes the service itself.
    """
    order = (*names(service), service)
    return order.index(name) if name in order else None
