"""Find Kubernetes manifests in a repository: objects with pods, and the kustomizations that build them.

Read only objects and references; kustomize decides about the final objects (`targets/kubernetes/overlays.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml.error import YAMLError

from dkdbg.setup.detect.files import Tree, is_vendored, join, parent
from dkdbg.setup.detect.values import load_yaml_documents
from dkdbg.targets.kubernetes.kustomization import NAMES, Kustomization
from dkdbg.targets.kubernetes.pod_address import is_pod_name
from dkdbg.targets.kubernetes.workload import TITLE

if TYPE_CHECKING:
    from pathlib import Path

_YAML = re.compile(r".+\.(?:ya?ml|json)")
_KIND = re.compile(rf"\bkind[\"']?\s*:\s*[\"']?(?:{'|'.join(TITLE.values())})\b")
#: Kind -> its API group. Another group may have a kind with the same name.
_GROUPS = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
    "PyTorchJob": "kubeflow.org",
}
_KINDS = {title: kind for kind, title in TITLE.items()}


@dataclass(frozen=True, kw_only=True)
class ManifestWorkload:
    """An object with pods; `kind` as in an address, `file` relative to the repository's root."""

    kind: str
    name: str
    file: str


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """The manifests of a repository.

    Attributes:
        kustomizations: by their folder, relative to the repository's root.
        charts: folders of Helm charts.
        problems: texts about files that could not be read.
    """

    workloads: tuple[ManifestWorkload, ...]
    kustomizations: dict[str, Kustomization] = field(default_factory=dict)
    charts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def built_in(self, folder: str) -> set[str]:
        """Return the files and folders that building `folder` reads, including `folder` itself."""
        found: set[str] = set()
        waiting = [folder]
        while waiting:
            each = waiting.pop()
            if each in found:
                continue
            found.add(each)
            kustomization = self.kustomizations.get(each)
            if kustomization is not None:
                paths = (join(each, path) for path in kustomization.refers_to)
                waiting += [path for path in paths if path is not None]
        return found

    def builders(self, file: str) -> list[str]:
        """Return the folders whose build includes a file, those near the root first.

        Leave out a folder that another folder's build includes.
        """
        building = {each: self.built_in(each) for each in self.kustomizations}
        found = [each for each, paths in building.items() if file in paths]
        return [
            each for each in found if not any(each in building[other] for other in found if other != each)
        ]


def find(root: Path) -> Manifests:
    """Find the manifests below the root.

    Raises:
        DkdbgError: the root cannot be listed.
    """
    tree = Tree(root)
    charts = tuple(parent(each) for each in tree.named("Chart.yaml"))
    kustomizations: dict[str, Kustomization] = {}
    workloads: list[ManifestWorkload] = []
    problems: list[str] = []
    for name in NAMES:
        for path in tree.named(name):
            found = _documents(tree.text(path), path, problems)
            if not is_vendored(path):
                kustomizations.setdefault(parent(path), Kustomization.of(found[0] if found else {}))
    templates = tuple(f"{each}/templates/" if each != "." else "templates/" for each in charts)
    for path in tree.matching(_YAML):
        text = "" if is_vendored(path) or path.startswith(templates) else tree.text(path)
        if _KIND.search(text):
            workloads += [
                each for document in _documents(text, path, problems) for each in _workload(document, path)
            ]
    return Manifests(
        workloads=tuple(workloads),
        kustomizations=kustomizations,
        charts=charts,
        problems=(*problems, *tree.problems),
    )


def _documents(text: str, path: str, problems: list[str]) -> list[dict[str, Any]]:
    try:
        found = load_yaml_documents(text)
    except YAMLError as error:
        position = getattr(error, "problem_mark", None)
        problems.append(f"{path}{f':{position.line + 1}' if position else ''}: not valid YAML")
        return []
    except (ValueError, RecursionError) as error:
        problems.append(f"{path}: {error}")
        return []
    lists = [
        each["items"] if each.get("kind") == "List" and isinstance(each.get("items"), list) else [each]
        for each in found
        if isinstance(each, dict)
    ]
    return [each for items in lists for each in items if isinstance(each, dict)]


def _workload(document: dict[str, Any], path: str) -> list[ManifestWorkload]:
    title, about = document.get("kind"), document.get("metadata")
    name = about.get("name") if isinstance(about, dict) else None
    group = str(document.get("apiVersion", "")).partition("/")[0]
    if (
        not isinstance(title, str)
        or _GROUPS.get(title) != group
        or not isinstance(name, str)
        or not is_pod_name(name)
    ):
        return []
    return [ManifestWorkload(kind=_KINDS[title], name=name, file=path)]
