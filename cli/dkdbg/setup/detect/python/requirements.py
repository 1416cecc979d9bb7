"""Read requirements as pip does: single lines, files, and the files that these include."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dkdbg.core.facts import PROJECT_FILES
from dkdbg.setup.detect.files import join, parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.values import Value

INDEX_OPTION = re.compile(r"(-i|--index-url|--extra-index-url|-f|--find-links)[\s=]+(\S+)")
INCLUDE_OPTION = re.compile(r"(?:-r|--requirement)[\s=]*(\S+)")
#: Beginning `- ` of a pip line in a conda environment file.
_ITEM = r"^(?:[ \t]*-[ \t]+[\x22\x27]?)?"
_REFERENCE = re.compile(_ITEM + r"(?:-r|--requirement|-c|--constraint)[ \t=]*([^\s\x22\x27]+)", re.MULTILINE)
_INSTALLS_ITSELF = re.compile(
    _ITEM + r"(?:-e|--editable)?[ \t=]*\.{1,2}(?:/[\w./-]*)?(?:\[[\w,-]+\])?[\x22\x27]?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_KINDS = (".txt", ".in", ".yml", ".yaml")
#: A folder in a requirements file: the word after -e, or a word with a slash.
_FOLDER = re.compile(r"(?:(-e|--editable)[ \t=]*)?([\w./-]+)(?:\[[\w,-]+\])?")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A requirement, as a file states it.

    Attributes:
        name: canonical name of the distribution.
        spec: version specifiers, such as `>=2.0,<3`; empty if any version will do.
        url: the text after `@`, or a whole VCS line; None without either.
        index: URL of the only index to install it from; None for the indexes that pip uses.
        extras: extras of the distribution, as in `ray[default]`.
        marker: environment marker; empty without one.
        source: file, perhaps with the line.
        extra: the project's extra or group with this requirement; None if it is always installed.
        is_named: whether the file states the name; a VCS line without `#egg=` gets its repository's name.
    """

    name: str
    spec: str
    source: str
    url: str | None = None
    index: str | None = None
    extras: tuple[str, ...] = ()
    marker: str = ""
    extra: str | None = None
    is_named: bool = True

    @property
    def requirement(self) -> str:
        """Return the requirement as an argument for pip; only the URL if the name is a guess, which pip may reject."""
        if self.url and not self.is_named:
            return without_login(self.url)
        name = f"{self.name}[{','.join(self.extras)}]" if self.extras else self.name
        whole = f"{name} @ {without_login(self.url)}" if self.url else f"{name}{self.spec}"
        return f"{whole} ; {self.marker}" if self.marker else whole


@dataclass(frozen=True, kw_only=True)
class DependencyFile:
    """The content of a dependency file.

    Attributes:
        path: relative to the root.
        kind: `requirements`, `pyproject`, `setup.py`, `setup.cfg`, `conda`, `python_env`, `pixi`, `Pipfile`, `lock`.
        wanted: its requirements, and those of files that it includes.
        python: (specifier, key) of each constraint on Python.
        indexes: URLs of package indexes.
        index_options: pip's options for the indexes that serve all requirements.
        scripts: (name, `module:function`) of each console script.
        extras: names of optional groups.
        name: name of the project or environment; None if missing.
        tables: tables of package managers in a pyproject: `project`, `poetry`, `uv`, `pdm`, `pixi`, ...
        backend: build backend of a pyproject; None if missing.
        local: folders of the repository that it installs as packages, relative to the root; never the root itself.
        members: names of the repository's packages that it takes from the workspace.
    """

    path: str
    kind: str
    wanted: tuple[Wanted, ...] = ()
    python: tuple[tuple[str, str], ...] = ()
    indexes: tuple[str, ...] = ()
    index_options: tuple[str, ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()
    extras: tuple[str, ...] = ()
    name: str | None = None
    tables: tuple[str, ...] = ()
    backend: str | None = None
    local: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


def local_folders(tree: Tree, path: str, written: Iterable[str]) -> tuple[str, ...]:
    """Return those folders, `written` in the dependency file `path`, that are packages here; relative to the root."""
    found = (join(parent(path), each) for each in written)
    return tuple(
        dict.fromkeys(
            each
            for each in found
            if each not in {None, "", "."} and any(tree.has(f"{each}/{name}") for name in PROJECT_FILES)
        )
    )


def folder_in(line: str) -> tuple[str, ...]:
    """Return (folder,), as written, for a pip line that installs a folder; otherwise ()."""
    found = _FOLDER.fullmatch(line)
    return (found[2],) if found and (found[1] or "/" in found[2]) else ()


def read_requirements(tree: Tree, path: str, _depth: int = 0) -> DependencyFile:
    """Return the content of a pip requirements file and the files that it includes by `-r`."""
    return of_lines(tree, path, re.sub(r"\\\n", " ", tree.text(path)).split("\n"), _depth)


def of_lines(tree: Tree, path: str, lines: Iterable[str], _depth: int = 0) -> DependencyFile:
    """Return the content of a dependency file with these lines, which are in the format of requirements files."""
    wanted: list[Wanted] = []
    indexes: list[str] = []
    options: list[str] = []
    local: list[str] = []
    for number, line in enumerate(lines, 1):
        stripped = re.sub(r"(?:^|\s)#.*$", "", line).strip()
        if not stripped:
            continue
        stated = INDEX_OPTION.findall(stripped)
        indexes.extend(url for _, url in stated)
        options.extend(options_of(stated))
        if include := INCLUDE_OPTION.match(stripped):
            other = join(parent(path), include[1])
            if other and tree.has(other) and _depth < 5:
                below = read_requirements(tree, other, _depth + 1)
                wanted.extend(below.wanted)
                indexes.extend(below.indexes)
                options.extend(below.index_options)
                local.extend(below.local)
            continue
        if folders := folder_in(stripped):
            local.extend(local_folders(tree, path, folders))
            continue
        if item := parse_requirement(stripped, f"{path}:{number}"):
            wanted.append(item)
    return DependencyFile(
        path=path,
        kind="requirements",
        wanted=tuple(wanted),
        indexes=tuple(dict.fromkeys(indexes)),
        index_options=tuple(options),
        local=tuple(local),
    )


def options_of(stated: Iterable[tuple[str, Value]]) -> tuple[str, ...]:
    """Return pip's index options as words, without PyPI, local folders and PyTorch's own indexes.

    PyTorch's index is chosen by the CUDA version.
    """
    return tuple(
        word
        for option, url in stated
        if "://" in str(url) and "//pypi.org" not in str(url) and "pytorch.org" not in str(url)
        for word in (option, without_login(str(url)))
    )


def without_login(url: str) -> str:
    """Return a URL without user and password, which would otherwise stay in the Dockerfile and its image."""
    return re.sub(r"^((?:\w+\+)?https?://)[^/\s]*@", r"\1", url, flags=re.IGNORECASE)


def parse_requirement(text: str, source: str, extra: str | None = None) -> Wanted | None:
    """Parse a requirement (PEP 508 or `-e git+URL`); None for options, paths, invalid lines, and other platforms."""
    text = re.sub(r"\s+--(?:hash|config-settings|global-option)\S*.*$", "", text).strip()
    text = re.sub(r"^(?:-e|--editable)\s+", "", text)
    if match := re.match(r"(?:git|hg|svn)\+\S+", text):
        egg = re.search(r"[#&]egg=([\w.-]+)", text)
        tail = re.split(r"[@#]", match[0].split("://", 1)[-1])[0].rstrip("/").rsplit("/", 1)[-1]
        return Wanted(
            name=canonicalize_name(egg[1] if egg else tail.removesuffix(".git")),
            spec="",
            url=match[0],
            source=source,
            extra=extra,
            is_named=egg is not None,
        )
    if text.startswith(("-", ".", "/", "http", "file:", "$", "{")):
        return None
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        match = re.match(
            r"([A-Za-z][\w.-]*)(?:\[([\w., -]*)\])?\s*((?:[=<>!~]=?=?\s*[\w.*+]+\s*,?\s*)*)", text
        )
        if not match:
            return None
        return Wanted(
            name=canonicalize_name(match[1]), spec=match[3].replace(" ", ""), source=source,
            extras=tuple(re.findall(r"[\w.-]+", match[2] or "")), extra=extra,
        )  # fmt: skip
    marker = str(parsed.marker or "")
    if (
        re.search(r"(?:sys_platform|platform_system)\s*==\s*['\"](?:win32|darwin|Windows|Darwin)", marker)
        and " or " not in marker
    ):
        return None
    return Wanted(
        name=canonicalize_name(parsed.name),
        spec=str(parsed.specifier),
        url=parsed.url,
        extras=tuple(sorted(parsed.extras)),
        marker=marker,
        source=source,
        extra=extra,
    )


def items_of(values: Value, source: str, extra: str | None = None) -> Iterator[Wanted]:
    """Yield the requirements in a list of strings; ignore other items."""
    for value in values if isinstance(values, (list, tuple)) else ():
        if isinstance(value, str) and (item := parse_requirement(value, source, extra)):
            yield item


def included_files(tree: Tree, files: Iterable[str]) -> tuple[str, ...]:
    """Return the files that pip needs besides `files`, relative to the root, in the order in which pip reads them.

    Source: pip's requirements file format; a path is relative to the file that contains it.
    """
    return tuple(dict.fromkeys(_follow(tree, [name for name in files if name.endswith(_KINDS)], set())))


def _follow(tree: Tree, files: list[str], seen: set[str]) -> Iterator[str]:
    for name in files:
        if name in seen:
            continue
        seen.add(name)
        for reference in _REFERENCE.findall(tree.text(name)):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), reference))
            if tree.has(path):
                yield path
                yield from _follow(tree, [path], seen)


def installs_itself(tree: Tree, files: Iterable[str]) -> bool:
    """Return whether one of `files` installs a folder of the repository."""
    return any(_INSTALLS_ITSELF.search(tree.text(name)) for name in files if name.endswith(_KINDS))
