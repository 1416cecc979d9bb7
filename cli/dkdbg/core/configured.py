"""Names that a repository's dkdbg.toml gives to targets: `[targets.cluster] uri = "ssh://login,node1/~/code"`.

A clone may bring any dkdbg.toml. An address carries no options and no command, whichever its kind is; besides, one from
here names no folder of this machine, no home elsewhere, where files of a stranger's would be read by a shell, and no
server that is shown a token of the user's. This holds for the target around which another one is, too: `ray+ssh://...`. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.core.address import ENDPOINT, LOCAL
from dkdbg.core.config import FILE_NAME
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.core.address import Address

#: Folders that are somebody's home, without what lies in them; macOS tells no case apart.
_HOME = re.compile(r"/?(~|root|var/root|(home|Users)(/[^/]+)?|)", re.IGNORECASE)
#: Folders that are on a user's PATH, or in a home of macOS, which starts programs from there.
_RUN = re.compile(r"(.*/)?s?bin|(~|Users/[^/]+)/Library(/.*)?", re.IGNORECASE)
#: Schemes whose targets send the user's token to the server of the address, and what the token is for.
_TOKENS = {"pai": "OpenPAI", "ray": "Ray"}


def address_of(
    name: str, uri: str, *, parse: Callable[[str], Address], inner: Callable[[Address], Address | None]
) -> Address:
    """The address of a name.

    Args:
        parse: returns the address that a text is; raises DkdbgError.
        inner: returns the address inside another one (`ssh://x` of `ray+ssh://x`) or None; raises DkdbgError.

    Raises:
        DkdbgError: it is none, or one that only a person types.
    """
    where = f"{FILE_NAME}: uri of [targets.{name}]"
    layer: Address | None
    try:
        found = layer = parse(uri)
        while layer is not None:
            if why := _why_not(layer):
                raise DkdbgError(
                    f"{uri!r} is {why}", hint=f"type it instead of {name}, if that is what you want"
                )
            layer = inner(layer)
    except DkdbgError as error:
        raise DkdbgError(f"{where}: {error.message}", hint=error.hint, exit_code=EXIT_USAGE) from error
    return found


def _why_not(found: Address) -> str:
    """Return why only a person types this address; empty where a repository may name it."""
    if found.scheme in {LOCAL, ENDPOINT}:
        return "on this machine, where a repository names none"
    token = _TOKENS.get(found.scheme.partition("+")[0])
    if token:
        return f"on a server that would be shown your token for {token}, so it is typed and not named"
    _, *folder = found.parts
    if any(part.startswith(".") for part in found.parts):
        return "in a hidden folder, where programs read their settings"
    if _RUN.fullmatch("/".join(folder)):
        return "in a folder whose files are run by their names"
    if folder and _HOME.fullmatch("/".join(folder)):
        return "a home itself, where shells read their settings; name a folder in it"
    return ""
