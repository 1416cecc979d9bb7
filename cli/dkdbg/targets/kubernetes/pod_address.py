"""Parse `k8s://NAMESPACE/POD[/CONTAINER]`. No I/O.

POD is    trainer-0                       a pod's name (`pod/trainer-0` if it equals a kind below)
          app=trainer,tier=gpu            labels, as `kubectl -l` takes them
          deployment/bert                 the pod of a Deployment
          statefulset/bert                the pod of a StatefulSet
          job/bert:2                      the pod of a Job with completion index 2
          cronjob/nightly                 the debug copy of a CronJob, which is a Job
          pytorchjob/bert:2               the pod of a Kubeflow PyTorchJob whose node rank is 2

An object with a debug copy (`dkdbg up`) stands for its copy. KIND/NAME is the notation of kubectl. The rank comes after
`:`, which no name in Kubernetes contains and no shell interprets; `#` begins a pattern in zsh, and a fragment in a URI.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from dkdbg.core.address import Address

FORM = "k8s://NAMESPACE/POD[/CONTAINER]"
POD, DEPLOYMENT, JOB, PYTORCHJOB = "pod", "deployment", "job", "pytorchjob"
STATEFULSET, CRONJOB = "statefulset", "cronjob"
#: For each kind, the label of its pods that contains the object's name.
_LABEL_OF = {JOB: "job-name", PYTORCHJOB: "training.kubeflow.org/job-name"}
#: Kinds of objects that own pods.
OWNERS = (DEPLOYMENT, STATEFULSET, JOB, CRONJOB, PYTORCHJOB)
#: Kinds that select their pods by labels.
SELECTING = (DEPLOYMENT, STATEFULSET)
#: Valid names in Kubernetes: a label of RFC 1123, several joined with dots, and a label's key and value.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL = re.compile(rf"({_SUBDOMAIN.pattern}/)?{_WORD}==?({_WORD})?")


def is_name(text: str) -> bool:
    """Return whether this is a valid name of a namespace or a container."""
    return _NAME.fullmatch(text) is not None


def is_pod_name(text: str) -> bool:
    """Return whether this is a valid name of a pod or a job."""
    return len(text) < 254 and _SUBDOMAIN.fullmatch(text) is not None


def is_labels(text: str) -> bool:
    """Return whether the text is a list of labels, `app=trainer,tier=gpu`."""
    return all(_LABEL.fullmatch(each) for each in text.split(","))


@dataclass(frozen=True, kw_only=True)
class PodQuery:
    """A parsed address.

    Attributes:
        kind: `pod`, or the kind of the object that owns it; empty for a selector.
        name: name of the pod or its owner; empty for a selector.
        rank: rank of the pod in its owner; None for any.
        selector: labels, as for `kubectl --selector`; empty for a pod's name, and for a Deployment, whose object has
            its own selector.
        container: empty for the pod's default.
    """

    namespace: str
    kind: str
    name: str
    rank: int | None
    selector: str
    container: str

    @property
    def label(self) -> str:
        """Return the query for messages."""
        if self.kind in {"", POD}:
            return self.name or self.selector
        return f"{self.kind}/{self.name}" + ("" if self.rank is None else f":{self.rank}")


def query_of(address: Address) -> PodQuery:
    """Parse an address.

    Raises:
        DkdbgError: it has none of the forms, or contains a name that Kubernetes does not allow.
    """
    namespace, *rest = address.parts
    kind, selector, rank = POD, "", None
    last = max((position for position, part in enumerate(rest) if "=" in part), default=-1)
    if last >= 0:  # a key may contain a slash: training.kubeflow.org/job-name=bert
        kind, name, selector, rest = "", "", "/".join(rest[: last + 1]), rest[last + 1 :]
    elif rest[0:1] and rest[0] in {POD, *OWNERS} and rest[1:]:
        kind, name, rest = rest[0], rest[1], rest[2:]
        name, colon, number = name.partition(":")
        if colon:
            if kind not in _LABEL_OF or not (number.isascii() and number.isdigit() and len(number) < 7):
                raise _no(address, f"{number or 'nothing'} is not a rank of a {kind}")
            rank = int(number)
        if kind in _LABEL_OF:
            selector = f"{_LABEL_OF[kind]}={name}"
    else:
        name, rest = (rest[0] if rest else ""), rest[1:]
    if not is_name(namespace):
        raise _no(address, f"{namespace} is not a valid namespace")
    if kind and not is_pod_name(name):
        raise _no(
            address, f"{name or 'nothing'} is not the name of a {kind}" if name else "the pod is missing"
        )
    if selector and not is_labels(selector):
        raise _no(address, f"{selector} is not a label selector")
    if len(rest) > 1 or not all(map(is_name, rest)):
        raise _no(address, f"{'/'.join(rest)} is not a container name")
    return PodQuery(
        namespace=namespace, kind=kind, name=name, rank=rank, selector=selector, container=rest[0] if rest else ""
    )  # fmt: skip


def _no(address: Address, why: str) -> DkdbgError:
    return DkdbgError(
        f"{address} is not the address of a pod: {why}",
        hint=f"{FORM}, where POD is a name, labels (app=trainer), deployment/NAME, statefulset/NAME, job/NAME:INDEX, cronjob/NAME or pytorchjob/NAME:RANK",
        exit_code=EXIT_USAGE,
    )
