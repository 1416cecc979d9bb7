"""A node of a job as something that commands are run on, from the login node: by ssh, or as a step of the job. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dkdbg.core.brought import is_agent
from dkdbg.core.target import Reach
from dkdbg.targets.ssh.command import PLAIN_SESSION, enter, for_any_shell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.errors import DkdbgError

Way = Literal["ssh", "step"]
#: Seconds for an sshd of a node to answer.
_CONNECT = 5
#: Asked of a node: a mark, as something may be printed before; user and host, and the agents that are ours. Others run
#: programs there too: only processes and files of our own count, as what is found is run.
_LOOK = """\
printf '\\n%s there\\n%s\\n%s\\n' {mark} "$(id -un)" "$(uname -n)"
for each in /proc/[0-9]*/cmdline; do [ -O "$each" ] && tr '\\0' '\\n' <"$each"; done 2>/dev/null | while read -r word; do
  case $word in /*/agent.pyz | /*/agent-*.pyz) [ -O "$word" ] && printf '%s\\n' "$word" ;; esac
done
for each in "${{DKDBG_RUNTIME_DIR:-/tmp/dkdbg-$(id -u)}}"/agent-*.pyz; do [ -O "$each" ] && printf '%s\\n' "$each"; done
exit 0
"""


#: `read` and `printf` are the shell's own: the line, which holds a secret, is in no list of processes.
_STARTING = """\
IFS= read -r line || exit 1
printf '%s\\n' "$line" | setsid {kept} >/dev/null 2>&1 &
exec 3<&0
{{ printf '%s\\n' "$line"; exec cat <&3; }} | {spoken} 3<&-
"""


@dataclass(frozen=True, kw_only=True)
class JobNode(Reach):
    """One node of a job.

    Attributes:
        login: where the batch system's commands are run.
        node: its name there.
        way: how a command comes to run on it.
        step: the words that run what follows them as a step of the job; empty for a system that has none.
        folder: where commands run, a path there; empty for wherever they begin.
        label: for people.
        explains: what the words of the batch system's program mean.
    """

    login: Reach
    node: str
    way: Way
    step: Callable[[bool], tuple[str, ...]]
    folder: str
    label: str
    explains: Callable[[str], DkdbgError | None]

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """The local command line that runs `argv` there, in the job's folder, with our standard input and output."""
        return self.script(f"{enter(self.folder)}exec {shlex.join(argv)}", tty=tty)

    def script(self, text: str, *, tty: bool = False) -> tuple[str, ...]:
        """The local command line that has a `sh` there run `text`."""
        if self.way == "step":
            return self.login.wrap((*self.step(tty), "sh", "-c", text), tty=tty)
        words = (
            "ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT}", "-o", "ServerAliveInterval=5",
            "-o", "ServerAliveCountMax=3", "-tt" if tty else "-T", "-e", "none", *PLAIN_SESSION, "--", self.node,
        )  # fmt: skip
        return self.login.wrap((*words, for_any_shell(text)), tty=tty)

    def starting(self, relay: Sequence[str]) -> tuple[str, ...]:
        """See `Reach.starting`. What ssh has started stays; a step takes along all that is in it, so that the keeper is one of its own.

        That step is held by its own srun on the login node, which is no child of ours: it goes on when we are cut off.
        """
        if self.way == "ssh":
            return self.wrap(relay)
        step = shlex.join(self.step(False))

        def there(word: str) -> str:
            text = f"{enter(self.folder)}exec {shlex.join((*relay, word))}"
            return f"{step} sh -c {shlex.quote(text)}"

        kept, spoken = there("keep"), there("wait")
        return self.login.wrap(("sh", "-c", _STARTING.format(kept=kept, spoken=spoken)))

    def explain(self, said: str) -> DkdbgError | None:
        """The error that the batch system's words mean; None when they are not its."""
        return self.explains(said)


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a node has said of itself."""

    user: str
    host: str
    agents: tuple[str, ...]


def looking(mark: str) -> str:
    """The text for `sh` that asks a node; `mark` begins its answer."""
    return _LOOK.format(mark=mark)


def looked(mark: str, said: str) -> Looked | None:
    """The answer; None when there is none."""
    _, found, answer = said.rpartition(f"\n{mark} there\n")
    lines = answer.splitlines()
    if not found or len(lines) < 2:
        return None
    return Looked(user=lines[0], host=lines[1], agents=tuple(dict.fromkeys(filter(is_agent, lines[2:100]))))
