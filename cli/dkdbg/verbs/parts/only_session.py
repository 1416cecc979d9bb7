"""Which session is meant where none is named."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dkdbg.core import sessions
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from dkdbg.verbs.parts.repository import check_root, debug_service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.sessions import SeenSession


def only_session(root: Path, naming: Callable[[str], str]) -> SeenSession:
    """That of this repository's debug service, whatever else runs, or else the only one there is.

    Args:
        root: the repository's root, resolved.
        naming: see sessions.choose.

    Raises:
        DkdbgError: there is no session, or more than one.
    """
    with contextlib.suppress(DkdbgError):  # nothing is set up here, or it does not run
        check_root(root)
        return sessions.choose(registry.home(root, debug_service(root).name).sessions(), naming=naming)
    return sessions.choose(registry.sessions()[0], naming=naming)
