"""Reports breakpoints that cannot stop although their line has run; `dkdbg why` would give the same reasons on request.

It reports only certain reasons: the program runs another copy of the file, the line ran while its module was imported,
or numba, triton or torch.jit has compiled its function. It does not report other lines of functions that ran before the
breakpoint was set, because they may run again. Code that torch.compile hides, and Pythons without the hook, are
reported elsewhere (inprocess/missed_code.py, hook_check.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import threading

from dkdbg.agent import console
from dkdbg.agent.dap import sources
from dkdbg.agent.dap.messages import as_dict, as_list, as_text
from dkdbg.agent.inprocess import duration
from dkdbg.agent.state import processes
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Iterator, List, Set, Tuple

    from dkdbg.agent import contract
    from dkdbg.agent.state import announced

#: Seconds from setting breakpoints to the first check, and between checks: a program takes a while to reach its lines.
LOOKS_S = (10.0, 20.0, 90.0)
#: Maximum breakpoints to ask about, lines to report at a check, seconds for an answer, and characters of a name.
MAX_BREAKPOINTS, MAX_REPORTED, ANSWER_S, MAX_CHARACTERS = 50, 5, 5.0, 300
COPY = "the breakpoint at %s:%d does not stop: the program runs another copy of the file, %s"
AGAIN = ": start it again to stop there"
#: Compiler -> environment variable that makes its functions run as Python, so that breakpoints stop.
_COMPILERS = {"numba": "NUMBA_DISABLE_JIT=1", "triton": "TRITON_INTERPRET=1", "torch.jit": "PYTORCH_JIT=0"}
COMPILED = "the breakpoint at %s:%d does not stop: %s has compiled its function. Start the program with `env %s COMMAND`"
BEFORE = "%s:%d ran before its breakpoint was set, when the program imported %s" + AGAIN


class Unhit:
    """The breakpoints of the attached editor that have not stopped.

    Args:
        folders: where processes announce themselves and answer.
        processes: returns those that are announced.
        report: called with a line for the user and its category of DAP output event (`important` for another copy).
    """

    def __init__(
        self,
        folders: announced.Folders,
        *,
        processes: Callable[[], List[contract.Process]],
        report: Callable[[str, str], None],
    ) -> None:
        self._folders, self._processes, self._report = folders, processes, report
        self._set: Dict[str, List[int]] = {}
        self._done: Set[Tuple[str, int]] = set()
        self._looks: List[float] = []
        self._is_waiting = False
        self._lock = threading.Lock()

    def set(self, path: str, lines: List[int]) -> None:
        """Record the lines with unconditional breakpoints in a file; `path` is its path where the program runs."""
        with self._lock:
            self._set[path] = lines
            self._looks = list(LOOKS_S)
            self._wait()

    def stopped(self, place: str) -> None:
        """Record where a process has stopped, such as `train.py:12 (breakpoint)`: breakpoints there do stop."""
        name, _, text = place.partition(" (")[0].rpartition(":")
        line = whole_number(text)
        if line is not None:
            self._done.add((name, line))

    def forget(self) -> None:
        """Forget all breakpoints: the editor has left."""
        with self._lock:
            self._set, self._done, self._looks = {}, set(), []

    def _wait(self) -> None:
        if self._looks and not self._is_waiting:
            with contextlib.suppress(RuntimeError):  # no thread can be started
                duration.later(self._looks.pop(0), self._check)
                self._is_waiting = True

    def _check(self) -> None:
        with self._lock:
            self._is_waiting = False
            wanted = [(path, line) for path, lines in self._set.items() for line in lines]
            self._wait()
        reported = 0
        for path, line in wanted[:MAX_BREAKPOINTS]:
            key = (os.path.basename(path), line)
            if key in self._done or line not in self._set.get(path, ()) or reported == MAX_REPORTED:
                continue
            sockets = processes.sockets_in(self._folders, self._processes())
            text = reason(path, line, _answers(sockets, path, line))
            if text and key not in self._done:
                reported += 1
                self._done.add(key)
                self._report(text, "console" if text.endswith(AGAIN) else "important")


def reason(path: str, line: int, files: Iterable[Dict[str, Any]]) -> str:
    """Return why a breakpoint does not stop; empty if no reason is certain.

    Args:
        files: the files of the same name that processes have loaded, as described by inprocess/line.py.
    """
    found = [each for each in files if each.get("origin") == "source" and each.get("code") is True]
    own = [each for each in found if as_text(each.get("real")) == os.path.realpath(path)]
    name = os.path.basename(path)
    if own:
        compiler = as_text(own[0].get("compiled"))
        if compiler in _COMPILERS and all(each.get("compiled") == compiler for each in own):
            return COMPILED % (_shown(name), line, compiler, _COMPILERS[compiler])
        if all(
            each.get("ran") is True and not each.get("function") and not each.get("branch") for each in own
        ):
            return BEFORE % (_shown(name), line, _shown(own[0].get("module")))
        return ""
    for each in found:
        if each.get("ran") is True and os.path.exists(path) and _is_copy(each, path):
            return COPY % (_shown(name), line, _shown(each.get("path")))
    return ""


def _shown(name: object) -> str:
    """Return a name from the program in printable form for the editor's console, a long one without its beginning."""
    return console.printable(as_text(name)[-MAX_CHARACTERS:])


def _is_copy(file: Dict[str, Any], path: str) -> bool:
    """Tell whether a loaded file is a copy of the source at `path`: same content, or same module name in a package."""
    inner = as_text(file.get("module")).replace(".", os.sep) + ".py"
    if os.sep in inner and path.endswith(os.sep + inner):
        return True
    local = sources.describe(path) if os.path.basename(path) != "__init__.py" else {}
    return bool(local) and local["digest"] == sources.describe(as_text(file.get("path"))).get("digest")


def _answers(sockets: Dict[int, str], path: str, line: int) -> Iterator[Dict[str, Any]]:
    for answer in processes.ask_all(sockets, "ran %d %s" % (line, path), ANSWER_S).values():
        try:
            data = json.loads(answer)
        except (ValueError, RecursionError):  # the process ended during its answer
            continue
        for each in as_list(as_dict(data).get("files")):
            yield as_dict(each)
