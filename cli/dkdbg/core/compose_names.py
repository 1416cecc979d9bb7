"""Names in a compose project: its files, the debug service of a service, and the profiles of dkdbg."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Compose profiles of the debug service, and of the service that "Reopen in Container" opens.
PROFILE, DEVCONTAINER_PROFILE = "debug", "devcontainer"
#: Service names that are valid in compose, not a command-line option, and safe without quotes in shell scripts and
#: YAML.
_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,200}")


def is_name(text: str) -> bool:
    """Return whether `text` is a service name that compose accepts and that needs no quotes."""
    return _NAME.fullmatch(text) is not None


def names(service: str) -> tuple[str, ...]:
    """Return possible names for the debug service of `service`, in order of preference.

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


#: Compose's own order of preference (compose-go `cli/options.go`).
DEFAULT_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
OVERRIDE_NAMES = (
    "compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml",
)  # fmt: skip


def main_files(files: Sequence[str], compose_env: str | None) -> tuple[str, ...]:
    """Return the files that are merged, in order; compose reads only the first override file.

    Args:
        files: the compose files in the folder.
        compose_env: value of COMPOSE_FILE, see RepoFacts.
    """
    if compose_env:
        return tuple(compose_env.split(":"))
    main = [name for name in DEFAULT_NAMES if name in files][:1]
    return (*main, *([name for name in OVERRIDE_NAMES if name in files][:1] if main else ()))
