"""`dkdbg init`: inspect the repository, plan, show the changes, and write the files once the user confirms."""

from __future__ import annotations

import functools
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.agent.contract import LOOPBACK
from dkdbg.core import compose_names
from dkdbg.core import config as configuration
from dkdbg.core.facts import GPU_NEEDS
from dkdbg.core.settings import PYTHONS
from dkdbg.delivery import single_file
from dkdbg.errors import DkdbgError
from dkdbg.repository import git
from dkdbg.repository.transaction import read
from dkdbg.setup.plan import editor
from dkdbg.setup.plan.choices import MAX_QUESTIONS, shown, unasked
from dkdbg.setup.plan.editor import ATTACH_NAME
from dkdbg.setup.render import changes, fetched_agent, manifest
from dkdbg.setup.render.editor_files import LAUNCH, TASKS, launch_names, launch_port, ranks_files
from dkdbg.setup.render.manifest import FOLDER
from dkdbg.targets.docker import image_build
from dkdbg.targets.docker.base_image import inherited
from dkdbg.verbs import values
from dkdbg.verbs.parts.offer import changes_json, next_steps, offer
from dkdbg.verbs.parts.repository import check_root, check_written, files_for, make_plan

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.core.config import Config
    from dkdbg.core.plan import ProjectPlan
    from dkdbg.verbs.parser import Parser
    from dkdbg.verbs.parts.repository import Ask

    Asked = dict[str, str | int | None]

_QUESTIONS = {
    "service": "Which service runs the program to debug?",
    "dockerfile": "Which Dockerfile builds its image?",
    "command": "Which program is the one to debug?",
    "python": "Which Python does it run on?",
    "gpu": "Does it need a GPU?",
    "wait": "How many seconds should it wait for an editor?",
}


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg init`."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="write only what F5 needs to run the program on TARGET and attach to it",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="write without asking")
    how.add_argument("--diff", action="store_true", help="show the diff and write nothing")
    how.add_argument("--check", action="store_true", help="write nothing; exit 1 if something would change")
    how.add_argument("--undo", action="store_true", help="undo what init wrote here, byte for byte")
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --undo: also undo files edited since; the edits are saved beside them",
    )
    parser.add_argument(
        "--command", metavar="TEXT", help="the program to debug, such as 'python train.py --epochs 1'"
    )
    parser.add_argument(
        "--service",
        metavar="NAME",
        help="the compose service to debug; FILE:NAME if several files define that name",
    )
    parser.add_argument(
        "--dockerfile", metavar="PATH", help="build this Dockerfile instead of extending a compose service"
    )
    parser.add_argument(
        "--python", metavar="VERSION", choices=PYTHONS, help="the Python of the Dockerfile that init writes"
    )
    parser.add_argument("--gpu", choices=GPU_NEEDS, help="whether the program needs a GPU")
    parser.add_argument(
        "--wait",
        type=values.count,
        metavar="SECONDS",
        help="how long it waits for an editor; 0 starts at once",
    )
    parser.add_argument(
        "--port",
        type=values.port,
        metavar="PORT",
        help="with TARGET: the port on this machine (5677 or the next free one)",
    )
    parser.add_argument(
        "--ranks", dest="count", type=values.rank_count, metavar="N",
        help="write only a launch entry per rank and one for all, for editors that open no child sessions",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_overlay(parser)


def _add_overlay(parser: Parser) -> None:
    pai = parser.add_argument_group(
        "add only what debugging an OpenPAI job needs to its YAML: a port and a deployment"
    )
    pai.add_argument(
        "--pai",
        metavar="FILE",
        nargs="?",
        const="",
        help="the job protocol (YAML); by default the only one in this repository",
    )
    pai.add_argument(
        "--role",
        metavar="NAME",
        default="",
        help="the task role that waits for a debugger; by default the only one",
    )
    pai.add_argument("--dap", action="store_true", help="wait for an editor instead of pdb over nc")
    pai.add_argument("--agent", metavar="PATH", default="", help="where agent.pyz is in the container")
    k8s = parser.add_argument_group(
        "write only a manifest overlay that starts a workload in a cluster under the agent, and its launch entry for F5"
    )
    k8s.add_argument(
        "--k8s", metavar="WORKLOAD", nargs="?", const="",
        help="deployment/NAME or the like in this repository's manifests; by default the only one",
    )  # fmt: skip
    k8s.add_argument(
        "--from", dest="source", metavar="PATH", help="the manifest, or the folder with a kustomization.yaml"
    )
    k8s.add_argument(
        "--container",
        metavar="NAME",
        default="",
        help="the container whose program is debugged (default: the first one)",
    )
    k8s.add_argument(
        "--namespace",
        metavar="NAME",
        help="the namespace to run in (default: the manifest's, else kubectl's)",
    )
    k8s.add_argument(
        "--to",
        dest="folder",
        metavar="PATH",
        help="the code's folder in the container (default: workingDir, else WORKDIR)",
    )


def call(options: argparse.Namespace, root: Path) -> int:
    """Run the verb with its parsed options; return the exit code."""
    if options.undo:
        return _undo(root, force=options.force, as_json=options.json)
    if options.target is not None:
        from dkdbg.verbs.parts.init_target import init_target

        return init_target(root, options)
    if options.count is not None:
        return _init_ranks(root, options)
    if options.k8s is not None:
        from dkdbg.verbs.parts.init_k8s import init_k8s

        return init_k8s(root, options)
    if options.pai is not None:
        from dkdbg.verbs.parts.init_pai import init_pai

        return init_pai(root, options)
    return _init(root, options)


def _init(root: Path, options: argparse.Namespace) -> int:
    """Plan, show and write the files; return the exit code.

    Raises:
        DkdbgError: this is not a repository, a file cannot be read, or a folder cannot be written.
    """
    check_root(root)
    asked = {key: getattr(options, key) for key in configuration.ANSWERS}
    asks = not (options.yes or options.diff or options.check or options.json) and console.interactive()
    ask: Ask = (lambda _: None) if options.check else functools.cache(inherited)
    plan, config = make_plan(root, ask=ask, **asked)
    # Ask only in a repository that is not set up yet: a later `init` keeps the earlier choices.
    if asks and not manifest.load(root).files:
        folder = "" if config.command else _choose_project(plan)
        if folder:
            root = root / folder
            plan, config = make_plan(root, ask=ask, **asked)
        plan, config = _with_answers(root, plan, config, asked, ask)
    plan = _with_former(root, replace(plan, notes=(*plan.notes, *unasked(plan.choices))))
    return offer(
        root, files_for(root, plan, config), plan.describe(console.width()), options,
        as_json=lambda todo, kept, written: _as_json(plan, todo, kept, written=written),
        next_steps=lambda: _next_steps(root, plan),
    )  # fmt: skip


def _with_former(root: Path, plan: ProjectPlan) -> ProjectPlan:
    """Return the plan; if it replaces a former debug service, with a note about that service."""
    former = manifest.debug_service(root)
    service = compose_names.service_of(former.name) if former else ""
    if former is None or not service or former.name == plan.service.name:
        return plan
    return replace(plan, notes=(*plan.notes, hints.INIT_BESIDE(former=former.name, service=service)))


def _undo(root: Path, *, force: bool, as_json: bool) -> int:
    """Undo all that `init` wrote in this repository, byte for byte; return the exit code.

    Raises:
        DkdbgError: there is nothing to undo, a file was edited since (without `force`), or a file cannot be written.
    """
    check_root(root)
    containers = _lines_to_remove_containers(root)
    service = None
    with suppress(DkdbgError):  # an undo works without a manifest
        service = manifest.debug_service(root, changed=True)
    undone = changes.Journal(root=root).undo(force=force)
    if service:
        try:
            image_build.remove_dead_links(root, service)
        except DkdbgError:  # without an engine there are no containers
            image_build.remove_links(root, service)
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
        console.say(f"left      {path}/  (it contains files of yours)")
    for line in containers:
        console.say(f"the debug service's container still exists; to remove it: {line}")
    return 0


def _lines_to_remove_containers(root: Path) -> list[str]:
    """Return commands for the user that remove the debug service's containers; empty if there are no known containers.

    After the undo, no verb of dkdbg finds these containers.
    """
    with suppress(DkdbgError):  # an undo works without a manifest and an engine
        service = manifest.debug_service(root)
        return image_build.lines_to_remove(root, service) if service else []
    return []


def _next_steps(root: Path, plan: ProjectPlan) -> None:
    console.say(hints.INIT_DONE(service=plan.service.name))
    fetched = {str(fetched_agent.AGENT)} if fetched_agent.is_fetched(root) else set()
    names = [str(path) for path in manifest.load(root).files if str(path) not in fetched]
    ignored = git.ignored(root, list(dict.fromkeys([*names, LAUNCH, TASKS])))
    if ignored:
        shown = " ".join(shlex.quote(name) for name in ignored)
        console.say(
            f"git ignores {', '.join(ignored)}: git add -f {shown}; without them F5 works for you alone"
        )
    _say_attributes(root)
    _say_size(root)
    others = launch_names(root) - {ATTACH_NAME}
    chosen = f" (choose it once under Run and Debug: launch.json has {len(others)} more)" if others else ""
    console.say(hints.INIT_VERIFY())
    console.say(f'or in VS Code: set a breakpoint and press F5 with "{ATTACH_NAME}"{chosen}')


def _say_attributes(root: Path) -> None:
    """Print a command that adds a missing line to .gitattributes, which is the user's own file."""
    found = git.attributes(
        root, str(FOLDER / single_file.NAME), "text", "filter", "working-tree-encoding", "linguist-generated"
    )
    is_generated = found.pop("linguist-generated", "set") in {"set", "true"}
    changing = [name for name, value in found.items() if value not in {"unset", "unspecified", "auto"}]
    if is_generated and not changing:
        return
    line = f"printf '\\n{FOLDER}/** -text -filter -working-tree-encoding linguist-generated\\n' >> .gitattributes"
    if changing:
        console.say(
            f"git would change the agent when it is committed ({', '.join(changing)} in .gitattributes); to prevent that: {line}"
        )
    else:
        console.say(f"to collapse the generated files in reviews: {line}")


def _say_size(root: Path) -> None:
    """Print the exception that a pre-commit hook against large files needs; its configuration is the user's own."""
    hooks = read(root, PurePosixPath(".pre-commit-config.yaml")) or b""
    if b"check-added-large-files" not in hooks or single_file.NAME.encode() in hooks:
        return
    size = (root / FOLDER / single_file.NAME).stat().st_size // 1024
    console.say(
        f"{FOLDER / single_file.NAME} has {size} KB: if the hook check-added-large-files refuses it, give that hook in"
        rf" .pre-commit-config.yaml  exclude: ^\{FOLDER}/agent\.pyz$"
    )


def _as_json(
    plan: ProjectPlan, todo: tuple[changes.Change, ...], kept: tuple[changes.Kept, ...], *, written: bool
) -> dict[str, object]:
    from dkdbg.core.facts import facts_json

    return {
        "facts": facts_json(plan.facts),
        "plan": [{"what": decision.what, "why": decision.why} for decision in plan.decisions],
        "notes": list(plan.notes),
        "service": plan.service.name,
        "command": list(plan.service.argv),
        "compose_file": plan.service.included_by,
        "candidates": [entry.command for entry in plan.facts.candidates],
        "choices": [
            {
                "what": each.topic,
                "candidates": [
                    {
                        "value": option.value,
                        "why": option.source,
                        **(
                            {"file": option.program.file, "launcher": option.program.launcher}
                            if option.program
                            else {}
                        ),
                    }
                    for option in each.options
                ],
                "close": each.close,
            }
            for each in plan.choices
        ],
        **changes_json(todo, kept, written=written),
    }


def _init_ranks(root: Path, options: argparse.Namespace) -> int:
    """Plan, show and write the launch entries of the ranks, their compound and task; return the exit code.

    Raises:
        DkdbgError: the repository is not set up, or a file cannot be read or written.
    """
    check_root(root)
    count = options.count
    plan, _ = make_plan(root)
    check_written(root, plan.service.compose_file)
    service = launch_port(root) or plan.service.port
    base = options.port or editor.first_rank_port(service, count)
    entries = editor.rank_entries(plan, base, count)
    files = ranks_files(root, entries, editor.ranks_compound(entries), editor.ranks_task(base))
    more = f"other editors: rank r is on {LOOPBACK}:{base} + r while `dkdbg attach --ports {base}` runs"
    return offer(
        root, {**files}, f"F5 attaches to {count} ranks, each on its own port, from {base} up", options,
        next_steps=lambda: next_steps(editor.RANKS_NAME, more),
        as_json=lambda todo, kept, written: {
            "ranks": count, "port": base, **changes_json(todo, kept, written=written)
        },
    )  # fmt: skip


def _with_answers(
    root: Path, plan: ProjectPlan, config: Config, asked: Asked, ask: Ask
) -> tuple[ProjectPlan, Config]:
    """Ask about choices for which the plan has nearly equal options; return the plan and configuration as answered.

    Args:
        asked: values of command line options, by their keys in dkdbg.toml.
        ask: see `make_plan`.
    """
    done: set[str] = set()
    for _ in range(MAX_QUESTIONS):
        choice = next((each for each in plan.choices if each.close > 1 and each.topic not in done), None)
        if choice is None:
            break
        done.add(choice.topic)
        picked = console.choose(
            _QUESTIONS[choice.topic], [shown(each) for each in choice.options[: choice.close]]
        )
        if picked:
            value = choice.options[picked].value
            asked = {**asked, choice.topic: int(value) if choice.topic == "wait" else value}
            plan, config = make_plan(root, ask=ask, **asked)
    left = tuple(each for each in plan.choices if each.topic not in done)
    return replace(plan, choices=left), config


def _choose_project(plan: ProjectPlan) -> str:
    """Ask which of several projects to set up; return its folder, or "" for the repository itself."""
    facts, best = plan.facts, plan.facts.entrypoint
    if best is None or not plan.service.from_entry or not facts.projects:
        return ""
    folders = [each.folder for each in facts.projects]
    own = next((at for at, folder in enumerate(folders) if (best.file or "").startswith(folder + "/")), 0)
    chosen = console.choose(
        "This repository has several projects. Which one?",
        [f"{each.folder}  ({each.program.rsplit('/', 1)[-1]})" for each in facts.projects],
        start=own,
    )
    return "" if chosen is None else folders[chosen]
