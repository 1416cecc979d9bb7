"""Hosts behind ssh: what an address says of them, and command lines of OpenSSH, whatever the login shell there is. Pure."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.target import Reach
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.address import Address

#: What ssh itself ends with when it has failed.
FAILED = 255
#: How an address of this kind is typed.
FORM = "ssh://[USER@]HOST[,HOST ...][/FOLDER]"
#: OpenSSH hands names to a shell where ProxyCommand says so (CVE-2023-51385): nothing that a shell reads gets there.
_HOP = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._+-]*)@)?"
    r"(?:(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*)|\[(?P<six>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?"
)
#: What every shell takes between single quotes as it stands: not `!` (csh), a backslash (fish) or the end of a line (csh).
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _@+=:,./-")
#: csh takes no long words.
_CHUNK = 900


@dataclass(frozen=True, kw_only=True)
class SshHosts:
    """The way to a host.

    Attributes:
        hops: `[USER@]HOST[:PORT]` each, from here on; the last one is meant.
        folder: absolute, or below `~`; empty for the user's home there.
    """

    hops: tuple[str, ...]
    folder: str

    @property
    def name(self) -> str:
        """For people: `login,node1`."""
        return ",".join(self.hops)

    def destination(self) -> tuple[str, ...]:
        """The words of ssh's command line that name the host; what follows them is run there."""
        match = _HOP.fullmatch(self.hops[-1])
        assert match is not None  # noqa: S101 - `hosts_of` has looked
        user = (match["user"] + "@") if match["user"] else ""
        jump = ("-J", ",".join(self.hops[:-1])) if len(self.hops) > 1 else ()
        port = ("-p", match["port"]) if match["port"] else ()
        return (*jump, *port, "--", user + (match["host"] or match["six"]))


def hosts_of(address: Address) -> SshHosts:
    """Return the way that an address names.

    Raises:
        DkdbgError: it names none.
    """
    for hop in address.hops:
        match = _HOP.fullmatch(hop)
        if match is None or int(match["port"] or 1) not in range(1, 65536):
            raise DkdbgError(f"{address}: {hop!r} names no host", hint=FORM, exit_code=EXIT_USAGE)
    _, *folder = address.parts
    if any(each in {".", ".."} for each in folder):
        raise DkdbgError(
            f"{address}: the folder must be absolute, or below ~", hint=FORM, exit_code=EXIT_USAGE
        )
    path = "/".join(folder)
    return SshHosts(hops=address.hops, folder=path if not path or folder[0] == "~" else "/" + path)


@dataclass(frozen=True, kw_only=True)
class SshReach(Reach):
    """A host as something that commands are run on.

    Attributes:
        hosts: the way there.
        options: of ssh, for the connection that is used.
        label: for people.
    """

    hosts: SshHosts
    options: tuple[str, ...]
    label: str

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """The local command line that runs `argv` there, in the address's folder, with our standard input and output."""
        return self.script(f"{enter(self.hosts.folder)}exec {shlex.join(argv)}", tty=tty)

    def script(self, text: str, *, tty: bool = False) -> tuple[str, ...]:
        """The local command line that has a `sh` there run `text`."""
        return (
            "ssh", *self.options, "-tt" if tty else "-T", "-e", "none", *PLAIN_SESSION, *self.hosts.destination(),
            for_any_shell(text),
        )  # fmt: skip


#: What a person has in ~/.ssh/config for sessions typed by hand: forwards, which would be asked for each time, and a
#: command in the place of ours.
PLAIN_SESSION = ("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none")


def enter(folder: str) -> str:
    """The beginning of a text for `sh` that goes on in `folder`, or not at all."""
    return f"cd {quoted(folder)} || exit 1; " if folder else ""


def quoted(folder: str) -> str:
    """A folder, absolute or below `~`, as a word of a text for `sh`."""
    home, _, below = folder.partition("/")
    return '"$HOME"/' + shlex.quote(below) if home == "~" else shlex.quote(folder)


def for_any_shell(text: str) -> str:
    """A command that has `sh` run `text`, whatever shell the user's login shell is that reads it."""
    return 'exec sh -c \'eval "$(printf %b "$@")"\' sh ' + " ".join(
        f"'{word}'" for word in _chunks(os.fsencode(text))
    )


def _chunks(data: bytes) -> list[str]:
    """The words that `printf %b` turns into `data`, one after the other."""
    words, word = [], ""
    for byte in data:
        word += chr(byte) if byte in _PLAIN else f"\\0{byte:03o}"
        if len(word) > _CHUNK:
            words.append(word)
            word = ""
    return [*words, word] if word else words
