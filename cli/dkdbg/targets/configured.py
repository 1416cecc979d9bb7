"""Names that a repository's dkdbg.toml gives to places: `[places.cluster] uri = "ssh://login,node1/~/code"`.

A clone may bring any dkdbg.toml. An address carries no options and no command, whichever its kind is; besides, one from
here names no folder of this machine and no home elsewhere, where files of a stranger's would be read by a shell. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.model.config import FILE_NAME
from dkdbg.targets import address
from dkdbg.targets.address import ENDPOINT, LOCAL

if TYPE_CHECKING:
    from dkdbg.targets.address import Address

#: Folders that are somebody's home, without what lies in them.
_HOME = re.compile(r"/?(~|root|(home|Users)(/[^/]+)?|)")


def address_of(name: str, uri: str, *, forms: str) -> Address:
    """The address of a name.

    Args:
        forms: how an address can be typed, for the hint.

    Raises:
        DkdbgError: it is none, or one that only a person types.
    """
    where = f"{FILE_NAME}: uri of [places.{name}]"
    try:
        found = address.parse(uri, forms=forms)
    except DkdbgError as error:
        raise DkdbgError(f"{where}: {error.message}", hint=error.hint, exit_code=EXIT_USAGE) from error
    why = ""
    if found.scheme in {LOCAL, ENDPOINT}:
        why = "on this machine, where a repository names none"
    elif found.scheme == "pai":
        why = "on a server that would be shown your token for OpenPAI, which is for a person to choose"
    elif any(part.startswith(".") for part in found.parts):
        why = "in a hidden folder, where programs read their settings"
    elif len(found.parts) > 1 and _HOME.fullmatch("/".join(found.parts[1:])):
        why = "a home itself, where shells read their settings; name a folder in it"
    if why:
        raise DkdbgError(
            f"{where}: {uri!r} is {why}",
            hint=f"type it instead of {name}, if that is what you want",
            exit_code=EXIT_USAGE,
        )
    return found
