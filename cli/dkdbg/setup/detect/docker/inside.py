"""Find the program that a container's command line starts, and its local source file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg.launchers import registry
from dkdbg.launchers.bash import BASH, Bash
from dkdbg.launchers.lines.command_lines import logical_lines, parse_line, parse_words
from dkdbg.setup.detect.docker.dockerfile import absolute
from dkdbg.setup.detect.files import join
from dkdbg.setup.detect.launch.candidates import discovered, module_file, script_file
from dkdbg.setup.detect.launch.launches import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.launchers.launcher import Launch
    from dkdbg.setup.detect.files import Tree

#: Pairs (local, remote).
Mappings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Inside:
    """The facts needed to read a container's command line.

    Attributes:
        workdir: absolute working directory in the container.
        mappings: (local, remote) paths of the repository's code.
        scripts: console script -> its target `module:function`.
        context: build context, relative to the root.
    """

    workdir: str
    mappings: Mappings
    scripts: Mapping[str, str]
    context: str


def started(tree: Tree, argv: tuple[str, ...], inside: Inside) -> tuple[Seen | None, str | None]:
    """Return what an argv in a container starts (None if unknown), and its local source (None if only in the image)."""
    mappings, scripts, context = inside.mappings, inside.scripts, inside.context
    launches = _programs(tree, argv, inside)
    if not launches:
        return None, None
    # The last program is the main one; earlier ones only prepare it (migrations, downloads).
    launch, workdir = launches[-1]
    local_cwd = to_local(workdir, mappings)
    file: str | None = None
    if launch.launcher == "console-script":
        file = script_file(tree, scripts.get(launch.target or "", ""))
    elif launch.target and launch.is_module:
        # Search the root, too: the image may have installed this repository's package.
        for base in dict.fromkeys(item for item in (local_cwd, context, ".") if item is not None):
            file = file or _module_below(tree, launch.target, base)
            by = registry.named(launch.launcher)
            if file is None and by is not None and by.dotted_app and "." in launch.target:
                # In `-A worker.celery` the last part is a variable of the module.
                file = _module_below(tree, launch.target.rsplit(".", 1)[0], base)
    elif launch.target:
        local = to_local(absolute(workdir, launch.target), mappings)
        file = local if local is not None and tree.has(local) else None
        if file is None and not launch.target.startswith("/"):
            beside = join(context, launch.target)
            file = beside if beside is not None and tree.has(beside) else None
    else:
        file = discovered(tree, launch.launcher, local_cwd if local_cwd is not None else context)
    seen = Seen(launch=launch, cwd=local_cwd or ".", place="service", source="")
    return seen, file


def _module_below(tree: Tree, module: str, base: str) -> str | None:
    file = module_file(tree, module, base, package=True)
    return file if file is not None and (base == "." or file.startswith(f"{base}/")) else None


def _programs(tree: Tree, argv: tuple[str, ...], inside: Inside) -> list[tuple[Launch, str]]:
    """Return the programs that an argv starts, in order, each with its working directory in the container."""
    if not argv:
        return []
    words = list(argv)
    text = Bash.lines_of(words[1:]) if BASH.starts(words[0]) else None
    if text is not None:
        launches = _of_lines(logical_lines(text), inside)
    else:
        launch = parse_words(words, inside.scripts)
        launches = [(launch, inside.workdir)] if launch else []
    found: list[tuple[Launch, str]] = []
    for launch, workdir in launches:
        if launch.shell_script:
            found.extend(_of_script(tree, launch.shell_script, replace(inside, workdir=workdir)))
        else:
            found.append((launch, workdir))
    if not found and len(words) > 1:
        # ENTRYPOINT ["/entry.sh"], which ends in `exec "$@"`: the other words are the program.
        found.extend(_programs(tree, tuple(words[1:]), inside))
    elif launches and launches[-1][0].shell_script and len(words) > 1:
        after = parse_words(words[1:], inside.scripts)
        if after is not None and not after.shell_script:
            found.append((after, inside.workdir))
    return found


def _of_script(tree: Tree, script: str, inside: Inside) -> list[tuple[Launch, str]]:
    context = inside.context
    local = to_local(absolute(inside.workdir, script), inside.mappings)
    if local is None or not tree.has(local):
        name = script.rsplit("/", 1)[-1]
        beside = [path for path in tree.named(name) if context == "." or path.startswith(f"{context}/")]
        local = beside[0] if beside else None
    if local is None:
        return []
    lines = [line for line in logical_lines(tree.text(local)) if not line.strip().startswith("#")]
    return [(launch, workdir) for launch, workdir in _of_lines(lines, inside) if not launch.shell_script]


def _of_lines(lines: list[str], inside: Inside) -> list[tuple[Launch, str]]:
    """Return the programs that shell lines start, each with the working directory after the `cd` commands before it.

    Background commands come first, whatever their line, so that the foreground command is the last one.
    """
    workdir = inside.workdir
    found: list[tuple[Launch, str]] = []
    behind: list[tuple[Launch, str]] = []
    for line in lines:
        for command in re.split(r"&&|\|\||;", line):
            if moved := re.match(
                r"\s*(?:(?:until|if|while|then|do)\s+)?cd\s+([\"']?)([^\s\"'$`]+)\1\s*$", command
            ):
                workdir = absolute(workdir, moved[2])
        launches = behind if re.search(r"(?<!&)&\s*$", line) else found
        launches.extend((launch, workdir) for launch in parse_line(line, inside.scripts))
    return [*behind, *found]


def to_local(remote: str, mappings: Mappings) -> str | None:
    """Return the local path of a path in the container by the longest remote root that contains it; else None."""
    for local, root in sorted(mappings, key=lambda pair: -len(pair[1])):
        if remote == root:
            return local
        if remote.startswith(root.rstrip("/") + "/"):
            return join(local, remote[len(root.rstrip("/")) + 1 :])
    for local, root in mappings:
        # With `backend/app` at `/app/backend/app`, `backend` is at `/app/backend`.
        below = root[len(remote.rstrip("/")) + 1 :] if root.startswith(remote.rstrip("/") + "/") else ""
        if below and local.endswith(f"/{below}"):
            return local.removesuffix(f"/{below}")
        if below and local == below:
            return "."
    return None
