"""Find services that are disabled by their profile although enabled services depend on them.

Compose rejects every command in which an enabled service depends on a disabled one (compose specification,
`profiles`), and `--profile debug` overrides the user's COMPOSE_PROFILES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.core.compose_files import main_files
from dkdbg.core.debug_names import DEVCONTAINER_PROFILE, PROFILE

if TYPE_CHECKING:
    from dkdbg.core.facts import RepoFacts, ServiceFact

#: dkdbg's own profiles.
_OURS = frozenset({PROFILE, DEVCONTAINER_PROFILE})


def left_out(facts: RepoFacts, base: ServiceFact | None) -> tuple[str, ...]:
    """Return the services to add to our profiles, from the files that ours is merged with.

    Args:
        base: the service that the debug service extends, None if it extends none.
    """
    merged = main_files(facts.compose_files, facts.compose_env)
    profiles: dict[str, set[str]] = {}
    needs: dict[str, set[str]] = {}
    for service in facts.services:
        if service.file in merged:
            profiles.setdefault(service.name, set()).update(service.profiles)
            needs.setdefault(service.name, set()).update(set(service.depends_on) - set(service.optional))
    todo = [name for name, named in profiles.items() if not named or named & _OURS]
    if base is not None and base.file in merged and base.name in needs:
        todo.append(base.name)
    found: dict[str, None] = {}
    while todo:
        for name in sorted(needs[todo.pop()]):
            if name in profiles and name not in found and profiles[name] and not profiles[name] >= _OURS:
                found[name] = None
                todo.append(name)
    return tuple(found)
