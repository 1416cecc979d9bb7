"""Build the parser of all verbs. Before parsing, rewrite `help VERB`, and split off the command of `submit`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from dkdbg import __version__
from dkdbg.verbs.parser import Parser, nearest

if TYPE_CHECKING:
    import argparse

#: Purpose of each verb, by group. A verb's module in this folder defines `add_options` and `call`.
GROUPS = {
    "start here": {
        "demo": "show the whole workflow on an example, in a temporary copy",
        "init": "set up this repository: shows a plan, asks, writes",
        "up": "start the debug service, ready for F5",
        "down": "stop and remove the debug service",
        "verify": "run the program once and prove that a breakpoint stops, or name the first broken link",
    },
    "while it runs": {
        "ps": "list the debug sessions in containers and on this machine",
        "logs": "show what the program prints",
        "attach": "keep one port for your editor while programs come and go",
        "restart": "start the program again; the editor stays attached",
        "pdb": "attach pdb to the running program; q detaches it",
        "ranks": "pause, continue or compare all ranks, side by side",
        "where": "show where each process of a job is, the odd one out first",
        "why": "say why a breakpoint in FILE:LINE does not stop",
    },
    "anywhere else": {
        "run": "run a command under the debugger, here or on any target",
        "submit": "submit a batch job, wait for it and attach",
        "sync": "copy your files to a target, then each file that you save",
        "forward": "forward a port of a remote host to this machine, such as TensorBoard's",
    },
    "more": {
        "doctor": "check this machine, its engine and this repository, or a target",
        "audit": "find what a debugger leaves open in the files of a repository; for CI",
        "completion": "print a script for shell completion",
    },
}


class Overview(Parser):
    """The parser of the whole command line, whose help lists the verbs by group."""

    def format_help(self) -> str:
        """Return the help text: one line for each verb, by group."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        formatter.add_text(self.description)
        of_verbs = next(action for action in self._actions if action.dest == "verb")
        lines = {each.dest: each for each in of_verbs._get_subactions()}  # type: ignore[attr-defined]  # noqa: SLF001
        for title, verbs in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([lines[name] for name in verbs])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


class Verbs(dict[str, Parser]):
    """The parsers of the verbs by name; a verb's module is loaded at the first access to its parser."""

    def __getitem__(self, name: str) -> Parser:
        """Return a verb's parser, with its options."""
        parser = super().__getitem__(name)
        if parser.get_default("call") is None:
            module = import_module(f"dkdbg.verbs.{name}")
            module.add_options(parser)
            parser.set_defaults(call=module.call)
        return parser


def parsed(argv: list[str], parser: Parser) -> argparse.Namespace:
    """Return the options in `argv`; `call(options, root)` of the result runs the verb.

    Raises:
        DkdbgError: a verb, option or value is unknown.
    """
    argv, command = _submitted(argv)
    options, others = parser.parse_known_args(_asking_for_help(argv))
    if others and options.verb != "submit":
        _refuse(parser, options.verb, others)
    options.others, options.ranks = others, command
    return options


def parser() -> Parser:
    """Return the parser of the whole command line."""
    whole = Overview(
        prog="dkdbg",
        usage="dkdbg [-C PATH] [--context NAME] [VERB ...]",
        description="Set a breakpoint, press F5 and stand inside the training job.",
        epilog="Without a verb: what is set up here, what runs, what to type next. dkdbg help VERB shows its options.",
    )
    whole.add_argument("--version", action="version", version=f"dkdbg {__version__}")
    whole.add_argument("-C", dest="directory", metavar="PATH", default=".", help="run as if started in PATH")
    whole.add_argument(
        "--context",
        metavar="NAME",
        help="use the Docker engine of this context (docker context ls)",
    )
    verbs = whole.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, prog="dkdbg")
    verbs.choices = verbs._name_parser_map = Verbs()  # noqa: SLF001
    for group in GROUPS.values():
        for name, text in group.items():
            verbs.add_parser(name, help=text)
    return whole


def _verb_at(argv: list[str]) -> int:
    """Return the index of the verb: the first word that is not a global option or its value."""
    at = 0
    while argv[at : at + 1] and argv[at].startswith("-"):
        at += 2 if argv[at] in {"-C", "--context"} else 1
    return at


def _asking_for_help(argv: list[str]) -> list[str]:
    """Rewrite `dkdbg help up` as `dkdbg up --help`."""
    at = _verb_at(argv)
    if argv[at : at + 1] != ["help"]:
        return argv
    return [*argv[:at], *argv[at + 1 : at + 2], "--help"]


def _refuse(parser: Parser, verb: str | None, others: list[str]) -> NoReturn:
    """Raise DkdbgError for unknown words; its hint has the closest match."""
    choices = next(action.choices for action in parser._actions if action.dest == "verb")  # noqa: SLF001
    of_verb: Parser = choices[verb] if verb else parser  # type: ignore[index]
    wrong = next((each for each in others if each[:1] == "-"), others[0])
    near = nearest(wrong, [*of_verb._option_string_actions])  # noqa: SLF001
    of_verb.error(f"unrecognized arguments: {' '.join(others)}", near=near)


def _submitted(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split off the command after `--` of `dkdbg submit`, whose other options may be those of sbatch or qsub."""
    at = _verb_at(argv)
    if argv[at : at + 1] != ["submit"] or "--" not in argv:
        return argv, []
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1 :]
