"""`dkdbg` without a verb: report what is set up in this repository, what runs, and what to type next."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from dkdbg import __version__, console, hints
from dkdbg.core import sessions
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.repository.dotenv import local_port
from dkdbg.setup.render import manifest
from dkdbg.setup.render.editor_files import launch_port
from dkdbg.targets import registry
from dkdbg.verbs.parts.repository import check_root, check_written

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.plan import DebugService
    from dkdbg.core.sessions import SeenSession


def status(root: Path) -> int:
    """Print the report, and return the exit code. Does not inspect the repository, to be as fast as `dkdbg ps`.

    Raises:
        DkdbgError: a file that `init` wrote cannot be read.
    """
    console.say(f"dkdbg {__version__} in {printable(str(root))}")
    try:
        check_root(root)
    except DkdbgError:
        _say("set up", "no: this is not a repository")
        _running(_seen())
        _say("next", hints.GO_TO_REPOSITORY())
        _say("", hints.TRY_DEMO())
        return 0
    if manifest.load(root).files.keys() <= {manifest.MANIFEST}:
        _say("set up", "not yet")
        _running(_seen())
        _say("next", hints.INIT_PLAN())
        return 0
    return _of_service(root)


def _of_service(root: Path) -> int:
    service = manifest.debug_service(root)
    if service is None:
        _say("set up", "yes, but dkdbg.toml or a generated file was changed after dkdbg init")
        _running(_seen())
        _say("next", "dkdbg init shows what would change")
        return 0
    _say(
        "set up",
        f"{service.name} in {service.compose_file}, F5 attaches to port {launch_port(root) or local_port(root, service.port)}",
    )
    try:
        check_written(root, service.compose_file)
    except DkdbgError as error:
        _say("", error.message)
        _say("next", error.hint)
        return 0
    seen = _seen()
    _running(seen)
    # In repositories without a compose service, all debug services have the same name. A session of that name may
    # belong to another repository, so query this repository's own.
    own_sessions = _own_sessions(root, service) if any(each.name == service.name for each in seen) else []
    for number, line in enumerate(_next(service, own_sessions)):
        _say("next" if number == 0 else "", line)
    return 0


def _next(service: DebugService, own_sessions: list[SeenSession]) -> list[str]:
    if not own_sessions:
        return [
            'set a breakpoint and press F5 in VS Code (configuration "dkdbg: attach")',
            "or start it from here: dkdbg up",
        ]
    if any(each.client for each in own_sessions):
        return [hints.ATTACHED()]
    return [hints.PRESS_F5(service=service.name)]


def _seen() -> list[SeenSession]:
    seen, missing = registry.sessions()
    for scheme, reason in missing.items():
        _say("", f"{scheme} cannot be queried: {reason}")
    return [each for each in seen if not each.is_ended]


def _own_sessions(root: Path, service: DebugService) -> list[SeenSession]:
    """Return the running sessions of this repository's debug service."""
    with contextlib.closing(registry.home(root, service.name)) as target, contextlib.suppress(DkdbgError):
        return [each for each in target.sessions() if not each.is_ended]
    return []


def _running(seen: list[SeenSession]) -> None:
    if not seen:
        _say("runs", "nothing")
        return
    rows = sessions.rows(seen, time.time())
    console.table(sessions.HEADER, rows, styles=sessions.STYLES, whole=sessions.WHOLE, label=_label("runs"))


def _say(what: str, text: str) -> None:
    console.say(f"{_label(what)}{text}".rstrip())


def _label(what: str) -> str:
    return f"  {what:<8}"
