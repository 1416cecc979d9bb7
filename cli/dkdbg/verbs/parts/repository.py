"""Load this repository for the verbs: its plan, its debug service, and whether `init` has set it up."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg import hints
from dkdbg.core import config as configuration
from dkdbg.core import sessions
from dkdbg.core.facts import inherited_lines
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.repository.dotenv import saved_port
from dkdbg.repository.transaction import read
from dkdbg.setup.detect.around import no_way_to
from dkdbg.setup.render import fetched_agent, manifest
from dkdbg.setup.render.manifest import FOLDER
from dkdbg.targets import registry
from dkdbg.targets.kubernetes import overlay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.config import Config
    from dkdbg.core.plan import DebugService, ProjectPlan
    from dkdbg.core.sessions import SeenSession
    from dkdbg.setup.render.changes import FileWanted

    Ask = Callable[[str], tuple[str, ...] | None]


def check_root(root: Path, verb: str = "init") -> None:
    """Raise DkdbgError unless `root` is a readable directory that looks like a repository.

    Args:
        verb: the verb that the user typed, for the hint.
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
    root: Path, *, ask: Ask = lambda _: None, **asked: str | int | tuple[str, ...] | None
) -> tuple[ProjectPlan, Config]:
    """Return the plan that `init` makes, and the configuration; files that dkdbg generated are ignored.

    Args:
        ask: function of an image's name that returns Dockerfile lines for what a build inherits from the image, or None
            if unknown; then the manifest's record from an earlier `init` is used. Only an `init` that may write asks
            the engine: otherwise the plan must not depend on this machine's images.
        asked: values of command line options, by their keys in dkdbg.toml (`config.ANSWERS`, `apt`); None for the
            file's value.

    Raises:
        DkdbgError: dkdbg.toml, an option or a compose file cannot be used.
    """
    from dkdbg.setup.detect.repo import inspect
    from dkdbg.setup.plan.project import plan_project

    text = read(root, PurePosixPath(configuration.FILE_NAME))
    config = configuration.Config() if text is None else configuration.parse(configuration.decode(text))
    given: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    config = replace(config, **given)
    known = manifest.load(root)
    generated = frozenset(str(path) for path in known.files)

    def inherited(image: str) -> tuple[str, ...]:
        found = ask(image)
        return inherited_lines(manifest.inherited(known).get(image, ())) if found is None else found

    facts = inspect(
        root,
        ignore=generated | {str(FOLDER), configuration.FILE_NAME},
        command=config.command,
        service=config.service,
        dockerfile=config.dockerfile,
        python=config.python,
        gpu=config.gpu,
        inherited=inherited,
    )
    for name in facts.compose_files:  # report it: a plan without the user's services would be wrong
        if not os.access(root / name, os.R_OK):
            raise DkdbgError(
                f"cannot read {name}: Permission denied",
                hint=f"ls -l {shlex.quote(str(root / name))} shows who may read it",
            )
    return plan_project(facts, config), config


def files_for(root: Path, plan: ProjectPlan, config: Config) -> dict[str, FileWanted | None]:
    """Return the files that `init` wants (None: remove it); the launch entry keeps a port that `up` has changed."""
    from dkdbg.setup.render.project import wanted_files

    wanted = wanted_files(root, plan, config, local_port=saved_port(root, plan.service.port))
    overlays = PurePosixPath(overlay.FOLDER)  # written by `init --k8s`
    stale = {
        str(path): None
        for path in manifest.load(root).files
        if str(path) not in wanted and not path.is_relative_to(overlays)
    }
    return {**wanted, **stale}


def debug_service(root: Path, *, starts: bool = False) -> DebugService:
    """Return the debug service that `init` wrote; if there is no record of it, the one that it would write now.

    Args:
        root: absolute, symlinks resolved.
        starts: whether the caller starts the service; then write the agent first, if git does not contain it.

    Raises:
        DkdbgError: as `make_plan` and `fetched_agent.fill`, or `init` has not written the debug service and the agent.
    """
    service = manifest.debug_service(root)
    if service is None:
        plan, _ = make_plan(root)
        service = plan.debug_service
    if starts:
        fetched_agent.fill(root)
    check_written(root, service.compose_file)
    return service


def check_written(root: Path, compose_file: str) -> None:
    """Raise DkdbgError unless `init` has written the debug service and the agent."""
    if read(root, PurePosixPath(compose_file)) is None or not (
        (root / FOLDER / single_file.NAME).is_file() or fetched_agent.is_fetched(root)
    ):
        raise DkdbgError(
            f"{root} is not set up for dkdbg yet: {compose_file} or .dkdbg/ is missing",
            hint=hints.INIT_FIRST(),
            exit_code=EXIT_USAGE,
        )


def only_session(root: Path, naming: Callable[[str], str]) -> SeenSession:
    """Return the session of this repository's debug service, even beside others; otherwise the only session.

    Args:
        root: absolute, symlinks resolved.
        naming: see `sessions.choose`.

    Raises:
        DkdbgError: no session runs, or several do and none is this repository's.
    """
    with contextlib.suppress(DkdbgError):  # not set up, or not running
        check_root(root)
        return sessions.choose(registry.home(root, debug_service(root).name).sessions(), naming=naming)
    return sessions.choose(registry.sessions()[0], naming=naming)
