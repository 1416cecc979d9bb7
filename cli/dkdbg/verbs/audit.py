"""`dkdbg audit`: for CI, find the debug ports, debuggers and secrets that a repository would ship."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import __version__, console
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable

if TYPE_CHECKING:
    import argparse

    from dkdbg.audit.rules import Finding
    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg audit`."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="only these files and folders (default: the whole repository)",
    )
    parser.add_argument(
        "--format",
        choices=("text", "sarif"),
        default="text",
        help="sarif: for code scanning, version 2.1.0 (default: text)",
    )


def call(options: argparse.Namespace, root: Path) -> int:
    """Print the findings in a repository's files; return 1 if there are any.

    Paths are relative to the folder of -C. A folder outside the repository is audited as a repository of its own.

    Raises:
        DkdbgError: a path does not exist, or is a single file outside the repository.
    """
    from dkdbg.audit import sarif
    from dkdbg.audit.rules import RULES

    try:
        found, notes = _all(root, options)
    except Exception as error:
        if options.format == "sarif":  # an upload of an empty file is rejected without a reason
            console.emit(sarif.report((), version=__version__, notes=(), failed=str(error)))
        raise
    if options.format == "sarif":
        console.emit(sarif.report(found, version=__version__, notes=notes))
        return EXIT_ERROR if found else 0
    for note in notes:
        console.warn(f"dkdbg: {note}")
    for each in found:
        console.say(f"{each.path}:{each.line}: {each.rule}: {each.message}\n    {RULES[each.rule].todo}")
    if found:
        files = len({each.path for each in found})
        console.say(
            f"\n{len(found)} finding{'s' * (len(found) > 1)} in {files} file{'s' * (files > 1)}; "
            "a comment `dkdbg: ignore RULE` on the line, or alone above it, accepts one"
        )
    return EXIT_ERROR if found else 0


def _all(root: Path, options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Return the findings and notes of each folder to audit."""
    found: list[Finding] = []
    notes: list[str] = []
    for folder, (typed, below) in _roots(root, Path(options.directory).resolve(), options.paths).items():
        every, problems = _audited(folder)
        found += [
            replace(one, path=_shown(typed, one.path), uri=(folder / one.path).as_uri() if typed else "")
            for one in every
            if not below or one.path == "." or any(_is_below(one.path, path) for path in below)
        ]
        notes += [_shown(typed, each) for each in problems]
    return found, notes


def _shown(typed: str, path: str) -> str:
    """Return a finding's path for the user; in a folder outside the repository it begins with the folder as typed."""
    return path if not typed else typed if path == "." else f"{typed.rstrip('/')}/{path}"


def _roots(root: Path, cwd: Path, paths: list[str]) -> dict[Path, tuple[str, list[str]]]:
    """Return each folder to audit, with its path as typed (empty for the repository) and the requested paths in it."""
    found: dict[Path, tuple[str, list[str]]] = {}
    for text in paths:
        path = Path(cwd, text)
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise DkdbgError(
                f"cannot read {text}: {getattr(error, 'strerror', None) or 'it is a link to itself'}",
                hint="name a file or folder that exists",
                exit_code=EXIT_USAGE,
            ) from error
        if real.is_relative_to(root):
            found.setdefault(root, ("", []))[1].append(real.relative_to(root).as_posix())
        elif real.is_dir():
            found.setdefault(real, (text, []))
        else:
            raise DkdbgError(
                f"{text} is not below {root}",
                hint="dkdbg -C FOLDER audit audits another repository",
                exit_code=EXIT_USAGE,
            )
    return found or {root: ("", [])}


def _is_below(path: str, folder: str) -> bool:
    return folder in {".", path} or path.startswith(f"{folder}/")


def _audited(root: Path) -> tuple[list[Finding], list[str]]:
    """Return the findings in a folder, and notes on unread files. In a git repository, audit what git lists."""
    from pathlib import PurePosixPath

    from dkdbg.audit.audit import agents_of, audit
    from dkdbg.repository import git, transaction
    from dkdbg.setup.detect.files import Tree

    def read(path: str) -> bytes | None:
        try:
            return transaction.read(root, PurePosixPath(path))
        except DkdbgError:
            return None

    listed = git.ask(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    # During a merge, git lists a file with conflicts several times.
    paths = None if listed is None else [*filter(None, dict.fromkeys(listed.split("\0")))]
    tree = Tree(root, listed=paths)
    for folder in (root / path for path in paths or () if not tree.has(path)):
        if os.path.lexists(folder / ".git") and not folder.is_symlink():  # a submodule or an untracked clone
            again = printable(f"dkdbg -C {shlex.quote(str(folder))} audit")
            tree.omitted[printable(folder.relative_to(root))] = f"a separate repository, not read: {again}"
    if listed is None and any(os.path.lexists(each / ".git") for each in (root, *root.parents)):
        tree.omitted["."] = (
            "git lists no files, so those that it ignores are read too; if another user owns the folder: "
            f"git config --global --add safe.directory {shlex.quote(str(root))}"
        )
    agents = [path for path in agents_of(tree) if listed is None or tree.has(path)]
    return audit(tree, agents=agents, version=__version__, read=read)
