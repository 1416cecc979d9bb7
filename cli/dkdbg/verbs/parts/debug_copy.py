"""`dkdbg up TARGET`, `dkdbg down TARGET`: start and remove a copy of a workload whose program runs under the agent."""

from __future__ import annotations

import contextlib
import difflib
import io
import shlex
import time
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.signals import SIGNAL_INTERVAL, handle, ignored, interrupt_once
from dkdbg.targets import registry
from dkdbg.verbs.parts.attach_proxy import open_proxy

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.core.target import Target
    from dkdbg.core.target_values import CopyPlan


def up(root: Path, options: argparse.Namespace) -> int:
    """Show the copy, start it once the user confirms, and wait until an attach works; return the exit code.

    Raises:
        DkdbgError: the copy cannot be made, with the cause and what to do next.
    """
    argv, attach = _words(options.command), options.attach
    with contextlib.closing(registry.target_of(options.target, root)) as target:
        _check(target)
        manifests = None if options.overlay is None else _folder(root, options.overlay)
        plan = target.plan_copy(argv, wait=options.wait, overlay=manifests, replace=attach is not None)
        _show(plan, whole=options.diff or not options.yes)
        if options.diff:
            return 0
        if not options.yes:
            if not console.interactive():
                raise DkdbgError(
                    "not started: no terminal for confirmation",
                    hint="--yes starts it, --diff only shows it",
                    exit_code=EXIT_USAGE,
                )
            if not console.ask(f"Start {plan.name}?"):
                console.say("nothing was started")
                return EXIT_ERROR
        handle(interrupt_once)  # not reset: a second signal must not stop the removal
        if attach is not None:
            return _attached(root, target, attach, options.wait_timeout)
        ready = target.make_copy(report=console.say, limit=options.wait_timeout)
        console.say(hints.COPY_READY(target=" ".join(ready)))
        console.say(hints.COPY_DOWN(target=target.address))
    return 0


def down(root: Path, name: str) -> int:
    """Remove the copy; return the exit code. Raises DkdbgError: it cannot be removed, with the cause."""
    with contextlib.closing(registry.target_of(name, root)) as target:
        _check(target)
        console.say(target.remove_copy())
    return 0


def _attached(root: Path, target: Target, port: int, limit: int) -> int:
    """Start the copy, forward editors to it until a signal ends this process, then remove the copy."""
    console.warn(f"dkdbg: attach an editor to 127.0.0.1:{port}")
    try:
        ready = target.make_copy(report=console.say, limit=limit)
        with contextlib.ExitStack() as opened:
            targets = [each for address in ready for each in registry.targets_of(address, root)]
            open_proxy(opened, targets, port)
            console.warn(f"dkdbg: a debugger can attach on 127.0.0.1:{port}, until Ctrl-C")
            while True:
                time.sleep(SIGNAL_INTERVAL)
    except KeyboardInterrupt:
        return 0
    finally:
        with ignored():
            console.say(target.remove_copy())


def _folder(root: Path, overlay: str) -> Path:
    found = (root / overlay).resolve()
    if not found.is_dir():
        raise DkdbgError(
            f"there is no folder {overlay}",
            hint="dkdbg init --k8s writes one, and prints its name",
            exit_code=EXIT_USAGE,
        )
    return found


def _check(target: Target) -> None:
    if Capability.COPY not in target.capabilities:
        raise DkdbgError(
            f"{target.address} cannot be copied for debugging",
            hint="dkdbg up and dkdbg down accept k8s://NAMESPACE/deployment/NAME, statefulset/NAME, job/NAME, cronjob/NAME or pytorchjob/NAME; "
            "without a target they use the debug service of this repository",
            exit_code=EXIT_USAGE,
        )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise DkdbgError(
            f"--command is not a command line: {error}",
            hint="--command 'python train.py'",
            exit_code=EXIT_USAGE,
        ) from error


def _show(plan: CopyPlan, *, whole: bool) -> None:
    if whole:
        old, new = _lines(plan.before), _lines(plan.after)
        console.diff("".join(difflib.unified_diff(old, new, plan.original, plan.name)))
    width = max(len(what) for what, _ in plan.decisions)
    for what, why in plan.decisions:
        console.say(f"{what:{min(width, 60)}}  ({why})")
    for note in plan.notes:
        console.say(f"note: {note}")


def _lines(document: object) -> list[str]:
    """Return an object as lines of YAML, in the style of `kubectl get -o yaml`."""
    from ruamel.yaml import YAML  # takes 50 ms

    out = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(document, out)
    return out.getvalue().splitlines(keepends=True)
