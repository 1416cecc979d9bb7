"""`dkdbg doctor`: check this machine, its engine and this repository, or a target; print the next command to type."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets import registry

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dkdbg.core.target import Target
    from dkdbg.doctor.check import Finding
    from dkdbg.doctor.situation import Machine, Situation
    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg doctor`."""
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="check the target instead of this machine"
    )
    parser.add_argument("--all", action="store_true", help="include notes, which explain surprises")
    parser.add_argument(
        "--fix", action="store_true", help="run the safe commands; each shows what it changes and asks"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, with the notes")


def call(options: argparse.Namespace, root: Path) -> int:
    """Print each problem and the next command to type; return 1 if a problem is an error.

    Raises:
        DkdbgError: the target cannot be reached, or runs no commands.
    """
    if options.json and options.fix:
        raise DkdbgError(
            "--json cannot be used with --fix, which asks before each change",
            hint="dkdbg doctor --fix",
            exit_code=EXIT_USAGE,
        )
    found = list(_findings(root, options.target))
    commands = dict.fromkeys(each.next for _, each in found if each.safe) if options.fix else {}
    for command in commands:
        console.say(f"$ {command}")
        process.attached(
            process.ourselves("-C", str(root), *shlex.split(command)[1:]),
            tty=sys.stdin.isatty(),
        )
    if commands:
        found = list(_findings(root, options.target))
    if options.json:
        from dkdbg.doctor.table import CHECKS

        rows = [{"target": label or None, **asdict(each)} for label, each in found]
        console.emit({"checks": len(CHECKS), "findings": rows})
    else:
        _print(found, notes=options.all)
    return EXIT_ERROR if any(each.severity == "error" for _, each in found) else 0


def _print(found: Sequence[tuple[str, Finding]], *, notes: bool) -> None:
    shown = [(label, each) for label, each in found if notes or each.severity != "note"]
    for label, each in shown:
        where = f"{label}: " if label else ""
        console.say(f"{each.severity}: {each.check}: {where}{each.cause}")
        console.say(
            "".join(f"    {line}\n" for line in each.next.splitlines()).rstrip() or "    (nothing to type)"
        )
    hidden = len(found) - len(shown)
    more = f" ({hidden} note{'s' * (hidden > 1)}: dkdbg doctor --all)" if hidden else ""
    if not shown:
        console.say(f"nothing is wrong{more}")
    elif more:
        console.say(more.strip())


def _findings(root: Path, name: str | None) -> Iterator[tuple[str, Finding]]:
    """Yield each finding with the label of its target, which is empty for this machine."""
    from dkdbg.doctor.check import Finding, examine
    from dkdbg.doctor.situation import Situation
    from dkdbg.doctor.table import CHECKS

    situations: list[Situation] = []
    if name is None:
        situations.append(_local_situation(root))
    else:
        failed: dict[str, DkdbgError] = {}
        for target in registry.targets_of(name, root):
            with contextlib.closing(target):
                try:
                    situations.append(Situation(machine=_remote_machine(target)))
                except DkdbgError as error:
                    failed[str(target.address)] = error
        for address, problem in failed.items():
            if not situations:
                raise problem
            cause = f"it cannot be checked: {printable(problem.message.splitlines()[0])}"
            yield (
                printable(address),
                Finding(check="target", severity="error", cause=cause, next=problem.hint or ""),
            )
    for situation in situations:
        yield from ((situation.machine.label, each) for each in examine(CHECKS, situation))


def _local_situation(root: Path) -> Situation:
    from dkdbg.doctor import probe
    from dkdbg.doctor.engine import engine
    from dkdbg.doctor.repository import repository
    from dkdbg.doctor.situation import Repository, Situation
    from dkdbg.setup.detect.around import is_project

    asked = time.time()
    done = process.run(["sh", "-c", probe.SCRIPT], cwd=root, timeout=probe.TIMEOUT_S)
    machine = probe.machine(done.stdout, label="", asked=asked, answered=time.time())
    found = engine()
    is_repository = is_project(root) or any(os.path.lexists(root / each) for each in (".git", "dkdbg.toml"))
    has_compose = found.error is None and found.compose is not None
    return Situation(
        machine=machine,
        engine=found,
        repository=repository(root, has_engine=has_compose, cuda=bool(machine.cuda))
        if is_repository
        else Repository(),
    )


def _remote_machine(target: Target) -> Machine:
    """Return the facts about the target's machine. Raises DkdbgError: it cannot be reached, or cannot run commands."""
    from dkdbg.doctor import probe

    executor = target.find()
    asked = time.time()
    done = process.read(
        executor.wrap(["sh", "-c", probe.SCRIPT]), max_bytes=probe.MAX_BYTES, timeout=probe.TIMEOUT_S
    )
    answered = time.time()
    if done.code:
        raise executor.explain(done.stderr) or DkdbgError(
            f"{target.label} failed to run a shell script (exit code {done.code}): {done.stderr.strip()[-300:]}",
            hint=f"dkdbg ps {target.address} shows whether it runs; its image needs sh",
        )
    return probe.machine(done.stdout, label=str(target.address), asked=asked, answered=answered)
