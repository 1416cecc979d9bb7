"""Finds a local folder on another machine with a shared file system or sshfs.

Guessed from mounts, proved by a probe.
"""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.mounts import guesses, mounts
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.sync.remote.contact import PYTHONS, Contact, SameFolderError, refuse_same_folder
from dkdbg.sync.remote.stream import StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.target import Reach, Target, Workspace

_MOUNTS = "/proc/self/mountinfo"
#: Maximum bytes of it, and seconds for an answer.
_MAX_OUTPUT_BYTES, _TIMEOUT_S = 1 << 20, 30.0
#: Exits with 0 in a home.
_IS_HOME = '[ "$(pwd -P)" = "$(cd && pwd -P)" ]'


def find(root: str, reach: Reach, *, python: str | None = None) -> str | None:
    """Return the path of `root` there, when it is the same folder.

    None when it is not, or mounts are unreadable here.

    Args:
        root: absolute, resolved, here.
        python: interpreter there; None to look for one.
    """
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            here = mounts(file.read(_MAX_OUTPUT_BYTES))
    except OSError:
        return None
    with contextlib.suppress(DkdbgError):
        said = _asked(reach, f'printf "%s\\n" "$HOME"; cat {_MOUNTS}').partition("\n")
        found = guesses(root, here, mounts(said[2]), said[0] if said[0].startswith("/") else "")
        found = [each for each in found if each.isprintable()]
        shown = "".join(f"[ -d {shlex.quote(each)} ] && echo {number}; " for number, each in enumerate(found))
        there = _asked(reach, f"{shown}true").split()
        for number, each in enumerate(found):
            if str(number) in there and _is_one(root, each, reach, (python,) if python else PYTHONS):
                return each
    return None


def folder_of(target: Target, reach: Reach) -> Workspace:
    """Return where the code of a target lies, to be written to.

    A job runs in the folder that it was submitted from, which may be the user's home.

    Raises:
        DkdbgError: it is unknown, or a home, where shells and programs read their settings from files that a
            repository may have too.
    """
    found = target.workspace()
    if Capability.TIME_LIMITED in target.capabilities:
        done = process.run(reach.wrap(("sh", "-c", _IS_HOME)), timeout=_TIMEOUT_S)
        if done.code == 0:
            raise DkdbgError(
                f"{target.label} runs in your home there, {printable(found.remote)}: a sync could overwrite the start-up files of your shells",
                hint=f"dkdbg sync {shlex.quote(str(target.address))} --to {shlex.quote(found.remote.rstrip('/'))}/code, or submit it with --in code",
                exit_code=EXIT_USAGE,
            )
    return found


def _asked(reach: Reach, text: str) -> str:
    return process.read(reach.wrap(("sh", "-c", text)), most=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S).stdout


def _is_one(root: str, folder: str, reach: Reach, pythons: Sequence[str]) -> bool:
    """Create a probe file in `folder` there, look for it here, and remove it."""
    contact = Contact(folder, "", pythons=pythons, makes=False)
    try:
        contact.start(reach)
        stream, ready = contact.ready()
    except (DkdbgError, StreamEndedError):  # not writable there: then nothing can be proved
        return False
    finally:
        contact.stop()
    try:
        refuse_same_folder(root, ready)
    except SameFolderError:
        return True
    finally:
        stream.close()
    return False
