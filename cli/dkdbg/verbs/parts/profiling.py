"""`dkdbg run --nsys ... --pull`: pass profilers' settings to the agent there, and fetch their files at the end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.agent import settings
from dkdbg.core.address import LOCAL
from dkdbg.errors import EXIT_INTERRUPTED, EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.target import Reach, Target

#: Folder in which the agent writes profiles, relative to its working directory.
FOLDER = "dkdbg-profiles"
#: Local variables with further settings of a tool, which are passed on to the target.
_MORE = {
    "--nsys": ("options", settings.ENV_NSYS_OPTIONS),
    "--py-spy": ("options", settings.ENV_PY_SPY_OPTIONS),
    "--torch-profile": ("steps", settings.ENV_TORCH_PROFILE_STEPS),
}
#: Timeout in seconds and maximum bytes for the name of a folder.
_FOLDER_TIMEOUT_S, _MAX_FOLDER_BYTES = 30.0, 1 << 14


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """Profiling that the user asked for.

    Attributes:
        words: flags of the agent, as `agent/supervisor/profiles.py` reads them.
        pull: whether to fetch the files at the end.
    """

    words: tuple[str, ...]
    pull: bool


def asked(
    nsys: Sequence[str | None], py_spy: Sequence[str | None], torch: Sequence[str | None], *, pull: bool
) -> Profiling | None:
    """Return the profiling that a command line asks for; None without any.

    Args:
        nsys, py_spy, torch: patterns and ranks for each tool, None for none.

    Raises:
        DkdbgError: there is nothing to fetch.
    """
    words: list[str] = []
    for flag, (names, ranks) in (("--nsys", nsys), ("--py-spy", py_spy), ("--torch-profile", torch)):
        words += (flag, names) if names is not None else ()
        words += (f"{flag}-ranks", ranks) if ranks is not None else ()
        more, variable = _MORE[flag]
        is_chosen = names is not None or ranks is not None or (flag == "--nsys" and variables())
        if is_chosen and (value := os.environ.get(variable)):
            words += (f"{flag}-{more}", value)
    if pull and not words and not variables():
        raise DkdbgError(
            "--pull fetches profiles, but none were asked for",
            hint="dkdbg run --nsys-ranks 0 --pull ...; other files: dkdbg sync TARGET --pull FOLDER",
            exit_code=EXIT_USAGE,
        )
    return Profiling(words=tuple(words), pull=pull) if words or pull else None


def variables() -> tuple[str, ...]:
    """Return local variables, as `NAME=VALUE`, that choose workers too, for the agent there."""
    value = os.environ.get(settings.ENV_NEMO_RL_NSYS)
    return (f"{settings.ENV_NEMO_RL_NSYS}={value}",) if value else ()


def fetch(root: Path, name: str, target: Target, reach: Reach, python: str | None, *, code: int) -> int:
    """Copy a target's profiles into `dkdbg-pulled` of this repository; return `code`, or the copy's exit code if it is 0.

    Args:
        name: as typed. code: exit code of the program, which takes precedence.

    Raises:
        DkdbgError: the profiles cannot be read or written, with the reason; after a failed program that is only a
            warning.
    """
    try:
        pulled = _fetched(root, name, target, reach, python)
    except DkdbgError as error:
        if not code:
            raise
        console.warn(f"dkdbg: {error.message}")
        return code
    return code or pulled


def _fetched(root: Path, name: str, target: Target, reach: Reach, python: str | None) -> int:
    if target.address.scheme == LOCAL:
        return 0  # the profiles are on this machine already
    from dkdbg.verbs.sync import sync

    # Set before the first step: a Ctrl-C may come between any two steps.
    there, what = "/FOLDER", FOLDER
    try:
        done = process.read(reach.wrap(("pwd",)), most=_MAX_FOLDER_BYTES, timeout=_FOLDER_TIMEOUT_S)
        folder = done.stdout.removesuffix("\n") if done.code == 0 else ""
        if not folder.startswith("/"):
            raise DkdbgError(
                f"the profiles stay in {FOLDER} on {target.label}: the remote folder is unknown",
                hint=f"dkdbg sync {name} --to {there} --pull {what}",
            )
        # No copy starts at the root of a file system: there, `to` is the folder itself.
        there, what = (folder, FOLDER) if folder != "/" else (f"/{FOLDER}", ".")
        console.warn(f"dkdbg: fetching {folder.rstrip('/')}/{FOLDER} of {target.label}")
        return sync(root, name, to=there, pull=(what,), python=python, as_json=False)
    except KeyboardInterrupt:
        console.warn(f"dkdbg: interrupted; to fetch them later: dkdbg sync {name} --to {there} --pull {what}")
        return EXIT_INTERRUPTED
