"""The token that the debug service requires."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.settings import ENV_TOKEN
from dkdbg.core.plan import FROM_ENVIRONMENT, FROM_NOWHERE, FROM_PERSON
from dkdbg.setup.detect.people import others
from dkdbg.setup.render import token_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.core.plan import DebugService


def choose_token(service: DebugService, *, report: Callable[[str], None]) -> str:
    """Return the token that the service requires, empty if it requires none; create a token if it is missing.

    Raises:
        DkdbgError: the token file cannot be used.
    """
    if service.token == FROM_NOWHERE:
        people = others()
        if people:
            report(
                f"note: {_named(people)} can reach this port too, which runs code as you; a token keeps them out: "
                'token = "env" under [debug] in dkdbg.toml, then dkdbg init and dkdbg up'
            )
        return ""
    token, file = token_file.read(os.environ), token_file.path(os.environ)
    if token is None:
        token = token_file.make(os.environ)
        report(f"created a token for your debug ports: {file}")
        if service.token == FROM_PERSON:
            report(hints.TOKEN_SHOW(file=shlex.quote(str(file))))
    elif not token:
        report("note: DKDBG_TOKEN is set and empty: everyone who can reach the port may attach")
    if token and service.token == FROM_ENVIRONMENT and not os.environ.get(ENV_TOKEN):
        report(hints.TOKEN_EXPORT(variable=ENV_TOKEN, file=shlex.quote(str(file))))
        report("  and restart the editor (or its remote server); until then its attach is refused")
    return token


def _named(people: tuple[str, ...]) -> str:
    shown = ", ".join(people[:3])
    return shown + (
        f" and {len(people) - 3} more users of this machine" if people[3:] else " on this machine"
    )
