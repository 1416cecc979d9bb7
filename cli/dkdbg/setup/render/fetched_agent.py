"""Keep the agent out of git (`agent = "fetched"`): git has only its digest, and `dkdbg up` writes the file.

The same versions of dkdbg and debugpy build the same bytes, so a teammate gets the reviewed file or an error.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import __version__
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository.transaction import Change, Transaction, read
from dkdbg.setup.render.changes import FileWanted
from dkdbg.setup.render.manifest import FOLDER, GITIGNORE, GITIGNORE_TEXT

if TYPE_CHECKING:
    from pathlib import Path

#: Path of the digest, in the format of `sha256sum --check`; path of the agent.
DIGEST, AGENT = FOLDER / "agent.sha256", FOLDER / single_file.NAME
_FORM = re.compile(r"# dkdbg (\S{1,40}), Python (\d{1,2})\.(\d{1,3})\n([0-9a-f]{64})  agent\.pyz\n")


def files(agent: bytes, python: tuple[int, ...]) -> dict[str, FileWanted]:
    """Return the files in git that stand for an agent for `python`, such as (3, 11): its digest, and a .gitignore."""
    digest = f"# dkdbg {__version__}, Python {'.'.join(map(str, python))}\n{hashlib.sha256(agent).hexdigest()}  {single_file.NAME}\n"
    return {
        str(DIGEST): FileWanted(
            content=digest.encode(), reason="the digest of the agent, which `dkdbg up` writes"
        ),
        str(GITIGNORE): FileWanted(
            content=GITIGNORE_TEXT + b"/agent.pyz\n", reason="keeps the agent out of git"
        ),
    }


def is_fetched(root: Path) -> bool:
    """Return whether git has the agent's digest instead of the agent."""
    return read(root, PurePosixPath(DIGEST)) is not None


def fill(root: Path) -> bool:
    """Build and write the agent with the recorded digest, unless the file exists; return whether it was written.

    Raises:
        DkdbgError: the installed dkdbg and debugpy build another agent, or the file cannot be written.
    """
    text = read(root, DIGEST)
    if text is None:
        return False
    found = _FORM.fullmatch(text.decode("utf-8", errors="replace").replace("\r\n", "\n"))
    if found is None:
        raise DkdbgError(
            f"{DIGEST} does not have the format that dkdbg init writes",
            hint="dkdbg init --yes writes it again",
        )
    version, major, minor, digest = found.groups()
    content = read(root, AGENT)
    if content is not None and hashlib.sha256(content).hexdigest() == digest:
        return False
    built = single_file.build((int(major), int(minor)))
    if hashlib.sha256(built).hexdigest() != digest:
        raise DkdbgError(
            f"{DIGEST} records the agent of dkdbg {version}; your dkdbg {__version__} with its debugpy builds a different one",
            hint=f"install dkdbg {version}, or switch the repository to yours: dkdbg init --yes, then commit {DIGEST}",
            exit_code=EXIT_CONFLICT,
        )
    reason = "the agent and its debugpy, mounted read-only"
    Transaction(root=root, changes=(Change(path=AGENT, before=content, after=built, reason=reason),)).commit()
    return True
