"""Read the references of a kustomization.yaml. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Names of the file that kustomize reads in a folder.
NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: Keys that rename objects and the references to them. Keys are in lower case here and below: kustomize ignores case.
_RENAMES = ("nameprefix", "namesuffix", "configmapgenerator", "secretgenerator")
#: Keys of files and folders to build, and of other files; an entry may hold its path below one of `_PATHS`.
_BUILT = ("resources", "bases", "components")
_FILES = (
    "configmapgenerator", "secretgenerator", "patches", "patchesstrategicmerge", "patchesjson6902", "replacements", "crds",
    "configurations", "openapi",
)  # fmt: skip
_PATHS = ("path", "files", "env", "envs")
#: Keys that load nothing. All others are refused: they run a program, fetch a chart, or are unknown.
_PLAIN = (
    "apiversion", "kind", "metadata", "namespace", "nameprefix", "namesuffix", "commonlabels", "labels", "commonannotations", "images",
    "imagetags", "replicas", "vars", "generatoroptions", "buildmetadata", "sortoptions", "inventory",
    "helmglobals",
)  # fmt: skip
#: Paths to build that kustomize may take for a URL or a git repository, even if a file has that name. A repository has
#: a path behind its host: `alice@host:org/repo`, but not `a@v1.yaml`.
_REMOTE = re.compile(r"[:?]|@.*/|//|_git/|^github\.com/", re.IGNORECASE | re.DOTALL)
#: Remote paths among the other files: URLs only, since kustomize clones no repository for these.
_URL = re.compile(r"\s*https?:", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Kustomization:
    """Contents of a kustomization.yaml.

    Attributes:
        refers_to: files and folders to build, as written, relative to its own folder.
        files: other files to read, such as patches.
        remote: references that are fetched from elsewhere.
        renames: whether names differ from those in the manifests.
        runs: key that runs a program other than kustomize, or that is unknown; empty if there is no such key.
    """

    refers_to: tuple[str, ...]
    files: tuple[str, ...]
    remote: tuple[str, ...]
    renames: bool
    runs: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Kustomization:
        """Parse a document; skip invalid parts, which kustomize reports."""
        keys = [(str(key).casefold(), value) for key, value in document.items() if value]
        built = [each for key, value in keys if key in _BUILT for each in _texts(value)]
        files = [
            each for key, value in keys if key in _FILES for each in _texts(value, inline="patches" in key)
        ]
        return cls(
            refers_to=tuple(each for each in built if not _REMOTE.search(each)),
            files=tuple(each for each in files if not _URL.match(each)),
            remote=(*filter(_REMOTE.search, built), *filter(_URL.match, files)),
            renames=any(key in _RENAMES for key, _ in keys),
            runs=next((str(key) for key, value in document.items() if value and str(key).casefold() not in (*_BUILT, *_FILES, *_PLAIN)), ""),
        )  # fmt: skip


def _texts(value: object, *, inline: bool = False) -> Iterator[str]:
    """Yield the paths in the value of a key.

    Args:
        inline: skip texts of several lines, and JSON objects, which are contents instead of paths.
    """
    if isinstance(value, list):
        for each in value:
            yield from _texts(each, inline=inline)
    elif isinstance(value, dict):
        for key, each in value.items():
            if (name := str(key).casefold()) in _PATHS:  # `KEY=PATH` in `files`
                yield from (text.rpartition("=")[2] if name == "files" else text for text in _texts(each))
    elif value is not None and not (inline and ("\n" in str(value) or str(value).lstrip().startswith("{"))):
        yield str(value)
