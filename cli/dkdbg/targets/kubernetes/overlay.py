"""A kustomize overlay that renders the debug copy of an object from its manifest, and nothing else. No I/O.

It builds on the folder that the manifest is built from, so that it follows what changes there. Where kustomize has to
rename what the object refers to (`namePrefix`, generators), and where there is no such folder, it has the object as it was
rendered: what is deleted in an overlay is not renamed any more in those that refer to it.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.targets.kubernetes import json_patch
from dkdbg.targets.kubernetes.pod import objects_of
from dkdbg.targets.kubernetes.pod_copy import AGENT_FILE
from dkdbg.targets.kubernetes.workload import COPY_OF, DKDBG, MADE_BY, copy_label, kind_of_copy, templates

if TYPE_CHECKING:
    from dkdbg.targets.kubernetes.pod_copy import PodCopy

#: Where overlays lie in a repository, the single file that they share, and what kustomize reads of a folder.
FOLDER = ".dkdbg/k8s"
AGENT_FOLDER = f"{FOLDER}/agent"
KUSTOMIZATION, OBJECT, PATCH = "kustomization.yaml", "workload.json", "patch.json"
_KUSTOMIZE = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
#: The ConfigMap of AGENT_FOLDER, which each overlay gives a name of its own.
_AGENT = "dkdbg-agent"
#: `test` compares texts as Go escapes them, `<` as \\u003c; kustomize makes them so of YAML, but not of what begins with `[`.
_AS_YAML = "# RFC 6902\n"
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029", 0xFEFF: "\\ufeff"}
#: What is compared in the manifest before it is changed: another program is another overlay.
_GUARDED = ("command", "args")


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """One overlay.

    Attributes:
        kind, name: of the object, as an address names it.
        base: the folder that it builds on, relative to the repository's root; empty to have the object itself.
        source: where the object was found, for people.
        rendered: the object, as kustomize renders it.
    """

    kind: str
    name: str
    base: str
    source: str
    rendered: dict[str, Any]
    copy: PodCopy

    @property
    def folder(self) -> str:
        """Where it lies in the repository."""
        return f"{FOLDER}/{self.kind}-{self.name}"

    def files(self) -> dict[str, str]:
        """Its files, by their paths in the repository, and those of the agent but for the single file."""
        base = posixpath.relpath(self.base, self.folder) if self.base else OBJECT
        found = {
            f"{AGENT_FOLDER}/{KUSTOMIZATION}": _KUSTOMIZE + _yaml(
                {
                    "configMapGenerator": [{"name": _AGENT, "files": [AGENT_FILE]}],
                    "generatorOptions": {"disableNameSuffixHash": True},
                }
            ),
            f"{self.folder}/{KUSTOMIZATION}": self._heading() + _KUSTOMIZE + _yaml(
                {"resources": [base, posixpath.relpath(AGENT_FOLDER, self.folder)], "patches": self._patches()}
            ),
            f"{self.folder}/{PATCH}": _AS_YAML + _pretty(self.operations()),
        }  # fmt: skip
        if not self.base:
            found[f"{self.folder}/{OBJECT}"] = _pretty(self.rendered)
        return found

    def operations(self) -> list[json_patch.Operation]:
        """What makes the copy of the object; it fails where the object has another program now."""
        found = []
        for role, template in templates(self.kind, self.rendered).items():
            found += self._guards(role, template)
        return found + json_patch.between(self.rendered, self.copy.document)

    def _guards(self, role: str, template: dict[str, Any]) -> list[json_patch.Operation]:
        path: tuple[str, ...] = ("spec", "template")
        if role:
            path = ("spec", "pytorchReplicaSpecs", role, "template")
        elif kind_of_copy(self.kind) != self.kind:
            path = ("spec", "jobTemplate", "spec", "template")
        found = []
        for index, each in enumerate(objects_of(template["spec"]["containers"])):
            for key in ("name", *_GUARDED):
                if key in each:
                    pointer = json_patch.at(*path, "spec", "containers", index, key)
                    found.append({"op": "test", "path": pointer, "value": each[key]})
        return found

    def _patches(self) -> list[dict[str, Any]]:
        labels = {MADE_BY: DKDBG, COPY_OF: copy_label(self.kind, self.name)}
        group, _, version = str(self.rendered["apiVersion"]).rpartition("/")
        about = self.rendered["metadata"]
        target = {
            "group": group,
            "version": version,
            "kind": self.rendered["kind"],
            "name": re.escape(about["name"]).replace(r"\-", "-"),
        }
        namespace = about.get("namespace")
        agent: list[json_patch.Operation] = [
            {"op": "replace", "path": "/metadata/name", "value": self.copy.agent_map},
            {"op": "add", "path": "/metadata/labels", "value": labels},
            *([{"op": "add", "path": "/metadata/namespace", "value": namespace}] if namespace else []),
        ]
        return [
            {"target": {"version": "v1", "kind": "ConfigMap", "name": _AGENT}, "patch": json.dumps(agent)},
            {"target": target, "path": PATCH},
            # Whatever else is built there is left out: it is the user's, and neither applied nor deleted with this.
            {
                "target": {"labelSelector": f"{COPY_OF}!={labels[COPY_OF]}"},
                "patch": json.dumps({"$patch": "delete", "kind": "any", "metadata": {"name": "any"}}),
            },
        ]  # fmt: skip

    def _heading(self) -> str:
        return (
            f"# {self.kind}/{self.name} of {self.source} under the dkdbg agent. Made by: dkdbg init --k8s\n"
            f"#   kubectl apply --server-side -k {self.folder}   (a ConfigMap of 1 MB has no room for what a plain apply notes)\n"
            f"#   kubectl delete -k {self.folder}\n"
        )


def _yaml(value: dict[str, Any]) -> str:
    """Each key on a line of its own and its value as JSON, which is YAML that all parsers read alike."""
    return "".join(_key(key, each) for key, each in value.items())


def _key(key: str, value: json_patch.Value) -> str:
    if isinstance(value, list):
        return f"{key}:\n" + "".join(f"- {_json(each)}\n" for each in value)
    return f"{key}: {_json(value)}\n"


def _pretty(value: json_patch.Value) -> str:
    return _json(value, indent=2) + "\n"


def _json(value: json_patch.Value, indent: int | None = None) -> str:
    """JSON that is YAML too: no pairs of surrogates, and no line breaks that only YAML knows."""
    return json.dumps(value, indent=indent, ensure_ascii=False).translate(_BREAKS)
