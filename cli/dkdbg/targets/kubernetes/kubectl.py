"""Query a cluster, with the kubeconfig and the context that kubectl uses."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.core.record import BadRecord, decode
from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.kubernetes.kubectl_errors import explain, unexplained
from dkdbg.targets.kubernetes.pod import BadPod, object_of, pods_of
from dkdbg.targets.kubernetes.pod_address import CRONJOB, OWNERS, SELECTING
from dkdbg.targets.kubernetes.workload import COPY_OF, RESOURCE, copy_label, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.targets.kubernetes.pod import Pod
    from dkdbg.targets.kubernetes.pod_address import PodQuery

#: Timeouts in seconds for an answer: kubectl's --request-timeout, and the timeout for its process.
_ANSWER_TIMEOUT_S, _HARD_TIMEOUT_S = 20, 30.0
#: Timeout for a change, which kubectl may wait for.
_CHANGE_TIMEOUT_S = 120.0
_MAX_ANSWER = 64 << 20


def program() -> str:
    """Return `kubectl`, or `oc`, which has the same verbs. Raises DkdbgError: neither is installed."""
    for name in ("kubectl", "oc"):
        if process.is_installed(name):
            return name
    raise DkdbgError(
        "neither kubectl nor oc is installed here",
        hint="install kubectl (Debian: apt install kubernetes-client, macOS: brew install kubectl) or oc",
        exit_code=127,
    )


def pods(query: PodQuery) -> list[Pod]:
    """Return the pods that a query selects: for an object with a debug copy, the copy's pods.

    Raises:
        DkdbgError: kubectl is not installed, the cluster does not answer or refuses, or there is no such pod.
    """
    return (copied_pods(query) if query.kind in OWNERS else []) or own_pods(query)


def copied_pods(query: PodQuery) -> list[Pod]:
    """Return the pods of the debug copy of an object; empty without a copy. Raises DkdbgError: as `pods`."""
    with _reading(query):
        return pods_of(_get(query, "pods", f"--selector={COPY_OF}={copy_label(query.kind, query.name)}"))


def own_pods(query: PodQuery) -> list[Pod]:
    """Return the pods that a query selects, without the pods of a debug copy. Raises DkdbgError: as `pods`."""
    with _reading(query):
        if query.kind == CRONJOB:  # a CronJob's Jobs have other names, and come and go
            return []
        if query.kind in SELECTING:
            return pods_of(_get(query, "pods", f"--selector={selector_of(owner(query))}"))
        what = ("pods", f"--selector={query.selector}") if query.selector else ("pod", query.name)
        return pods_of(_get(query, *what))


def owner(query: PodQuery, name: str = "", kind: str = "") -> dict[str, Any]:
    """Return the object that owns the pods, as the API shows it.

    Args:
        name, kind: another object's name and kind.

    Raises:
        DkdbgError: as `pods`; or there is no such object.
    """
    with _reading(query):
        return object_of(_get(query, RESOURCE[kind or query.kind], name or query.name))


def pod_exists(query: PodQuery, pod: str) -> bool:
    """Return whether there is a pod of this name, running or not. Raises DkdbgError: as `pods`."""
    return bool(tell(query, "get", "pod", pod, "--ignore-not-found", "--output=name").strip())


def tell(query: PodQuery, *arguments: str, limit: float = _CHANGE_TIMEOUT_S, stdin_text: str = "") -> str:
    """Run a kubectl command in the query's namespace; return its output.

    Args:
        limit: seconds to wait; by default as long as a change may take.
        stdin_text: an object to create. With it, the terminal's Ctrl-C does not reach kubectl: an interrupt would leave
            the result unknown.

    Raises:
        DkdbgError: the cluster refuses.
    """
    argv = (program(), *arguments, f"--namespace={query.namespace}")
    done = process.read(
        argv, max_bytes=_MAX_ANSWER, timeout=limit, stdin_text=stdin_text, new_session=bool(stdin_text)
    )
    if done.code:
        raise explain(done.stderr, query.namespace) or unexplained(done.code, done.stderr, query.namespace)
    return done.stdout


def _get(query: PodQuery, *what: str) -> object:
    arguments = ("get", *what, "--output=json", f"--request-timeout={_ANSWER_TIMEOUT_S}s")
    return decode(tell(query, *arguments, limit=_HARD_TIMEOUT_S))


@contextlib.contextmanager
def _reading(query: PodQuery) -> Iterator[None]:
    """Turn errors about invalid answers into one DkdbgError."""
    try:
        yield
    except (BadPod, BadRecord) as error:
        raise DkdbgError(
            f"unexpected answer from the cluster about {query.label}: {printable(error)}",
            hint="kubectl config current-context says which cluster was asked",
            exit_code=EXIT_ENGINE,
        ) from error
