"""Find debuggers among the packages that a production image installs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tomlkit.exceptions import TOMLKitError

from dkdbg.audit import dockerfiles
from dkdbg.audit.rules import SHIPS, Found, is_for_debugging
from dkdbg.setup.detect.values import elements, load_toml, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE = re.compile(
    r"[\w.-]*requirements[\w.-]*\.(?:txt|in)|environment[\w.-]*\.ya?ml|Pipfile|pyproject\.toml"
)
_PACKAGES = ("debugpy", "ptvsd", "pydevd", "pydevd-pycharm")
_PACKAGE = re.compile(r"^[ \t]*(?:-[ \t]+)?[\"']?(debugpy|ptvsd|pydevd(?:-pycharm)?)(?![\w-])", re.MULTILINE)


def is_requirements(path: str) -> bool:
    """Return whether a file lists packages to install, by its name."""
    return _FILE.fullmatch(path.rsplit("/", 1)[-1]) is not None


def audit(path: str, text: str, images: Mapping[str, str]) -> Iterator[Found]:
    """Return the debuggers of a list that a production image installs.

    Args:
        images: RUN lines of the production image by Dockerfile, as `dockerfiles.installed` returns them.
    """
    name = path.rsplit("/", 1)[-1]
    by = next((each for each, lines in images.items() if _installs(lines, name)), None)
    if by is None or is_for_debugging(path):
        return
    found = (
        _required(text)
        if name == "pyproject.toml"
        else [(each.start(1), each[1]) for each in _PACKAGE.finditer(text)]
    )
    for at, package in found:
        yield text.count("\n", 0, at) + 1, SHIPS, f"{package} is installed in the image of {by}"


def _installs(lines: str, name: str) -> bool:
    if name == "pyproject.toml":
        return dockerfiles.installs_project(lines)
    return re.search(rf"(?<![\w-]){re.escape(name)}", lines) is not None


def _required(text: str) -> list[tuple[int, str]]:
    """Return the offset and name of each debugger that a pyproject.toml requires for all uses."""
    try:
        document = table(load_toml(text))
    except (TOMLKitError, ValueError, RecursionError):
        return []
    poetry = table(table(table(document.get("tool")).get("poetry")).get("dependencies"))
    listed = elements(table(document.get("project")).get("dependencies"))
    names = {*poetry, *(re.split(r"[^\w-]", str(each), maxsplit=1)[0] for each in listed)}
    named = (
        re.search(rf"(?:^[ \t]*|[\"'])({each})(?![\w-])", text, re.MULTILINE)
        for each in _PACKAGES
        if each in names
    )
    return [(each.start(1), each[1]) for each in named if each is not None]
