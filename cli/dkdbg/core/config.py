"""Parse dkdbg.toml, the user's decisions for this repository. Flags override it, and it overrides detected values."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import CONTINUE_ALL, DEFAULT_PORT, RESTART_AUTO
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.settings import FLAG, PACKAGES, PATTERNS, RANKS, SERVICE, SIZE, TEXTS
from dkdbg.core.address import ENDPOINT, LOCAL
from dkdbg.core.plan import CHECKED_IN, FROM_NOWHERE
from dkdbg.core.settings import KEYS
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.core.address import Address
    from dkdbg.core.facts import Gpu
    from dkdbg.core.plan import TokenKind

FILE_NAME = "dkdbg.toml"
BOM = "\ufeff"
#: Keys that are Python keywords -> field of `Config`.
_FIELDS = {"continue": "continues"}
#: Keys that flags of `init` set; `init` writes them into dkdbg.toml.
ANSWERS = ("service", "dockerfile", "command", "python", "gpu", "wait")
#: Maximum characters of a dkdbg.toml: tomlkit takes seconds for more, and a clone's file may have any size.
MAX_CHARS = 100_000
#: Pattern of a Debian package name: a shell leaves it unchanged, and apt-get does not read it as an option.
DEBIAN_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
#: Pattern of a target's name: a shell leaves it unchanged, and no program reads it as an option.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d+)?)\s*([kKMGT]?)(i?)B?\s*")
#: A home folder itself, but no folder in it; macOS ignores case.
_HOME = re.compile(r"/?(~|root|var/root|(home|Users)(/[^/]+)?|)", re.IGNORECASE)
#: Folders on a user's PATH, and Library in a home on macOS, from which macOS starts programs.
_RUN = re.compile(r"(.*/)?s?bin|(~|Users/[^/]+)/Library(/.*)?", re.IGNORECASE)
#: Schemes of addresses that name a server which receives the user's token -> the system's name, for messages.
_TOKENS = {"pai": "OpenPAI", "ray": "Ray"}


@dataclass(frozen=True, kw_only=True)
class SyncConfig:
    """Limits on the local files that sync copies.

    Attributes:
        ignore: patterns as in .gitignore, applied last; `!` includes files again.
        max_size: maximum size of a file in bytes; larger files stay out.
    """

    ignore: tuple[str, ...] = ()
    max_size: int = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Config:
    """Options of one repository.

    Attributes:
        command: shell text of the program to debug; None for the detected one.
        service: compose service to debug, NAME or FILE:NAME; None for the detected one.
        dockerfile: the user's Dockerfile to build, relative to the root; None for the detected one.
        python: Python minor version of a Dockerfile that `init` writes, such as `3.11`; None for the detected one.
        apt: further Debian packages that such a Dockerfile installs.
        gpu: `required`, `optional` or `none`; None for the detected need.
        port: port of the listener on 127.0.0.1 and in the container.
        wait: seconds that the program waits for an editor before it goes on or exits. 0 does not wait, None lets the
            planner choose (servers do not wait).
        reload: restart the program when a source file changes, and keep the container when the program ends.
        restart: action of F5 when sources changed after the program's start. `auto` restarts a program that has run for
            less than an hour, `ask` only reports the change, `never` lets no editor restart the program.
        ranks: ranks to debug, in the syntax of agent/inprocess/ranks.py; the others run free.
        continues: whether Continue and Pause in one rank apply to all ranks of its job, `all` or `one`; the key
            `continue`.
        beats: comma-separated patterns for names of threads that keep running while a debugger holds the others; see
            agent/inprocess/clocks/clocks.py.
        agent: `checked-in` if git has the agent; `fetched` if git has only its digest and `dkdbg up` writes the agent.
        token: source from which the launch entry takes the token that the debug port requires.
        sync: the table [sync].
        targets: names and addresses of the tables [targets.NAME], as typed; checked where they are used.
    """

    command: str | None = None
    service: str | None = None
    dockerfile: str | None = None
    python: str | None = None
    apt: tuple[str, ...] = ()
    gpu: Gpu | None = None
    port: int = DEFAULT_PORT
    wait: int | None = None
    reload: bool = False
    restart: str = RESTART_AUTO
    ranks: str = ranks.ALL
    continues: str = CONTINUE_ALL
    beats: str = ""
    agent: str = CHECKED_IN
    token: TokenKind = FROM_NOWHERE
    sync: SyncConfig = SyncConfig()
    targets: tuple[tuple[str, str], ...] = ()

    @property
    def service_settings(self) -> tuple[tuple[str, object], ...]:
        """Return (environment variable, configured value) of each setting of the debug service that has a key."""
        return tuple(
            (setting.env, getattr(self, _FIELDS.get(key, key)))
            for key, setting in KEYS.items()
            if SERVICE in setting.where.split()
        )


def decode(data: bytes) -> str:
    """Decode a dkdbg.toml; keep a byte order mark. Raises DkdbgError: it is not UTF-8, which TOML requires."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{FILE_NAME}:{line}: byte 0x{data[error.start]:02x} is not UTF-8, and TOML must be"
        raise DkdbgError(message, hint=f"save {FILE_NAME} as UTF-8", exit_code=EXIT_USAGE) from error


def parse(text: str) -> Config:
    """Parse `text`, the content of a dkdbg.toml.

    Raises:
        DkdbgError: `text` has more than `MAX_CHARS` characters, invalid TOML, an unknown table or key, or a value of
            the wrong type. The message lists all problems.
    """
    if len(text) > MAX_CHARS:
        raise DkdbgError(
            f"{FILE_NAME} has {len(text) // 1000:,} KB, more than {MAX_CHARS // 1000}",
            hint="long lists of patterns for sync belong in .gitignore",
            exit_code=EXIT_USAGE,
        )
    import tomlkit  # noqa: PLC0415 - takes a tenth of sync's start-up time, and most repositories have no such file

    try:
        document = tomlkit.parse(text.removeprefix(BOM)).unwrap()
    except (tomlkit.exceptions.TOMLKitError, RecursionError) as error:
        message = f"{FILE_NAME} is not valid TOML: {error}"
        raise DkdbgError(
            message, hint=f"correct {FILE_NAME}; dkdbg changed nothing", exit_code=EXIT_USAGE
        ) from error
    table, sync, targets, places = (_table(document, name) for name in ("debug", "sync", "targets", "places"))
    targets = {**places, **targets}  # [places.NAME] is its former name
    wrong = [
        f"unknown {'table' if isinstance(value, dict) else 'key'} {key!r}" for key, value in document.items()
    ]
    for prefix, values in (("", table), ("sync.", sync)):
        wrong += [problem for key, value in values.items() if (problem := _problem(prefix + key, value))]
    wrong += [problem for key, value in targets.items() if (problem := _target_problem(key, value))]
    if wrong:
        raise DkdbgError(f"{FILE_NAME}: " + "; ".join(wrong), hint=_keys(), exit_code=EXIT_USAGE)
    ignore = tuple(sync.get("ignore", ()))
    max_size = size(sync["max_size"]) if "max_size" in sync else None
    given: dict[str, Any] = {_FIELDS.get(key, key): value for key, value in table.items()}
    given["apt"] = tuple(given.get("apt", ()))
    return replace(
        Config(),
        **given,
        sync=SyncConfig(ignore=ignore, max_size=max_size or SyncConfig.max_size),
        targets=tuple((name, target["uri"]) for name, target in targets.items()),
    )


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    table = document.pop(name, {})
    if not isinstance(table, dict):
        raise DkdbgError(
            f"{FILE_NAME}: [{name}] must be a table",
            hint=f"write [{name}] and its keys below it",
            exit_code=EXIT_USAGE,
        )
    return table


def size(value: object) -> int | None:
    """Return the bytes of `100 MB`, `2 GiB` or a whole number; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value > 0 else None
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    number, power, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(power.lower() or " ")) or None


def _target_problem(name: str, value: object) -> str | None:
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a valid name for a target: use letters, digits, '.', '_' and '-'"
    if not isinstance(value, dict) or set(value) != {"uri"}:
        return f"[targets.{name}] must have uri and no other key"
    uri = value["uri"]
    return None if isinstance(uri, str) and uri else f"uri of [targets.{name}] must be a text, not {uri!r}"


def _keys() -> str:
    """Return the hint that lists all keys."""
    names: dict[str, list[str]] = {}
    for key in KEYS:
        table, _, name = key.rpartition(".")
        names.setdefault(table or "debug", []).append(name)
    return "the keys of " + "; of ".join(f"[{table}] are {', '.join(each)}" for table, each in names.items())


def _problem(key: str, value: object) -> str | None:
    table, _, name = key.rpartition(".")
    if key not in KEYS:
        return f"unknown key {name!r}" + (f" in [{table}]" if table else "")
    values = KEYS[key].values
    if values == RANKS:
        return _ranks_problem(value)
    if isinstance(values, range):
        fits = type(value) is int and value in values
        wanted = f"a whole number from {values[0]} to {values[-1]}"
    elif isinstance(values, tuple):
        fits, wanted = value in values, f"one of {', '.join(values)}"
    elif values == FLAG:
        fits, wanted = isinstance(value, bool), "true or false"
    elif values in {TEXTS, PACKAGES}:
        fits = isinstance(value, list) and all(
            isinstance(one, str) and (values == TEXTS or bool(DEBIAN_PACKAGE.fullmatch(one))) for one in value
        )
        wanted = "a list of texts" + (", each the name of a Debian package" if values == PACKAGES else "")
    elif values == PATTERNS:
        fits = isinstance(value, str) and bool(
            re.fullmatch(r"[\w.*?\[\]!-]+(, ?[\w.*?\[\]!-]+)*", value, re.ASCII)
        )
        wanted = 'shell patterns with commas such as "heartbeat,Lease*"'
    elif values == SIZE:
        fits, wanted = bool(size(value)), 'a size such as "100 MB"'
    else:
        fits, wanted = isinstance(value, str) and bool(value.strip()), "a text"
    return None if fits else f"{name} must be {wanted}, not {value!r}"


def _ranks_problem(value: object) -> str | None:
    if not isinstance(value, str):
        return f'ranks must be a text such as "0,3", not {value!r}'
    try:
        ranks.parse(value)
    except ranks.RankSetError as error:
        return f"ranks: {error}; {error.hint}"
    return None


def with_values(text: str, **values: str | int | list[str] | None) -> str:
    """Return `text` with the given keys of [debug] set and every other byte unchanged; None leaves a key alone.

    A list keeps its comments if items are only appended.
    """
    import tomlkit  # noqa: PLC0415 - as above

    bom = BOM if text.startswith(BOM) else ""
    document = tomlkit.parse(text.removeprefix(BOM))
    table = document.setdefault("debug", tomlkit.table())
    for key, value in values.items():
        former = table.get(key)
        if value is None or former == value:
            continue
        if isinstance(value, list) and isinstance(former, list) and value[: len(former)] == former:
            former.extend(value[len(former) :])
        else:
            table[key] = value
    return bom + tomlkit.dumps(document)


def shell_argv(command: str) -> tuple[str, ...]:
    """Return `command` as argv: split if it needs no shell, otherwise run by `sh -c`.

    Raises:
        DkdbgError: quotes are unbalanced, or the command is empty.
    """
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise DkdbgError(
            f"cannot read the command {command!r}: {error}", hint="balance the quotes", exit_code=EXIT_USAGE
        ) from error
    if not argv:
        raise DkdbgError(
            "the command is empty", hint="give one: --command 'python train.py'", exit_code=EXIT_USAGE
        )
    needs_shell = any(character in command for character in "|&;<>()$`*?[~\n") or "=" in argv[0]
    return ("sh", "-c", command) if needs_shell else argv


def configured_address(
    name: str, uri: str, *, parse: Callable[[str], Address], inner: Callable[[Address], Address | None]
) -> Address:
    """Return the address that a name in dkdbg.toml stands for: `[targets.cluster] uri = "ssh://login,node1/~/code"`.

    A clone's dkdbg.toml is untrusted. No address carries options or commands. An address from this file must also
    not name this machine or a server that receives the user's token. Its remote folder must not be a home, a
    hidden folder or one on PATH, because shells and programs read settings or run files there. The inner target
    of an address such as `ray+ssh://...` follows the same rules.

    Args:
        parse: parses an address; raises DkdbgError.
        inner: returns the address inside another one (`ssh://x` of `ray+ssh://x`) or None; raises DkdbgError.

    Raises:
        DkdbgError: the text is not an address, or is one that only a user may type.
    """
    where = f"{FILE_NAME}: uri of [targets.{name}]"
    layer: Address | None
    try:
        found = layer = parse(uri)
        while layer is not None:
            if why := _why_not(layer):
                raise DkdbgError(f"{uri!r} is {why}", hint=f"type it instead of {name} to use it anyway")
            layer = inner(layer)
    except DkdbgError as error:
        raise DkdbgError(f"{where}: {error.message}", hint=error.hint, exit_code=EXIT_USAGE) from error
    return found


def _why_not(found: Address) -> str:
    """Return why only a user may type this address; empty if a repository may name it."""
    if found.scheme in {LOCAL, ENDPOINT}:
        return "on this machine, and dkdbg.toml may not name local targets"
    token = _TOKENS.get(found.scheme.partition("+")[0])
    if token:
        return (
            f"on a server that would receive your token for {token}, so dkdbg.toml may not name that server"
        )
    _, *folder = found.parts
    if any(part.startswith(".") for part in found.parts):
        return "in a hidden folder, where programs read their settings"
    if _RUN.fullmatch("/".join(folder)):
        return "in a folder whose files run as commands"
    if folder and _HOME.fullmatch("/".join(folder)):
        return "a home folder itself, where shells read their settings; name a folder in it"
    return ""
