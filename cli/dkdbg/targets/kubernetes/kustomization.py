"""Read the references of a kustomization.yaml. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names of the file that kustomize reads in a folder.
NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: Keys that rename objects, and the references to them.
_RENAMES = ("namePrefix", "nameSuffix", "configMapGenerator", "secretGenerator")
#: Keys that run a program or fetch a chart.
_RUNS = ("helmCharts", "helmChartInflationGenerator", "generators", "transformers", "validators")
_REMOTE = re.compile(r"^\w[\w+.-]*://|^git@|^github\.com[/:]|\?(?:ref|version|timeout)=|//")


@dataclass(frozen=True, kw_only=True)
class Kustomization:
    """Contents of a kustomization.yaml.

    Attributes:
        refers_to: files and folders, as written, relative to its own folder.
        remote: references that are fetched from elsewhere.
        renames: whether names differ from those in the manifests.
        runs: key that runs a program other than kustomize; empty if there is no such key.
    """

    refers_to: tuple[str, ...]
    remote: tuple[str, ...]
    renames: bool
    runs: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Kustomization:
        """Parse a document; skip invalid parts, which kustomize reports."""
        entries = []
        for key in ("resources", "bases", "components"):
            found = document.get(key)
            entries += [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
        # A plugin is configured inline, or in a file that dkdbg does not read.
        runs = next((key for key in _RUNS if document.get(key)), "")
        return cls(
            refers_to=tuple(each for each in entries if not _REMOTE.search(each)),
            remote=tuple(each for each in entries if _REMOTE.search(each)),
            renames=any(document.get(key) for key in _RENAMES), runs=runs,
        )  # fmt: skip
