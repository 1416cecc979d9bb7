"""Write the local debug port to the files from which `docker compose` and F5 read it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.repository import dotenv, git
from dkdbg.repository.transaction import read
from dkdbg.setup.render import changes
from dkdbg.setup.render.changes import FileWanted
from dkdbg.setup.render.editor_files import LAUNCH, editor_files, project_id, with_port
from dkdbg.verbs.parts.repository import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def keep_port(root: Path, port: int, *, why: str, report: Callable[[str], None]) -> None:
    """Write a new port to launch.json and .env, because `docker compose` and F5 must use the same port."""
    # If the manifest has no record of the entry, plan the entry again.
    launch = with_port(root, port) or editor_files(root, make_plan(root)[0], port, project_id(root))[LAUNCH]
    env = read(root, PurePosixPath(".env"))
    text = dotenv.with_value(dotenv.decode(env), "DKDBG_PORT", str(port))
    wanted = {
        ".env": FileWanted(
            content=dotenv.encode(text), reason="a port that is free on this machine", owned=False
        ),
        LAUNCH: launch,
    }
    todo = changes.between(root, wanted)
    changes.apply(root, todo, changes.Journal(root=root))
    written = " and ".join(str(each.path) for each in todo)
    report(f"{why}; using {port}" + (f", written to {written}" if written else ""))
    shared = [name for name in (LAUNCH, ".env") if git.tracks(root, name)]
    if shared:
        report(f"  {port} is only for this machine: do not commit it in {' and '.join(shared)}")
    for phrase in launch.yours:
        report(f"  {LAUNCH}: kept your value: {phrase}")
