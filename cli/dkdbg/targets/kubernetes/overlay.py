"""Render a kustomize overlay that contains only the debug copy of an object from its manifest. No I/O.

The overlay builds on the manifest's kustomize folder, so that it follows changes in that folder. If kustomize has to
rename what the object refers to (`namePrefix`, generators), or if there is no such folder, the overlay contains the
rendered object: once an overlay deletes an object, kustomize no longer renames the references to it.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.targets.kubernetes.pod import objects_of
from dkdbg.targets.kubernetes.pod_copy import AGENT_FILE
from dkdbg.targets.kubernetes.workload import COPY_OF, DKDBG, MADE_BY, copy_label, kind_of_copy, templates

if TYPE_CHECKING:
    from dkdbg.targets.kubernetes.pod_copy import PodCopy

#: Folder of overlays in a repository, the folder with the agent that they share, and the files of an overlay.
FOLDER = ".dkdbg/k8s"
AGENT_FOLDER = f"{FOLDER}/agent"
KUSTOMIZATION, OBJECT, PATCH = "kustomization.yaml", "workload.json", "patch.json"
_KUSTOMIZE = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
#: Name of the ConfigMap of AGENT_FOLDER, which each overlay renames.
_AGENT = "dkdbg-agent"
#: First line of a patch, so that it does not begin with `[`, and kustomize reads it as YAML, not as JSON. Only in YAML
#: kustomize escapes strings as Go does (`<` as \\u003c), and the operation `test` compares escaped strings.
_AS_YAML = "# RFC 6902\n"
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029", 0xFEFF: "\\ufeff"}
#: Keys to compare in the manifest before changing it: another program needs another overlay.
_GUARDED = ("command", "args")


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """The overlay of one object.

    Attributes:
        kind, name: kind and name of the object, as in an address.
        base: the folder that the overlay builds on, relative to the repository's root; empty to contain the object
            itself.
        source: where the object was found, for messages.
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
        """Return the overlay's folder in the repository."""
        return f"{FOLDER}/{self.kind}-{self.name}"

    def files(self) -> dict[str, str]:
        """Return the overlay's and AGENT_FOLDER's files by their paths in the repository, without the agent."""
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

    def operations(self) -> list[Operation]:
        """Return the operations that turn the object into its copy; they fail if the object's program has changed."""
        found = []
        for role, template in templates(self.kind, self.rendered).items():
            found += self._guards(role, template)
        return found + between(self.rendered, self.copy.document)

    def _guards(self, role: str, template: dict[str, Any]) -> list[Operation]:
        path: tuple[str, ...] = ("spec", "template")
        if role:
            path = ("spec", "pytorchReplicaSpecs", role, "template")
        elif kind_of_copy(self.kind) != self.kind:
            path = ("spec", "jobTemplate", "spec", "template")
        found = []
        for index, each in enumerate(objects_of(template["spec"]["containers"])):
            for key in ("name", *_GUARDED):
                if key in each:
                    pointer = at(*path, "spec", "containers", index, key)
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
        agent: list[Operation] = [
            {"op": "replace", "path": "/metadata/name", "value": self.copy.agent_map},
            {"op": "add", "path": "/metadata/labels", "value": labels},
            *([{"op": "add", "path": "/metadata/namespace", "value": namespace}] if namespace else []),
        ]
        return [
            {"target": {"version": "v1", "kind": "ConfigMap", "name": _AGENT}, "patch": json.dumps(agent)},
            {"target": target, "path": PATCH},
            # Leave out other objects of the folder: they are the user's, and are neither applied nor deleted with the
            # copy.
            {
                "target": {"labelSelector": f"{COPY_OF}!={labels[COPY_OF]}"},
                "patch": json.dumps({"$patch": "delete", "kind": "any", "metadata": {"name": "any"}}),
            },
        ]  # fmt: skip

    def _heading(self) -> str:
        return (
            f"# {self.kind}/{self.name} of {self.source} under the dkdbg agent. Made by: dkdbg init --k8s\n"
            f"#   kubectl apply --server-side -k {self.folder}   (a plain apply adds an annotation too large for a ConfigMap of 1 MB)\n"
            f"#   kubectl delete -k {self.folder}\n"
        )


def _yaml(value: dict[str, Any]) -> str:
    """Return YAML with each key on its own line and its value as JSON, which all YAML parsers read alike."""
    return "".join(_key(key, each) for key, each in value.items())


def _key(key: str, value: Value) -> str:
    if isinstance(value, list):
        return f"{key}:\n" + "".join(f"- {_json(each)}\n" for each in value)
    return f"{key}: {_json(value)}\n"


def _pretty(value: Value) -> str:
    return _json(value, indent=2) + "\n"


def _json(value: Value, indent: int | None = None) -> str:
    """Return JSON that is also YAML: without surrogate pairs and without line breaks that only YAML knows."""
    return json.dumps(value, indent=indent, ensure_ascii=False).translate(_BREAKS)


#: One operation of a patch.
Operation = dict[str, Any]
#: A JSON value.
Value = Any
#: Objects to replace as a whole, so that keys added to the original later do not reach the result.
_WHOLE = ("labels", "matchLabels")


def between(before: Value, after: Value) -> list[Operation]:
    """Return the operations that turn `before` into `after`, in order."""
    return _value("", before, after)


def at(*segments: str | int) -> str:
    """Return the JSON pointer (RFC 6901) to a value."""
    return "".join(_step(each) for each in segments)


def _value(path: str, before: Value, after: Value) -> list[Operation]:
    if _same(before, after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        found = [_operation("remove", path + _step(key)) for key in before if key not in after]
        for key, value in after.items():
            if key in before and key not in _WHOLE:
                found += _value(path + _step(key), before[key], value)
            elif key not in before or not _same(before[key], value):
                found.append(_operation("add", path + _step(key), value))
        return found
    # Compare item by item only while the names are equal: an item with another name is another item.
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and _names(before) == _names(after)[: len(before)]
    ):
        pairs = enumerate(zip(before, after, strict=False))
        found = [each for index, (old, new) in pairs for each in _value(path + _step(index), old, new)]
        return found + [_operation("add", path + "/-", each) for each in after[len(before) :]]
    return [_operation("replace", path, after)]


def _same(before: Value, after: Value) -> bool:
    """Return whether two values are the same in JSON, where True is not 1."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_same, before, after))
    return isinstance(before, bool) is isinstance(after, bool) and bool(before == after)


def _names(items: list[Any]) -> list[Any]:
    return [
        each.get("name") if isinstance(each, dict) else None if isinstance(each, list) else each
        for each in items
    ]


def _step(word: str | int) -> str:
    return "/" + str(word).replace("~", "~0").replace("/", "~1")


def _operation(op: str, path: str, *value: Value) -> Operation:
    return {"op": op, "path": path, **({"value": value[0]} if value else {})}
