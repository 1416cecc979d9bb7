"""Each `dkdbg ...` line in a text of the program or on a page is one that the real parser takes; hints are typed."""

import argparse
import ast
import re
import shlex
from pathlib import Path

import pytest

from dkdbg import hints
from dkdbg.errors import DkdbgError
from dkdbg.verbs import command_line
from dkdbg.verbs.parser import nearest
from tests.hints import hinted
from tests.pages import DOCS
from tests.texts import texts

ROOT = DOCS.parent
PAGES = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "templates").rglob("*.j2")]
PARSER = command_line.parser()
VERBS = next(each.choices for each in PARSER._actions if isinstance(each, argparse._SubParsersAction))
NAMED = {name: each for name, each in vars(hints).items() if isinstance(each, hints.Hint)}
_LINE = re.compile(r"\bdkdbg (?:-C \S+ |--context \S+ )*([a-z][\w-]*)")
#: End of the clause of a command line.
_END = re.compile(r" -- |[`\"\n;)|&]| '|, |,$|\. |\.$| dkdbg ")
#: Text before and after an unknown word that makes it a wrong verb; elsewhere it is prose.
_BEFORE, _AFTER = re.compile(r"(?:^|`|[;:,(] ?|\$ )$"), re.compile(r"$|[`;,):.\n]| -| [A-Z{]")


def wrong(text: str) -> list[str]:
    """Return the command lines in `text` that have an unknown verb, or an option that their verb does not have."""
    found = []
    for line in _LINE.finditer(text):
        verb, rest = line[1], text[line.end() :]
        clause = rest[: end.start() if (end := _END.search(rest)) else None]
        options = re.findall(r"(?<![\w-])--[a-z][\w-]*", clause)
        if verb not in VERBS:
            told = _BEFORE.search(text[: line.start()]) and _AFTER.match(rest)
            if line[0] == text:  # it may name a part of the agent
                told = nearest(verb, VERBS)
            if verb != "help" and (options or told):
                found.append(line[0])
        elif verb != "submit":  # the other options go to sbatch or qsub
            known = VERBS[verb]._option_string_actions
            found += [f"{line[0]} {option}" for option in options if option not in known]
    return found


def refused(line: str) -> str:
    """Return what the parser says against a whole line, in which an option at its end may stand without its value."""
    line = re.sub(r"\[HOST:\]| \.\.\.(?= |$)", "", re.sub(r"\{\w*\}", "5", line).replace("VERB", "up"))
    line = re.sub(r"\b(?:PORT|N)\b", "5678", line)
    try:
        command_line.parsed(shlex.split(line)[1:], PARSER)
    except SystemExit as ended:
        return f"{line}: {ended.code}" if ended.code else ""  # help was asked for
    except (DkdbgError, ValueError) as error:
        named = re.search(r" --[\w-]+$", line) and "expected one argument" in str(error)
        return "" if named else f"{line}: {error}"
    return ""


def on_page(text: str) -> list[str]:
    """Return the whole command lines of a page: in its blocks, and between backticks."""
    text = re.sub(r"\\\n\s*", "", text)
    blocks = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    lines = re.compile(r"^ *(?:\$ )?(dkdbg(?: [^\n#|<>&;]*)?)", re.MULTILINE)
    spans = re.findall(r"`(dkdbg(?: [^`\n|<>&;]*)?)`", blocks.sub("", text))
    found = [each.strip() for block in blocks.findall(text) for each in lines.findall(block)]
    return found + [each for each in spans if len(each.split()) > 2]  # else it names a verb


def test_each_command_line_in_the_program_has_a_verb_and_its_options():
    assert [(path, line) for path, text in texts() for line in wrong(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_line_on_a_page_parses(page):
    text = re.sub(r"\{\{.*?\}\}", "{}", page.read_text())
    assert wrong(text) == []
    assert [why for line in on_page(text) if (why := refused(line))] == []


@pytest.mark.parametrize(
    "text",
    ["dkdbg pss", "no such session; dkdbg lookup", "stop it, or: dkdbg dwon", "type `dkdbg frob {}`", "dkdbg frob --on {}",
     "dkdbg ps --every shows them", "`dkdbg init --attach`", "dkdbg sync {} --explan PATH; see the page"],
)  # fmt: skip
def test_a_wrong_verb_or_option_is_found(text):
    assert wrong(text)


def test_a_line_that_does_not_parse_is_found():
    assert all(map(refused, ["dkdbg forward ssh://HOST TENSORBOARD", "dkdbg init --attach 5", "dkdbg ps 'a"]))


def test_each_named_hint_parses_and_a_test_types_it():
    typed = " ".join(
        path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)
    )
    assert [name for name in NAMED if f", hints.{name})" not in typed] == []
    lines = {name: re.findall("`(.+?)`", hint.template) for name, hint in NAMED.items()}
    assert all(lines.values())
    ours = [line for each in lines.values() for line in each if line.startswith("dkdbg ")]
    assert [why for line in ours if (why := refused(line))] == []


def test_each_named_hint_is_said_with_its_fields():
    said: dict[str, set[frozenset[str]]] = {}
    for path in (ROOT / "cli/dkdbg").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("hints."):
                fields = frozenset(str(each.arg) for each in node.keywords)
                said.setdefault(ast.unparse(node.func).removeprefix("hints."), set()).add(fields)
    assert said == {
        name: {frozenset(re.findall(r"\{(\w+)\}", hint.template))} for name, hint in NAMED.items()
    }


def test_a_hint_that_was_not_said_fails():
    assert hinted("x\nready: dkdbg attach k8s://a\n", hints.COPY_READY) == ["dkdbg attach k8s://a"]
    with pytest.raises(AssertionError, match="does not stand in"):
        hinted("all is well", hints.COPY_READY)
