"""What dkdbg tells people to type can be typed: each command line in its texts and pages, listed in `tests/said.json`."""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import subprocess

from dkdbg.errors import DkdbgError
from dkdbg.verbs import command_line
from tests import said
from tests.pages import DOCS

LISTED = said.listed()
OURS = sorted({line for lines in LISTED.values() for line in lines if line.startswith("dkdbg ")})
OTHERS = sorted({line for lines in LISTED.values() for line in lines if not line.startswith("dkdbg ")})
PARSER = command_line.parser()


def with_values(line: str) -> str:
    """The line with something in place of `{}`, PORT and `[HOST:]`, as a person puts it in.

    `...` is more of the same; an option that is only named, at the end, gets a value.
    """
    line = re.sub(r"\[HOST:\]", "", line.replace("{}", "5").replace("VERB", "up"))
    line = re.sub(r"\b(?:PORT|N)\b", "5678", re.sub(r" \.\.\.(?= |$)", "", line))
    return f"{line} 5" if re.search(r" --(?:on|listen|ranks|to|pull|ports|command|explain)$", line) else line


def refused(line):
    """What our own parser says against a line, nothing where it takes it."""
    try:
        command_line.parsed(shlex.split(with_values(line))[1:], PARSER)
    except SystemExit as ended:
        return f"{line}: {ended.code}" if ended.code else ""  # help was asked for
    except (DkdbgError, ValueError) as error:
        return f"{line}: {error}"
    return ""


def test_each_text_that_tells_somebody_to_type_something_is_listed(request):
    if request.config.getoption("--update-golden"):
        said.write_anew()
    now, listed = said.telling(), set(said.listed())
    assert (sorted(now - listed), sorted(listed - now)) == ([], []), (
        "pytest tests/unit/test_said.py --update-golden"
    )


def test_each_listed_command_stands_in_its_text():
    assert {text: lines for text, lines in LISTED.items() if any(line not in text for line in lines)} == {}


def test_each_command_of_ours_parses():
    assert len(OURS) > 50
    assert [why for line in OURS if (why := refused(line))] == []


def test_a_command_with_a_word_wrong_does_not_parse():
    for line in ("dkdbg pss", "dkdbg ps --every", "dkdbg forward --on 5", "dkdbg forward ssh://HOST TENSORBOARD", "dkdbg init --wait 5", "dkdbg ps 'a"):  # fmt: skip
        assert refused(line)


def test_each_other_command_is_whole_and_its_program_knows_it():
    wrong = []
    for line in OTHERS:
        shell = subprocess.run(
            ["sh", "-n", "-c", with_values(line)], capture_output=True, text=True, check=False
        )
        words = [word for word in shlex.split(with_values(line)) if word not in {"--profile", "debug"}]
        if shell.returncode or words[0] not in said.PROGRAMS:
            wrong.append((line, shell.stderr))
        elif words[0] in {"docker", "kubectl"} and shutil.which(words[0]) and len(words) > 1:
            verbs = [word for word in words[1:] if re.fullmatch(r"[a-z][a-z-]+", word)][:2]
            shown = helped(words[0], *verbs)
            flags = [word.partition("=")[0] for word in words if word.startswith("--")]
            if not shown or "docker [OPTIONS] COMMAND" in shown or any(flag not in shown for flag in flags):
                wrong.append((line, shown))
    assert wrong == []


def helped(*words):
    """What a program says of a verb, and of the options that all its verbs have; nothing of a verb that it does not know."""
    said_of_it = asked(*words, "--help")
    return said_of_it and said_of_it + (asked("kubectl", "options") if words[0] == "kubectl" else "")


@functools.cache
def asked(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout if done.returncode == 0 else ""


def test_each_command_on_a_page_parses():
    found = {
        (str(page.relative_to(DOCS.parent)), line.strip())
        for page in [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
        for line in on_page(page.read_text())
    }
    assert len(found) > 200
    assert [(page, why) for page, line in sorted(found) if (why := refused(line))] == []


def on_page(text):
    """The command lines of ours in it: in its blocks, a line each, and between backticks."""
    text = re.sub(r"\\\n\s*", "", text)
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^ *(?:\$ )?(dkdbg(?: [^\n#|<>&;]*)?)", block, re.MULTILINE)
    yield from re.findall(
        r"`(dkdbg(?: [^`\n|<>&;]*)?)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    )


#: What first users read twice and did not understand (issue 15, and the report that it is made of).
UNCLEAR = (
    "Until F5 nobody listens", "no illness", "names 0 sessions", "once and stay", "docker ended with 17", "no word of a CPU",
    "stands for: no private CA", "services seen: none", "root for an instant", "On this machine's terms", "from then on it can be",
    "those that you see", "--wait says so",
)  # fmt: skip


def test_what_first_users_did_not_understand_is_said_nowhere():
    pages = {
        page.name: " ".join(page.read_text().split())
        for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    }
    texts = {" ".join(text.split()) for text in said.texts()}
    assert [(words, name) for words in UNCLEAR for name, page in pages.items() if words in page] == []
    assert [(words, text) for words in UNCLEAR for text in texts if words in text] == []
    assert len(texts) > 1000
