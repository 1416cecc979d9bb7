"""`dkdbg init`: facts, plan, diff, and after a yes the files."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.core import config as configuration
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.repository import dotenv, git
from dkdbg.repository.transaction import read
from dkdbg.setup.detect.around import no_way_to
from dkdbg.setup.plan.editor import ATTACH_NAME
from dkdbg.setup.render import changes, manifest
from dkdbg.setup.render.editor_files import LAUNCH, TASKS, launch_names
from dkdbg.setup.render.manifest import FOLDER, MANIFEST
from dkdbg.targets.docker import image_build
from dkdbg.targets.kubernetes import overlay
from dkdbg.verbs.choose_program import choose_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.config import Config
    from dkdbg.core.plan import DebugService, ProjectPlan
    from dkdbg.setup.render.changes import FileWanted


def init(
    root: Path, *, command: str | None, service: str | None, yes: bool, diff: bool, check: bool, as_json: bool
) -> int:
    """Plan, show and write; the exit code.

    Raises:
        DkdbgError: not a repository, unreadable files, a folder that cannot be written.
    """
    check_root(root)
    plan, config = make_plan(root, command=command, service=service)
    if not (yes or diff or check or as_json) and command is None and config.command is None:
        folder, chosen = choose_program(plan)
        root = root / folder
        if folder or chosen is not None:
            plan, config = make_plan(root, command=chosen, service=service)
    return offer(
        root, files_for(root, plan, config), plan.describe(console.width()), yes=yes, diff=diff, check=check,
        as_json=None if not as_json else lambda todo, kept, written: _as_json(plan, todo, kept, written=written),
        next_steps=lambda count: _next_steps(root, plan, count),
    )  # fmt: skip


def offer(
    root: Path, wanted: dict[str, FileWanted | None], heading: str, *, yes: bool, diff: bool, check: bool,
    as_json: Callable[[tuple[changes.Change, ...], tuple[changes.Kept, ...], bool], dict[str, object]] | None,
    next_steps: Callable[[int], None],
) -> int:  # fmt: skip
    """Show what would change and, after a yes, write it; the exit code.

    Args:
        heading: what was decided, for a person.
        as_json: what a program gets in the place of all text, of what changes, what is kept and whether it was written.
        next_steps: says what to do, given how many files were written.

    Raises:
        DkdbgError: there is nobody to ask, or a file cannot be read or written.
    """
    todo = changes.between(root, wanted)
    kept = changes.kept(root, wanted)
    if as_json is None:
        _show(heading, todo, kept, diff=diff)
    if check or diff or not todo or (as_json is not None and not yes):
        if as_json is not None:
            console.emit(as_json(todo, kept, False))
        return EXIT_ERROR if check and todo else 0
    if not yes:
        if not console.interactive():
            raise DkdbgError(
                "nothing was written: there is no terminal to ask on",
                hint=hints.INIT_CHOICE(),
                exit_code=EXIT_USAGE,
            )
        question = "Write this file?" if len(todo) == 1 else f"Write these {len(todo)} files?"
        if not console.ask(question, diff=lambda: _show_diff(todo)):
            console.say("nothing was written")
            return EXIT_ERROR
    changes.apply(root, todo, changes.Journal(root=root))
    if as_json is not None:
        console.emit(as_json(todo, kept, True))
    else:
        next_steps(len(todo))
    return 0


def undo(root: Path, *, force: bool, as_json: bool) -> int:
    """Take back what every `init` here wrote, to the byte; the exit code.

    Raises:
        DkdbgError: nothing to undo, files edited since (without `force`), or a file cannot be written.
    """
    check_root(root)
    containers = _lines_to_remove_containers(root)
    undone = changes.Journal(root=root).undo(force=force)
    if as_json:
        lists = {
            name: [str(path) for path in getattr(undone, name)] for name in ("removed", "restored", "left")
        }
        copies = [{"path": str(path), "as": str(copy)} for path, copy in undone.saved]
        console.emit({**lists, "saved": copies, "next": containers})
        return 0
    for path in undone.removed:
        console.say(f"removed   {path}")
    for path in undone.restored:
        console.say(f"restored  {path}")
    for path, saved in undone.saved:
        console.say(f"saved     {path} as {saved}")
    for path in undone.left:
        console.say(f"left      {path}/  (something of yours is in it)")
    for line in containers:
        console.say(f"its container is still there: {line}")
    return 0


def _lines_to_remove_containers(root: Path) -> list[str]:
    """What removes those of the debug service, which no verb finds after an undo; nothing where no engine says that there are any."""
    with suppress(DkdbgError):  # an undo needs neither
        service = manifest.debug_service(root)
        return image_build.lines_to_remove(root, service) if service else []
    return []


def check_root(root: Path, verb: str = "init") -> None:
    """Raise DkdbgError unless `root` is a directory that looks like a repository and can be read.

    Args:
        verb: what was typed, for the hint.
    """
    try:
        names = {entry.name for entry in root.iterdir()}
    except OSError as error:
        raise no_way_to(str(root), error, verb) from error
    if ".git" in names or any(parent.joinpath(".git").exists() for parent in root.parents):
        return
    evidence = {
        "pyproject.toml",
        "setup.py",
        "requirements.txt",
        "environment.yml",
        "environment.yaml",
        "Dockerfile",
    }
    if names & evidence or any(name.endswith((".py", ".ipynb")) for name in names):
        return
    raise DkdbgError(
        f"{root} is not a repository: there is no .git and no Python project in it",
        hint=f"go to the repository's folder, or name it: dkdbg -C PATH {verb}",
        exit_code=EXIT_USAGE,
    )


def make_plan(
    root: Path, *, command: str | None = None, service: str | None = None
) -> tuple[ProjectPlan, Config]:
    """The plan as `init` makes it; what dkdbg generated itself is no evidence.

    Raises:
        DkdbgError: dkdbg.toml, the flags or a compose file cannot be used.
    """
    from dkdbg.setup.detect.repo import inspect
    from dkdbg.setup.plan.project import plan_project

    text = read(root, PurePosixPath(configuration.FILE_NAME))
    config = configuration.Config() if text is None else configuration.parse(configuration.decode(text))
    config = replace(
        config,
        command=config.command if command is None else command,
        service=config.service if service is None else service,
    )
    generated = frozenset(str(path) for path in manifest.load(root).files)
    facts = inspect(
        root,
        ignore=generated | {str(FOLDER), configuration.FILE_NAME},
        command=config.command,
        service=config.service,
    )
    for name in facts.compose_files:  # a plan that overlooks the user's services would be wrong
        if not os.access(root / name, os.R_OK):
            raise DkdbgError(
                f"cannot read {name}: Permission denied",
                hint=f"ls -l {shlex.quote(str(root / name))} shows who may read it",
            )
    return plan_project(facts, config), config


def files_for(root: Path, plan: ProjectPlan, config: Config) -> dict[str, FileWanted | None]:
    """The wanted files; the launch entry keeps the local port that an earlier `up` had to choose."""
    from dkdbg.setup.render.project import wanted_files

    wanted = wanted_files(root, plan, config, local_port=local_port(root, plan.service.port))
    overlays = PurePosixPath(overlay.FOLDER)  # written by another init, that of `--k8s`
    stale = {
        str(path): None
        for path in manifest.load(root).files
        if str(path) not in wanted and not path.is_relative_to(overlays)
    }
    return {**wanted, **stale}


def local_port(root: Path, planned: int) -> int:
    """The port on 127.0.0.1: DKDBG_PORT of .env when an earlier `up` chose one, else the planned one."""
    env = read(root, PurePosixPath(".env"))
    chosen = dotenv.value_of(env.decode("utf-8", errors="replace"), "DKDBG_PORT") if env else None
    return int(chosen) if chosen and chosen.isdigit() and 0 < int(chosen) < 65536 else planned


def debug_service(root: Path) -> DebugService:
    """The debug service: as `init` wrote it, else as it would be written now, which takes an inspection.

    Raises:
        DkdbgError: as `make_plan`; or `init` has not written the debug service and the agent.
    """
    service = manifest.debug_service(root)
    if service is None:
        plan, _ = make_plan(root)
        service = plan.debug_service
    check_written(root, service.compose_file)
    return service


def check_written(root: Path, compose_file: str) -> None:
    """Raise DkdbgError unless `init` has written the debug service and the agent."""
    if read(root, PurePosixPath(compose_file)) is None or not (root / FOLDER / single_file.NAME).is_file():
        raise DkdbgError(
            f"{root} is not set up for dkdbg yet: {compose_file} or .dkdbg/ is missing",
            hint=hints.INIT_FIRST(),
            exit_code=EXIT_USAGE,
        )


def _show(
    heading: str, todo: tuple[changes.Change, ...], kept: tuple[changes.Kept, ...], *, diff: bool
) -> None:
    console.say(heading)
    console.say()
    former = tuple(change for change in todo if _is_of_former_version(change))
    others = tuple(change for change in todo if change not in former)
    if diff and others:
        _show_diff(others)
    for change in others:
        console.say(f"{_verb(change)}  {change.path}  ({change.reason})")
    if former:
        console.say(f"remove  .dkdbg/: {len(former)} files of an earlier dkdbg, in one file now")
    for file in kept:
        console.say(f"keep    {file.path}  ({file.reason})")
    if not todo:
        console.say("nothing to change")


def _show_diff(todo: tuple[changes.Change, ...]) -> None:
    console.diff(
        changes.diff(
            change for change in todo if change.path != MANIFEST and not _is_of_former_version(change)
        )
    )


def _is_of_former_version(change: changes.Change) -> bool:
    """Whether it takes away a piece of the agent: until version 0.1 these were some 70 files."""
    path = change.path
    return change.after is None and (
        path.is_relative_to(FOLDER / "dkdbg")
        or path in {FOLDER / "agent.sh", FOLDER / "no-ca.pem", FOLDER / "no-token"}
        or (path.parent == FOLDER and path.suffix == ".zip")
    )


def _verb(change: changes.Change) -> str:
    return "remove" if change.after is None else "change" if change.before is not None else "create"


def _next_steps(root: Path, plan: ProjectPlan, count: int) -> None:
    console.say(f"\nwrote {count} {'file' if count == 1 else 'files'}; dkdbg init --undo takes them back")
    console.say(hints.INIT_DONE(service=plan.service.name))
    names = [str(path) for path in manifest.load(root).files]
    ignored = git.ignored(root, list(dict.fromkeys([*names, LAUNCH, TASKS])))
    if ignored:
        shown = " ".join(shlex.quote(name) for name in ignored)
        console.say(
            f"git ignores {', '.join(ignored)}: git add -f {shown}; without them F5 works for you alone"
        )
    _say_attributes(root)
    others = launch_names(root) - {ATTACH_NAME}
    chosen = f" (choose it once under Run and Debug: launch.json has {len(others)} more)" if others else ""
    console.say(f'or in VS Code: set a breakpoint and press F5 with "{ATTACH_NAME}"{chosen}')


def _say_attributes(root: Path) -> None:
    """Say the line that the user's .gitattributes lack; the file is theirs."""
    found = git.attributes(
        root, str(FOLDER / single_file.NAME), "text", "filter", "working-tree-encoding", "linguist-generated"
    )
    marked = found.pop("linguist-generated", "set") in {"set", "true"}
    changing = [name for name, value in found.items() if value not in {"unset", "unspecified", "auto"}]
    if marked and not changing:
        return
    line = f"printf '\\n{FOLDER}/** -text -filter -working-tree-encoding linguist-generated\\n' >> .gitattributes"
    if changing:
        console.say(
            f"git would change the agent when it is committed ({', '.join(changing)} in .gitattributes); this spares it: {line}"
        )
    else:
        console.say(f"to collapse the generated files in reviews: {line}")


def _as_json(
    plan: ProjectPlan, todo: tuple[changes.Change, ...], kept: tuple[changes.Kept, ...], *, written: bool
) -> dict[str, object]:
    from dkdbg.setup.detect.report import facts_json

    return {
        "facts": facts_json(plan.facts),
        "plan": [{"what": decision.what, "why": decision.why} for decision in plan.decisions],
        "notes": list(plan.notes),
        "service": plan.service.name,
        "command": list(plan.service.argv),
        "compose_file": plan.service.compose_file,
        "candidates": [entry.command for entry in plan.facts.candidates],
        **changes_json(todo, kept, written=written),
    }


def changes_json(
    todo: tuple[changes.Change, ...], kept: tuple[changes.Kept, ...], *, written: bool
) -> dict[str, object]:
    """What a program is told of the files."""
    return {
        "changes": [
            {
                "path": str(change.path),
                "change": _verb(change),
                "reason": change.reason,
            }
            for change in todo
        ],
        "kept": [{"path": str(file.path), "reason": file.reason} for file in kept],
        "diff": changes.diff(todo),
        "written": written,
    }
