"""The command lines that dkdbg tells people to type, collected from every text of the program.

A text is a string that is no docstring, with `{}` where a value comes in. `tests/said.json` lists each text that tells
somebody to type something, and the command lines in it, word by word as they stand there.
`pytest tests/unit/test_said.py --update-golden` brings in new texts, with commands guessed from where they begin and
end: read its diff, and correct by hand what was guessed wrong; what was said before is left as it is.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import main

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(main.__file__).resolve().parent
LISTED = Path(__file__).with_name("said.json")
#: Programs that texts tell to type; a text that begins a command line with one of them is looked at.
PROGRAMS = (
    "apt", "apt-get", "brew", "cat", "chmod", "chown", "df", "docker", "export", "git", "helm", "kubectl", "ls", "nc", "nvidia-ctk", "oc",
    "openssl", "pip", "podman", "printf", "qstat", "ray", "rm", "sacctmgr", "sbatch", "scontrol", "sinfo", "squeue", "ssh", "ssh-add",
    "ssh-keygen", "sudo", "systemctl", "ulimit", "unset",
)  # fmt: skip
_VERBS = "attach|completion|demo|down|forward|help|init|logs|pdb|ps|ranks|restart|run|submit|sync|up|where"
_OTHERS = "|".join(map(re.escape, PROGRAMS))
_BEGINS = re.compile(
    rf"\bdkdbg (?:-C \S+ )?(?:{_VERBS})\b"
    rf"|(?:^|[:;(`] ?|, |\b(?:or|run|by|with|then|try|and) )(?:{_OTHERS}) [a-z{{$*\"-][^ ]*"
)
_ENDS = re.compile(
    r"`|[;:](?= |$)|,$| \(|\.\.\.? ?|\?\)|,(?= |$)|\)|\. |\.$|$| (?:is|are|was|shows?|says?|lists?|takes?|starts?|writes?|makes?|comes?|waits?|has|have|had|must|"
    r"will|uses?|gives?|goes|names?|syncs?|leaves?|frees|brings?|explains|completes|tells|answers?|does|there|then|or|and|in|while|knows|"
    r"again|to see|only|asks?|restores|with which|where|here|after|may|as|until|once|instead|for|stops|can|evaluates|unless|treats|lets|into|from|never|cannot|with exit|failed|knows no|would|ends|said|should|of|another|planned|what|this|it|to|not|has offered|gets|sync another)(?= |$|,|;)"
)  # fmt: skip


#: Not for people: regular expressions, scripts, what an image build runs.
_MACHINE = re.compile(
    r"\\[dS(]|\(\?|\)\?|\w\|\w|^\n|\n.*\n|=\$\(|\| awk|\| sed|<meta|--noheader|^(?:pip install|ray|cat|printf)\b.*\{\}|DKDBG_TOKEN_FILE:-"
)


def texts() -> Iterator[str]:
    """Each text of the program, with `{}` for what is put into it."""
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text())
        inner = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }  # fmt: skip
        for node in ast.walk(tree):
            if id(node) in inner or not isinstance(node, (ast.Constant, ast.JoinedStr)):
                continue
            if isinstance(node, ast.JoinedStr):
                inner.update(id(each) for each in ast.walk(node))
                yield "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)  # type: ignore[misc]
            elif isinstance(node.value, str):
                yield re.sub(r"%[-0-9.]*[sdrg]|\{\w+(?:\[\w+\])?\}", "{}", node.value)


def telling() -> set[str]:
    """The texts that tell somebody to type something."""
    return {each for each in texts() if _BEGINS.search(each) and not _MACHINE.search(each)}


def guessed(text: str) -> list[str]:
    """The command lines in a text, by where such lines most often begin and end."""
    found = []
    for begin in _BEGINS.finditer(text):
        start = begin.start() + (re.search(rf"(?:dkdbg|{_OTHERS}) ", begin[0]).start())  # type: ignore[union-attr]
        end = _ENDS.search(text, begin.end())
        assert end is not None
        found.append(text[start : end.start()].strip())
    return found


def listed() -> dict[str, list[str]]:
    """What `tests/said.json` says."""
    said: dict[str, list[str]] = json.loads(LISTED.read_text()) if LISTED.exists() else {}
    return said


def write_anew() -> None:
    """Bring in new texts, and take out those that are gone."""
    before = listed()
    now = {each: before.get(each, guessed(each)) for each in sorted(telling())}
    LISTED.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n")
