"""Parse addresses of hosts behind ssh, and build OpenSSH command lines for any login shell on the host. Pure."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.target import Executor
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.address import Address

#: Exit code of ssh itself after a failure.
FAILED = 255
#: How an address of this kind is typed.
FORM = "ssh://[USER@]HOST[,HOST ...][/FOLDER]"
#: OpenSSH passes names to a shell if ProxyCommand says so (CVE-2023-51385): accept nothing that a shell interprets.
_HOP = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._+-]*)@)?"
    r"(?:(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*)|\[(?P<six>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?"
)
#: Characters that every shell leaves alone between single quotes: not `!` (csh), a backslash (fish) or a newline
#: (csh).
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _@+=:,./-")
#: Maximum characters of a word: csh rejects long words.
_CHUNK = 900


@dataclass(frozen=True, kw_only=True)
class SshHosts:
    """Hops to a host, and a folder on it.

    Attributes:
        hops: `[USER@]HOST[:PORT]` each, in the order of connection; the last one is the target.
        folder: absolute, or below `~`; empty for the remote user's home.
    """

    hops: tuple[str, ...]
    folder: str

    @property
    def name(self) -> str:
        """Return `login,node1`, for messages."""
        return ",".join(self.hops)

    def destination(self) -> tuple[str, ...]:
        """Return the arguments of ssh that name the host; the command to run follows them."""
        match = _HOP.fullmatch(self.hops[-1])
        assert match is not None  # noqa: S101 - `hosts_of` has checked
        user = (match["user"] + "@") if match["user"] else ""
        jump = ("-J", ",".join(self.hops[:-1])) if len(self.hops) > 1 else ()
        port = ("-p", match["port"]) if match["port"] else ()
        return (*jump, *port, "--", user + (match["host"] or match["six"]))


def hosts_of(address: Address) -> SshHosts:
    """Parse the hosts and the folder of an address. Raises DkdbgError: the address names no valid host."""
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
class SshExecutor(Executor):
    """A host behind ssh, reached with the `ssh` command.

    Attributes:
        hosts: the hops to the host, and the folder.
        options: options of ssh, for the connection to use.
        label: name of the host in messages.
    """

    hosts: SshHosts
    options: tuple[str, ...]
    label: str

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` in the address's folder, with our standard input and output."""
        return self.script(f"{enter(self.hosts.folder)}exec {shlex.join(argv)}", tty=tty)

    def script(self, text: str, *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs the script `text` with `sh` on the host."""
        return (
            "ssh", *self.options, "-tt" if tty else "-T", "-e", "none", *PLAIN_SESSION, *self.hosts.destination(),
            for_any_shell(text),
        )  # fmt: skip


#: Options that override settings in ~/.ssh/config that are meant for interactive sessions. Each command would request
#: the port forwards again, and a RemoteCommand would replace the command to run.
PLAIN_SESSION = ("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none")


def enter(folder: str) -> str:
    """Return the beginning of a script for `sh`: it enters `folder`, or exits with 1."""
    return f"cd {quoted(folder)} || exit 1; " if folder else ""


def quoted(folder: str) -> str:
    """Quote a folder, absolute or below `~`, for a script for `sh`."""
    home, _, below = folder.partition("/")
    return '"$HOME"/' + shlex.quote(below) if home == "~" else shlex.quote(folder)


def for_any_shell(text: str) -> str:
    """Return a command that runs `text` with `sh`, whichever login shell reads it."""
    return 'exec sh -c \'eval "$(printf %b "$@")"\' sh ' + " ".join(
        f"'{word}'" for word in _chunks(os.fsencode(text))
    )


def _chunks(data: bytes) -> list[str]:
    """Encode `data` as words that `printf %b` decodes and concatenates."""
    words, word = [], ""
    for byte in data:
        word += chr(byte) if byte in _PLAIN else f"\\0{byte:03o}"
        if len(word) > _CHUNK:
            words.append(word)
            word = ""
    return [*words, word] if word else words
