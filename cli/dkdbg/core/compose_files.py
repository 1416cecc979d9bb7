"""Names of compose files, and the choice of files that plain `docker compose` merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
