"""The table of settings names each variable that the program reads, and no other; the pages name no other either."""

import re
from pathlib import Path

from dkdbg.agent import settings as agent
from dkdbg.core.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
#: Ours, and those of the tools whose users we take over.
_NAME = re.compile(
    r"\b(?:DKDBG_[A-Z0-9_]*[A-Z0-9_]|DEBUG_(?:PORT|TIMEOUT)[A-Z_]*|NRL_NSYS_WORKER_PATTERNS)\b"
)
#: One for each port of the program.
_OF_A_PORT = re.compile(r"(?<=DKDBG_APP_PORT_)\d+$")
#: Variables that dkdbg sets for itself.
INTERNAL = (
    "DKDBG_SESSION_DIR", "DKDBG_PDB_TOKEN", "DKDBG_PROFILE", "DKDBG_PROFILED", "DKDBG_RAY_WORKERS", "DKDBG_RAY_SOURCE",
    "DKDBG_RAY_UNPACKED", "DKDBG_RAY_NSYS", "DKDBG_RAY_NSYS_BASE", "DKDBG_PAI", "DKDBG_RUN", "DKDBG_TRANSIENT", "DKDBG_SITES", "DKDBG_ARG_",
)  # fmt: skip
#: The table itself.
_TABLE = {"settings.py"}


def _names(text):
    return {_OF_A_PORT.sub("", name) for name in _NAME.findall(text)}


def test_the_table_has_each_variable_that_is_read_and_no_other():
    sources = [
        path
        for folder in ("cli", "templates", "compose", "devcontainer")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in (".py", ".sh", ".j2", ".json", ".yaml", ".yml", "")
    ]
    used = "\n".join(path.read_text(errors="replace") for path in sources if path.name not in _TABLE)
    read = _names(used)
    for constant, value in vars(agent).items():
        if constant.startswith("ENV_") and re.search(rf"\b{constant}\b", used):
            read.add(value)
    declared = {setting.env for setting in SETTINGS if setting.env} | set(INTERNAL)
    assert len(declared) > 50
    assert sorted(read - declared) == []
    assert sorted(declared - read) == []


def test_the_page_of_a_job_names_no_other():
    page = _names((ROOT / "docs/environment.md").read_text())
    assert page <= {setting.env for setting in SETTINGS} | set(INTERNAL)
