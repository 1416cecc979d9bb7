"""List the Pythons that run at a target without dkdbg's agent, from the output of its shell. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.printable import is_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Maximum bytes of the output of `finding_words`.
MAX_ANSWER_BYTES = 1 << 18
#: Script that lists the Python processes; needs only `sh`, `readlink` and `tr`. Prints one line per process,
#: separated by tabs: PID, parent's PID, user (empty for the shell's own), program (for another user's process,
#: the first word of its command line), words of the command line.
_FIND = r"""
status() { parent=0 user=0; while read -r name real effective rest; do case $name in
  PPid:) parent=$real ;; Uid:) user=$effective ;; Gid:) user=$user:$effective ;; esac; done <"$1/status"; }
status /proc/self; own=$user
for each in /proc/[0-9]*; do
  program=$(readlink "$each/exe" || tr '\0' '\n' <"$each/cmdline" | { read -r word; echo "$word"; })
  case ${program##*/} in
    python*) status "$each"; [ "$user" != "$own" ] || user=
      printf '%s\t%s\t%s\t%s\t' "${each#/proc/}" "$parent" "$user" "$program"; tr '\n\t\0' '  \t' <"$each/cmdline"; echo ;;
  esac
done 2>/dev/null
"""
_USER = re.compile(r"\d{1,10}:\d{1,10}")
_VERSION = re.compile(r"python(\d+(\.\d+)?)")
_LISTENS = re.compile(r"(?:(?P<host>[^\s:]+):)?(?P<port>\d{1,5})")


@dataclass(frozen=True, kw_only=True)
class PythonThere:
    """One Python process in a container.

    Attributes:
        pid: PID in the container's PID namespace.
        parent: PID of its parent, in the same namespace.
        user: `uid:gid` of its owner; empty if that is the user who listed the processes.
        program: path of the interpreter in the container.
        argv: its command line.
    """

    pid: int
    parent: int = 0
    user: str = ""
    program: str
    argv: tuple[str, ...]

    @property
    def version(self) -> str:
        """Version in the interpreter's name, such as `3.14`; empty if it has none."""
        found = _VERSION.search(self.program.rsplit("/", 1)[-1])
        return found[1] if found else ""

    @property
    def is_adapter(self) -> bool:
        """Return whether it is debugpy's adapter, the process of a plain debugpy that listens."""
        return any("debugpy/adapter" in word for word in self.argv[:4])

    @property
    def listens(self) -> tuple[str, int] | None:
        """Address that debugpy listens on according to this command line; None if it does not listen."""
        if self.argv[1:3] != ("-m", "debugpy") and self.argv[:1] != ("debugpy",):
            return None
        for option, value in zip(self.argv, self.argv[1:], strict=False):
            if option == "--listen" and (found := _LISTENS.fullmatch(value)):
                return found["host"] or LOOPBACK, int(found["port"])
        return None


def finding_words() -> tuple[str, ...]:
    """Return the command line that, run in a container, lists its Pythons."""
    return ("sh", "-c", _FIND)


def pythons_in(stdout: str) -> tuple[PythonThere, ...]:
    """Return the Pythons in the output of `finding_words`, the oldest first. The output is untrusted: never run it."""
    found = []
    for line in stdout.splitlines()[:1000]:
        pid, _, rest = line.partition("\t")
        parent, _, rest = rest.partition("\t")
        user, _, rest = rest.partition("\t")
        program, _, words = rest.partition("\t")
        numbers = _is_number(pid) and _is_number(parent) and (not user or _USER.fullmatch(user))
        if numbers and all(map(is_text, rest.replace("\t", ""))):
            found.append(
                PythonThere(
                    pid=int(pid), parent=int(parent), user=user, program=program,
                    argv=tuple(words.rstrip("\t ").split("\t")),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda each: each.pid))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 8


def programs_of(found: Sequence[PythonThere]) -> list[tuple[PythonThere, ...]]:
    """Group the Pythons by program: a root process, followed by its descendants."""
    pids = {each.pid for each in found}
    roots = {each.pid: [each] for each in found if each.parent not in pids}
    above = {each.pid: each.parent for each in found}
    for each in found:
        root, steps = each.pid, 0
        while root not in roots and steps < len(found):
            root, steps = above.get(root, 0), steps + 1
        if root in roots and root != each.pid:
            roots[root].append(each)
    return [tuple(each) for each in roots.values()]


def is_debugpy(found: Sequence[PythonThere]) -> bool:
    """Return whether one of the Pythons runs a plain debugpy."""
    return any(each.is_adapter or each.listens for each in found)
