"""Run commands on a node of a job, from the login node: by ssh, or as a step of the job. Pure."""

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
#: Connect timeout for the sshd of a node.
_CONNECT_TIMEOUT_S = 5
#: Query of a node: a mark, because other output may precede it, then user and host, and the files of our agents. Other
#: users run programs there too, and the result is executed: accept only processes and files of our own.
_LOOK = """\
printf '\\n%s there\\n%s\\n%s\\n' {mark} "$(id -un)" "$(uname -n)"
for each in /proc/[0-9]*; do [ -O "$each/cmdline" ] && tr '\\0' '\\n' <"$each/cmdline" | while read -r word; do
  case $word in
    /*/agent.pyz | /*/agent-*.pyz) ;;
    agent.pyz | */agent.pyz) cd -P "$each/cwd" && word=$(pwd)/$word ;;
    *) continue ;;
  esac
  [ -O "$word" ] && printf '%s\\n' "$word"
done; done 2>/dev/null
for each in "${{DKDBG_RUNTIME_DIR:-/tmp/dkdbg-$(id -u)}}"/agent-*.pyz; do [ -O "$each" ] && printf '%s\\n' "$each"; done
exit 0
"""


#: `read` and `printf` are shell builtins, so the line, which holds a secret, appears in no list of processes.
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
        login: the host that runs the batch system's commands.
        node: its name.
        way: how a command is started on it.
        step: returns the prefix that runs a command as a step of the job; empty for a system without steps.
        folder: working directory of the commands, a path there; empty for the default.
        label: its name in messages.
        explains: returns the error for a message of the batch system's program.
    """

    login: Reach
    node: str
    way: Way
    step: Callable[[bool], tuple[str, ...]]
    folder: str
    label: str
    explains: Callable[[str], DkdbgError | None]

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` in the job's working directory, with our stdin and stdout."""
        return self.script(f"{enter(self.folder)}exec {shlex.join(argv)}", tty=tty)

    def script(self, text: str, *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `text` with a `sh` there."""
        if self.way == "step":
            return self.login.wrap((*self.step(tty), "sh", "-c", text), tty=tty)
        words = (
            "ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}", "-o", "ServerAliveInterval=5",
            "-o", "ServerAliveCountMax=3", "-tt" if tty else "-T", "-e", "none", *PLAIN_SESSION, "--", self.node,
        )  # fmt: skip
        return self.login.wrap((*words, for_any_shell(text)), tty=tty)

    def starting(self, relay: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that starts a relay; see `Reach.starting`.

        Processes started by ssh survive it. A step kills all its processes at its end, so the keeper gets a step of
        its own.

        That step is held by its own srun on the login node, which is not our child: it survives a cut.
        """
        if self.way == "ssh":
            return self.wrap(relay)
        step = shlex.join(self.step(False))

        def there(word: str) -> str:
            text = f"{enter(self.folder)}exec {shlex.join((*relay, word))}"
            return f"{step} sh -c {shlex.quote(text)}"

        kept, spoken = there("keep"), there("wait")
        return self.login.wrap(("sh", "-c", _STARTING.format(kept=kept, spoken=spoken)))

    def explain(self, stderr: str) -> DkdbgError | None:
        """Return the error for a message of the batch system; None for other messages."""
        return self.explains(stderr)


@dataclass(frozen=True, kw_only=True)
class Looked:
    """A node's answer to the query."""

    user: str
    host: str
    agents: tuple[str, ...]


def looking(mark: str) -> str:
    """Return the script for `sh` that queries a node; `mark` begins its answer."""
    return _LOOK.format(mark=mark)


def looked(mark: str, stdout: str) -> Looked | None:
    """Parse the answer; None without one."""
    _, found, answer = stdout.rpartition(f"\n{mark} there\n")
    lines = answer.splitlines()
    if not found or len(lines) < 2:
        return None
    return Looked(user=lines[0], host=lines[1], agents=tuple(dict.fromkeys(filter(is_agent, lines[2:100]))))
