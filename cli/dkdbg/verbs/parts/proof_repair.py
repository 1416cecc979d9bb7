"""The facts of the repository that remedies mention, and the repairs of `dkdbg verify --fix`, shown before they run."""

from __future__ import annotations

import codecs
import re
import shlex
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.agent.dap.messages import as_dict
from dkdbg.core.config import FILE_NAME
from dkdbg.core.facts import PROJECT_FILES
from dkdbg.proof.program_end import Around
from dkdbg.repository.dotenv import local_port
from dkdbg.repository.transaction import read
from dkdbg.setup.detect.files import Tree
from dkdbg.setup.detect.launch.candidates import module_file
from dkdbg.setup.detect.python.dependencies import named_in, read_dependency_files
from dkdbg.setup.detect.python.imports import own_names
from dkdbg.setup.detect.python.requirements import parse_requirement
from dkdbg.setup.render import changes, manifest
from dkdbg.setup.render.changes import FileWanted
from dkdbg.setup.render.editor_files import LAUNCH, with_mappings
from dkdbg.targets import registry
from dkdbg.verbs.parts.keep_port import keep_port
from dkdbg.verbs.parts.repository import debug_service, files_for, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from dkdbg.core.config import Config
    from dkdbg.core.plan import ImagePlan, ProjectPlan
    from dkdbg.proof.finding import Finding

#: Byte order marks from which pip detects encodings that do not contain ASCII (`auto_decode`).
_ENCODINGS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
#: Suffixes of the requirements files that --fix edits; the command.
_LISTS, _FIX = (".txt", ".in"), "dkdbg verify --fix"
_REQUIREMENTS = re.compile(r"(?:-r|--requirement)[ =]?([\w./-]+\.(?:txt|in))")


def around(root: Path, command: str) -> Around:
    """Return the facts of the repository that remedies mention."""
    tree = Tree(root)

    return Around(
        installs_from=lambda distribution: _installs_from(root, tree, distribution), own=own_names(tree), command=command,
        written_by=lambda module: _written_by(tree, module), named_in=lambda distribution: _named_in(tree, distribution),
        file_of=lambda module: module_file(tree, module, ".", package=True) or "",
        lies_at=lambda path: _lies_at(tree, path),
    )  # fmt: skip


def _lies_at(tree: Tree, path: str) -> str:
    """Return the only file or folder in the repository that ends with a path (leading dots removed), else ""."""
    tail = re.sub(r"^(?:\.*/)+", "", path).rstrip("/")
    found = [each for each in (*tree.files, *tree.dirs) if f"/{each}".endswith(f"/{tail}")]
    return found[0] if tail and len(found) == 1 else ""


def of_plan(root: Path, plan: ProjectPlan, config: Config) -> Around:
    """Return the facts that remedies mention, as `around` does, for the debug service of a plan."""
    service, extends = plan.service, plan.service.extends
    is_given = (
        config.command is not None or service.entrypoint or (extends and extends.entrypoint is not None)
    )
    return replace(
        around(root, shlex.join(service.argv)),
        inherits_entrypoint=not is_given and not plan.image.is_generated,
    )


def mend(root: Path, finding: Finding, *, yes: bool, as_json: bool, report: Callable[[str], None]) -> str:
    """Repair a finding if that is safe, after showing the change; return what was done, or "" if nothing was.

    Args:
        yes: do not ask for confirmation.
        as_json: standard output is for JSON: show no change, and without `yes` make none.
    """
    if as_json and not yes:
        return ""
    if finding.cause == "port-taken" and finding.link == "port" and finding.subject.isdigit():
        return _other_port(root, int(finding.subject), yes=yes, report=report)
    if finding.cause == "module-missing" and finding.subject:
        return _declare(root, finding.subject, yes=yes, as_json=as_json)
    if finding.cause == "library-missing" and finding.subject:
        return _install(root, finding.subject, yes=yes, as_json=as_json)
    if finding.cause == "entrypoint-left-out":
        return _start_by(root, finding.subject, yes=yes, as_json=as_json)
    if finding.cause in {"wrong-root", "not-mapped"} and finding.subject == LAUNCH:
        return _map(root, yes=yes, as_json=as_json)
    return ""


def _other_port(root: Path, taken: int, *, yes: bool, report: Callable[[str], None]) -> str:
    from dkdbg.targets.docker.ports import free_port

    port = free_port(local_port(root, debug_service(root).port), own_port=None)
    if not _agreed(f"write port {port} to .vscode/launch.json and .env?", yes=yes):
        return ""
    keep_port(root, port, why=f"port {taken} is taken", report=report)
    return f"port {port} in launch.json and .env"


def _declare(root: Path, distribution: str, *, yes: bool, as_json: bool) -> str:
    """Append a requirement to the .txt or .in file that the image installs from; other files are left to the user."""
    name, _, then = _installs_from(root, Tree(root), distribution)
    if _FIX not in then:
        return ""
    before = read(root, PurePosixPath(name)) or b""
    encoding = next((each for bom, each in _ENCODINGS.items() if before.startswith(bom)), "utf-8")
    text = before.decode(encoding, errors="replace")
    end = "\r\n" if "\r\n" in text else "\n"
    added = (end if text and not text.endswith("\n") else "") + distribution + end
    wanted = FileWanted(content=before + added.encode(encoding), reason="the program imports it", owned=False)
    todo = changes.between(root, {name: wanted})
    return f"{distribution} in {name}" if _written(root, todo, name, yes=yes, as_json=as_json) else ""


def _install(root: Path, package: str, *, yes: bool, as_json: bool) -> str:
    """Add a Debian package to dkdbg.toml and the generated Dockerfile; leave the user's own Dockerfile to the user."""
    plan, config = make_plan(root, apt=(*registry.configuration(root).apt, package))
    name = str(plan.image.dockerfile)
    wanted = _wanted(root, plan, config, {FILE_NAME, name, f"{name}.dockerignore"})
    todo = changes.between(root, {**wanted, **_with_packages(root, config.apt)})
    if not plan.image.is_generated or not any(str(each.path) == name for each in todo):
        return ""
    shown = ", ".join(str(each.path) for each in todo if str(each.path) in wanted)
    done = _written(root, todo, shown, yes=yes, as_json=as_json)
    return f"{package} in {FILE_NAME} and {name}" if done else ""


def _start_by(root: Path, command: str, *, yes: bool, as_json: bool) -> str:
    """Set the command in dkdbg.toml and the debug service, unless it contains values that may only be in .env."""
    if make_plan(root)[0].service.from_env:
        return ""
    plan, config = make_plan(root, command=command)
    names = (FILE_NAME, plan.service.compose_file)
    todo = changes.between(root, _wanted(root, plan, config, names))
    done = _written(root, todo, ", ".join(names), yes=yes, as_json=as_json)
    return f"the command {command} in {FILE_NAME}" if done else ""


def _map(root: Path, *, yes: bool, as_json: bool) -> str:
    """Write the planned mapping to a launch entry that the user has edited."""
    todo = changes.between(root, {LAUNCH: with_mappings(root, make_plan(root)[0])})
    done = bool(todo) and _written(root, todo, LAUNCH, yes=yes, as_json=as_json)
    return f"the mapping in {LAUNCH}" if done else ""


def _wanted(
    root: Path, plan: ProjectPlan, config: Config, names: Collection[str]
) -> dict[str, FileWanted | None]:
    """Return those of the files that `init` would write which are in `names`; others may differ for other reasons."""
    return {path: file for path, file in files_for(root, plan, config).items() if path in names}


def _with_packages(root: Path, apt: Sequence[str]) -> dict[str, FileWanted]:
    """Return the debug service's compose file unchanged, but with these packages in its manifest entry."""
    return {
        str(path): FileWanted(
            content=present,
            reason="",
            owned=False,
            metadata={**metadata, "config": {**as_dict(metadata["config"]), "apt": [*apt]}},
        )
        for path, metadata in manifest.load(root).metadata.items()
        if "config" in metadata and (present := read(root, path)) is not None
    }


def _written(root: Path, todo: tuple[changes.Change, ...], name: str, *, yes: bool, as_json: bool) -> bool:
    """Show changes, and write them if the user agrees; return whether they were written."""
    if not as_json:
        console.diff(changes.diff(todo))
    if not _agreed(f"Write {name}?", yes=yes):
        return False
    changes.apply(root, todo, changes.Journal(root=root))
    return True


def _agreed(question: str, *, yes: bool) -> bool:
    return yes or console.ask(question)


def _written_by(tree: Tree, module: str) -> str:
    package, _, name = module.rpartition(".")
    file = re.compile(rf"(?<!\w){re.escape(name)}\.py\b")
    return next((each for each in PROJECT_FILES if package and file.search(tree.text(each))), "")


def _named_in(tree: Tree, distribution: str) -> str:
    return named_in(read_dependency_files(tree)).get(distribution, "")


def _installs_from(root: Path, tree: Tree, distribution: str) -> tuple[str, str, str]:
    """Return the file from which the image installs packages, the line to add to it, and the commands to run next.

    The line is empty if the repository names the distribution already, and only the generated Dockerfile lacks it.
    """
    plan = make_plan(root)[0]
    image = plan.image
    named = "" if image.is_generated else _named_in(tree, distribution).partition(":")[0]
    file = _file(image, tree, without=named)
    if image.is_generated and file not in {
        image.dockerfile,
        *(name for each in image.installs for name in each.copy),
    }:
        declared = {item.name for each in plan.facts.declared if (item := parse_requirement(each, ""))}
        return (
            file,
            "" if distribution in declared else _line(file, distribution),
            "dkdbg init, then dkdbg verify",
        )
    then = f"dkdbg verify; or: {_FIX}" if file.endswith(_LISTS) else "dkdbg verify"
    return file, _line(file, distribution), then


def _file(image: ImagePlan, tree: Tree, *, without: str) -> str:
    """Return the file from which the image installs packages, but not `without`, which the image does not install."""
    lines = [each.run for each in image.installs]
    if not image.is_generated and image.dockerfile:
        lines = [tree.text(image.dockerfile)]
    for line in lines:
        for found in _REQUIREMENTS.findall(line):
            if tree.has(found.removeprefix("./")):
                return str(found.removeprefix("./"))
            same = tree.named(found.rsplit("/", 1)[-1])
            if same:
                return same[0]
    for each in ("requirements.txt", "pyproject.toml", "environment.yml", "environment.yaml"):
        if tree.has(each) and each != without:
            return each
    return image.dockerfile or "requirements.txt"


def _line(file: str, distribution: str) -> str:
    """Return the line that requires a distribution, in the syntax of the file."""
    if file.endswith(".toml"):
        return f'"{distribution}" (in dependencies)'
    if file.endswith((".yml", ".yaml")):
        return f"- {distribution} (below pip:)"
    if not file.endswith(_LISTS):
        return f"RUN pip install {distribution}"
    return distribution
