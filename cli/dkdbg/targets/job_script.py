"""A job that is to be submitted: what its script is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Script:
    """A job script.

    Attributes:
        name: of the job, for listings of the batch system.
        folder: where it runs, a path there; empty for the home.
        options: of the batch system's own program, as a person has typed them.
    """

    name: str
    folder: str
    options: tuple[str, ...]
