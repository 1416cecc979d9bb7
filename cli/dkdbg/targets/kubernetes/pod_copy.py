"""Copy a Deployment, StatefulSet, Job, CronJob or PyTorchJob for debugging: the same pods, with the agent. No I/O.

The copy differs from the original only as debugging requires; each difference is a decision with its reason. The
original is never changed. The copy has its own name and labels, so that Services, controllers, autoscalers and budgets
of the original do not select the copy's pods. Image, user, capabilities, volumes, resources and replicas
stay.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import LOOPBACK
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.kubernetes.pod import object_of, objects_of
from dkdbg.targets.kubernetes.pod_address import CRONJOB, JOB, SELECTING, STATEFULSET, is_name
from dkdbg.targets.kubernetes.workload import (
    COPY_OF,
    DKDBG,
    MADE_BY,
    TITLE,
    copy_label,
    copy_name,
    kind_of_copy,
    templates,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Folder and name of the agent's file in the copy's containers.
AGENT_FOLDER, AGENT_FILE = "/opt/dkdbg", "agent.pyz"
_VOLUME = "dkdbg-agent"
#: failureThreshold of the copy's probes, never reached: a program stopped in a debugger answers no probe.
_NEVER = 1_000_000
_NO_DEADLINE = ("no activeDeadlineSeconds", "debugging takes time")
#: Maximum characters of a command line to show.
_MAX_SHOWN_CHARS = 200
#: Labels that admit a pod to a queue: without them it never starts.
_QUEUES = ("kueue.x-k8s.io/",)
#: Annotations about the original object itself.
_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/",
    "batch.kubernetes.io/",
    "meta.helm.sh/",
)
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, kw_only=True)
class PodCopy:
    """A copy that could be created.

    Attributes:
        original: kind and name, for messages.
        document: the object; it mounts the ConfigMap `agent_map`, which contains the agent (`agent.pyz`).
        before: the part of the original that is copied, for a comparison.
        decisions: pairs of a difference and its reason.
        notes: notes to show before the copy is created.
    """

    original: str
    name: str
    document: dict[str, Any]
    before: dict[str, Any]
    decisions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def agent_map(self) -> str:
        """Return the name of the ConfigMap with the agent."""
        return agent_map(self.name)


def agent_map(name: str) -> str:
    """Return the name of the ConfigMap with the agent of the copy `name`."""
    return f"{name}-agent"


def copy_of(
    kind: str,
    document: dict[str, Any],
    *,
    container: str,
    command: Sequence[str],
    command_from: str,
    wait: int,
    environment: Mapping[str, str] | None = None,
) -> PodCopy:
    """Return the debug copy of an object.

    Args:
        kind: a key of `workload.RESOURCE`.
        document: the object, from the API or a manifest.
        container: container with the program to debug; empty for the default.
        command: the program, if the object leaves it to its image or is to run another one; empty for the object's own.
        command_from: source of `command`, for messages.
        wait: seconds that the program waits for an editor.
        environment: additional variables of the program.

    Raises:
        DkdbgError: there is no such container, or its program is unknown.
        BadPod: the document is not such an object.
    """
    about, spec, owner = object_of(document.get("metadata")), _apart(object_of(document.get("spec"))), kind
    original, name = str(about.get("name", "")), copy_name(str(about.get("name", "")))
    made: dict[str, Any] = {
        "apiVersion": document.get("apiVersion"), "kind": TITLE[kind_of_copy(kind)],
        "metadata": {"name": name, **({"namespace": about["namespace"]} if about.get("namespace") else {})},
        "spec": spec,
    }  # fmt: skip
    labels = {MADE_BY: DKDBG, COPY_OF: copy_label(kind, original)}
    queues = {key: value for key, value in object_of(about.get("labels")).items() if key.startswith(_QUEUES)}
    made["metadata"]["labels"] = {**queues, **labels}
    decisions = [(f"{made['kind']} {name}", f"a copy; {original} is not touched")]
    before = {"kind": document.get("kind"), "metadata": {"name": original}, "spec": _apart(spec)}
    if kind == CRONJOB:
        spec = made["spec"] = object_of(object_of(spec.get("jobTemplate")).get("spec"))
        made["apiVersion"] = "batch/v1"
        decisions.append(("one Job, now", f"{original} starts one at each scheduled time"))
    kind = kind_of_copy(kind)
    decisions += _controller(kind, spec, labels)
    notes: list[str] = []
    if kind == STATEFULSET:
        spec["podManagementPolicy"] = "Parallel"  # a waiting pod is not ready, and would delay the next ones
        notes += _own_volumes(spec)
    for role, template in templates(kind, made).items():
        found = _Template(template, role=role, labels=labels, name=original)
        decisions += found.be_debugged(
            asked=container, command=command, command_from=command_from, wait=wait, agent=agent_map(name), environment=environment or {},
        )  # fmt: skip
        notes += found.notes()
    return PodCopy(
        original=f"{owner}/{original}", name=name, document=made, before=before,
        decisions=tuple(dict.fromkeys(decisions)), notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _apart(value: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy that shares nothing: parts of a YAML file linked by an anchor are one object."""
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found


def _controller(kind: str, spec: dict[str, Any], labels: dict[str, str]) -> list[tuple[str, str]]:
    """Make the copy's controller select only its own pods, without time limits; return the decisions."""
    decisions = []
    if kind in SELECTING:
        spec["selector"] = {"matchLabels": dict(labels)}
        spec.pop("progressDeadlineSeconds", None)
        spec.pop("paused", None)
        if spec.get("replicas") == 0:
            spec["replicas"] = 1
            decisions.append(("1 replica", "the original is scaled to 0"))
    else:
        for key in ("selector", "manualSelector", "suspend", "ttlSecondsAfterFinished"):
            spec.pop(key, None)
        policy = object_of(spec.get("runPolicy"))
        limits = [each for each in (spec, policy) if each.pop("activeDeadlineSeconds", None) is not None]
        if limits:
            decisions.append(_NO_DEADLINE)
        if kind == JOB:
            spec["backoffLimit"] = 0
            decisions.append(
                ("backoffLimit 0", "a program that has failed is not started again in another pod")
            )
    return decisions


def _own_volumes(spec: dict[str, Any]) -> list[str]:
    """Give the copy of a StatefulSet empty volumes, because claims outlive their pods; return notes about that."""
    claims = [
        str(object_of(each.get("metadata")).get("name", ""))
        for each in objects_of(spec.pop("volumeClaimTemplates", None))
    ]
    for template in templates(STATEFULSET, {"spec": spec}).values():
        pods = object_of(template.get("spec"))
        pods["volumes"] = [
            *objects_of(pods.get("volumes")),
            *({"name": each, "emptyDir": {}} for each in claims),
        ]
    service = spec.get("serviceName")
    return [
        *(
            f"its volume {each} starts empty and is deleted with its pods; the original has a claim for each pod"
            for each in claims
        ),
        *(
            [f"the Service {service} selects the pods of the original: pods of the copy have no DNS names"]
            if service
            else []
        ),
    ]


class _Template:
    """A pod template that is changed in place into the copy's."""

    def __init__(self, template: dict[str, Any], *, role: str, labels: dict[str, str], name: str) -> None:
        self._role, self._name = role, name
        about = template.setdefault("metadata", {}) or {}
        kept = {
            key: value
            for key, value in object_of(about.get("annotations")).items()
            if not key.startswith(_NOT_COPIED)
        }
        self._default = str(kept.get(_DEFAULT_CONTAINER, ""))
        queues = {
            key: value for key, value in object_of(about.get("labels")).items() if key.startswith(_QUEUES)
        }
        template["metadata"] = {"labels": {**queues, **labels}, **({"annotations": kept} if kept else {})}
        self._spec = object_of(template.get("spec"))
        self._was_limited = self._spec.pop("activeDeadlineSeconds", None) is not None
        self._containers = objects_of(self._spec.get("containers"))

    def be_debugged(
        self,
        *,
        asked: str,
        command: Sequence[str],
        command_from: str,
        wait: int,
        agent: str,
        environment: Mapping[str, str],
    ) -> list[tuple[str, str]]:
        """Start the program under the agent; return the decisions."""
        chosen = self._chosen(asked)
        argv = list(command) or [*(chosen.get("command") or []), *(chosen.get("args") or [])]
        why = command_from if command else f"command of its container {chosen['name']}"
        if not command and not chosen.get("command"):
            raise DkdbgError(
                f"{self._name} gets its command from its image, and no running pod shows it",
                hint="name it: --command 'python train.py'",
                exit_code=EXIT_USAGE,
            )
        chosen["command"] = ["sh", f"{AGENT_FOLDER}/{AGENT_FILE}", "launch"]
        flags = ["--host", LOOPBACK, "--port", "0", "--wait", str(wait), "--name", self._name]
        # Kubernetes expands $(NAME) in a command, and turns $$ into $.
        literal = [each.replace("$", "$$") for each in command]
        chosen["args"] = [*flags, "--", *(literal or argv)]
        if environment:
            kept = [each for each in objects_of(chosen.get("env")) if each.get("name") not in environment]
            chosen["env"] = [*kept, *({"name": key, "value": value} for key, value in environment.items())]
        self._spec.setdefault("volumes", [])
        self._spec["volumes"] = [
            *objects_of(self._spec["volumes"]),
            {"name": _VOLUME, "configMap": {"name": agent}},
        ]
        mounts = objects_of(chosen.get("volumeMounts"))
        chosen["volumeMounts"] = [*mounts, {"name": _VOLUME, "mountPath": AGENT_FOLDER, "readOnly": True}]
        role = f"{self._role}: " if self._role else ""
        decisions = [
            (f"{role}the agent under: {printable(shlex.join(map(str, argv)))[:_MAX_SHOWN_CHARS]}", why),
            (
                "labels of its own",
                f"no Service, controller or NetworkPolicy of {self._name} selects its pods",
            ),
            (f"it waits {wait} s for an editor", "before its first line; without one it ends"),
        ]
        widened = self._widen_probes()
        if widened:
            decisions.append((f"no limit for {' and '.join(widened)}", "a stopped program answers no probe"))
        if self._was_limited:
            decisions.append(_NO_DEADLINE)
        if self._free_host_ports():
            decisions.append(("no hostPort", "the original has it"))
        return decisions

    def notes(self) -> list[str]:
        """Return notes about resources that the copy shares with the original, or needs in addition."""
        found = []
        claims = [
            object_of(each.get("persistentVolumeClaim")).get("claimName")
            for each in objects_of(self._spec.get("volumes"))
        ]
        found += [
            f"it shares the volume {each} with the original, and may write to it" for each in claims if each
        ]
        for each in self._containers:
            limits = object_of(object_of(each.get("resources")).get("limits"))
            found += [
                f"each pod of the copy takes {amount} {key}, in addition to the original's"
                for key, amount in limits.items() if "/" in key
            ]  # fmt: skip
        if self._spec.get("hostNetwork"):
            found.append("it uses the network of its node, where the original may already use the same ports")
        return found

    def _chosen(self, asked: str) -> dict[str, Any]:
        names = [each.get("name") for each in self._containers]
        wanted = asked or (self._default if self._default in names else names[0])
        for each in self._containers:
            if each.get("name") == wanted and is_name(str(wanted)):
                return each
        raise DkdbgError(
            f"{self._name} has no container {wanted}; there are: {', '.join(map(str, names))}",
            hint="name one of them at the end of the address",
            exit_code=EXIT_USAGE,
        )

    def _widen_probes(self) -> list[str]:
        found = []
        for key in ("livenessProbe", "startupProbe"):
            for each in self._containers:
                if isinstance(each.get(key), dict):
                    each[key]["failureThreshold"] = _NEVER
                    found.append(key)
        return sorted(set(found))

    def _free_host_ports(self) -> bool:
        found = False
        for each in self._containers:
            for port in objects_of(each.get("ports")):
                found = port.pop("hostPort", None) is not None or found
        return found
