"""Audit shell scripts, batch jobs, Makefiles and CI workflows by their command lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.audit import commands, ports
from dkdbg.audit.rules import OPEN_PORT, Found, is_for_debugging
from dkdbg.setup.detect.substitution import substitute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.audit.documents import Value

_NAME = re.compile(
    r".+\.(?:sh|bash|zsh|ksh|sbatch|slurm|pbs|lsf|job|mk|service|conf|cfg|ini|toml|env)|\.env(?:\.\w+)?|(?:GNU)?[Mm]akefile|[Jj]ustfile|Procfile(?:\.\w+)?|\.gitlab-ci\.yml|tasks\.json|package\.json"
)
_WORKFLOW = re.compile(r"(?:.*/)?\.github/(?:workflows|actions)/.+\.ya?ml")
_ASSIGNMENT = re.compile(
    r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w{0,99})=[\"']?([\w.:/-]{1,200})[\"']?[ \t]*$", re.MULTILINE
)
#: Files that consist of named entries. In other scripts a line such as `debug: false` is no entry.
_HAS_ENTRIES = re.compile(
    r"(?:.*/)?(?:[^/]+\.mk|(?:GNU)?[Mm]akefile|[Jj]ustfile|\.gitlab-ci\.yml|package\.json)"
)
#: Name of an entry: a script of package.json (group 1), a Makefile target or a CI job (group 2).
_ENTRY = re.compile(r"[ \t]*[\"']([^\"'\n]{1,100})[\"'][ \t]*:|([\w.-][^:=\n]{0,100}):(?!=)")
_SHELL = re.compile(r"#!\s{0,9}/(?:\S{0,200}/)?(?:env\s{1,9})?(?:\S{0,200}/)?(?:ba|da|k|z)?sh\b")


def is_script(path: str, text: str) -> bool:
    """Return whether a file consists of command lines, judging by its name or first line."""
    name = path.rsplit("/", 1)[-1]
    return bool(_NAME.fullmatch(name) or _WORKFLOW.fullmatch(path) or _SHELL.match(text))


def debug_ports(text: str) -> Iterator[int]:
    """Return the ports on which debuggers in a script listen."""
    for _, line in _lines(text):
        yield from commands.debug_ports(line)


def audit(path: str, text: str, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings of a script; `debug` are the ports of debuggers."""
    lines, entry, has_entries = text.split("\n"), "", _HAS_ENTRIES.fullmatch(path)
    for number, line in _lines(text):
        if has_entries and (name := _ENTRY.match(lines[number - 1])):
            entry = name[1] or name[2]
        found = [*commands.forwards(line, debug), *commands.containers(line, debug)]
        if is_for_debugging(path) or is_for_debugging(entry):
            found += commands.listens(commands.outside_containers(line))
        else:
            found += (*commands.listens(line), *commands.waits(line))
        yield from ((number, rule, message) for rule, message in found)


def audit_document(path: str, document: Value, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings in a YAML document's command lines and CI containers; `debug` are the ports of debuggers."""
    for value in document.commands():
        for number, rule, message in audit(path, value.command(), debug):
            yield value.line + number - (not value.block), rule, message
    for _, job in document.get("jobs").pairs():  # of a GitHub workflow
        for container in (job.get("container"), *(job.get("services").members or {}).values()):
            opens = ports.of_program(container.get("image").text, debug)
            for rule, message in commands.options(container.get("options").text, opens):
                yield container.get("options").line, rule, message
            for port in container.get("ports").items:
                if (opened := ports.published(port.text, opens)) is not None:
                    yield port.line, OPEN_PORT, f"debug port {opened[0]} is published on {opened[1]}"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of its first line and the text of each command, without comments, continued lines joined.

    Replace variables to which the text assigns a plain value. To bound the output, stop replacing once it is twice as
    long as the text.
    """
    start = 0
    parts: list[str] = []
    values, left = dict(_ASSIGNMENT.findall(text)), 2 * len(text)
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not parts:
            start = number
            if stripped.startswith("#"):
                continue
        if stripped.endswith("\\"):
            parts.append(stripped[:-1])
            continue
        whole = " ".join((*parts, stripped))
        parts = []
        if whole:
            replaced = substitute(whole, values, keep_unknown=True) if values and left > 0 else whole
            left -= len(replaced)
            yield start, replaced if left > 0 else whole
