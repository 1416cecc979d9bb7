"""Parse pods from `kubectl get -o json`: select the pod of a query, and explain why no command can run in one.

The values come from an API server, and partly from the author of the pod: each one is checked, and no name that
Kubernetes does not allow reaches a command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dkdbg.agent.settings import ENV_MAPPINGS
from dkdbg.core.target import Executor
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.kubernetes.kubectl_errors import explain
from dkdbg.targets.kubernetes.pod_address import JOB, PYTORCHJOB, is_name, is_pod_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.targets.kubernetes.pod_address import PodQuery

#: Annotation with the default container of a pod, which kubectl uses too.
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
#: Labels with a pod's index in a Job, and in a PyTorchJob. The first is an annotation before Kubernetes 1.28.
_INDEX = "batch.kubernetes.io/job-completion-index"
_REPLICA, _ROLE = "training.kubeflow.org/replica-index", "training.kubeflow.org/replica-type"
#: Maximum characters of a cluster's message to show; maximum number of pods to name.
_MAX_SHOWN_CHARS, _MAX_NAMED_PODS = 300, 8


class BadPod(ValueError):  # noqa: N818 - a value that is no pod
    """The value is not a pod; the message is a short phrase."""


@dataclass(frozen=True, kw_only=True)
class PodExecutor(Executor):
    """A container of a pod, reached with `kubectl exec`.

    The container's `sh` starts the command, so that kubectl passes its exit code on, including 126 and 127. If
    the container runtime itself cannot find a command, today's clusters report no exit code to kubectl. After a
    nonzero exit code kubectl adds a line to standard error.

    Attributes:
        program: `kubectl`, or `oc`.
        label: name of the container in messages.
    """

    program: str
    namespace: str
    pod: str
    container: str
    label: str

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` in the container, with our standard input and output."""
        where = (f"--namespace={self.namespace}", f"--container={self.container}", self.pod)
        return (
            self.program,
            "exec",
            "-it" if tty else "-i",
            *where,
            "--",
            "sh",
            "-c",
            'exec "$0" "$@"',
            *argv,
        )

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """Return the local command line that prints the container's output; see `Target.logs`."""
        tail = () if lines is None else (f"--tail={lines}",)
        arguments = (*(("--follow",) if follow else ()), *tail, self.pod)
        return (
            self.program,
            "logs",
            f"--namespace={self.namespace}",
            f"--container={self.container}",
            *arguments,
        )

    def explain(self, stderr: str) -> DkdbgError | None:
        """Return the error for a message of kubectl; None for other text."""
        return explain(stderr, self.namespace)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod, in its current state.

    Attributes:
        created: creation time as Kubernetes writes it, which sorts by time.
        containers: their names; the first is the default.
        default: the container that the pod's annotation names; empty if not annotated.
        rank: rank of the pod in its job; -1 if it has no rank.
        mappings: DKDBG_MAPPINGS of each container, if the pod sets it.
        workdirs: working directory of each container, if the pod sets it.
        trouble: by container, why no command can run in it now; absent if one can.
        running: containers that run now, including those of a pod that is being deleted.
        job: name of the Job that created the pod; empty if no Job did.
        ends: end of the pod's active deadline, in epoch seconds; None if it has no deadline.
        probes: by container, pairs of a probe's name and the seconds without an answer until the kubelet restarts the
            container.
    """

    name: str
    created: str
    containers: tuple[str, ...]
    default: str
    rank: int
    is_master: bool
    mappings: dict[str, str]
    workdirs: dict[str, str]
    trouble: dict[str, str]
    running: frozenset[str]
    job: str = ""
    ends: float | None = None
    probes: dict[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, value: object) -> Pod:
        """Parse a pod from a JSON object of the API. Raises BadPod: the object is not a pod."""
        pod = object_of(value)
        about, spec, status = (object_of(pod.get(key)) for key in ("metadata", "spec", "status"))
        name = _text(about.get("name"))
        if not is_pod_name(name):
            raise BadPod(f"a pod with the name {name[:60]!a}")
        containers = objects_of(spec.get("containers"))
        names = tuple(_text(each.get("name")) for each in containers)
        if not names or not all(map(is_name, names)):
            raise BadPod("a pod with invalid containers")
        labels, annotations = object_of(about.get("labels")), object_of(about.get("annotations"))
        role = _text(labels.get(_ROLE)).lower()
        rank = _text(labels.get(_REPLICA) if role else labels.get(_INDEX, annotations.get(_INDEX)))
        default = _text(annotations.get(_DEFAULT_CONTAINER))
        return cls(
            name=name, created=_text(about.get("creationTimestamp")),
            containers=names, default=default if default in names else "",
            rank=int(rank) if rank.isascii() and rank.isdigit() and len(rank) < 7 else -1,
            is_master=role in {"master", "chief", "launcher"},
            mappings={name: _mappings(each) for name, each in zip(names, containers, strict=True)},
            workdirs={
                name: _text(each.get("workingDir")) for name, each in zip(names, containers, strict=True)
            },
            trouble=_trouble(names, about, status),
            running=frozenset(
                _text(each.get("name"))
                for each in objects_of(status.get("containerStatuses"))
                if "running" in object_of(each.get("state"))
            ),
            job=next(
                (_text(each.get("name")) for each in objects_of(about.get("ownerReferences")) if each.get("kind") == "Job"), ""
            ),
            ends=active_deadline(spec, status),
            probes={name: _probes(each) for name, each in zip(names, containers, strict=True)},
        )  # fmt: skip

    def container(self, asked: str) -> str:
        """Return the container to use, chosen as kubectl would.

        Raises:
            DkdbgError: the pod has no container of this name.
        """
        if asked and asked not in self.containers:
            raise DkdbgError(
                f"the pod {self.name} has no container {asked}; there are: {', '.join(self.containers[:_MAX_NAMED_PODS])}",
                hint="name one of them at the end of the address",
                exit_code=EXIT_USAGE,
            )
        return asked or self.default or self.containers[0]


def active_deadline(spec: dict[str, Any], status: dict[str, Any]) -> float | None:
    """Return the end of activeDeadlineSeconds of a pod or Job, in epoch seconds; None if unset, or before the start."""
    limit = spec.get("activeDeadlineSeconds")
    try:
        start = datetime.fromisoformat(_text(status.get("startTime")).replace("Z", "+00:00"))
    except ValueError:
        return None
    return start.timestamp() + limit if isinstance(limit, int) and start.tzinfo else None


def _probes(container: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return the probes, with their seconds, that a paused program fails: not tcpSocket (the kernel answers)."""
    found = []
    for name in ("livenessProbe", "startupProbe"):
        probe = object_of(container.get(name))
        if probe and "tcpSocket" not in probe:
            period, failures = probe.get("periodSeconds", 10), probe.get("failureThreshold", 3)
            if isinstance(period, int) and isinstance(failures, int):
                found.append((name, float(period * failures)))
    return tuple(found)


def pods_of(value: object) -> list[Pod]:
    """Parse the pod, or the list of pods, that the API returned. Raises BadPod: one of them is not a pod."""
    found = object_of(value)
    return [Pod.of(each) for each in (_list(found["items"]) if "items" in found else [found])]


def choose(pods: Sequence[Pod], query: PodQuery) -> Pod:
    """Return the pod of a query: the only one that can run commands, or else the newest.

    Raises:
        DkdbgError: no pod matches, or several do.
    """
    fitting = [each for each in pods if query.rank is None or _rank(each, pods, query.kind) == query.rank]
    running = [each for each in fitting if each.container(query.container) not in each.trouble]
    if len(running) > 1:
        by_rank = (
            query.rank is None and query.kind in {JOB, PYTORCHJOB} and all(each.rank >= 0 for each in running)
        )
        raise DkdbgError(
            f"{len(running)} running pods match {query.label}: {_names(running, pods, query.kind)}",
            hint=f"name a rank: k8s://{query.namespace}/{query.label}:0" if by_rank
            else f"name one: k8s://{query.namespace}/{min(each.name for each in running)}",
            exit_code=EXIT_USAGE,
        )  # fmt: skip
    if running:
        return running[0]
    if fitting:
        return max(fitting, key=lambda each: each.created)
    existing = f"; there are: {_names(pods, pods, query.kind)}" if pods else ""
    raise DkdbgError(
        f"there is no pod {query.label} in the namespace {query.namespace}{existing}",
        hint=f"kubectl get pods --namespace={query.namespace} --show-labels",
    )


def not_ready(pod: Pod, container: str, namespace: str) -> DkdbgError:
    """Return the error for a container that cannot run commands now."""
    return DkdbgError(
        f"no command can run in the pod {pod.name}: {pod.trouble[container]}",
        hint=f"kubectl describe pod {pod.name} --namespace={namespace}",
    )


def _rank(pod: Pod, pods: Sequence[Pod], kind: str) -> int:
    """Return the rank of a pod. In a PyTorchJob the master, if there is one, has rank 0 and the workers follow."""
    if pod.rank < 0 or kind != PYTORCHJOB or pod.is_master:
        return pod.rank
    return pod.rank + sum(1 for name in {each.name for each in pods if each.is_master} if name)


def _names(pods: Sequence[Pod], all_pods: Sequence[Pod], kind: str) -> str:
    ranked = sorted((_rank(each, all_pods, kind), each.name) for each in pods)
    shown = [name + (f" ({rank})" if kind and rank >= 0 else "") for rank, name in ranked[:_MAX_NAMED_PODS]]
    return ", ".join(shown) + (
        f" and {len(ranked) - _MAX_NAMED_PODS} more" if ranked[_MAX_NAMED_PODS:] else ""
    )


def _trouble(names: Sequence[str], about: dict[str, Any], status: dict[str, Any]) -> dict[str, str]:
    """Return, by container, why no command can run in it."""
    phase, reason = _text(status.get("phase")), _reason(status)
    states = {_text(each.get("name")): each for each in objects_of(status.get("containerStatuses"))}
    for_all = ""
    if phase == "Failed":
        for_all = f"it was evicted{reason}" if status.get("reason") == "Evicted" else f"it has failed{reason}"
    elif phase == "Succeeded":
        for_all = "it has completed"
    elif about.get("deletionTimestamp"):
        for_all = "it is being deleted"
    found = {}
    for name in names:
        why = for_all or _why_not(object_of(states.get(name, {}).get("state")), states.get(name, {}))
        if not why and name not in states:
            why = f"it is {phase.lower() or 'not started yet'}{_pending(status)}"
        if why:
            found[name] = why
    return found


def _why_not(state: dict[str, Any], container: dict[str, Any]) -> str:
    """Return why a container does not run; empty if it does."""
    if "running" in state:
        return ""
    waiting, ended = object_of(state.get("waiting")), object_of(state.get("terminated"))
    if waiting:
        before = object_of(object_of(container.get("lastState")).get("terminated"))
        code = before.get("exitCode")
        crashed = f"; its previous run ended with exit code {code}" if isinstance(code, int) else ""
        return f"it waits: {printable(_text(waiting.get('reason')))[:_MAX_SHOWN_CHARS]}{_reason(waiting, reason=False)}{crashed}"
    if ended:
        code = ended.get("exitCode")
        return f"its container has ended with exit code {code if isinstance(code, int) else 'unknown'}{_reason(ended)}"
    return ""


def _pending(status: dict[str, Any]) -> str:
    """Return the reason why a pod has no containers yet."""
    for each in objects_of(status.get("conditions")):
        if each.get("status") == "False" and each.get("message"):
            return _reason(each)
    return ""


def _reason(value: dict[str, Any], *, reason: bool = True) -> str:
    """Return `: reason: message` without empty parts, safe to print to a terminal."""
    texts = [_text(value.get(key)) for key in (("reason", "message") if reason else ("message",))]
    return "".join(f": {printable(each)[:_MAX_SHOWN_CHARS]}" for each in texts if each and each != "Evicted")


def _mappings(container: dict[str, Any]) -> str:
    for each in objects_of(container.get("env")):
        if each.get("name") == ENV_MAPPINGS:
            return _text(each.get("value"))
    return ""


def object_of(value: object) -> dict[str, Any]:
    """Return an object of the API; empty for a missing one. Raises BadPod: it is another value."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadPod("not an object")
    return value


def objects_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; empty for a missing one. Raises BadPod: it is not a list of objects."""
    return [object_of(each) for each in _list(value)]


def _list(value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadPod("not a list")
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPod("not a text")
    return value
