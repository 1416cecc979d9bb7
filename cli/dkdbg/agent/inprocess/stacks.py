"""Where the threads of this process are, as `dkdbg where` asks: file, line and function of each frame, no value.

It runs in the hook's thread, and the others go on meanwhile: nothing is traced, and no debugger is needed. It answers while
the main thread waits in C, as long as that gives the GIL away. Nothing is imported that a program could be hanging in.
"""

from __future__ import annotations

import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Dict, List, Optional, Tuple

#: Threads of a process, and frames of a thread, from its inner and from its outer end, that are told.
THREADS, INNER, OUTER = 100, 80, 20
#: Characters of a path, and of any name.
_PATH, _NAME = 500, 200
#: The debugger's own code, which the agent brings.
_DEBUGGER = "/debugpy/_vendored/"
#: Installed code is not where a person looks first.
_INSTALLED = ("/site-packages/", "/dist-packages/", _DEBUGGER)


def dump() -> str:
    """Return one line of JSON: `threads`, the main one first, each with its frames, the innermost first.

    A frame is a list: path, line, function, and 1 where the code is the program's own, 0 where it was installed.
    """
    known: Dict[int, Any] = dict(getattr(threading, "_active", {}))
    main = threading.main_thread().ident
    frames = sys._current_frames()
    told = []
    for ident in sorted(frames, key=lambda each: (each != main, each)):
        thread = known.get(ident)
        if ident == threading.get_ident() or _is_ours(thread):
            continue
        told.append(_thread(frames[ident], thread, ident == main))
        if len(told) == THREADS:
            break
    frames.clear()
    return '{"threads":[%s],"left_out":%d}' % (",".join(told), max(0, len(known) - THREADS))


def _thread(frame: Optional[FrameType], thread: Any, is_main: bool) -> str:  # noqa: ANN401
    name = str(getattr(thread, "_name", "") or "")
    number = getattr(thread, "_native_id", None)
    listed: List[Tuple[str, int, str]] = []
    while frame is not None:
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)  # Python 3.11
        # No line: in the middle of a change of it, by a debugger or a tracer.
        listed.append((code.co_filename, frame.f_lineno or 0, function))
        frame = frame.f_back
    listed = _without_debugger(listed)
    more = max(0, len(listed) - INNER - OUTER)
    if more:
        listed = listed[:INNER] + listed[-OUTER:]
    return '{"name":%s,"id":%d,"main":%d,"more":%d,"frames":[%s]}' % (
        _quoted(name[:_NAME]),
        number if isinstance(number, int) else 0,
        is_main,
        more,
        ",".join(
            "[%s,%d,%s,%d]" % (_quoted(path[:_PATH]), line, _quoted(function[:_NAME]), _is_own(path))
            for path, line, function in listed
        ),
    )


def _without_debugger(listed: List[Tuple[str, int, str]]) -> List[Tuple[str, int, str]]:
    """Leave out how a debugger holds a thread: the frames within the one where it is held."""
    own = 0
    for number, (path, _, _) in enumerate(listed, 1):
        if _DEBUGGER in path.replace(os.sep, "/"):
            own = number
        elif _is_own(path):
            break
    return listed[own:] or listed


def _is_ours(thread: Any) -> bool:  # noqa: ANN401
    """Tell whether a thread is the debugger's, or the agent's."""
    marks = ("pydev_do_not_trace", "is_pydev_daemon_thread")
    return any(getattr(thread, mark, False) is True for mark in marks)


def _is_own(path: str) -> bool:
    here = os.path.dirname(os.path.abspath(__file__))  # waits that are lengthened, see clocks.py
    installed = (
        os.path.dirname(os.__file__) + os.sep,
        os.path.join(sys.prefix, "bin") + os.sep,
        "<frozen",
        here + os.sep,
    )
    return not (path.startswith(installed) or any(mark in path for mark in _INSTALLED))


def _quoted(text: str) -> str:
    from _json import encode_basestring_ascii  # json itself costs 3 ms, and is Python that may be hanging

    return encode_basestring_ascii(text.encode("utf-8", "replace").decode("utf-8"))
