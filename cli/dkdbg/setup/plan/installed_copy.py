"""Handle images that run an installed copy of the repository: import the mounted sources instead, or explain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dkdbg.core.facts import RepoFacts
    from dkdbg.core.plan import Mapping, ServicePlan


def without_released(facts: RepoFacts) -> tuple[RepoFacts, tuple[str, ...]]:
    """Drop the Dockerfiles that install a release of the project, in which these sources do not run."""
    released = {path for path, how in facts.installed if how == "released"}
    left = tuple(
        fact
        for fact in facts.dockerfiles
        if fact.path in released and not fact.copies and facts.service is None
    )
    if not left:
        return facts, ()
    kept = tuple(fact for fact in facts.dockerfiles if fact not in left)
    note = f"{left[0].path} installs a release of {facts.name} and none of these sources, so the debug service gets an image of its own"
    return replace(facts, dockerfiles=kept), (note,)


def with_sources(
    facts: RepoFacts, service: ServicePlan, mappings: tuple[Mapping, ...], dockerfile: str | None
) -> tuple[ServicePlan, tuple[str, ...]]:
    """Put the mounted sources before the image's installed copy on PYTHONPATH; return the service and notes."""
    how = dict(facts.installed).get(dockerfile or "")
    if how not in {"copied", "released"} or facts.source_root is None:
        return service, ()
    if facts.compiled:
        said = f"{dockerfile} installs a copy of this repository with compiled parts: breakpoints bind only in the copy"
        return service, (f"{said}; pip install -e in it makes the image run these files",)
    image = next((fact for fact in facts.dockerfiles if fact.path == dockerfile), None)
    root = next((m.remote for m in mappings if m.local == facts.source_root), None)
    if root is None:
        whole = next((m.remote for m in mappings if m.local == "."), None)
        if whole is None:
            return service, ()
        root = PurePosixPath(whole, facts.source_root)
    theirs = service.extends.pythonpath if service.extends else None
    before = theirs if theirs is not None else dict(image.env).get("PYTHONPATH", "") if image else ""
    if before.split(":")[0] == str(root):
        return service, ()
    path = f"{root}:{before}" if before and "$" not in before else str(root)
    note = f"{dockerfile} installs a copy of this repository; PYTHONPATH={path} makes these files run instead"
    return replace(service, pythonpath=path), (note,)
