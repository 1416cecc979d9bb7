"""dkdbg.toml: what a person decided for this repository. Flags beat it, it beats what was detected."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.exceptions import TOMLKitError

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.model.plan import FROM_NOWHERE, TOKEN_KINDS

if TYPE_CHECKING:
    from dkdbg.model.plan import TokenKind

FILE_NAME = "dkdbg.toml"
BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Options of one repository.

    Attributes:
        command: shell text of the program to debug, None to take the detected one.
        service: compose service to debug, None to take the detected one.
        port: port of the front on 127.0.0.1 and in the container.
        wait: seconds that the program waits for an editor before it goes on or exits; 0 does not wait; None
            lets the planner choose (servers do not wait).
        reload: start the program again when a source file changes, and keep the container when it ends.
        token: where the launch entry takes the token from that the debug port asks for.
    """

    command: str | None = None
    service: str | None = None
    port: int = 5678
    wait: int | None = None
    reload: bool = False
    token: TokenKind = FROM_NOWHERE


def decode(data: bytes) -> str:
    """The text of a dkdbg.toml, a byte order mark kept.

    Raises:
        DkdbgError: it is not UTF-8, which TOML asks for.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{FILE_NAME}:{line}: byte 0x{data[error.start]:02x} is not UTF-8, which TOML has to be"
        raise DkdbgError(message, hint=f"save {FILE_NAME} as UTF-8", exit_code=EXIT_USAGE) from error


def parse(text: str) -> Config:
    """The configuration in `text`, the content of a dkdbg.toml.

    Raises:
        DkdbgError: invalid TOML, an unknown table or key or a value of the wrong type; all problems in one message.
    """
    try:
        document = tomlkit.parse(text.removeprefix(BOM)).unwrap()
    except TOMLKitError as error:
        message = f"{FILE_NAME} is not valid TOML: {error}"
        raise DkdbgError(
            message, hint=f"mend {FILE_NAME} by hand; dkdbg changed nothing", exit_code=EXIT_USAGE
        ) from error
    table = document.pop("debug", {})
    if not isinstance(table, dict):
        raise DkdbgError(
            f"{FILE_NAME}: [debug] must be a table",
            hint="write [debug] and its keys below it",
            exit_code=EXIT_USAGE,
        )
    wrong = [
        f"unknown {'table' if isinstance(value, dict) else 'key'} {key!r}" for key, value in document.items()
    ]
    wrong += [problem for key, value in table.items() if (problem := _problem(key, value))]
    if wrong:
        raise DkdbgError(
            f"{FILE_NAME}: " + "; ".join(wrong),
            hint="there is one table, [debug]; its keys are command, service, port, wait, reload, token",
            exit_code=EXIT_USAGE,
        )
    return replace(Config(), **table)


def _problem(key: str, value: object) -> str | None:
    if key in {"command", "service"}:
        return None if isinstance(value, str) and value.strip() else f"{key} must be a text, not {value!r}"
    if key == "reload":
        return None if isinstance(value, bool) else f"reload must be true or false, not {value!r}"
    if key == "token":
        return (
            None if value in TOKEN_KINDS else f"token must be one of {', '.join(TOKEN_KINDS)}, not {value!r}"
        )
    if key in {"port", "wait"}:
        top = 65535 if key == "port" else 7 * 86400
        low = 1 if key == "port" else 0
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= top:
            return f"{key} must be a whole number from {low} to {top}, not {value!r}"
        return None
    return f"unknown key {key!r}"


def with_values(text: str, **values: str | int | None) -> str:
    """`text` with the given keys of [debug] set, everything else kept to the byte; None leaves a key alone."""
    mark = BOM if text.startswith(BOM) else ""
    document = tomlkit.parse(text.removeprefix(BOM))
    table = document.setdefault("debug", tomlkit.table())
    for key, value in values.items():
        if value is not None and table.get(key) != value:
            table[key] = value
    return mark + tomlkit.dumps(document)


def shell_argv(command: str) -> tuple[str, ...]:
    """`command` as argv: split when it needs no shell, else run by `sh -c`.

    Raises:
        DkdbgError: unbalanced quotes.
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise DkdbgError(
            f"cannot read the command {command!r}: {error}", hint="balance the quotes", exit_code=EXIT_USAGE
        ) from error
    if not words:
        raise DkdbgError(
            "the command is empty", hint="give one: --command 'python train.py'", exit_code=EXIT_USAGE
        )
    needs_shell = any(mark in command for mark in "|&;<>()$`*?[~\n") or "=" in words[0]
    return ("sh", "-c", command) if needs_shell else words
