"""Services that compose leaves out until somebody names their profile, although others cannot be without them.

Compose refuses every command where a service that is in depends on one that is out (compose specification, `profiles`),
and `--profile debug` takes the place of the COMPOSE_PROFILES that the user may have for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.core.compose_files import main_files
from dkdbg.core.debug_names import DEVCONTAINER_PROFILE, PROFILE

if TYPE_CHECKING:
    from dkdbg.core.facts import RepoFacts, ServiceFact

#: Those that dkdbg names.
_OURS = frozenset({PROFILE, DEVCONTAINER_PROFILE})


def left_out(facts: RepoFacts, base: ServiceFact | None) -> tuple[str, ...]:
    """Return the services that have to be in our profiles too, those of the files that ours is merged with.

    Args:
        base: that the debug service extends, None when it stands alone.
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
