"""What runs before the commands of an OpenPAI task so that its script waits for a debugger; all in one shell text. No I/O.

A task's commands are one bash script with errexit, nounset and pipefail (microsoft/openpai-runtime, src/runtime.d/user.sh);
those of the active deployment come first in it (microsoft/pai, src/rest-server/src/middlewares/v2/protocol.js). So a function
called `python` there takes the place of the program, for the one script, and no command of the job is changed.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.targets.openpai.job import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
#: Options of Python without a value.
_FLAGS = re.compile(r"-[bBdEiIOqsSuvx]+")
#: A script that is the same word before and after the shell has read it.
_SCRIPT = re.compile(r"[\w./@%+=:,-]+\.py")
_ASSIGNMENT = re.compile(r"\w+=.*")
#: Scripts that install what the job needs.
_NOT_THE_PROGRAM = re.compile(r"(^|/)(setup|install\w*|download\w*|prepare\w*|get-pip)\.py$")
_OURS = re.compile(r"-m\s+(paipdb|dkdbg\.pai)\b")
#: Characters of a line that a template of the platform's would change.
_TEMPLATE = re.compile(r"<%.*?%>")


#: Modules that install something, or look something up.
_NOT_THE_MODULE = re.compile(
    r"(pip|venv|virtualenv|ensurepip|compileall|json|site|http|zipfile|tarfile|paipdb|dkdbg)(\..*)?"
)
_MODULE = re.compile(r"[A-Za-z_][\w.]*")
#: Commands that start several Pythons, and what their first word has to be.
_LAUNCHERS = {
    "torchrun": "",
    "deepspeed": "",
    "accelerate": "launch",
    "composer": "",
    "horovodrun": "",
    "colossalai": "run",
}
_LAUNCHER_MODULES = re.compile(
    r"torch\.distributed\.(run|launch)|accelerate\.commands\.\w+|deepspeed\.launcher\.\w+"
)


@dataclass(frozen=True, kw_only=True)
class Script:
    """A command that runs a program.

    `python -u train.py` is `python`, (`-u`,), `train.py`; `python -m app.train` is `python`, (`-m`,), `app.train`;
    `torchrun ...` is `torchrun`, (), and `accelerate launch ...` is `accelerate`, (), `launch`.
    """

    python: str
    flags: tuple[str, ...]
    path: str

    @property
    def is_module(self) -> bool:
        """Whether Python is given the name of a module."""
        return self.flags[-1:] == ("-m",)

    @property
    def starts_many(self) -> bool:
        """Whether it starts several Pythons: too many for pdb on one port."""
        return self.python in _LAUNCHERS or (self.is_module and bool(_LAUNCHER_MODULES.fullmatch(self.path)))

    @property
    def name(self) -> str:
        """For people."""
        if self.python in _LAUNCHERS:
            return f"{self.python} {self.path}".strip()
        return f"python -m {self.path}" if self.is_module else self.path


def runs_ours(commands: Sequence[str]) -> bool:
    """Whether a command runs paipdb already, as the recipe by hand has it."""
    return any(_OURS.search(each) for each in commands)


def scripts_of(commands: Sequence[str]) -> list[Script]:
    """The programs that plain commands of a task run, in their order; what installs something comes last."""
    found = [
        script for words in _simple_commands("\n".join(commands)) if (script := _script(words)) is not None
    ]
    return sorted(dict.fromkeys(found), key=lambda each: bool(_NOT_THE_PROGRAM.search(each.path)))


def script_named(text: str) -> Script | None:
    """The script of a command that a person has typed; None where it runs none."""
    found = scripts_of([text])
    return found[0] if found else None


def command(
    *,
    version: str,
    package: str,
    agent: str,
    script: Script | None,
    port: str,
    timeout: int,
    dap: bool,
    secret: str,
) -> str:
    """The shell text.

    Args:
        package: what `delivery.single_file.build_pdb` makes, compressed by gzip, in base64; not needed with `agent`.
        agent: where the whole agent lies in the container, `agent.pyz`; empty: nowhere that is known.
        script: that waits for a debugger; None where the commands run paipdb themselves, or the program calls it.
        port: the name of the port.
        timeout: seconds that it waits.
        dap: for an editor.
        secret: the name of the job's secret that is the token; empty for none.
    """
    what = f"{script.name} waits for a debugger" if script else "paipdb for the job's commands"
    lines = [f"{MARK} {version}, by dkdbg init --pai: {what}, and nothing is downloaded"]
    lines += [
        f"export DEBUG_PORT_NAME={shlex.quote(port)}",
        f'export DEBUG_TIMEOUT="${{DEBUG_TIMEOUT:-{timeout}}}"',
    ]
    if secret:
        lines.append(f"export DKDBG_TOKEN='<% $secrets.{secret} %>'")
    if agent:
        lines.append(f"export DKDBG_AGENT={shlex.quote(agent)}")
        where = "$DKDBG_AGENT"
    else:
        lines += [
            'DKDBG_PAI="$(mktemp -d)/paipdb.zip"',
            "base64 -d <<'PAIPDB' | gzip -d > \"$DKDBG_PAI\"", package, "PAIPDB",
        ]  # fmt: skip
        where = "$DKDBG_PAI"
    lines.append(f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{where}"')
    if script is not None:
        lines += _function(script, dap=dap)
    return "\n".join(lines)


def _function(script: Script, *, dap: bool) -> list[str]:
    words = [*script.flags, *([script.path] if script.path else [])]
    seen = " ".join(f"${{{number}-}}" for number in range(1, len(words) + 1))
    if script.starts_many or (dap and script.is_module):  # the command as it is, below the agent
        python = (
            '"$(command -v python3 || command -v python)"' if script.python in _LAUNCHERS else script.python
        )
        ours = f'command {python} -m dkdbg.pai --dap -- {script.python} "$@"'
    else:
        flags = script.flags[:-1] if script.is_module else script.flags
        skip = f"shift {len(flags)}; " if flags else ""
        start = shlex.join([*flags, "-m", "dkdbg.pai", *(["--dap"] if dap else [])])
        ours = f'{skip}command {script.python} {start} "$@"'
    return [
        f"{script.python}() {{",
        f'if [ "{seen}" = {shlex.quote(" ".join(words))} ]; then {ours}',
        f'else command {script.python} "$@"; fi',
        "}",
    ]


def _simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command; a line that no shell would understand by itself is left out."""
    for line in _TEMPLATE.sub("TEMPLATE", text.replace("\\\n", " ")).split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue
        now: list[str] = []
        for word in words:
            if word and set(word) <= set("();|&"):
                yield now
                now = []
            else:
                now.append(word)
        yield now


def _script(words: list[str]) -> Script | None:
    while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] == "time"):
        words = words[1:]
    if not words:
        return None
    if words[0] in _LAUNCHERS and len(words) > 1 and words[1] == (_LAUNCHERS[words[0]] or words[1]):
        return Script(python=words[0], flags=(), path=_LAUNCHERS[words[0]])
    if not _PYTHON.fullmatch(words[0]):
        return None
    count = 1
    while count < len(words) and _FLAGS.fullmatch(words[count]):
        count += 1
    if words[count : count + 1] == ["-m"] and count + 1 < len(words):
        module = words[count + 1]
        if not _MODULE.fullmatch(module) or _NOT_THE_MODULE.fullmatch(module):
            return None
        return Script(python=words[0], flags=(*words[1:count], "-m"), path=module)
    if count == len(words) or not _SCRIPT.fullmatch(words[count]) or words[count].startswith("-"):
        return None
    return Script(python=words[0], flags=tuple(words[1:count]), path=words[count])
