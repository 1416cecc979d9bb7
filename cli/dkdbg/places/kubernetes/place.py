"""A container of a pod: `k8s://NAMESPACE/POD[/CONTAINER]`; what POD may be, `targets/pod_address.py` says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import DkdbgError
from dkdbg.places.kubernetes import kubectl, local_runs
from dkdbg.places.kubernetes.changes import PodChanges
from dkdbg.printable import printable
from dkdbg.targets import brought, mapping
from dkdbg.targets.address import Address
from dkdbg.targets.kubectl_errors import last_line
from dkdbg.targets.place import Door, Kind, Workspace
from dkdbg.targets.pod import PodReach, choose, not_ready
from dkdbg.targets.pod_address import query_of
from dkdbg.targets.record import BadRecord, decode, parse
from dkdbg.targets.sessions import UNREADABLE, SeenSession, of_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.targets.place import Changes, Reach
    from dkdbg.targets.pod import Pod

SCHEME = "k8s"
#: Seconds within which something in a pod answers, bytes of its answer, its sessions that are read.
_ANSWER_LIMIT = 20.0
_MAX_ANSWER = 8 << 20
_MAX_SESSIONS = 100
#: Pods that are asked at the same time.
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class _Found:
    pod: Pod
    container: str
    reach: PodReach


class PodPlace:
    """See `targets/place.py`."""

    #: A cluster is asked by a process, and tells of changes.
    pause = 3.0

    def __init__(self, address: Address) -> None:
        self.address = address
        self._query = query_of(address)
        self._found: _Found | None = None

    @property
    def label(self) -> str:
        """The pod, or what stands for it."""
        return self._query.label

    def find(self) -> Reach:
        """The pod that runs now. Another one of this name that comes later answers in its place: kubectl knows names."""
        found = self._look()
        if found.container in found.pod.trouble:
            raise not_ready(found.pod, found.container, self._query.namespace)
        self._found = found
        return found.reach

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """`kubectl exec`."""
        return self._running().reach.wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """The one that runs there, wherever it lies: the pod is asked, whose own it is."""
        done = self._read(brought.finding_words())
        path = brought.agent_in(done.stdout) if not done.code else None
        return None if path is None else ("sh", path)

    def workspace(self) -> Workspace:
        """What `init` planned, else the folder in which commands of this container run."""
        found = self._running()
        planned = mapping.workspace_of(found.pod.mappings.get(found.container, ""))
        if planned is not None:
            return planned
        said = found.pod.workdirs.get(found.container, "")
        if said:
            why = "the workingDir of the pod"
        else:
            done = self._read(("pwd",))
            said, why = done.stdout.removesuffix("\n"), "the working folder of the container"
            if done.code:
                raise found.reach.explain(done.stderr) or DkdbgError(
                    f"{found.reach.label} does not say its working folder: {printable(last_line(done.stderr))}",
                    hint="name the folder: dkdbg sync TARGET --to /path/in/the/container",
                )
        if not said.startswith("/") or not said.isprintable() or not said.strip("/"):
            raise mapping.unknown("the pod: no mapping, no workingDir, no WORKDIR of its image")
        return Workspace(local=".", remote=said, why=why)

    def door(self) -> Door:
        """None: what listens in a pod is on the pod's own loopback."""
        try:
            found = self._look()
        except DkdbgError as error:
            return Door(endpoint=None, why=error.message.splitlines()[0])
        trouble = found.pod.trouble.get(found.container)
        if trouble:
            return Door(endpoint=None, why=f"nothing can be run in the pod {found.pod.name}: {trouble}")
        return Door(
            endpoint=None, why=f"the debug port of the pod {found.pod.name} cannot be reached from here yet"
        )

    def changes(self) -> Changes | None:
        """A watch of the cluster's."""
        return PodChanges(self._query)

    def sessions(self) -> list[SeenSession]:
        """What the agent in it says; nothing of a pod without one."""
        found = self._running()
        agent = self.agent()
        if agent is None:
            return []
        try:
            done = self._read((*agent, "sessions", "--json"))
            said = [] if done.code else decode(done.stdout)
        except (DkdbgError, BadRecord) as error:
            return [self._unreadable(found.pod.name, str(error))]
        return [
            self._seen(value, found) for value in (said[:_MAX_SESSIONS] if isinstance(said, list) else [said])
        ]

    def close(self) -> None:
        """Nothing was opened."""

    def _look(self) -> _Found:
        """The pod that is meant now, running or not.

        Raises:
            DkdbgError: there is none, several fit, or the cluster cannot be asked.
        """
        query = self._query
        pod = choose(kubectl.pods(query), query)
        container = pod.container(query.container)
        label = f"{SCHEME}://{query.namespace}/{pod.name}" + (f"/{container}" if pod.containers[1:] else "")
        reach = PodReach(
            program=kubectl.program(), namespace=query.namespace, pod=pod.name, container=container, label=label
        )  # fmt: skip
        return _Found(pod=pod, container=container, reach=reach)

    def _running(self) -> _Found:
        if self._found is None:
            self.find()
        assert self._found is not None  # noqa: S101 - `find` has it, or raises
        return self._found

    def _read(self, argv: Sequence[str]) -> process.Result:
        return process.read(self.wrap(argv), most=_MAX_ANSWER, timeout=_ANSWER_LIMIT)

    def _seen(self, value: object, found: _Found) -> SeenSession:
        try:
            record = parse(value)
        except BadRecord as error:  # whoever is root in there may have written it
            return self._unreadable(found.pod.name, str(error))
        target = f"pod {self._query.namespace}/{found.pod.name}"
        address = found.reach.label
        return of_record(record, live=bool(record.live), target=target, address=address, endpoint="")

    def _unreadable(self, pod: str, why: str) -> SeenSession:
        return SeenSession(
            target=f"pod {self._query.namespace}/{pod}", address=str(self.address), id=pod, name=pod, state=UNREADABLE,
            detail=f"what its agent says cannot be understood: {why}",
        )  # fmt: skip


def _place(address: Address, _root: Path) -> PodPlace:
    return PodPlace(address)


def _sessions() -> list[SeenSession]:
    """Of the pods in which this user runs something from here: to ask every pod of a cluster is not for a listing."""
    places = [PodPlace(Address(scheme=SCHEME, rest=each)) for each in local_runs.pods()]

    def asked(place: PodPlace) -> list[SeenSession]:
        try:
            return place.sessions()
        except DkdbgError as error:
            return [place._unreadable(place.label, error.message.splitlines()[0])]  # noqa: SLF001 - this module's

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [session for found in pool.map(asked, places) for session in found]


KIND = Kind(place=_place, sessions=_sessions)
