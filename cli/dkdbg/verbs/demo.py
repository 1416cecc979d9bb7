"""`dkdbg demo`: run the whole workflow on the bundled example, in a temporary copy that is removed at the end."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.agent.proxy.listener import tokens
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.repository.artefacts import artefact
from dkdbg.setup.render import changes
from dkdbg.targets.docker.host import host_facts
from dkdbg.verbs.parts import demo_targets
from dkdbg.verbs.parts.repository import files_for, make_plan

if TYPE_CHECKING:
    import argparse

    from dkdbg.core.plan import ProjectPlan
    from dkdbg.dap.values import Frame, Stop
    from dkdbg.verbs.parser import Parser
    from dkdbg.verbs.parts.demo_targets import ComposeRun, LocalRun

    Target = ComposeRun | LocalRun

#: Comment on the line for the breakpoint, in both training functions of the example; only one of them runs.
MARKER = "# breakpoint"


@dataclass(kw_only=True)
class _Report:
    """Results of the demo, for its last line and for --json."""

    target: str = ""
    why: str = ""
    seconds: float = 0.0
    stops: int = 0


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg demo`."""
    parser.add_argument(
        "--on",
        choices=("auto", "compose", "local"),
        default="auto",
        help="where to run it (auto: compose if there is an engine)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")


def call(options: argparse.Namespace, _root: Path) -> int:
    """Run the demo; return the exit code. Raises DkdbgError: a step failed; all files and containers are removed."""
    began = time.monotonic()
    report = _Report()
    target, show = options.on, not options.json
    # Compose derives the image's name from this one; `_-` would be invalid there, hexadecimal digits are not.
    folder = Path(tempfile.gettempdir()).resolve() / f"dkdbg-demo-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    failure: DkdbgError | None = None
    try:
        _run(folder, target, report, show=show)
    except DkdbgError as error:
        failure = error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.seconds = round(time.monotonic() - began, 2)
    if options.json:
        outcome = "failed" if failure else "passed"
        console.emit({"outcome": outcome, "error": failure.message if failure else None, **vars(report)})
    if failure:
        if show:
            console.say(f"demo FAILED on {report.target or target} after {report.seconds:.1f} s")
        raise failure
    if show:
        console.say(f"demo passed on {report.target} in {report.seconds:.1f} s{report.why}")
    return 0


def _run(folder: Path, wanted: str, report: _Report, *, show: bool) -> None:
    with console.step(f"copy the example to {folder}", show=show):
        with_example(folder)
    with console.step("dkdbg init --yes", show=show):
        plan, config = make_plan(folder)
        changes.apply(
            folder, changes.between(folder, files_for(folder, plan, config)), changes.Journal(root=folder)
        )
    chosen, report.why = choose(folder, plan, wanted)
    report.target = chosen.name
    if show:
        console.say(f"  target: {chosen.name}{report.why}")
    try:
        port = _start(chosen, show=show)
    except DkdbgError as error:
        # Without the base image, or a registry to pull it from, run the demo without a container.
        if wanted != "auto" or chosen.name == demo_targets.LOCAL or "base image" not in error.message:
            chosen.stop()
            raise
        chosen.stop()
        report.why = f" (the demo in a container failed: {error.message.splitlines()[0]}; {error.hint})"
        chosen = demo_targets.local(folder, plan)
        report.target = chosen.name
        if show:
            console.say(f"  target: {chosen.name}{report.why}")
        port = _start(chosen, show=show)
    try:
        _debug(chosen, folder / "train.py", port, report, show=show)
    finally:
        with console.step("remove everything", show=show):
            chosen.stop()


def _start(target: Target, *, show: bool) -> int:
    with console.step("start it; it waits for a debugger before its first line", show=show):
        return target.start()


def _debug(target: Target, script: Path, port: int, report: _Report, *, show: bool) -> None:
    first = _stop_once(target, script, port, show=show)
    report.stops += 1
    with console.step("change a line of train.py: rate=0.1 becomes rate=0.05", show=show):
        script.write_text(script.read_text("utf-8").replace("rate=0.1", "rate=0.05"), "utf-8")
    with console.step("restart the program", show=show):
        port = target.restart()
    second = _stop_once(target, script, port, show=show)
    report.stops += 1
    if (first, second) != ("0.1", "0.05"):
        raise DkdbgError(f"the changed line did not run: rate was {first}, then {second}")


def _stop_once(target: Target, script: Path, port: int, *, show: bool) -> str:
    """Attach, stop in the training loop, print the stack, continue the program, and return the value of `rate`."""
    lines = [
        number for number, line in enumerate(script.read_text("utf-8").splitlines(), 1) if MARKER in line
    ]
    # A plain process inherits this environment; if that has a token, its port requires the token.
    token = {tokens.PROPERTY: tokens.read(os.environ)} if target.name == demo_targets.LOCAL else {}
    options = AttachOptions(port=port, path_mappings=target.path_mappings, extra=token)
    with Debugger(options) as debugger:
        with console.step(
            f"attach to 127.0.0.1:{port}, breakpoints in {script.name}:{','.join(map(str, lines))}", show=show
        ):
            debugger.set_breakpoints(str(script), lines)
            debugger.attach()
        with console.step("stop at the breakpoint", show=show):
            stop = debugger.wait_stopped(30.0)
        frames = debugger.stack(stop)
        _check(frames, script, lines)
        if show:
            _show(debugger, stop, frames)
        value = debugger.evaluate("rate", frames[0])
        debugger.set_breakpoints(str(script), [])
        debugger.continue_(stop)
    return value


def _check(frames: tuple[Frame, ...], script: Path, lines: list[int]) -> None:
    top = frames[0]
    if top.path != str(script) or top.line not in lines:
        raise DkdbgError(f"stopped at {top.path}:{top.line}, expected {script} at one of {lines}")


def _show(debugger: Debugger, stop: Stop, frames: tuple[Frame, ...]) -> None:
    console.say(f"         stopped ({stop.reason}), stack:")
    for frame in frames:
        console.say(f"           {frame.name}  {frame.path}:{frame.line}")
    console.say("         variables:")
    for name, value in debugger.local_values(frames[0]).items():
        if not re.match(r"(special|function|class|protected) variables$", name):
            console.say(f"           {name} = {_with_shape(debugger, frames[0], name, value)}")


def _with_shape(debugger: Debugger, frame: Frame, name: str, value: str) -> str:
    short = " ".join(value.split())
    short = short if len(short) <= 60 else short[:57] + "..."
    if not value.startswith("tensor("):
        return short
    return f"{short}  shape {debugger.evaluate(f'tuple({name}.shape)', frame)}"


def with_example(folder: Path) -> None:
    """Copy the bundled example into `folder`."""
    for entry in artefact("templates", "demo").iterdir():
        if entry.is_file():
            (folder / entry.name).write_bytes(entry.read_bytes())


def choose(folder: Path, plan: ProjectPlan, wanted: str) -> tuple[Target, str]:
    """Return the target to use, and a remark on why it is not a container (empty for a container).

    Raises:
        DkdbgError: a container was requested, but no engine answers.
    """
    if wanted == "local":
        return demo_targets.local(folder, plan), ""
    try:
        host = host_facts()
    except DkdbgError as error:
        if wanted == "compose" or error.exit_code not in {EXIT_ENGINE, 127}:
            raise
        return demo_targets.local(
            folder, plan
        ), f" ({error.message.splitlines()[0]}; to run it in a container: {error.hint})"
    return demo_targets.compose(folder, plan, host), ""
