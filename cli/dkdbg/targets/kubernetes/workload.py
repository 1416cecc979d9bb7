"""Read objects that own pods, as the API shows them: their pod templates, and the number of their pods. No I/O.

Our own label finds a debug copy (`targets/kubernetes/pod_copy.py`); the object's selector finds its own pods.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from dkdbg.targets.kubernetes.pod import BadPod, object_of, objects_of
from dkdbg.targets.kubernetes.pod_address import CRONJOB, DEPLOYMENT, JOB, PYTORCHJOB, STATEFULSET, is_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Labels of a copy and its pods: the original, and dkdbg as the maker (the usual key for that).
COPY_OF, MADE_BY, DKDBG = "dev.dkdbg/copy-of", "app.kubernetes.io/managed-by", "dkdbg"
#: Each kind's name in kubectl, and its usual spelling.
RESOURCE = {
    DEPLOYMENT: "deployment.apps",
    STATEFULSET: "statefulset.apps",
    JOB: "job.batch",
    CRONJOB: "cronjob.batch",
    PYTORCHJOB: "pytorchjob.kubeflow.org",
}
TITLE = {
    DEPLOYMENT: "Deployment",
    STATEFULSET: "StatefulSet",
    JOB: "Job",
    CRONJOB: "CronJob",
    PYTORCHJOB: "PyTorchJob",
}
#: Maximum characters of a copy's name: a Job's name is a label of its pods, and begins their names.
_MAX_NAME_CHARS = 52


def kind_of_copy(kind: str) -> str:
    """Return the kind of an object's copy: the same, but Job for a CronJob."""
    return JOB if kind == CRONJOB else kind


def copy_name(name: str) -> str:
    """Return the name of the copy of an object."""
    ending = "-dkdbg"
    if len(name) + len(ending) <= _MAX_NAME_CHARS:
        return name + ending
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return name[: _MAX_NAME_CHARS - len(ending) - 7].rstrip("-.") + f"-{digest}{ending}"


def copy_label(kind: str, name: str) -> str:
    """Return the value of COPY_OF, unique even for long names with the same beginning."""
    value = f"{kind}.{name}"
    return value if len(value) <= 63 else f"{value[:56]}{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def selector_of(document: object) -> str:
    """Return the labels by which a Deployment or a StatefulSet selects its pods, as for `kubectl --selector`.

    Raises:
        BadPod: it has no valid labels.
    """
    selector = object_of(object_of(object_of(document).get("spec")).get("selector"))
    parts = [f"{key}={value}" for key, value in object_of(selector.get("matchLabels")).items()]
    if not all(map(is_labels, parts)):
        raise BadPod("an object with invalid labels")
    for each in objects_of(selector.get("matchExpressions")):
        key, operator, values = each.get("key"), each.get("operator"), each.get("values") or []
        requirement = f"{key}" + "".join(f",{value}" for value in values)
        if not re.fullmatch(r"[-A-Za-z0-9_./,]+", requirement):
            raise BadPod("an object with invalid labels")
        joined = ",".join(values)
        parts += {
            "In": [f"{key} in ({joined})"], "NotIn": [f"{key} notin ({joined})"], "Exists": [f"{key}"], "DoesNotExist": [f"!{key}"],
        }.get(str(operator), [])  # fmt: skip
    if not parts:
        raise BadPod("an object that selects no pods by labels")
    return ",".join(parts)


def templates(kind: str, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return role -> pod template; objects other than a PyTorchJob have one template, with an empty role.

    Raises:
        BadPod: it has no templates with containers.
    """
    spec = object_of(document.get("spec"))
    if kind == PYTORCHJOB:
        roles = object_of(spec.get("pytorchReplicaSpecs"))
        found = {role: object_of(object_of(each).get("template")) for role, each in roles.items()}
    else:
        if kind == CRONJOB:
            spec = object_of(object_of(spec.get("jobTemplate")).get("spec"))
        found = {"": object_of(spec.get("template"))}
    if not found or not all(
        objects_of(object_of(each.get("spec")).get("containers")) for each in found.values()
    ):
        raise BadPod(f"a {TITLE[kind]} without containers")
    return found


def pods_wanted(kind: str, document: Mapping[str, Any]) -> int:
    """Return the number of pods that an object has at a time."""
    spec = object_of(document.get("spec"))
    if kind == PYTORCHJOB:
        return sum(
            _count(object_of(each).get("replicas"))
            for each in object_of(spec.get("pytorchReplicaSpecs")).values()
        )
    if kind == JOB:
        return min(
            _count(spec.get("parallelism")),
            _count(spec.get("completions")) if spec.get("completions") else 1 << 20,
        )
    return _count(spec.get("replicas"))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 1
