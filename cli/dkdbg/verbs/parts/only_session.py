"""Find the session that a user means without naming one."""

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
    """Return the session of this repository's debug service, even if others run, or else the only session.

    Args:
        root: the repository's root, resolved.
        naming: see sessions.choose.

    Raises:
        DkdbgError: no session runs, or several do.
    """
    with contextlib.suppress(DkdbgError):  # not set up here, or not running
        check_root(root)
        return sessions.choose(registry.home(root, debug_service(root).name).sessions(), naming=naming)
    return sessions.choose(registry.sessions()[0], naming=naming)
