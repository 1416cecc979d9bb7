"""Dumps the stacks of this process's threads for `dkdbg where`: file, line and function of each frame, no values.

It runs on the hook's thread while the others continue; it traces nothing, and needs no debugger. So it answers even
while the main thread waits in C code that has released the GIL. It imports no module whose import the program could be
hanging in.
"""

from __future__ import annotations

import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Dict, List, Optional, Tuple

#: Maximum threads of a process, and maximum innermost and outermost frames of a thread.
MAX_THREADS, MAX_INNER_FRAMES, MAX_OUTER_FRAMES = 100, 80, 20
#: Maximum characters of a path, and of any name.
_MAX_PATH_CHARS, _MAX_NAME_CHARS = 500, 200
#: Part of the paths of the debugger's own code.
_DEBUGGER = "/debugpy/_vendored/"
#: Parts of the paths of installed code, in contrast to the program's own.
_INSTALLED = ("/site-packages/", "/dist-packages/", _DEBUGGER)
#: Prefix of dkdbg's own code.
_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: Prefixes of the paths of other code that is not the program's.
_NOT_OWN = (
    os.path.dirname(os.__file__) + os.sep,
    os.path.join(sys.prefix, "bin") + os.sep,
    "<frozen",
    _FOLDER,
)


def dump() -> str:
    """Return a line of JSON: `threads`, the main one first, and the number `left_out`. Frames are innermost first.

    A frame is a list: path, line, function, and 1 for the program's own code, 0 for installed code.
    """
    known: Dict[int, Any] = dict(getattr(threading, "_active", {}))
    main = threading.main_thread().ident
    frames = sys._current_frames()
    threads_text = []
    for ident in sorted(frames, key=lambda each: (each != main, each)):
        thread = known.get(ident)
        if ident == threading.get_ident() or _is_dkdbg_thread(thread) or _began_in_dkdbg(frames[ident]):
            continue
        threads_text.append(_thread(frames[ident], thread, ident == main))
        if len(threads_text) == MAX_THREADS:
            break
    frames.clear()
    return '{"threads":[%s],"left_out":%d}' % (",".join(threads_text), max(0, len(known) - MAX_THREADS))


def _thread(frame: Optional[FrameType], thread: Any, is_main: bool) -> str:  # noqa: ANN401
    name = str(getattr(thread, "_name", "") or "")
    number = getattr(thread, "_native_id", None)
    listed: List[Tuple[str, int, str]] = []
    while frame is not None:
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)  # Python 3.11
        if not code.co_filename.startswith(_FOLDER):  # skip dkdbg's replacements of waits, see clocks.py
            # A frame has no line number while a debugger or a tracer is changing it.
            listed.append((code.co_filename, frame.f_lineno or 0, function))
        frame = frame.f_back
    listed = _without_debugger(listed)
    more = max(0, len(listed) - MAX_INNER_FRAMES - MAX_OUTER_FRAMES)
    if more:
        listed = listed[:MAX_INNER_FRAMES] + listed[-MAX_OUTER_FRAMES:]
    return '{"name":%s,"id":%d,"main":%d,"more":%d,"frames":[%s]}' % (
        _quoted(name[:_MAX_NAME_CHARS]),
        number if isinstance(number, int) else 0,
        is_main,
        more,
        ",".join(
            "[%s,%d,%s,%d]"
            % (_quoted(path[:_MAX_PATH_CHARS]), line, _quoted(function[:_MAX_NAME_CHARS]), is_own(path))
            for path, line, function in listed
        ),
    )


def _without_debugger(listed: List[Tuple[str, int, str]]) -> List[Tuple[str, int, str]]:
    """Drop the innermost frames of a stopped thread, which belong to the debugger."""
    own = 0
    for number, (path, _, _) in enumerate(listed, 1):
        if _DEBUGGER in path.replace(os.sep, "/"):
            own = number
        elif is_own(path):
            break
    return listed[own:] or listed


def _is_dkdbg_thread(thread: Any) -> bool:  # noqa: ANN401
    """Tell whether a thread, by its `Thread`, is the debugger's or dkdbg's."""
    attributes = ("pydev_do_not_trace", "is_pydev_daemon_thread")
    return any(getattr(thread, attribute, False) is True for attribute in attributes)


def _began_in_dkdbg(frame: Optional[FrameType]) -> bool:
    """Tell whether a thread is dkdbg's by its outermost frame, for threads that `threading` does not know."""
    path = ""
    while frame is not None:
        path, frame = frame.f_code.co_filename, frame.f_back
    return path.startswith(_FOLDER)


def is_own(path: str) -> bool:
    """Tell whether a file is the program's own: neither installed nor dkdbg's."""
    return not (path.startswith(_NOT_OWN) or any(folder in path for folder in _INSTALLED))


def _quoted(text: str) -> str:
    from _json import encode_basestring_ascii  # json itself costs 3 ms, and the program may hang in it

    return encode_basestring_ascii(text.encode("utf-8", "replace").decode("utf-8"))
