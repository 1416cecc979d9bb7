"""Adds the session's variables to environments that the program makes for its child processes.

`subprocess`, `os.execve` and `os.posix_spawn` accept an environment, which may lack the hook: tox removes it, for
example, as does `env={"PYTHONPATH": ...}`. The program's own dicts and lists stay unchanged.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

_SESSION, _PATH = b"DKDBG_SESSION_DIR", b"PYTHONPATH"
#: Prefixes of the variables that the agent sets for a program, and that a child needs too.
_DKDBG_PREFIXES = (
    b"DKDBG_",
    b"PYDEVD_DISABLE_FILE_VALIDATION",
    b"PYTHONBREAKPOINT",
    b"TORCH_COMPILE_DISABLE",
)
#: Position of the environment in the arguments of `_posixsubprocess.fork_exec` (3.8 to 3.14): a list of
#: `NAME=value`, or None to inherit this process's.
_FORK_EXEC_ENVIRONMENT = 5


def fork_exec(directory: str, hook: str, arguments: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """Return the arguments of `_posixsubprocess.fork_exec` with the session added to their environment."""
    at = _FORK_EXEC_ENVIRONMENT
    entries = arguments[at]
    if entries is None:
        return arguments
    more = _missing(directory, hook, dict(entry.partition(b"=")[::2] for entry in entries))
    kept = [entry for entry in entries if entry.partition(b"=")[0] not in more]
    return (
        *arguments[:at],
        kept + [name + b"=" + value for name, value in more.items()],
        *arguments[at + 1 :],
    )


def with_session(directory: str, hook: str, environment: Any) -> Any:
    """Return an environment for `os.execve` with the session's variables added.

    Args:
        directory: the session's folder. hook: the hook's folder, as on PYTHONPATH.
        environment: a mapping; anything else is returned as it is, for `os.execve` to report the error.
    """
    try:
        pairs = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    except (AttributeError, TypeError):
        return environment
    more = _missing(directory, hook, pairs)
    return {**pairs, **more} if more else environment


def _missing(directory: str, hook: str, pairs: Dict[bytes, bytes]) -> Dict[bytes, bytes]:
    """Return the variables to add to an environment; empty if it belongs to another session that still exists.

    A session that has ended does not count: the program may have copied the environment while this process was in it.
    """
    session, hook_folder = os.fsencode(directory), os.fsencode(hook)
    named = pairs.get(_SESSION)
    if named not in (None, session) and (not named or os.path.isdir(named + b"/p")):
        return {}
    more: Dict[bytes, bytes] = {}
    path = pairs.get(_PATH, b"")
    entries = path.split(b":") if path else []  # an empty entry would mean the working folder
    if hook_folder not in entries:
        from . import entered

        # Drop the hook of a former session, which may be of another version.
        rest = [each for each in entries if not entered.is_hook_folder(os.fsdecode(each))]
        more[_PATH] = b":".join([hook_folder, *rest])
    if named != session:
        more.update(
            (name, value)
            for name, value in os.environb.items()
            if name.startswith(_DKDBG_PREFIXES) and name not in pairs
        )
        more[_SESSION] = session
    return more
