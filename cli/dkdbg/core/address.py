"""Parse target addresses as users type them. `targets/registry.py` lists the supported schemes.

SCHEME://PART[/PART ...]     compose://trainer  docker://NAME  k8s://NS/POD/CONTAINER  ssh://me@login,node4
SCHEME:///JOB                a batch job, if its system's commands are on this machine
local:[REST]                 this machine
HOST:PORT                    an endpoint that is already reachable here
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Collection

#: Schemes of the two forms without `://`.
LOCAL, ENDPOINT = "local", "endpoint"
#: Scheme of jobs that have connected to `dkdbg attach --listen`.
CALL = "call"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
#: Characters that an address may not contain: they would split a command line or a line of output.
_NEVER = re.compile(r"[\s\x00-\x1f\x7f]")
_OPTION = re.compile("(^|[@,])-")


@dataclass(frozen=True, kw_only=True)
class Address:
    """A parsed address: the location of a target.

    Attributes:
        scheme: such as `compose`; `local` and `endpoint` for the two forms without `://`.
        rest: the text after the scheme; `HOST:PORT` of an endpoint; empty for `local:` alone.
    """

    scheme: str
    rest: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts between slashes: namespace, pod and container, or login node and job."""
        return tuple(self.rest.split("/"))

    @property
    def hops(self) -> tuple[str, ...]:
        """Hosts in the first part, in the order of connection: `user@login`, then `node4`."""
        return tuple(self.parts[0].split(","))

    @property
    def host(self) -> str:
        """The host of `HOST:PORT`, an IPv6 address without its brackets."""
        return self.parts[0].rpartition(":")[0].removeprefix("[").removesuffix("]")

    @property
    def port(self) -> int:
        """The port of `HOST:PORT`; 0 if it has none."""
        text = self.parts[0].rpartition(":")[2]
        return int(text) if text.isdecimal() and len(text) < 6 else 0

    @property
    def label(self) -> str:
        """A short name for display."""
        return self.rest or self.scheme

    def __str__(self) -> str:
        return {LOCAL: f"local:{self.rest}", ENDPOINT: self.rest}.get(
            self.scheme, f"{self.scheme}://{self.rest}"
        )


def parse(
    text: str,
    *,
    forms: str = "SCHEME://NAME, local:SESSION or HOST:PORT",
    local_schemes: Collection[str] = (),
) -> Address:
    """Parse `text` as an address.

    Reject a name that begins with `-` for every scheme: ssh, kubectl and docker would read it as an option.

    Args:
        forms: supported forms, for the hint.
        local_schemes: schemes with an optional first part: `SCHEME:///JOB` means this machine.

    Raises:
        DkdbgError: `text` has none of the forms.
    """
    found = _parse(text, local_schemes)
    if found is None or (found.scheme != LOCAL and any(_OPTION.search(part) for part in found.parts)):
        raise DkdbgError(f"{text!r} names no target", hint=f"a target is {forms}", exit_code=EXIT_USAGE)
    return found


def _parse(text: str, local_schemes: Collection[str]) -> Address | None:
    if text.startswith("local:"):  # it may name a folder, so any character is allowed
        rest = text.removeprefix("local:")
        return None if rest.startswith("//") or "\0" in rest else Address(scheme=LOCAL, rest=rest)
    if _NEVER.search(text):
        return None
    scheme, separator, rest = text.partition("://")
    if separator:
        address = Address(scheme=scheme, rest=rest.removesuffix("/"))
        known = _SCHEME.fullmatch(scheme) and scheme != ENDPOINT
        if scheme.rpartition("+")[2] in local_schemes and not address.parts[0]:
            return address if all(address.parts[1:]) else None
        return address if known and all(address.parts) and all(address.hops) else None
    address = Address(scheme=ENDPOINT, rest=text)
    return address if address.host and "/" not in text and 0 < address.port < 65536 else None


def is_name(text: str) -> bool:
    """Return whether `text` is the name of a service, a container or a session, without a scheme."""
    return (
        bool(text)
        and ":" not in text
        and "/" not in text
        and not text.startswith("-")
        and not _NEVER.search(text)
    )


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
