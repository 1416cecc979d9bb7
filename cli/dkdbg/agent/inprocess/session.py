"""The session around this process, from its record, and messages on the program's stderr."""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import os
import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict


def monotonic() -> float:
    """Return the system's clock: `time.monotonic` may be frozen by a test of the program, or stand still in a hold."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def namespace(module: object) -> Dict[str, Any]:
    """Return a module's names, empty where a program has put anything else; a lazy module is not imported by that."""
    try:
        if isinstance(module, types.ModuleType):
            found: Dict[str, Any] = vars(types.ModuleType)["__dict__"].__get__(module)
        else:
            found = object.__getattribute__(module, "__dict__")
        return found
    except Exception:
        return {}


def record(directory: str) -> Dict[str, Any]:
    """Return the agent's record, empty when it cannot be read.

    Args:
        directory: the session's folder.
    """
    import json

    try:
        with open(os.path.join(directory, "session.json")) as source:
            found: Dict[str, Any] = json.load(source)
            return found
    except (OSError, ValueError):
        return {}


def editor_is_attached(directory: str, stat: Callable[[str], object] = os.stat) -> bool:
    """Tell whether an editor is attached to the session with this folder.

    It calls no Python function (see untraced.py), and none that a test of the program has replaced.
    """
    try:
        stat(directory + "/join.json")
    except OSError:
        return False
    return True


def endpoint(directory: str) -> str:
    """Return the address for an editor, `host:port`."""
    found = record(directory)
    return "%s:%s" % (found.get("host", "127.0.0.1"), found.get("port", "?"))


def say(text: str) -> None:
    """Print a line on stderr: stdout is the program's."""
    try:
        sys.stderr.write("dkdbg: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def tell(debugger: Any, text: str) -> None:
    """Print a line on stderr and in the editor's console.

    Only once, where the editor shows the program's output.

    Args:
        debugger: pydevd's, which has an editor.
    """
    say(text)
    from . import output

    if not output.is_shown():
        debugger.writer.add_command(debugger.cmd_factory.make_console_message("dkdbg: %s\n" % text))
