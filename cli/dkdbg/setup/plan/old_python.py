"""Replace a Python that is too old for the agent: by another part of the repository, or by an image of our own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg.core.facts import BY_WHEELS, PythonFact
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from dkdbg.core.config import Config
    from dkdbg.core.facts import DockerfileFact, RepoFacts, ServiceFact

#: Oldest Python of debugpy and the agent.
OLDEST = (3, 8)


def with_a_python(facts: RepoFacts, config: Config) -> tuple[RepoFacts, tuple[str, ...]]:
    """Return facts with a supported Python, and notes on the difference; unchanged facts if the Python is supported.

    Raises:
        DkdbgError: the user names a service whose Python is too old.
    """
    if not _is_old(facts.python.version):
        return facts, ()
    was, where = facts.python.version, facts.python.source
    says = (
        f"the releases that are named here have wheels for Python {was}"
        if where == BY_WHEELS
        else f"{where} says Python {was}"
    )
    images = {fact.path: fact for fact in facts.dockerfiles}
    named = next((each for each in facts.services if config.service and each.is_called(config.service)), None)
    if config.service is not None and _of(named, images):
        raise DkdbgError(
            f"service {config.service} runs Python {was} ({where}), which no current debugger supports (3.8 and newer)",
            hint="without --service, dkdbg init makes an image with a newer Python; or raise the version there",
            exit_code=EXIT_USAGE,
        )
    newer = tuple(fact for fact in facts.dockerfiles if fact.python is not None and not _is_old(fact.python))
    service = next(
        (
            item
            for item in facts.services
            if item.is_python and item.dockerfile in {fact.path for fact in newer} and item != facts.service
        ),
        None,
    )
    if service is not None:
        python = PythonFact(
            version=str(images[str(service.dockerfile)].python), source=str(service.dockerfile)
        )
        left = facts.service.name if facts.service else where
        note = f"{left} runs Python {was}, which no current debugger supports; {service.name} has {python.version}, so that one is debugged"
        return replace(
            facts, python=python, service=service, mappings=(), ports=service.ports, dockerfiles=newer
        ), (note,)
    python = PythonFact(
        version=".".join(map(str, OLDEST)), source=f"the oldest that debuggers support; {says}"
    )
    kept: tuple[DockerfileFact, ...] = ()
    if facts.service is None and newer:
        kept, python = newer, PythonFact(version=str(newer[0].python), source=newer[0].path)
    note = (
        f"{says}, which no current debugger supports: "
        + (
            f"{kept[0].path} has {python.version} and is used"
            if kept
            else f"the debug service gets an image of its own with {python.version}"
        )
        + f"; releases without wheels for it fail to install, and no other setting of {facts.service.name if facts.service else 'the former'} is used"
        * (not kept)
    )
    return replace(facts, python=python, service=None, mappings=(), dockerfiles=kept), (note,)


def _is_old(version: str) -> bool:
    return tuple(int(part) for part in version.split(".")[:2]) < OLDEST


def _of(service: ServiceFact | None, images: dict[str, DockerfileFact]) -> bool:
    """Return whether the service's Python is known to be too old."""
    image = images.get(service.dockerfile or "") if service else None
    return image is not None and image.python is not None and _is_old(image.python)
