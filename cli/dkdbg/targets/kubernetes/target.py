"""Target for a container of a pod: `k8s://NAMESPACE/POD[/CONTAINER]`; see `targets/kubernetes/pod_address.py` for POD."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import hints, process
from dkdbg.core import brought, mapping
from dkdbg.core.address import Address
from dkdbg.core.mapping import Workspace
from dkdbg.core.record import BadRecord
from dkdbg.core.sessions import SeenSession, of_records, unreadable
from dkdbg.core.target import Capability, Changes, Endpoint, Kind, Target
from dkdbg.core.target_values import CopyPlan
from dkdbg.errors import EXIT_USAGE, DkdbgError, GoneError
from dkdbg.printable import printable
from dkdbg.relay import remote_sessions
from dkdbg.relay.remote_sessions import RelayedEndpoint
from dkdbg.targets.kubernetes import copies, kubectl
from dkdbg.targets.kubernetes.kubectl_errors import explain, last_line
from dkdbg.targets.kubernetes.pod import BadPod, PodExecutor, active_deadline, choose, not_ready, object_of
from dkdbg.targets.kubernetes.pod_address import JOB, OWNERS, query_of
from dkdbg.targets.kubernetes.workload import kind_of_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.target import Executor
    from dkdbg.targets.kubernetes.pod import Pod
    from dkdbg.targets.kubernetes.pod_address import PodQuery
    from dkdbg.targets.kubernetes.pod_copy import PodCopy

SCHEME = "k8s"
#: Timeout for an answer from a pod, and maximum bytes of it.
_ANSWER_TIMEOUT_S = 20.0
_MAX_ANSWER = 8 << 20
#: Seconds longer than any user's pause of a program: a probe that tolerates as many is not a deadline.
_LONG_S = 86400.0
#: Maximum number of pods to query at the same time.
_MAX_PARALLEL = 8
#: Command line of kubectl that `dkdbg run` starts, joined with spaces (`PodExecutor.wrap`, `Brought.argv`). It runs the
#: agent or a relay to it, perhaps after a check that the agent's file still exists (`relay/remote_program.py`).
_LOCAL_RUN = re.compile(
    r'\S* exec -it? --namespace=(\S+) --container=(\S+) (\S+) -- sh -c exec "\$0" "\$@" '
    r"(?:sh -c .* )?env DKDBG_RUN=[0-9a-f]+ sh \S+\.pyz (?:launch|relay) "
)
#: Maximum characters of kubectl's standard error to read.
_MAX_STDERR_CHARS = 4000
#: Number of an object's first characters with which its copy's name begins (`targets/kubernetes/workload.py`).
_BEGINNING = 30


@dataclass(frozen=True, kw_only=True)
class _Found:
    pod: Pod
    container: str
    executor: PodExecutor


class PodTarget(Target):
    """A container of a pod; see `core/target.py`."""

    capabilities = frozenset({Capability.CONTAINER, Capability.REMOTE, Capability.LOGS, Capability.COPY})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._query = query_of(address)
        self._found: _Found | None = None
        self._lock = threading.Lock()
        self._endpoint = RelayedEndpoint(self._relayed)
        self._way: tuple[PodExecutor, str] | None = None
        self._last: _Found | None = None
        self._end_of_job: float | None = None
        self._copy: tuple[PodCopy, bytes] | None = None
        self._replaces = False

    @property
    def label(self) -> str:
        """Return the pod, or the object that the address names."""
        return self._query.label

    def find(self) -> Executor:
        """Find the pod that runs now; the executor also leads to a later pod of that name."""
        found = self._find_pod()
        if found.container in found.pod.trouble:
            raise self._not_ready(found)
        self._found = found
        return found.executor

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Wrap a command with `kubectl exec`."""
        return self._running().executor.wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """Return the command of an agent that runs in the container; None if no agent runs, or the pod is gone."""
        done = _asked(self._running().executor)
        path = None if done.code else brought.agent_in(done.stdout)
        return None if path is None else ("sh", path)

    def workspace(self) -> Workspace:
        """Return the mapping planned by `init`, or the container's working directory."""
        found = self._running()
        planned = mapping.workspace_of(found.pod.mappings.get(found.container, ""))
        if planned is not None:
            return planned
        folder = found.pod.workdirs.get(found.container, "")
        if folder:
            why = "the workingDir of the pod"
        else:
            done = process.read(self.wrap(("pwd",)), max_bytes=_MAX_ANSWER, timeout=_ANSWER_TIMEOUT_S)
            folder, why = done.stdout.removesuffix("\n"), "the working folder of the container"
            if done.code:
                raise found.executor.explain(done.stderr) or DkdbgError(
                    f"cannot read the working folder of {found.executor.label}: {printable(last_line(done.stderr))}",
                    hint="name the folder: dkdbg sync TARGET --to /path/in/the/container",
                )
        if not folder.startswith("/") or not folder.isprintable() or not folder.strip("/"):
            raise mapping.unknown("the pod: no mapping, no workingDir, no WORKDIR of its image")
        return Workspace(local=".", remote=folder, why=why)

    def endpoint(self) -> Endpoint:
        """Return the endpoint of the pod's newest session, through a relay, which survives the end of kubectl."""
        with self._lock:
            if why := self._endpoint.why:  # the relay reconnects on its own
                return Endpoint(address=None, why=f"{self.label}: {why}")
            try:
                executor, agent = self._way = self._find_way()
                found = remote_sessions.records(executor, ("sh", agent), limit=_ANSWER_TIMEOUT_S)
            except (DkdbgError, BadRecord) as error:
                return Endpoint.failed(error)
            return self._endpoint.of(found, why_none=self._no_session(executor.pod), run=self.run)

    def changes(self) -> Changes | None:
        """Return a watch of the cluster."""
        return PodChanges(self._query)

    def sessions(self) -> list[SeenSession]:
        """Return the sessions that the agent in the pod reports; empty without an agent."""
        found = self._running()
        agent = self.agent()
        if agent is None:
            return []
        try:
            records = remote_sessions.records(found.executor, agent, limit=_ANSWER_TIMEOUT_S)
        except (DkdbgError, BadRecord) as error:
            records = [str(error)]
        target, name = f"pod {self._query.namespace}/{found.pod.name}", found.pod.name
        return of_records(records, target=target, address=found.executor.label, label=name)

    def deadlines(self) -> Sequence[Deadline]:
        """Return the active deadline of the pod, or of its Job, and the probes of the container."""
        if self._last is None:
            return ()
        pod, container = self._last.pod, self._last.container
        address = (
            str(self.address)
            if self._query.kind in OWNERS
            else f"k8s://{self._query.namespace}/deployment/NAME"
        )
        copy = f"dkdbg up {address}"  # a debug copy has neither limit
        found: list[Deadline] = []
        for ends in (pod.ends, self._end_of_job):
            if ends is not None:
                what = f"activeDeadlineSeconds ends the pod {pod.name}"
                found.append({"what": what, "ends": ends, "after": None, "lift": copy})
        for name, seconds in pod.probes.get(container, ()):
            if seconds < _LONG_S:  # a debug copy's probe never restarts it
                what = f"the {name} restarts the container {container}"
                found.append({"what": what, "ends": None, "after": seconds, "lift": copy})
        return found

    def _read_job_deadline(self, pod: Pod) -> None:
        """Read the end of the deadline of the pod's Job, once for each pod."""
        last = self._last.pod if self._last is not None else None
        if last is not None and (last.name, last.created) == (pod.name, pod.created):
            return
        self._end_of_job = None
        with contextlib.suppress(DkdbgError, BadPod):  # this user may not read Jobs
            if pod.job:
                job = kubectl.owner(self._query, pod.job, JOB)
                self._end_of_job = active_deadline(object_of(job.get("spec")), object_of(job.get("status")))

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """Return the command that prints the logs kept by the cluster, also for a pod that has ended."""
        return self._find_pod().executor.logs(follow=follow, lines=lines)

    def again(self, *, silent: bool, limit: float) -> PodExecutor:  # noqa: ARG002 - kubectl has its own limits
        """Return the pod found before, or, if it does not answer, another one that runs now.

        Raises:
            GoneError: it was deleted, and no other pod matches the address.
            DkdbgError: it cannot be reached now.
        """
        if silent:
            former = self._running().pod.name
            with self._gone_if_deleted(former):
                self._found = self._find_pod_again()
        return self._running().executor

    @contextlib.contextmanager
    def _gone_if_deleted(self, pod: str) -> Iterator[None]:
        """Turn a failure to find a pod into GoneError if the former pod was deleted.

        Args:
            pod: the name of the pod found before.

        Raises:
            GoneError: no pod matches, and the former pod was deleted.
        """
        try:
            yield
        except DkdbgError:
            if self._query.kind in OWNERS or kubectl.pod_exists(self._query, pod):
                raise
            raise GoneError(
                f"the pod {pod} was deleted, and its processes have ended with it",
                hint=f"kubectl get pods --namespace={self._query.namespace} shows what there is; "
                f"kubectl get events --namespace={self._query.namespace} may say why",
            ) from None

    def close(self) -> None:
        """Close the relay."""
        self._endpoint.close()

    def plan_copy(
        self, command: Sequence[str], *, wait: int, overlay: Path | None = None, replace: bool = False
    ) -> CopyPlan:
        """Plan a copy of the object that the address names."""
        if self._query.kind not in OWNERS:
            raise self._no_owner()
        copies.check_free(self._query, replace=replace)
        if overlay is not None:
            self._copy = copies.from_overlay(self._query, overlay)
        else:
            self._copy = copies.plan(self._query, self._executor_of, command=command, wait=wait)
        copy, self._replaces = self._copy[0], replace
        return CopyPlan(
            original=copy.original, name=copy.name, before=copy.before, after=copy.document,
            decisions=copy.decisions, notes=copy.notes,
        )  # fmt: skip

    def make_copy(self, *, report: Callable[[str], None], limit: float) -> tuple[str, ...]:
        """Create the copy in the same namespace, wait for its pods, and return their addresses."""
        assert self._copy is not None, "nothing was planned"  # noqa: S101
        if self._replaces:
            copies.remove(self._query, wait=True)
        copies.make(self._query, *self._copy)
        report(
            f"created {kind_of_copy(self._query.kind)}/{self._copy[0].name} in the namespace {self._query.namespace}"
        )
        ready = copies.wait_for(self._query, self._executor_of, report=report, limit=limit)
        return (
            (str(self.address),) if len(ready) == 1 else tuple(self._executor_of(pod).label for pod in ready)
        )

    def remove_copy(self) -> str:
        """Remove the copy with its pods and its ConfigMap."""
        if self._query.kind not in OWNERS:
            raise self._no_owner()
        return copies.remove(self._query)

    def _no_owner(self) -> DkdbgError:
        return DkdbgError(
            f"{self.address} names no object that has pods",
            hint=f"name it: k8s://{self._query.namespace}/deployment/NAME, statefulset/NAME, job/NAME, cronjob/NAME or pytorchjob/NAME",
            exit_code=EXIT_USAGE,
        )

    def _find_way(self) -> tuple[PodExecutor, str]:
        """Return the pod that runs now, and the file of the agent in it.

        Raises:
            GoneError: no session runs in its container, for example after a restart.
            DkdbgError: there is no pod, or it does not answer.
        """
        found = self._find_pod()
        if found.container not in found.pod.running and found.container in found.pod.trouble:
            raise GoneError(self._not_ready(found).message)
        done = _asked(found.executor)
        path = None if done.code else brought.agent_in(done.stdout)
        if path is None:
            is_gone = not done.code and brought.has_looked(done.stdout)
            raise (GoneError if is_gone else DkdbgError)(self._no_session(found.pod.name))
        return found.executor, path

    def _no_session(self, pod: str) -> str:
        enters = f"dkdbg attach {shlex.quote(str(self.address))} --pid 1 attaches to a program that is already running"
        return f"no session runs in the pod {pod}: {hints.RUN_THERE(target=str(self.address))}; {enters}"

    def _relayed(self, word: str, silent: bool, _limit: float) -> tuple[str, ...]:
        """Return the relay's command line; called on the relay's thread, concurrently with `endpoint`.

        Args:
            silent: whether the last connection went silent: another pod may have replaced this one.
        """
        if self._way is None:
            self._way = self._find_way()
        elif silent:
            with self._gone_if_deleted(self._way[0].pod):
                self._way = self._find_way()
        executor, agent = self._way
        return executor.wrap(brought.relay_words(("sh", agent), word))

    def _find_pod(self) -> _Found:
        """Find the pod of the query, running or not.

        Raises:
            DkdbgError: no pod matches, several do, or the cluster cannot be queried.
        """
        query = self._query
        pod = choose(kubectl.pods(query), query)
        self._read_job_deadline(pod)
        self._last = _Found(
            pod=pod, container=pod.container(query.container), executor=self._executor_of(pod)
        )
        return self._last

    def _find_pod_again(self) -> _Found:
        """Find the pod again for a running session, even if it is being deleted: the session may still finish.

        Raises:
            DkdbgError: its container does not run.
        """
        found = self._find_pod()
        if found.container not in found.pod.running and found.container in found.pod.trouble:
            raise self._not_ready(found)
        return found

    def _not_ready(self, found: _Found) -> DkdbgError:
        return not_ready(found.pod, found.container, self._query.namespace)

    def _executor_of(self, pod: Pod) -> PodExecutor:
        namespace, container = self._query.namespace, pod.container(self._query.container)
        label = f"{SCHEME}://{namespace}/{pod.name}" + (f"/{container}" if pod.containers[1:] else "")
        return PodExecutor(
            program=kubectl.program(), namespace=namespace, pod=pod.name, container=container, label=label
        )  # fmt: skip

    def _running(self) -> _Found:
        if self._found is None:
            self.find()
        assert self._found is not None  # noqa: S101 - `find` sets it or raises
        return self._found


def _asked(executor: PodExecutor) -> process.Result:
    """Run the query for agents in a container; see `brought.finding_words`."""
    return process.read(
        executor.wrap(brought.finding_words()), max_bytes=_MAX_ANSWER, timeout=_ANSWER_TIMEOUT_S
    )


def _sessions() -> list[SeenSession]:
    """Return the sessions of pods with a local `dkdbg run`; querying all pods costs too much."""
    targets = [PodTarget(Address(scheme=SCHEME, rest=each)) for each in _pods_of_local_runs()]

    def asked(target: PodTarget) -> list[SeenSession]:
        try:
            return target.sessions()
        except DkdbgError as error:
            label = target.label
            pod = f"pod {target.address.parts[0]}/{label}"
            return [unreadable(target=pod, address=str(target.address), id=label, name=label, why=error)]

    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        return [session for found in pool.map(asked, targets) for session in found]


KIND = Kind(target=lambda address, _root: PodTarget(address), sessions=_sessions)


def _pods_of_local_runs() -> list[str]:
    """Return the pods in which a `dkdbg run` of this machine runs a command, as `NAMESPACE/POD/CONTAINER`.

    They are read from the command lines of this user's kubectl processes with the same KUBECONFIG as this one.
    """
    found = (_LOCAL_RUN.match(line) for line in _command_lines())
    return sorted({f"{each[1]}/{each[3]}/{each[2]}" for each in found if each})


def _config_of(process_folder: Path) -> bytes:
    """Return KUBECONFIG of a process, empty if unset. Raises OSError."""
    settings = (process_folder / "environ").read_bytes().split(b"\0")
    return next((each for each in settings if each.startswith(b"KUBECONFIG=")), b"")


def _command_lines() -> Iterator[str]:
    """Yield the command lines of this user's processes."""
    proc = Path("/proc")
    if not (proc / "self" / "cmdline").exists():  # macOS
        with contextlib.suppress(DkdbgError):
            yield from process.run(
                ["ps", "-ww", "-o", "command=", "-U", str(os.getuid())]
            ).stdout.splitlines()
        return
    kubeconfig = os.fsencode(f"KUBECONFIG={os.environ['KUBECONFIG']}") if "KUBECONFIG" in os.environ else b""
    for entry in proc.iterdir():
        with contextlib.suppress(OSError):
            if (
                entry.name.isdigit()
                and entry.stat().st_uid == os.getuid()
                and _config_of(entry) == kubeconfig
            ):
                yield (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")


class PodChanges(Changes):
    """Changes of the pods of a query, from `kubectl get --watch-only`. Equal queries share one watch."""

    def __init__(self, query: PodQuery) -> None:
        super().__init__()
        self._query = query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodChanges) and other._query == self._query

    def __hash__(self) -> int:
        return hash(self._query)

    def _open(self) -> tuple[Iterator[object], Callable[[], None]]:
        query = self._query
        which: tuple[str, ...] = ()  # a copy's pods have its name as a prefix, and other labels
        if query.kind not in OWNERS:
            by_name = f"--field-selector=metadata.name={query.name}"
            which = (f"--selector={query.selector}" if query.selector else by_name,)
        beginning = f"pod/{query.name[:_BEGINNING]}" if query.kind in OWNERS else ""
        arguments = ("get", "pods", *which, f"--namespace={query.namespace}", "--watch-only", "--output=name")
        child = process.start(
            (kubectl.program(), *arguments), stdout=process.PIPE, stderr=process.PIPE, new_session=True
        )

        def events() -> Iterator[object]:
            with child:
                assert child.stdout is not None  # noqa: S101 - `stdout=PIPE` above
                yield from (line for line in child.stdout if line.startswith(beginning))
                text = child.stderr.read(_MAX_STDERR_CHARS) if child.stderr is not None else ""
            if (error := explain(text, query.namespace)) is not None:
                raise error

        def end() -> None:
            child.kill()
            child.wait()

        return events(), end
