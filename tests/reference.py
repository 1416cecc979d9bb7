"""docs/commands.md from the parser and docs/settings.md from the table; `pytest tests/unit/test_docs.py --update-golden` writes both."""

import argparse
from collections.abc import Iterator

from dkdbg.agent.settings import JOB, SERVICE, Setting
from dkdbg.core.settings import SETTINGS
from dkdbg.verbs import command_line

_HEAD = """\
# Verbs and options

Written by `tests/reference.py` from the program's own parser. `-C PATH` and `--context NAME` stand before the verb.

TARGET is the first word after the verb. The verbs whose words are a command or an expression (`run`, `submit`, `ranks`) take `--on TARGET`
instead; every other verb that has a TARGET accepts that too. Any number of TARGETs is accepted by `ps`, `where`, `attach` and `ranks`.
"""


def reference() -> str:
    return "\n".join([_HEAD, *_verbs()])


def _verbs() -> Iterator[str]:
    parser = command_line.parser()
    verbs = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    for title, group in command_line.GROUPS.items():
        yield f"## {title.capitalize()}\n"
        for name, text in group.items():
            yield from _verb(name, text, verbs.choices[name])


def _verb(name: str, says: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### dkdbg {name}\n\n{says[0].upper()}{says[1:]}.\n"
    rows = [row for action in parser._actions if (row := _row(action))]
    if rows:
        yield "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _row(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        inner = "; ".join(f"`{each.dest}`: {each.help}" for each in action._get_subactions())
        return f"| `{action.metavar}` | {inner} |"
    if action.help in {None, argparse.SUPPRESS} or action.dest == "help":
        return ""
    value = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    if action.choices and not value:
        value = "\\|".join(map(str, action.choices))
    named = ", ".join(action.option_strings)
    shown = f"{named} {value}".strip() if action.nargs != 0 else named
    return f"| `{shown or action.dest}` | {str(action.help).replace('|', chr(92) + '|')} |"


_SETTINGS = """\
# Settings

Written by `tests/reference.py` from the program's own table (`cli/dkdbg/core/settings.py`).

A variable acts where it is read: **service**, `.env` beside your compose file or the environment of `docker compose` and `dkdbg up`; **job**, the environment of a program that [the agent](environment.md) runs; **host**, the environment of `dkdbg` itself. Flags win over variables, variables over `dkdbg.toml`, which `dkdbg init` writes with a comment at each key. A key without a table is in `[debug]`; what it changes in the debug service holds after `dkdbg init`. Times are in seconds.

| variable | key in dkdbg.toml | without it | where | meaning |
|---|---|---|---|---|
{rows}

Other variables that begin with `DKDBG_` are set by dkdbg itself: do not set them.
"""


def settings() -> str:
    return _SETTINGS.format(rows="\n".join(map(_setting, sorted(SETTINGS, key=_order))))


def _order(setting: Setting) -> tuple[bool, bool, bool]:
    """Keys of dkdbg.toml first, then the debug service's, jobs', the host's."""
    return not setting.key, SERVICE not in setting.where, JOB not in setting.where


def _setting(setting: Setting) -> str:
    variable, key, default = (
        f"`{text}`" if text else "" for text in (setting.env, setting.key, setting.default)
    )
    meaning = ". ".join(filter(None, (setting.help, setting.more)))
    where = setting.where.replace(" ", ", ")
    return f"| {variable} | {key} | {setting.unset or default} | {where} | {meaning} |"
