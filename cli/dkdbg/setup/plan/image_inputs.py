"""List the files that go into the debug service's image: a start builds only if one of them has changed."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dkdbg.core.facts import DockerfileFact, RepoFacts, ServiceFact
    from dkdbg.core.plan import ImagePlan

#: Variables by which the user decides where Python writes bytecode.
_OF_BYTECODE = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"})
#: Packaging files that an editable installation reads.
_PACKAGING = ("pyproject.toml", "setup.py", "setup.cfg")


def of_our_image(image: ImagePlan) -> tuple[str, ...]:
    """Return the inputs of an image built from our Dockerfile, relative to the repository's root."""
    copied = tuple(name for install in image.installs for name in install.copy)
    packaging = _PACKAGING if image.installs_project else ()
    named = (str(image.dockerfile), f"{image.dockerfile}.dockerignore", *copied, *packaging)
    return tuple(dict.fromkeys(name for name in named if _is_plain(name)))


def of_your_image(
    dockerfile: DockerfileFact, base: ServiceFact | None, mounted: tuple[tuple[str, str], ...]
) -> tuple[str, ...] | None:
    """Return the inputs of an image of the user's, relative to the repository's root; None for "any file".

    Args:
        dockerfile: the Dockerfile of the image.
        base: the service to debug.
        mounted: (local, remote) of all mounts over the image.
    """
    context = (base.context if base else None) or "."
    if dockerfile.inputs is None:
        return None
    if base and ((base.image and not base.release) or base.depends_on or base.context is None):
        return None
    folders = [pair for pair in dockerfile.copies if f"{pair[0]}/" in dockerfile.inputs]
    if any((posixpath.normpath(f"{context}/{local}"), remote) not in mounted for local, remote in folders):
        return None
    if len({local for local, _ in folders}) < sum(name.endswith("/") for name in dockerfile.inputs):
        return None  # an input is copied to a folder that is not mounted
    found = [
        posixpath.normpath(f"{context}/{name}") + ("/" if name.endswith("/") else "")
        for name in dockerfile.inputs
    ]
    names = (
        dockerfile.path,
        f"{dockerfile.path}.dockerignore",
        posixpath.normpath(f"{context}/.dockerignore"),
    )
    named = (*names, *((base.file,) if base else ()), *found)
    return tuple(dict.fromkeys(named)) if all(map(_is_plain, named)) else None


def takes_bytecode(
    facts: RepoFacts, dockerfile: DockerfileFact, base: ServiceFact | None, variables: frozenset[str]
) -> bool:
    """Return whether a `__pycache__` written to the mounted repository would make the next start install again.

    Args:
        facts: provides the .dockerignore files.
        dockerfile: the Dockerfile of the image; without an installation after the copied code it is never affected.
            BuildKit prefers the Dockerfile's own .dockerignore to the context's.
        base: the service to debug.
        variables: variables that the user sets for the container; two of them control bytecode.
    """
    variables |= {name for name, _ in dockerfile.env} | (base.variables if base else frozenset())
    if variables & _OF_BYTECODE or dockerfile.inputs is not None:
        return False
    ignores = dict(facts.dockerignores)
    context = (base.context if base else None) or "."
    shared = ignores.get(posixpath.normpath(f"{context}/.dockerignore"), False)
    return not ignores.get(f"{dockerfile.path}.dockerignore", shared)


def _is_plain(name: str) -> bool:
    """Return whether a path stays below the root and can be written on one line of a shell script."""
    return ".." not in PurePosixPath(name).parts and not name.startswith("/") and name.isprintable()
