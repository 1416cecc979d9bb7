"""docs/environment.md, with docs/settings.md, names each variable that the program reads, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Ours, and those of the tools whose users we take over.
_NAME = re.compile(
    r"\b(?:DKDBG_[A-Z0-9_]*[A-Z0-9_]|DEBUG_(?:PORT|TIMEOUT)[A-Z_]*|NRL_NSYS_WORKER_PATTERNS)\b"
)
#: One for each port of the program.
_OF_A_PORT = re.compile(r"(?<=DKDBG_APP_PORT_)\d+$")


def _names(text):
    return {_OF_A_PORT.sub("", name) for name in _NAME.findall(text)}


def test_the_pages_name_each_variable_that_is_read_and_no_other():
    sources = [
        path
        for folder in ("cli", "templates", "compose", "devcontainer")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in (".py", ".sh", ".j2", ".json", ".yaml", ".yml", "")
    ]
    read = {name for path in sources for name in _names(path.read_text(errors="replace"))}
    assert len(read) > 50
    page = _names((ROOT / "docs/environment.md").read_text())
    both = page | _names((ROOT / "docs/settings.md").read_text())
    assert sorted(read - both) == []
    assert sorted(page - read) == []
