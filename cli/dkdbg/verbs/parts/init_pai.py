"""`dkdbg init --pai`: add a port and a deployment, with which a task of an OpenPAI job waits for a debugger."""

from __future__ import annotations

import base64
import gzip
import shlex
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import __version__, console
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.repository.transaction import read
from dkdbg.setup.render.changes import FileWanted
from dkdbg.targets.openpai import task_command
from dkdbg.targets.openpai.job import DEPLOYMENT, BadJob, PaiJob
from dkdbg.verbs.parts.offer import changes_json, offer
from dkdbg.verbs.parts.repository import check_root

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.targets.openpai.job import Role
    from dkdbg.targets.openpai.task_command import Script

#: Name of the job's secret that serves as the token, if the job defines it.
SECRET = "dkdbg_token"  # noqa: S105
_SHOWN = 12
#: Path of the whole agent beside the job's code.
_AGENT = f".dkdbg/{single_file.NAME}"


def init_pai(root: Path, options: argparse.Namespace) -> int:
    """Plan, show and write the changes of a job protocol (OpenPAI's YAML job file); return the exit code.

    Without --agent, the job file itself contains the part of the agent that pdb needs.

    Raises:
        DkdbgError: the file is missing, is not a job protocol, cannot be edited safely, or cannot be written.
    """
    check_root(root)
    agent, dap = options.agent, options.dap
    path = _named(root, options.pai) if options.pai else _only(root)
    try:
        job = PaiJob(_text(root, path))
        chosen = _role(job, options.role, path)
        script = found = _script(chosen, options.command)
        if found is not None and found.starts_many and not dap:
            script = None
        secret = SECRET if SECRET in job.secrets else ""
        edited = job.with_debugging(
            chosen,
            task_command.command(
                version=__version__, package="" if agent else base64.b64encode(gzip.compress(single_file.build_pdb(), 9, mtime=0)).decode(), agent=agent, script=script,
                dap=dap, secret=secret,
            ),
        )  # fmt: skip
    except BadJob as error:
        raise DkdbgError(f"{path}: {printable(str(error))}", hint=error.hint, exit_code=EXIT_USAGE) from error
    decisions = [
        _what_waits(chosen, script),
        *edited.decisions,
        (f"the agent is at {agent}", "as you typed it") if agent
        else ("the deployment contains what pdb needs", "no download; the image needs only Python 3.8 or newer"),
        (f"the token is the secret {SECRET}", "the job has it") if secret
        else ("each task creates its own token", f"it is in the task's log, visible to all who can read the log; or define a secret {SECRET}"),
    ]  # fmt: skip
    notes = []
    if script is None and found is not None:
        notes.append(
            f"{found.name} starts several processes, and pdb has one port: dkdbg init --pai {shlex.quote(str(path))} --dap lets an editor debug "
            "all of them; or `import paipdb; paipdb.settrace()` in the code of one"
        )
    elif script is None and not task_command.runs_dkdbg(chosen.commands):
        notes.append(
            f"no command of {chosen.name} runs a program as `python train.py` or `torchrun` does: write `python -m paipdb SCRIPT ARGUMENTS` where the "
            "program starts, or `import paipdb; paipdb.settrace()` in the code"
        )
    if chosen.instances > 1:
        notes.append(
            f"{chosen.name} has {chosen.instances} instances: each waits on its own port, with its own token"
        )
    if dap and not agent:
        notes.append(
            f"an editor needs the whole agent: {_AGENT} has to be in the job's code (git, storage or image), or pass --agent PATH"
        )
    heading = "\n".join([f"{what}  ({why})" for what, why in decisions] + [f"note: {each}" for each in notes])
    wanted = FileWanted(content=edited.text.encode(), reason=f"the deployment {DEPLOYMENT}", owned=False)
    files: dict[str, FileWanted | None] = {str(path): wanted}
    if dap and not agent and not (root / _AGENT).is_file():  # the file that `dkdbg init` writes, too
        content = single_file.build(sys.version_info[:2])
        files[_AGENT] = FileWanted(content=content, reason="the agent and its debugpy, for the job's code")
    then = "when it runs: dkdbg ps pai://HOST/USER/JOB, then nc ADDRESS PORT"
    if dap:
        then = "then dkdbg attach pai://HOST/USER/JOB, which waits until it runs"
    return offer(
        root, files, heading, options, next_steps=lambda: console.say(f"next: submit {path}; {then}"),
        as_json=lambda todo, kept, written: {
            "job": str(path), "role": chosen.name, "script": (script.path or script.python) if script else None,
            "plan": [{"what": what, "why": why} for what, why in decisions], "notes": notes,
            **changes_json(todo, kept, written=written),
        },
    )  # fmt: skip


def _named(root: Path, name: str) -> PurePosixPath:
    path = (root / name).resolve()
    if not path.is_file() or not path.is_relative_to(root):
        raise DkdbgError(
            f"there is no file {name} in this repository",
            hint="dkdbg init --pai job.yaml",
            exit_code=EXIT_USAGE,
        )
    return PurePosixPath(path.relative_to(root).as_posix())


def _only(root: Path) -> PurePosixPath:
    """Return the only job protocol in the root and the folders in it."""
    found = []
    for pattern in ("*.yaml", "*.yml", "*/*.yaml", "*/*.yml"):
        for each in sorted(root.glob(pattern)):
            path = PurePosixPath(each.relative_to(root).as_posix())
            if any(part.startswith(".") for part in path.parts) or not each.is_file():
                continue
            try:
                PaiJob(_text(root, path))
            except (BadJob, DkdbgError):
                continue
            found.append(path)
    if len(found) == 1:
        return found[0]
    shown = ", ".join(map(str, found[:_SHOWN]))
    raise DkdbgError(
        f"{len(found)} job protocols here: {shown}" if found else "there is no OpenPAI job protocol here",
        hint=f"name one: dkdbg init --pai {shlex.quote(str(found[0])) if found else 'job.yaml'}", exit_code=EXIT_USAGE,
    )  # fmt: skip


def _text(root: Path, path: PurePosixPath) -> str:
    try:
        return (read(root, path) or b"").decode()
    except UnicodeDecodeError as error:
        raise DkdbgError(
            f"{path} is not UTF-8: {error}", hint="save it as UTF-8", exit_code=EXIT_USAGE
        ) from error


def _role(job: PaiJob, name: str, path: PurePosixPath) -> Role:
    if name in job.roles:
        return job.roles[name]
    if not name and len(job.roles) == 1:
        return next(iter(job.roles.values()))
    listed = ", ".join(list(job.roles)[:_SHOWN])
    raise DkdbgError(
        f"{path} has no task role {printable(name)}, it has: {listed}" if name else f"{path} has {len(job.roles)} task roles: {listed}",
        hint=f"name one: dkdbg init --pai {shlex.quote(str(path))} --role {shlex.quote(next(iter(job.roles)))}", exit_code=EXIT_USAGE,
    )  # fmt: skip


def _script(role: Role, command: str | None) -> Script | None:
    """Return the script that will wait; None if the commands run paipdb already, or run no script that dkdbg knows."""
    if task_command.runs_dkdbg(role.commands):
        return None
    found = task_command.scripts_of(role.commands)
    if command is not None:
        named = task_command.script_named(command)
        if named is None or named not in found:
            shown = (
                f"it runs {', '.join(each.name for each in found)}" if found else "it runs no Python script"
            )
            raise DkdbgError(
                f"{printable(command)} is not a command of the task role {role.name}: {shown}",
                hint="--command 'python train.py', as the job's commands have it", exit_code=EXIT_USAGE,
            )  # fmt: skip
        return named
    return found[0] if found else None


def _what_waits(role: Role, script: Script | None) -> tuple[str, str]:
    if script is None:
        runs_paipdb = task_command.runs_dkdbg(role.commands)
        return (
            f"{role.name} is debugged",
            "its commands run paipdb" if runs_paipdb else "where its commands or code call it",
        )
    return (
        f"{script.name} of {role.name} waits up to {task_command.WAIT} s for a debugger",
        "found in its commands, which stay as they are",
    )
