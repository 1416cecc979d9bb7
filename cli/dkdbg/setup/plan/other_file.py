"""Collect what a debug service needs from a compose file that plain `docker compose` does not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.compose_names import DEVCONTAINER_PROFILE, PROFILE, main_files

if TYPE_CHECKING:
    from dkdbg.core.facts import RepoFacts, ServiceFact


@dataclass(frozen=True)
class Brought:
    """Parts that dkdbg's compose file takes, besides the extended service, from that service's file.

    Attributes:
        dependencies: services on which the extended one depends; each is extended as well.
        includes: compose files to include, because dependencies are defined in files that these include.
        parts: (section, name, definition as JSON) for the top level of dkdbg's file; see ServiceFact.parts.
        without: dependencies that cannot be provided.
        resets: keys of the service that refer to services in `without`, and so have to be reset.
    """

    dependencies: tuple[ServiceFact, ...] = ()
    includes: tuple[str, ...] = ()
    parts: tuple[tuple[str, str, str], ...] = ()
    without: tuple[str, ...] = ()
    resets: tuple[str, ...] = ()


def brought(facts: RepoFacts, base: ServiceFact | None) -> Brought:
    """Return the parts that the service needs from its file; none if plain compose reads that file anyway.

    Compose rejects an undefined network, volume or dependency. To include the whole file is the last resort: all its
    services would start with the user's own, and services in both files would be merged.
    """
    read = facts.compose_read
    if base is None or base.file in read:
        return Brought()
    taken = facts.compose_names
    services = {service.name: service for service in facts.services if service.file == base.file}
    needed: dict[str, ServiceFact] = {}
    todo = list(base.depends_on)
    while todo:
        name = todo.pop(0)
        if name in taken or name not in services:
            left = Brought(parts=base.parts, without=base.depends_on, resets=base.refers)
            return left if read else Brought(includes=(base.file,))
        if name not in needed:
            needed[name] = services[name]
            todo += services[name].depends_on
    parts = dict.fromkeys(part for service in (base, *needed.values()) for part in service.parts)
    return Brought(dependencies=tuple(needed.values()), parts=tuple(parts))


_OWN_PROFILES = frozenset({PROFILE, DEVCONTAINER_PROFILE})


def left_out(facts: RepoFacts, base: ServiceFact | None) -> tuple[str, ...]:
    """Return the services to add to dkdbg's profiles, because services in those profiles depend on them.

    Return only services in files that compose merges with dkdbg's. The debug service extends `base`.
    """
    merged = main_files(facts.compose_files, facts.compose_env)
    profiles: dict[str, set[str]] = {}
    needs: dict[str, set[str]] = {}
    for service in facts.services:
        if service.file in merged:
            profiles.setdefault(service.name, set()).update(service.profiles)
            needs.setdefault(service.name, set()).update(set(service.depends_on) - set(service.optional))
    todo = [name for name, named in profiles.items() if not named or named & _OWN_PROFILES]
    if base is not None and base.file in merged and base.name in needs:
        todo.append(base.name)
    found: dict[str, None] = {}
    while todo:
        for name in sorted(needs[todo.pop()]):
            if (
                name in profiles
                and name not in found
                and profiles[name]
                and not profiles[name] >= _OWN_PROFILES
            ):
                found[name] = None
                todo.append(name)
    return tuple(found)
