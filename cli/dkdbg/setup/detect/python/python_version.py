"""Choose the Python minor version of a repository by the strongest statement about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from dkdbg.core.facts import BY_WHEELS, PythonFact, Rival
from dkdbg.setup.detect import torch_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.setup.detect.python.requirements import DependencyFile

#: Python 3.N without evidence: most current and many old packages have wheels for it.
DEFAULT = 11
#: Minor versions to try, in this order, if the default does not fit.
_ORDER = (11, 10, 12, 9, 8, 13, 7, 6, 14, 5)
#: Oldest minor version for which there are images and wheels of frameworks.
_OLDEST = 5
#: Oldest minor version that debugpy and the agent support.
_OLDEST_DEBUGGED = 8
_MINOR = re.compile(r"\b3\.(\d{1,2})(?!\d)")
_PROSE = re.compile(
    r"(?:python|py)(?:\s+version)?[\s*_`:=(]{0,4}(?:==?|~=)?\s*v?3\.(\d{1,2})(?!\d)(?:\.[\dx]+)?(\s*(?:\+|or (?:later|higher|above|newer)|and (?:above|later)))?",
    re.IGNORECASE,
)
_CI = re.compile(r"python[-_]version[\"']?\s*:\s*(\[[^\]]*\]|[^\n#]*)", re.IGNORECASE)

#: Maximum constraints of a file to read.
_MAX_SPECS = 100
#: Higher than any released patch version.
_MAX_PATCH = 40


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A Python minor version, and the source that states it; documents may state several."""

    minor: int
    source: str
    in_prose: bool = False


def read_python(
    *,
    images: Iterable[tuple[str, str | None]],
    pins: Iterable[tuple[str, str]],
    files: tuple[DependencyFile, ...],
    workflows: Iterable[tuple[str, str]],
    documents: Iterable[tuple[str, str]],
    torch: str | None = None,
) -> tuple[PythonFact, tuple[Rival, ...]]:
    """Return the Python version with its source, and other stated versions as rivals.

    Args:
        images: (path, version such as `3.11`) of the relevant Dockerfiles, the best first.
        pins: (path, text) of `.python-version` and `.tool-versions`.
        files: the dependency files that are installed, and those of the root.
        workflows: (path, text) of CI definitions.
        documents: (path, text) of the README and similar.
        torch: version of torch to install; it decides if nothing else does.
    """
    allowed = _allowed(files)
    every = (
        *_named((*((path, version or "") for path, version in images), *pins)),
        *_pinned(files),
        *_in_prose(documents),
        *_in_workflows(workflows),
    )
    stated = [each for each in every if each.minor in allowed]
    fitting = _narrow(set(allowed), _of_torch(torch))
    requires = next((f"{file.path}: {key} {spec}" for file in files for spec, key in file.python if spec), "")
    free = [number for number in _ORDER if number in fitting] or [DEFAULT]
    found: dict[int, Statement] = {}
    for each in (*stated, *(Statement(minor=number, source=requires or BY_WHEELS) for number in free)):
        if not found or each in stated or each.minor >= _OLDEST_DEBUGGED:
            found.setdefault(each.minor, each)
    best, *others = found.values()
    # The repository works with all versions of a CI matrix, but not with all that its documents mention.
    in_doubt = best.in_prose
    return PythonFact(version=f"3.{best.minor}", source=best.source), tuple(
        Rival(
            topic="python", value=f"3.{each.minor}", source=each.source, is_close=in_doubt and each.in_prose
        )
        for each in others
    )


def _named(texts: Iterable[tuple[str, str]]) -> Iterable[Statement]:
    for path, text in texts:
        if match := _MINOR.search(text):
            yield Statement(minor=int(match[1]), source=path)


def _pinned(files: tuple[DependencyFile, ...]) -> Iterable[Statement]:
    for file in files:
        for spec, key in file.python:
            if match := re.fullmatch(
                r"={1,3}\s*3\.(\d{1,2})(?:\.\d+)?(?:\.\*)?|~=\s*3\.(\d{1,2})\.\d+", spec
            ):
                yield Statement(minor=int(match[1] or match[2]), source=f"{file.path}: {key}")


def _in_prose(documents: Iterable[tuple[str, str]]) -> Iterable[Statement]:
    for path, text in documents:
        # "Python 3.8+" is a lower bound, not the version to use.
        for match in _PROSE.finditer(text):
            before = text[max(0, match.start() - 4) : match.end()]
            if not match[2] and not re.search(r">=|≥|>", before):
                yield Statement(minor=int(match[1]), source=path, in_prose=True)


def _in_workflows(workflows: Iterable[tuple[str, str]]) -> Iterable[Statement]:
    """Yield the versions in CI: first those of a matrix, the nearest to the default first; then others by frequency."""
    single: list[Statement] = []
    matrix: list[Statement] = []
    for path, text in workflows:
        for match in _CI.finditer(text):
            minors = [int(number) for number in _MINOR.findall(match[1])]
            if match[1].strip().startswith("[") and len(minors) > 1:
                matrix.extend(Statement(minor=minor, source=path) for minor in minors)
            else:
                single.extend(Statement(minor=minor, source=path) for minor in minors[:1])
    yield from sorted(matrix, key=lambda item: abs(item.minor - DEFAULT) + (item.minor > DEFAULT) * 0.5)
    counts = {item.minor: sum(other.minor == item.minor for other in single) for item in single}
    yield from sorted(single, key=lambda item: (-counts[item.minor], -item.minor))


def _allowed(files: tuple[DependencyFile, ...]) -> tuple[int, ...]:
    """Return the minor versions that all constraints allow; ignore a constraint that would leave none."""
    allowed = set(range(_OLDEST, 16))
    for file in files:
        for spec, _ in file.python[:_MAX_SPECS]:
            allowed = _narrow(allowed, _minors_of(spec))
    return tuple(sorted(allowed))


def _narrow(allowed: set[int], by: set[int] | None) -> set[int]:
    return allowed & by if by is not None and allowed & by else allowed


def _minors_of(spec: str) -> set[int] | None:
    try:
        parsed = SpecifierSet(spec.replace("||", "|").split("|")[0])
    except InvalidSpecifier:
        return None
    # `>=3.10.4` allows a later 3.10, and `<3.11.2` an earlier 3.11.
    return {
        minor
        for minor in range(_OLDEST, 16)
        if any(parsed.contains(f"3.{minor}.{patch}") for patch in range(_MAX_PATCH))
    }


def _of_torch(version: str | None) -> set[int] | None:
    release = torch_matrix.release_of(version) if version and "." in version else None
    return set(range(release.python[0], release.python[1] + 1)) if release else None
