"""Resolve the program of --command or dkdbg.toml to its file, whose folder may have its own dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.core.facts import EntryPoint
from dkdbg.launchers import registry
from dkdbg.launchers.lines.command_lines import logical_lines
from dkdbg.setup.detect.files import join
from dkdbg.setup.detect.launch.candidates import discovered, module_file, script_file
from dkdbg.setup.detect.launch.launches import lines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.setup.detect.files import Tree


def given(tree: Tree, command: str, scripts: Mapping[str, str]) -> tuple[EntryPoint | None, str]:
    """Return the entry point of a command line, and its missing script, if any; None if it runs no Python program.

    Absolute paths, and paths out of the repository, are paths in the container.
    """
    lines = [part for line in logical_lines(command) for part in line.replace("&&", ";").split(";")]
    seen = lines_of(tree, lines, scripts)
    if not seen:
        return None, ""
    item = seen[-1]
    launch, file, missing = item.launch, None, ""
    if launch.launcher == "console-script":
        file = script_file(tree, scripts.get(launch.target or "", ""))
    elif launch.target is None:
        file = discovered(tree, launch.launcher, item.cwd)
    elif launch.is_module:
        by = registry.named(launch.launcher)
        file = module_file(tree, launch.target, item.cwd, package=bool(by and by.serves()))
    elif launch.target.endswith(".py") and not launch.target.startswith(("/", "~", "$")):
        path = join(item.cwd, launch.target)
        file = path if path is not None and tree.has(path) else None
        missing = path if path is not None and file is None else ""
    entry = EntryPoint(
        command=command, file=file, launcher=launch.launcher, cwd=item.cwd, source="your command"
    )
    return entry, missing or ""
