"""Build the shell code that makes the script of an OpenPAI task wait for a debugger. No I/O.

The commands of a task form one bash script with errexit, nounset and pipefail (microsoft/openpai-runtime,
src/runtime.d/user.sh), which begins with those of the active deployment (microsoft/pai,
src/rest-server/src/middlewares/v2/protocol.js). A shell function `python`, defined in the deployment, is called in
place of the program in this script, so that no command of the job is changed.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.launchers import registry
from dkdbg.targets.openpai.job import MARKER, PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Seconds that a task waits for a debugger, as in the manual recipe.
WAIT = 600
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
#: Options of Python without a value.
_FLAGS = re.compile(r"-[bBdEiIOqsSuvx]+")
#: A script path that the shell leaves unchanged.
_SCRIPT = re.compile(r"[\w./@%+=:,-]+\.py")
_ASSIGNMENT = re.compile(r"\w+=.*")
#: Scripts that install dependencies of the job.
_NOT_THE_PROGRAM = re.compile(r"(^|/)(setup|install\w*|download\w*|prepare\w*|get-pip)\.py$")
_DKDBG_START = re.compile(r"-m\s+(paipdb|dkdbg\.pai)\b")
#: A template variable of the platform, which it replaces before the shell sees the line.
_TEMPLATE = re.compile(r"<%.*?%>")


#: Modules that are not the program to debug: they install something, or look something up.
_NOT_THE_MODULE = re.compile(
    r"(pip|venv|virtualenv|ensurepip|compileall|json|site|http|zipfile|tarfile|paipdb|dkdbg)(\..*)?"
)
_MODULE = re.compile(r"[A-Za-z_][\w.]*")
#: A Python, a script or a module behind a launcher: `mpirun` also starts other programs, such as NCCL's tests.
_NAMES_PYTHON = re.compile(r"(^|/)python[\d.]*$|\.py$|^(-m|--module)$")
#: Programs that start several Python processes -> first arguments, one of which must be given; empty if any will do.
_LAUNCHERS = {
    name: each.first_words
    for each in registry.launchers()
    if each.spreads
    for name in each.programs
    if name.isidentifier()  # the name becomes that of a POSIX shell function
}
_LAUNCHERS["accelerate"] = ("launch",)
_LAUNCHER_MODULES = {module for each in registry.launchers() if each.spreads for module in each.modules}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A command that runs a program, split into `python`, `flags` and `path`.

    `python -u train.py` is `python`, (`-u`,), `train.py`; `python -m app.train` is `python`, (`-m`,),
    `app.train`; `torchrun ...` is `torchrun`, (), and `accelerate launch ...` is `accelerate`, (), `launch`.
    """

    python: str
    flags: tuple[str, ...]
    path: str

    @property
    def is_module(self) -> bool:
        """Return whether the program is a module."""
        return self.flags[-1:] == ("-m",)

    @property
    def starts_many(self) -> bool:
        """Return whether the command starts several Python processes: too many for pdb on one port."""
        return self.python in _LAUNCHERS or (self.is_module and self.path in _LAUNCHER_MODULES)

    @property
    def name(self) -> str:
        """Return the program's name, for messages."""
        if self.python in _LAUNCHERS:
            return f"{self.python} {self.path}".strip()
        return f"python -m {self.path}" if self.is_module else self.path


def runs_dkdbg(commands: Sequence[str]) -> bool:
    """Return whether a command already runs paipdb, as in the manual recipe."""
    return any(_DKDBG_START.search(each) for each in commands)


def scripts_of(commands: Sequence[str]) -> list[Script]:
    """Return the programs that plain commands of a task run, in order; those that install something come last."""
    found = [
        script for words in _simple_commands("\n".join(commands)) if (script := _script(words)) is not None
    ]
    return sorted(dict.fromkeys(found), key=lambda each: bool(_NOT_THE_PROGRAM.search(each.path)))


def script_named(text: str) -> Script | None:
    """Return the script of a command that a user has typed; None if it runs no script."""
    found = scripts_of([text])
    return found[0] if found else None


def command(
    *,
    version: str,
    package: str,
    agent: str,
    script: Script | None,
    dap: bool,
    secret: str,
) -> str:
    """Return the shell code that makes a task's script wait for a debugger.

    Args:
        package: result of `delivery.single_file.build_pdb`, compressed with gzip, in base64; unused with `agent`.
        agent: path of the whole agent, `agent.pyz`, in the container; empty if unknown.
        script: the script that waits for a debugger; None if the commands run paipdb themselves, or the program
            calls paipdb.
        dap: wait for an editor, instead of pdb.
        secret: name of the job's secret that contains the token; empty without one.
    """
    what = f"{script.name} waits for a debugger" if script else "paipdb for the job's commands"
    lines = [f"{MARKER} {version}, by dkdbg init --pai: {what}, and nothing is downloaded"]
    lines += [
        f"export DEBUG_PORT_NAME={PORT}",
        f'export DEBUG_TIMEOUT="${{DEBUG_TIMEOUT:-{WAIT}}}"',
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
    argv = [*script.flags, *([script.path] if script.path else [])]
    seen = " ".join(f"${{{number}-}}" for number in range(1, len(argv) + 1))
    if script.starts_many or (dap and script.is_module):  # the unchanged command, run by the agent
        python = (
            '"$(command -v python3 || command -v python)"' if script.python in _LAUNCHERS else script.python
        )
        start_line = f'command {python} -m dkdbg.pai --dap -- {script.python} "$@"'
    else:
        flags = script.flags[:-1] if script.is_module else script.flags
        skip = f"shift {len(flags)}; " if flags else ""
        start = shlex.join([*flags, "-m", "dkdbg.pai", *(["--dap"] if dap else [])])
        start_line = f'{skip}command {script.python} {start} "$@"'
    return [
        f"{script.python}() {{",
        f'if [ "{seen}" = {shlex.quote(" ".join(argv))} ]; then {start_line}',
        f'else command {script.python} "$@"; fi',
        "}",
    ]


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command; skip a line that is not a complete shell command."""
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
    required = _LAUNCHERS.get(words[0])
    if (
        required is not None
        and any(map(_NAMES_PYTHON.search, words[1:]))
        and (not required or words[1] in required)
    ):
        return Script(python=words[0], flags=(), path=words[1] if required else "")
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
