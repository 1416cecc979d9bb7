"""Create and remove the debug copy of an object with pods (`targets/kubernetes/pod_copy.py`, docs/adr/0020 and 0021).

Two objects are created: the copy, and a ConfigMap with the agent. The copy owns the ConfigMap, so the cluster deletes
it together with the copy. Nothing else in the cluster is changed.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import time
from typing import TYPE_CHECKING, Any

from dkdbg import process, signals
from dkdbg.core.record import BadRecord, decode
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_TIMEOUT, EXIT_USAGE, DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.printable import printable
from dkdbg.targets.kubernetes import kubectl, overlays
from dkdbg.targets.kubernetes.kubectl_errors import denied
from dkdbg.targets.kubernetes.pod import BadPod, object_of
from dkdbg.targets.kubernetes.pod_copy import AGENT_FILE, AGENT_FOLDER, PodCopy, copy_of
from dkdbg.targets.kubernetes.workload import (
    COPY_OF,
    DKDBG,
    MADE_BY,
    RESOURCE,
    TITLE,
    copy_label,
    copy_name,
    kind_of_copy,
    pods_wanted,
    templates,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dkdbg.targets.kubernetes.pod import Pod, PodExecutor
    from dkdbg.targets.kubernetes.pod_address import PodQuery

#: Timeout for an answer from a pod, and seconds between two polls of starting pods.
_ANSWER_TIMEOUT_S, _POLL_S = 20.0, 1.0
#: Seconds for the garbage collector to remove the ConfigMap of a former copy.
_COLLECTED_WITHIN_S = 20.0
#: Script that prints the interpreter's version, then the command line of the first process, as the image or its
#: entry point sets it.
_ASK = (
    "v=; for p in python3 python; do v=$($p -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) && break; done; "
    'echo "$v"; cat /proc/1/cmdline'
)
#: States that a starting pod does not recover from automatically.
_HOPELESS = ("its container has ended", "it has failed", "it was evicted", "CrashLoopBackOff", "InvalidImageName", "CreateContainerConfigError")  # fmt: skip


def plan(
    query: PodQuery, executor_of: Callable[[Pod], PodExecutor], *, command: Sequence[str], wait: int
) -> tuple[PodCopy, bytes]:
    """Return the copy that would be created now, and the agent (`agent.pyz`) for its pods.

    Args:
        executor_of: returns the executor of a pod's container.
        command: replaces the object's own program unless empty.
        wait: seconds that the program waits for an editor.

    Raises:
        DkdbgError: the object does not exist, or its program is unknown.
    """
    original = kubectl.owner(query)
    argv, said_by = list(command), "as you typed it"
    python: tuple[int, ...] = (3, 11)
    found = _asked(query, executor_of)
    if found is not None:
        python, first, pod = found
        if not command and not _says_command(query, original):
            argv, said_by = first, f"from its image, as process 1 of the pod {pod} shows"
    try:
        copy = copy_of(
            query.kind, original, container=query.container,
            command=argv, command_from=said_by, wait=wait,
        )  # fmt: skip
    except BadPod as error:
        raise DkdbgError(f"{query.label}: unexpected manifest: {error}") from error
    return copy, single_file.build(python)


def check_free(query: PodQuery, *, replace: bool) -> None:
    """Raise DkdbgError if a copy exists; with `replace`, only if an object of the copy's name is not a copy."""
    found = _existing(query)
    if found is not None and not replace:
        raise DkdbgError(
            f"{query.label} already has a debug copy: {copy_name(query.name)}",
            hint=f"dkdbg attach k8s://{query.namespace}/{query.label}, or dkdbg down "
            f"k8s://{query.namespace}/{query.label} takes it away",
            exit_code=EXIT_USAGE,
        )
    if found is not None:
        _check_own(query, found)


def from_overlay(query: PodQuery, folder: Path) -> tuple[PodCopy, bytes]:
    """Return the copy that an overlay of `dkdbg init --k8s` describes, and its agent (`agent.pyz`).

    Args:
        folder: absolute, on this machine.

    Raises:
        DkdbgError: the folder is not an overlay, or belongs to another object.
    """
    shown = os.path.relpath(folder)
    written = f"dkdbg init --k8s {query.label} writes it again"
    try:
        documents = overlays.render(folder, shown)
    except DkdbgError:
        overlays.agent_of(folder, hint=written)  # clearer than kustomize's message for a missing agent
        raise
    for document in documents:
        about = object_of(document.get("metadata"))
        labels = object_of(about.get("labels"))
        if any(labels.get(key) != value for key, value in _labels(query).items()):
            continue
        if about.get("namespace", query.namespace) != query.namespace:
            other = printable(str(about["namespace"]))
            raise DkdbgError(
                f"{shown} is for the namespace {other}, not {query.namespace}",
                hint=f"dkdbg up {shlex.quote(f'k8s://{other}/{query.label}')} --overlay {shlex.quote(shown)}",
                exit_code=EXIT_USAGE,
            )
        before = {"kind": document.get("kind"), "metadata": {"name": query.name}}
        copy = PodCopy(
            original=query.label, name=copy_name(query.name), document=document, before=before,
            decisions=((f"{TITLE[kind_of_copy(query.kind)]} {copy_name(query.name)}", f"as {shown} has it"),), notes=(),
        )  # fmt: skip
        if about.get("name") == copy.name and document.get("kind") == TITLE[kind_of_copy(query.kind)]:
            return copy, overlays.agent_of(folder, hint=written)
    raise DkdbgError(f"{shown} has no debug copy of {query.label}", hint=written, exit_code=EXIT_USAGE)


def make(query: PodQuery, copy: PodCopy, agent: bytes) -> None:
    """Create the copy in the cluster. Raises DkdbgError: the cluster refuses; nothing is left behind."""
    answer = ""
    try:
        with signals.delayed():  # otherwise a copy could exist that dkdbg does not know of
            answer = _create(query, copy.document)
            made = object_of(decode(answer))
            about = object_of(made.get("metadata"))
            carrier = {
                "apiVersion": "v1", "kind": "ConfigMap", "immutable": True,
                "metadata": {
                    "name": copy.agent_map, "namespace": query.namespace, "labels": _labels(query),
                    "ownerReferences": [
                        {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": copy.name, "uid": about["uid"]}
                    ],
                },
                "binaryData": {AGENT_FILE: base64.b64encode(agent).decode()},
            }  # fmt: skip
            _create_carrier(query, carrier)
    except BaseException:  # Ctrl-C too
        if answer:
            with signals.ignored():
                remove(query)
        raise


def wait_for(
    query: PodQuery, executor_of: Callable[[Pod], PodExecutor], *, report: Callable[[str], None], limit: float
) -> list[Pod]:
    """Wait until attaching to each pod of the copy works; return these pods.

    Raises:
        DkdbgError: a pod cannot start, or the pods take longer than `limit` seconds.
    """
    kind = kind_of_copy(query.kind)
    wanted = pods_wanted(kind, kubectl.owner(query, copy_name(query.name), kind))
    ready: dict[str, Pod] = {}
    reasons, reported, end = "", "", time.monotonic() + limit
    while len(ready) < wanted:
        found = kubectl.copied_pods(query)
        reasons = (
            _add_ready(query, [each for each in found if each.name not in ready], executor_of, ready)
            or reasons
        )
        if reasons not in {"", reported} and len(ready) < wanted:
            report(reasons)
            reported = reasons
        if time.monotonic() > end:
            raise DkdbgError(
                f"{len(ready)} of {wanted} pods of {copy_name(query.name)} are ready after {limit:g} s{': ' * bool(reasons)}{reasons}",
                hint=f"kubectl describe pods --namespace={query.namespace} --selector={COPY_OF}="
                f"{copy_label(query.kind, query.name)}; {_takes_away(query)}",
                exit_code=EXIT_TIMEOUT,
            )
        if len(ready) < wanted:
            time.sleep(_POLL_S)
    return [ready[name] for name in sorted(ready)]


def remove(query: PodQuery, *, wait: bool = False) -> str:
    """Remove the copy, if it exists; return a message about the result.

    Args:
        wait: return only after the copy is gone.

    Raises:
        DkdbgError: an object of its name was not made by dkdbg, or the cluster refuses.
    """
    found, name = _existing(query), copy_name(query.name)
    if found is None:
        return f"there is no debug copy of {query.label}"
    _check_own(query, found)
    kubectl.tell(query, "delete", RESOURCE[kind_of_copy(query.kind)], name, f"--wait={str(wait).lower()}")
    return f"{kind_of_copy(query.kind)}/{name} is being removed; {query.label} is unchanged"


def _check_own(query: PodQuery, found: dict[str, Any]) -> None:
    labels, name = object_of(object_of(found.get("metadata")).get("labels")), copy_name(query.name)
    if any(labels.get(key) != value for key, value in _labels(query).items()):
        raise DkdbgError(
            f"{kind_of_copy(query.kind)}/{name} is not a copy of {query.label} made by dkdbg; it was not changed",
            hint=f"kubectl get {RESOURCE[kind_of_copy(query.kind)]} {name} --namespace={query.namespace} --show-labels",
        )


def _add_ready(
    query: PodQuery, pods: Sequence[Pod], executor_of: Callable[[Pod], PodExecutor], ready: dict[str, Pod]
) -> str:
    """Add to `ready` the pods whose agent answers; return why the last of the other pods waits, empty if unknown.

    Raises:
        DkdbgError: one of the pods cannot start.
    """
    text = ""
    for pod in pods:
        container = pod.container(query.container)
        trouble = pod.trouble.get(container, "")
        if any(each in trouble for each in _HOPELESS):
            raise DkdbgError(
                f"the pod {pod.name} of the copy cannot start: {trouble}",
                hint=f"kubectl logs {pod.name} --container={container} --namespace={query.namespace}; {_takes_away(query)}",
            )
        if trouble:
            text = f"{pod.name}: {trouble}"
            continue
        health = executor_of(pod).wrap(("sh", f"{AGENT_FOLDER}/{AGENT_FILE}", "health"))
        done = process.read(health, max_bytes=1 << 20, timeout=_ANSWER_TIMEOUT_S)
        if done.code == 0:
            ready[pod.name] = pod
        elif (refused := denied(done.stderr, query.namespace)) is not None:
            raise DkdbgError(
                refused.message, hint=f"{refused.hint}; {_takes_away(query)}", exit_code=refused.exit_code
            )
    return text


def _takes_away(query: PodQuery) -> str:
    return f"dkdbg down k8s://{query.namespace}/{query.label} removes the copy"


def _labels(query: PodQuery) -> dict[str, str]:
    return {MADE_BY: DKDBG, COPY_OF: copy_label(query.kind, query.name)}


def _existing(query: PodQuery) -> dict[str, Any] | None:
    """Return the object with the copy's name; None if there is no such object."""
    what = (RESOURCE[kind_of_copy(query.kind)], copy_name(query.name), "--ignore-not-found", "--output=json")
    answer = kubectl.tell(query, "get", *what)
    try:
        return object_of(decode(answer)) if answer.strip() else None
    except (BadPod, BadRecord) as error:
        raise DkdbgError(
            f"unexpected answer from the cluster about {copy_name(query.name)}: {error}"
        ) from error


def _create(query: PodQuery, document: dict[str, Any]) -> str:
    """Create one object, which may contain secrets, and return the answer."""
    return kubectl.tell(query, "create", "--filename=-", "--output=json", stdin_text=json.dumps(document))


def _create_carrier(query: PodQuery, carrier: dict[str, Any]) -> None:
    """Create the ConfigMap; wait while the cluster still removes the ConfigMap of a former copy.

    Source: Kubernetes documentation, "Garbage Collection": dependents are deleted in the background.
    """
    end = time.monotonic() + _COLLECTED_WITHIN_S
    while True:
        try:
            _create(query, carrier)
            return
        except DkdbgError as error:
            if "(AlreadyExists)" not in error.message or time.monotonic() > end:
                raise
        time.sleep(_POLL_S)


def _says_command(query: PodQuery, original: dict[str, Any]) -> bool:
    """Return whether each candidate container has its own command."""
    found = templates(query.kind, original).values()
    return all(
        each.get("command") for template in found for each in object_of(template.get("spec"))["containers"]
        if not query.container or each.get("name") == query.container
    )  # fmt: skip


def _asked(
    query: PodQuery, executor_of: Callable[[Pod], PodExecutor]
) -> tuple[tuple[int, ...], list[str], str] | None:
    """Return Python's version, the first process's command and the name of a running pod of the original, or None."""
    for pod in kubectl.own_pods(query):
        if pod.container(query.container) in pod.trouble:
            continue
        done = process.read(
            executor_of(pod).wrap(("sh", "-c", _ASK)), max_bytes=1 << 20, timeout=_ANSWER_TIMEOUT_S
        )
        version, _, argv = done.stdout.partition("\n")
        parts = tuple(found for found in map(whole_number, version.split()) if found is not None)
        if done.code == 0 and len(parts) == len(version.split()) == 2:
            return parts, argv.split("\0")[:-1], pod.name
    return None
