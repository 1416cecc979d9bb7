"""The whole command line: every verb in the order of the reference, and the words before they are parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from dkdbg import __version__
from dkdbg.verbs.options import first, init, looking, running, service, tools
from dkdbg.verbs.options.parser import Overview, Parser, nearest

if TYPE_CHECKING:
    import argparse

#: Of each verb, what adds it and its options.
_VERBS = (
    init.add,
    service.add_up,
    service.add_restart,
    running.add_run,
    tools.add_attach,
    tools.add_forward,
    tools.add_sync,
    tools.add_pdb,
    looking.add_ranks,
    running.add_submit,
    service.add_down,
    service.add_logs,
    looking.add_ps,
    looking.add_where,
    first.add_demo,
    first.add_completion,
)


def parsed(words: list[str], parser: Parser) -> argparse.Namespace:
    """The options of `words`; `call` of them runs the verb, with them and the repository's folder.

    Raises:
        DkdbgError: for words that mean nothing.
    """
    words, command = _submitted(words)
    options, others = parser.parse_known_args(_asking_for_help(words))
    if others and options.verb != "submit":
        _refuse(parser, options.verb, others)
    options.others, options.ranks = others, command
    return options


def parser() -> Parser:
    """The parser of everything."""
    whole = Overview(
        prog="dkdbg",
        usage="dkdbg [-C PATH] [--context NAME] [VERB ...]",
        description="Set a breakpoint, press F5 and stand inside the training job.",
        epilog="Without a verb: what is set up here, what runs, what to type next. dkdbg help VERB explains one.",
    )
    whole.add_argument("--version", action="version", version=f"dkdbg {__version__}")
    whole.add_argument("-C", dest="directory", metavar="PATH", default=".", help="run as if started in PATH")
    whole.add_argument(
        "--context",
        metavar="NAME",
        help="use the Docker engine of this context (docker context ls)",
    )
    verbs = whole.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, prog="dkdbg")
    for add in _VERBS:
        add(verbs)
    return whole


def _asking_for_help(words: list[str]) -> list[str]:
    """`dkdbg help up` as `dkdbg up --help`."""
    at = 2 if words[:1] == ["-C"] else 0
    if words[at : at + 1] != ["help"]:
        return words
    return [*words[:at], *words[at + 1 : at + 2], "--help"]


def _refuse(parser: Parser, verb: str | None, others: list[str]) -> NoReturn:
    """Raise for words that mean nothing, with what may have been meant."""
    choices = next(action.choices for action in parser._actions if action.dest == "verb")  # noqa: SLF001
    of_verb: Parser = dict(choices or {}).get(verb or "", parser)
    wrong = next((each for each in others if each[:1] == "-"), others[0])
    near = nearest(wrong, [*of_verb._option_string_actions])  # noqa: SLF001
    of_verb.error(f"unrecognized arguments: {' '.join(others)}", near=near)


def _submitted(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut off what `dkdbg submit ... --` runs: before it stand options of a batch system, which nobody here knows."""
    verb = words[2:3] if words[:1] == ["-C"] else words[:1]
    if verb != ["submit"] or "--" not in words:
        return words, []
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]
