"""What a kustomization.yaml refers to. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What kustomize reads of a folder.
NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: What gives objects other names than their manifests, and so those that refer to them.
_RENAMES = ("namePrefix", "nameSuffix", "configMapGenerator", "secretGenerator")
#: What runs a program or fetches a chart.
_RUNS = ("helmCharts", "helmChartInflationGenerator", "generators", "transformers", "validators")
_REMOTE = re.compile(r"^\w[\w+.-]*://|^git@|^github\.com[/:]|\?(?:ref|version|timeout)=|//")


@dataclass(frozen=True, kw_only=True)
class Kustomization:
    """One of them.

    Attributes:
        refers_to: files and folders, as it has them, relative to its own.
        remote: those that are fetched from elsewhere.
        renames: whether names differ from those of the manifests.
        runs: what of it runs something that is not kustomize's own; empty for nothing.
    """

    refers_to: tuple[str, ...]
    remote: tuple[str, ...]
    renames: bool
    runs: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Kustomization:
        """What a document says; what makes no sense is skipped, kustomize will complain of it."""
        entries = []
        for key in ("resources", "bases", "components"):
            found = document.get(key)
            entries += [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
        # A plugin is configured inline, or in a file that nobody here reads.
        runs = next((key for key in _RUNS if document.get(key)), "")
        return cls(
            refers_to=tuple(each for each in entries if not _REMOTE.search(each)),
            remote=tuple(each for each in entries if _REMOTE.search(each)),
            renames=any(document.get(key) for key in _RENAMES), runs=runs,
        )  # fmt: skip
