"""Names that a repository's dkdbg.toml gives to targets: `[targets.cluster] uri = "ssh://login,node1/~/code"`.

A clone may bring any dkdbg.toml. An address of any kind carries no options and no command. An address from this file
must also name no folder of this machine, no remote home folder, where a shell would read files of a stranger, and no
server that receives a token of the user. The inner target of an address such as `ray+ssh://...` follows the same
rules. Pure.
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

#: Home folders themselves, without the folders in them; macOS ignores case.
_HOME = re.compile(r"/?(~|root|var/root|(home|Users)(/[^/]+)?|)", re.IGNORECASE)
#: Folders on a user's PATH, and Library in a home of macOS, which starts programs from there.
_RUN = re.compile(r"(.*/)?s?bin|(~|Users/[^/]+)/Library(/.*)?", re.IGNORECASE)
#: Schemes whose targets send the user's token to the server of the address, and the name of that server's system.
_TOKENS = {"pai": "OpenPAI", "ray": "Ray"}


def address_of(
    name: str, uri: str, *, parse: Callable[[str], Address], inner: Callable[[Address], Address | None]
) -> Address:
    """Return the address that a name stands for.

    Args:
        parse: parses an address; raises DkdbgError.
        inner: returns the address inside another one (`ssh://x` of `ray+ssh://x`) or None; raises DkdbgError.

    Raises:
        DkdbgError: the text is not an address, or only a user may type it.
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
    """Return why only a user may type this address; empty if a repository may name it."""
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
