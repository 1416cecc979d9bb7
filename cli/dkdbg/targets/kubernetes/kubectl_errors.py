"""Explain error messages of kubectl and oc, and suggest what to type next."""

from __future__ import annotations

import re
import shlex

from dkdbg import hints
from dkdbg.core.known_errors import Known, first, line_at
from dkdbg.errors import EXIT_ENGINE, EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable

#: Maximum characters of kubectl's message to show.
_MAX_SHOWN_CHARS = 400
#: kubectl's last line after a nonzero exit code; the cause is on an earlier line.
_ENDED = re.compile(r"^command terminated with exit code \d+$")
_FORBIDDEN = (
    r"is forbidden: User \"[^\n]*?\" cannot (?P<verb>\w+) resource \"(?P<what>[\w.]+)(?:/(?P<sub>\w+))?\""
)
#: Some builds of kubectl log an error instead of printing it.
_LOGGED = re.compile(r"^E\d{4} \S+\s+\d+ \S+\] \"command failed\" err=")
#: Messages of kubectl 1.32; a test produces each of them with kubectl. The first match wins.
_KNOWN = (  # `{ns}` stands for the namespace
    Known(r"connection to the server localhost:8080 was refused|Missing or incomplete configuration info",
          "kubectl has no cluster: the kubeconfig is missing or names none",
          "export KUBECONFIG=/path/to/config (default: ~/.kube/config), or log in: oc login; "
          "kubectl config get-contexts must list one with a star"),
    Known(r"error loading config file|invalid configuration",
          "kubectl cannot read the kubeconfig",
          "kubectl config view shows what it reads; KUBECONFIG names another one"),
    Known(r"context \"?[^\n]*?\"? does not exist|context was not found",
          "the kubeconfig has no such context",
          "kubectl config get-contexts, then kubectl config use-context NAME"),
    Known(r"\(Unauthorized\)|must be logged in to the server",
          "the cluster rejected your login, which may have expired",
          "log in again, for example with oc login; kubectl auth whoami shows the current user"),
    Known(r"getting credentials: exec",
          "the login program in the kubeconfig (exec) failed",
          "kubectl get pods --namespace={ns} must work first"),
    Known(r"(?:connection to the server \S+ was refused|Unable to connect to the server|no such host|i/o timeout|TLS handshake timeout)",
          "the cluster does not answer",
          "is the VPN up? kubectl get pods --namespace={ns} must work first; kubectl config current-context says "
          "which cluster is asked"),
    Known(r"namespaces? \"[^\"\n]*\" not found",
          "there is no namespace {ns} in this cluster",
          "kubectl get namespaces (OpenShift: oc projects); kubectl config current-context says which cluster is asked", EXIT_USAGE),
    Known(r"pods \"[^\"\n]*\" not found",
          "there is no such pod in the namespace {ns}",
          hints.PODS(namespace="{ns}"), EXIT_ERROR),
    Known(r"the server doesn't have a resource type",
          "the cluster knows no objects of this kind",
          "kubectl api-resources lists the kinds that it knows; PyTorchJobs come with Kubeflow's training operator", EXIT_USAGE),
    Known(r"\b(?:deployments|statefulsets|jobs|cronjobs)\.[\w.]+ \"[^\"\n]*\" not found",
          "there is no such object in the namespace {ns}",
          "kubectl get deployments,statefulsets,jobs,cronjobs --namespace={ns}", EXIT_ERROR),
    Known(r"pytorchjobs\.[\w.]+ \"[^\"\n]*\" not found",
          "there is no such object in the namespace {ns}",
          "kubectl get pytorchjobs --namespace={ns}", EXIT_ERROR),
    Known(r"exceeded quota",
          "the quota of the namespace {ns} does not allow it",
          "kubectl describe quota --namespace={ns}"),
    Known(r"unable to upgrade connection: container not found|cannot exec into a container in a completed pod|"
          r"cannot exec in a (?:stopped|deleted)|container \S+ is not valid for pod|container not running|error dialing backend",
          "the container is no longer running, or its node does not answer",
          "kubectl get pods --namespace={ns} lists the running ones", EXIT_ERROR),
    Known(r"exec: \"sh\": (?:executable file not found|stat |no such file)",
          "the container has no sh",
          "dkdbg needs sh and Python 3.8 or newer in the container: use an image with both (not distroless)", 127),
)  # fmt: skip


def explain(stderr: str, namespace: str) -> DkdbgError | None:
    """Return the error for a message of kubectl: the cause in dkdbg's words, then kubectl's line; None if unknown.

    Args:
        stderr: kubectl's standard error, partly written by the command in the pod.
        namespace: the namespace of the request.
    """
    if (refused := denied(stderr, namespace)) is not None:
        return refused
    if (found := first(_KNOWN, stderr)) is None:
        return None
    known, match = found
    cause = f"{known.cause.format(ns=namespace)}\n  kubectl: {line_at(stderr, match.start())}"
    return DkdbgError(cause, hint=known.hint.format(ns=namespace), exit_code=known.exit_code)


def denied(stderr: str, namespace: str) -> DkdbgError | None:
    """Return the error for a missing permission, as the cluster names it; None for other messages."""
    found = re.search(_FORBIDDEN, stderr)
    if found is None:
        return None
    what = found["what"] + (f" --subresource={found['sub']}" if found["sub"] else "")
    shown = "/".join(filter(None, (found["what"], found["sub"])))
    return DkdbgError(
        f"you may not {found['verb']} {shown} in the namespace {namespace}\n  kubectl: {line_at(stderr, found.start())}",
        hint=hints.POD_PERMISSION(verb=found["verb"], what=what, namespace=namespace),
        exit_code=EXIT_ENGINE,
    )  # fmt: skip


def not_built(shown: str, text: str, *, is_file: bool) -> DkdbgError:
    """Return the error for a folder of manifests, or a single manifest, that kustomize cannot build.

    Args:
        shown: the folder, or the file, as the user names it.
        text: the reason: kustomize's message, or the problem with its result.
    """
    why = printable(" ".join(_LOGGED.sub("", text.removeprefix("error: ")).split()))
    hint = f"kubectl kustomize {shlex.quote(shown)} must work first"
    if is_file:  # kustomize accepts only folders
        hint = f"correct {shown}, then dkdbg init --k8s again"
    return DkdbgError(
        f"kustomize cannot build {shown}: {why[:_MAX_SHOWN_CHARS]}",
        hint=hint if why else "",
        exit_code=EXIT_USAGE,
    )


def unexplained(code: int, stderr: str, namespace: str) -> DkdbgError:
    """Return the error for an unknown message."""
    return DkdbgError(
        f"kubectl failed with exit code {code}: {printable(last_line(stderr))[:_MAX_SHOWN_CHARS] or 'no output'}",
        hint=f"kubectl get pods --namespace={namespace} must work first",
        exit_code=EXIT_ENGINE,
    )


def last_line(text: str) -> str:
    """Return the last line with information: kubectl's line about an exit code only if it is the only one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not _ENDED.match(line)), lines[-1] if lines else "")
