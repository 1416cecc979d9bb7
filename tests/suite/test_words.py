"""The words of docstrings, comments and commit subjects: no headless openings, no terms that were replaced."""

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

#: The rooms: folders and files below cli/dkdbg.
ROOMS = sorted(
    each.name
    for each in (_ROOT / "cli/dkdbg").iterdir()
    if each.suffix in {"", ".py"} and each.name[:2] != "__"
)

#: Openings without a head: name the object, or begin with a verb in the imperative.
_OPENINGS = re.compile(
    r"(who|whoever|whose|what|whatever|whether|which|where|that|those|of|one (?:that|who|which|whose|of)|nobody|somebody"
    r"|in words)\b",
    re.IGNORECASE,
)
#: Each phrase, and what to write instead.
_PHRASES = {
    r"(?:is|are|was|were|be) (?:said|told)": "is reported, or the subject that reports it",
    r"(?:says|tells) (?:who|what|how|why)": "reports, names",
    "of (?:ours|yours|his|hers)": "our, your",
    r"\w+: of": "ARGUMENT: the noun that it is",
    "(?:nobody|somebody|anybody|whoever)": "the actor: a process, user, client, ...",
    "there (?:is|are) none": "is missing, is empty",
    "by itself": "automatically, alone",
    r"takes? no(?! part)": "rejects, has no",
    "for a person|the person": "a user",
    "by hand": "manually",
    # The table of terms: its left column.
    "doors?": "broker, attach proxy, endpoint",
    "the front": "listener",
    "newcomers?": "pending connection",
    "onlookers?|look(?:s|ing)? on": "observer",
    "seats?": "session",
    "succession": "handover",
    "rejoining": "reattach",
    "phantom": "root session stub",
    "gatekeepers?": "rank barrier",
    "patience": "timeout",
    "kin": "parent lookup",
    "last words": "stderr tail",
    "unseen": "hook check",
    "twins?": "debug service",
    "call desk|call://": "reverse connection",
    "sealed": "secure channel",
    r"(?<!as )(?<!so )(?<!how )(?<!too )far(?! as| from| behind)": "remote",
    "roomy": "needs a working directory",
    "stand-ins?": "fake, replacement, placeholder",
}
_BANNED = re.compile(rf"\b(?:{'|'.join(f'({phrase})' for phrase in _PHRASES)})\b", re.IGNORECASE)
_PRAGMA = re.compile(r"#\s*(?:noqa|type:|ruff:|fmt:|mypy:|!|-\*-)")

#: The first commit whose successors follow the rule for subjects.
_FIRST = "Move every capability into one folder"
_SUBJECT = re.compile(r"(?:[a-z0-9_.,/* -]+: [a-z`\"'0-9-]|[A-Z][a-z]+ ).+")
_MAX_SUBJECT_CHARS = 72
#: Subjects from before this test.
_EARLIER = ("docs: correct the paths in CONTRIBUTING.md, and say how to take a new debugpy",)


def _texts(source: str) -> list[tuple[int, str, bool]]:
    """Return line, text and whether it describes a name, of each docstring and block of comments."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                found.append((node.body[0].lineno, text, True))
    last = (0, False)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _PRAGMA.match(token.string):
            continue
        number, describes, text = token.start[0], token.string.startswith("#:"), token.string.lstrip("#: ")
        alone = token.line.lstrip().startswith("#")
        if alone and last == (number - 1, describes):
            begin, before, _ = found.pop()
            found.append((begin, f"{before} {text}", describes))
        else:
            found.append((number, text, describes))
        last = (number if alone else 0, describes)
    return found


def problems(source: str) -> list[str]:
    """Return `LINE: problem` for each docstring and comment of a module."""
    found = []
    for line, text, describes in _texts(source):
        if describes and (opening := _OPENINGS.match(text)):
            found.append(f"{line}: begins with {opening[0]!r}: {text[:60]!r}")
        found += [
            f"{line}: {match[0]!r}; write: {[*_PHRASES.values()][(match.lastindex or 1) - 1]}"
            for match in _BANNED.finditer(" ".join(text.split()))
        ]
    return found


def test_banned_words_are_found_and_others_are_not():
    source = '''"""What a far place is said to be."""
X = 1  # nobody of ours
#: Of a script this much is read.
#: continued by: themselves, kindly, farther
Y = 2
def f():
    """Return as far as possible what is in front of the folder, with the opening noqa."""  # noqa: D401
'''
    found = [re.sub(r"('.*?').*", r"\1", problem) for problem in problems(source)]
    assert found == [
        "1: begins with 'What'", "1: 'far'", "1: 'is said'", "2: 'nobody'", "2: 'of ours'", "3: begins with 'Of'"
    ]  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_use_the_fields_words(room):
    top = _ROOT / "cli/dkdbg" / room
    files = [top] if top.is_file() else sorted(top.rglob("*.py"))
    assert files
    found = [f"{file.relative_to(_ROOT)}:{each}" for file in files for each in problems(file.read_text())]
    assert not found, "\n".join(["docstrings and comments:", *found])


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", _ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def test_commit_subjects_are_short_and_begin_with_a_scope_or_a_verb():
    first = _git("log", "--format=%H", "-1", f"--grep=^{_FIRST}")
    if not first:
        pytest.skip("no git history here")
    subjects = _git("log", "--no-merges", "--format=%s", f"{first}..HEAD").splitlines()
    wrong = [each for each in subjects if len(each) > _MAX_SUBJECT_CHARS or not _SUBJECT.fullmatch(each)]
    wrong = [each for each in wrong if each not in _EARLIER]
    assert not wrong, "at most 72 columns, `scope: verb ...`:\n" + "\n".join(wrong)
