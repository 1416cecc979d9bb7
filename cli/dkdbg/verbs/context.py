"""`dkdbg --context NAME`: which Docker engine is meant, as docker's own option says it."""

from __future__ import annotations

import os


def choose(name: str) -> None:
    """Let a context of docker's be the engine of this process and all that it starts.

    As with `docker --context`, it goes before DOCKER_HOST; one that does not exist, the engine's first answer says.
    """
    os.environ.pop("DOCKER_HOST", None)
    os.environ["DOCKER_CONTEXT"] = name
