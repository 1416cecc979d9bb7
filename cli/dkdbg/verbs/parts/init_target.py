"""`dkdbg init TARGET`: write a launch entry with which F5 runs the program on the target and attaches to it."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.core import config as configuration
from dkdbg.core.mapping import described, folder_name
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.repository.transaction import read
from dkdbg.setup.plan import editor
from dkdbg.setup.render.editor_files import target_files, target_port
from dkdbg.targets import registry
from dkdbg.verbs.parts.offer import changes_json, next_steps, offer
from dkdbg.verbs.parts.repository import check_root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


def init_target(root: Path, options: argparse.Namespace) -> int:
    """Plan, show and write the entry and its task; return the exit code.

    Ask the target where the code is. Without --port, an existing entry keeps its port, and a new one gets the next port
    that no entry uses.

    Raises:
        DkdbgError: the target cannot be reached, the program is unknown, or a file cannot be written.
    """
    check_root(root)
    name, argv = options.target, command_of(root, options.command)
    with contextlib.closing(registry.target_of(name, root)) as target:
        lies = target.planned_workdir(folder_name(root))
        where = f"{target.label}:{lies.remote}"
    entry_name = editor.TARGET_NAME + name
    port = options.port or target_port(root, entry_name)
    entry = editor.target_entry(name, port, described([(lies.local, lies.remote)]))
    task = editor.target_task(name, port, argv)
    return offer(
        root, {**target_files(root, entry, task)}, f"F5 runs {' '.join(argv)} at {where} and attaches to it", options,
        next_steps=lambda: next_steps(entry_name),
        as_json=lambda todo, kept, written: {
            "target": name, "place": name, "folder": lies.remote, "command": argv, "port": port, **changes_json(todo, kept, written=written)
        },
    )  # fmt: skip


def command_of(root: Path, text: str | None) -> Sequence[str]:
    """Return the program's words: from `text`, otherwise from dkdbg.toml, otherwise as found in the repository.

    Raises:
        DkdbgError: the program is unknown, or dkdbg.toml is invalid.
    """
    if text is None:
        data = read(root, PurePosixPath(configuration.FILE_NAME))
        text = configuration.parse(configuration.decode(data)).command if data else None
    if text is None:
        from dkdbg.setup.detect.repo import inspect  # slow: loads all of setup/detect

        found = inspect(root, ignore=frozenset()).candidates
        text = found[0].command if found else None
    if text is None:
        raise DkdbgError(
            "the program to debug is unknown",
            hint="name it: --command 'python3 train.py'",
            exit_code=EXIT_USAGE,
        )
    return configuration.shell_argv(text)
