"""Asks a cluster, with the kubeconfig and the context that kubectl uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.kubectl_errors import explain, unexplained
from dkdbg.targets.pod import BadPod, pods_of
from dkdbg.targets.record import BadRecord, decode

if TYPE_CHECKING:
    from dkdbg.targets.pod import Pod
    from dkdbg.targets.pod_address import PodQuery

#: Seconds within which a cluster answers, kubectl's own limit and ours; bytes of what it answers.
_ANSWER_LIMIT, _HARD_LIMIT = 20, 30.0
_MAX_ANSWER = 64 << 20


def program() -> str:
    """`kubectl`, else `oc`, which has the same verbs.

    Raises:
        DkdbgError: neither is installed.
    """
    for name in ("kubectl", "oc"):
        if process.is_installed(name):
            return name
    raise DkdbgError(
        "neither kubectl nor oc is installed here",
        hint="install kubectl (Debian: apt install kubernetes-client, macOS: brew install kubectl) or oc",
        exit_code=127,
    )


def pods(query: PodQuery) -> list[Pod]:
    """The pods that a query asks for.

    Raises:
        DkdbgError: kubectl is not installed, or the cluster does not answer, or refuses; or there is no such pod.
    """
    argv = (program(), *query.argv, "--output=json", f"--request-timeout={_ANSWER_LIMIT}s")
    done = process.read(argv, most=_MAX_ANSWER, timeout=_HARD_LIMIT)
    if done.code:
        raise explain(done.stderr, query.namespace) or unexplained(done.code, done.stderr)
    try:
        return pods_of(decode(done.stdout))
    except (BadPod, BadRecord) as error:
        raise DkdbgError(
            f"what the cluster says about {query.label} makes no sense: {printable(error)}",
            hint="kubectl config current-context says which cluster was asked",
            exit_code=EXIT_ENGINE,
        ) from error
