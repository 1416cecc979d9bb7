"""The debug service extends a service of a compose file that compose does not read by itself: what comes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dkdbg.core.facts import RepoFacts, ServiceFact


@dataclass(frozen=True)
class Brought:
    """What our file needs besides the service.

    Attributes:
        dependencies: services that it extends one by one, because the service depends on them.
        includes: compose files that it includes, because what the service depends on is in files that those include.
        parts: (section, name, definition as JSON) that it has at its top level, see ServiceFact.parts.
        without: services that it depends on and that cannot be there.
        resets: keys of its section that name them.
    """

    dependencies: tuple[ServiceFact, ...] = ()
    includes: tuple[str, ...] = ()
    parts: tuple[tuple[str, str, str], ...] = ()
    without: tuple[str, ...] = ()
    resets: tuple[str, ...] = ()


def brought(facts: RepoFacts, base: ServiceFact | None) -> Brought:
    """Return what a service needs of its file; nothing where compose reads the file anyway.

    Compose refuses a network, a volume or a dependency that is nowhere defined. The file is not included if it can be
    helped: all of its services would start with the user's own, and what both define would be merged.
    """
    read = facts.compose_read
    if base is None or base.file in read:
        return Brought()
    taken = facts.compose_names
    there = {service.name: service for service in facts.services if service.file == base.file}
    needed: dict[str, ServiceFact] = {}
    todo = list(base.depends_on)
    while todo:
        name = todo.pop(0)
        if name in taken or name not in there:
            left = Brought(parts=base.parts, without=base.depends_on, resets=base.refers)
            return left if read else Brought(includes=(base.file,))
        if name not in needed:
            needed[name] = there[name]
            todo += there[name].depends_on
    parts = dict.fromkeys(part for service in (base, *needed.values()) for part in service.parts)
    return Brought(dependencies=tuple(needed.values()), parts=tuple(parts))
