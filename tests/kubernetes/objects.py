"""What is in the stand-in's cluster besides pods: Deployments and their like, ConfigMaps, quotas, events, namespaces.

They are kept as they came; `workers.py` makes pods of some.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML

_ALL = ["get", "list", "create", "delete", "patch"]
#: By version of the API: plural, kind, verbs, short names.
KINDS = {
    "v1": [
        ("pods", "Pod", ["get", "list", "watch", "create", "delete"], ["po"]),
        ("pods/exec", "PodExecOptions", ["create", "get"], []), ("configmaps", "ConfigMap", _ALL, ["cm"]), ("events", "Event", _ALL, ["ev"]),
        ("namespaces", "Namespace", _ALL, ["ns"]), ("resourcequotas", "ResourceQuota", _ALL, ["quota"]),
    ],
    "apps/v1": [("deployments", "Deployment", _ALL, ["deploy"]), ("statefulsets", "StatefulSet", _ALL, ["sts"])],
    "batch/v1": [("jobs", "Job", _ALL, []), ("cronjobs", "CronJob", _ALL, ["cj"])],
    "authentication.k8s.io/v1": [("selfsubjectreviews", "SelfSubjectReview", ["create"], [])],
    "authorization.k8s.io/v1": [("selfsubjectaccessreviews", "SelfSubjectAccessReview", ["create"], [])],
}  # fmt: skip
_OF_ALL = ("authentication.k8s.io/v1", "authorization.k8s.io/v1")


def groups() -> dict[str, Any]:
    found = []
    for version in KINDS:
        if version != "v1":
            named = {"groupVersion": version, "version": "v1"}
            found.append({"name": version.partition("/")[0], "versions": [named], "preferredVersion": named})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resources(version: str) -> dict[str, Any]:
    return {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
        "resources": [
            {"name": name, "singularName": kind.lower(), "kind": kind, "verbs": verbs, "shortNames": short,
             "namespaced": version not in _OF_ALL and name != "namespaces"}
            for name, kind, verbs, short in KINDS[version]
        ],
    }  # fmt: skip


def full_name(plural: str) -> str:
    """The plural as the API server names it in what it says: with its group."""
    group = _kind_of(plural)[0].rpartition("/")[0]
    return f"{plural}.{group}" if group else plural


def checks(path: str) -> dict[str, Any] | None:
    """What kubectl reads to know that the server checks the fields of what it is given; None for another path."""
    if path == "/openapi/v3":
        return {"paths": {_at(each): {"serverRelativeURL": f"/openapi/v3/{_at(each)}"} for each in KINDS}}
    version = next((each for each in KINDS if path == f"/openapi/v3/{_at(each)}"), None)
    if version is None:
        return None
    group = version.rpartition("/")[0]
    parameters = [{"name": each, "in": "query"} for each in ("dryRun", "fieldValidation", "fieldManager")]
    paths = {
        f"/{_at(version)}/namespaces/{{namespace}}/{name}/{{name}}": {
            "patch": {
                "parameters": parameters, "x-kubernetes-group-version-kind": {"group": group, "version": "v1", "kind": kind}
            }
        }
        for name, kind, _, _ in KINDS[version]
    }  # fmt: skip
    return {"openapi": "3.0.0", "info": {"title": "stand-in", "version": "1"}, "paths": paths}


def _kind_of(plural: str) -> tuple[str, str]:
    """The version and the kind of objects with this plural."""
    return next(
        (version, kind) for version, kinds in KINDS.items() for name, kind, _, _ in kinds if name == plural
    )


def _at(version: str) -> str:
    return f"api/{version}" if version == "v1" else f"apis/{version}"


@dataclass
class Objects:
    """Objects by plural and name, all in the namespace that a request names.

    Attributes:
        made, gone: told of each that is made, and of each that is deleted.
    """

    kept: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    made: Callable[[str, dict[str, Any]], None] = lambda *_: None
    gone: Callable[[str, str], None] = lambda *_: None

    def put(self, plural: str, name: str, value: dict[str, Any], namespace: str = "ml") -> None:
        """Have this object."""
        version, kind = _kind_of(plural)
        about = {
            "name": name, "namespace": namespace, "uid": f"uid-{plural}-{name}", "creationTimestamp": "2026-11-22T10:00:00Z",
            "resourceVersion": "1", **value.get("metadata", {}),
        }  # fmt: skip
        self.kept[plural, name] = {**value, "apiVersion": version, "kind": kind, "metadata": about}

    def answer(
        self, method: str, namespace: str, plural: str, name: str, body: bytes
    ) -> tuple[int, dict[str, Any]] | None:
        """What is answered to a request; None where there is no such object."""
        if method in {"POST", "PATCH"}:
            value = YAML(typ="safe", pure=True).load(body.decode())
            name = value["metadata"]["name"]
            self.put(plural, name, value, namespace)
            self.made(plural, self.kept[plural, name])
            return 201, self.kept[plural, name]
        if not name:
            return 200, self._listed(plural, namespace)
        if (plural, name) not in self.kept:
            return None
        if method == "DELETE":
            del self.kept[plural, name]
            self.gone(plural, name)
            return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return 200, self.kept[plural, name]

    def _listed(self, plural: str, namespace: str) -> dict[str, Any]:
        version, kind = _kind_of(plural)
        items = [
            each for (found, _), each in self.kept.items()
            if found == plural and namespace in {"", each["metadata"]["namespace"]}
        ]  # fmt: skip
        return {
            "apiVersion": version,
            "kind": f"{kind}List",
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }


def review(user: str) -> dict[str, Any]:
    """The answer to `kubectl auth whoami`."""
    return {
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "status": {"userInfo": {"username": user}},
    }  # fmt: skip
