"""Target for a node of a job in any batch system: `slurm://LOGIN/JOB[/NODE][:SESSION]`."""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.core import sessions
from dkdbg.core.address import Address
from dkdbg.core.mapping import Workspace
from dkdbg.core.record import BadRecord, SeenRecord
from dkdbg.core.target import RUN_ABSENT, Capability, Endpoint, Kind, Target
from dkdbg.delivery.bring import bring
from dkdbg.errors import DkdbgError
from dkdbg.relay import remote_sessions
from dkdbg.targets.batch.job import NoCommandsError, job_address
from dkdbg.targets.batch.job_line import JobLine
from dkdbg.targets.batch.job_queue import JobQueue
from dkdbg.targets.ssh.login import Login

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Executor
    from dkdbg.delivery.bring import Brought
    from dkdbg.targets.batch.job import BatchSystem, JobAddress
    from dkdbg.targets.batch.job_line import Node

#: Timeout for an answer of an agent.
_AGENT_TIMEOUT_S = 30.0
#: Nodes to query at the same time: a query is a command on the login node, and sshd accepts ten per connection.
_MAX_PARALLEL = 6
#: PBS copies the output file to its place only when the job ends.
_NO_FILE = "dkdbg: {} does not exist yet: the job has printed nothing, or the batch system copies the file when the job ends"


class JobTarget(Target):
    """A node of a job; see `core/target.py`.

    Args:
        line: connection to the node, if shared with other targets.
    """

    #: Seconds between polls: each starts processes on the node, and queries the batch system, which all users of
    #: the cluster share.
    pause = 5.0
    capabilities = frozenset({Capability.REMOTE, Capability.LOGS, Capability.TIME_LIMITED})

    def __init__(self, system: BatchSystem, address: Address, line: JobLine | None = None) -> None:
        super().__init__(address)
        self._system = system
        self._named: JobAddress = job_address(address, system.job_form)
        self._line = (line or JobLine(system, Login(self._named.login), self._named, str(address))).enter()
        self._brought: Brought | None = None
        self._silent = ""

    @property
    def label(self) -> str:
        """Return the session and its node, or the job."""
        node = self._named.node or f"{self._system.scheme} job {self._named.job}"
        return f"{self._named.session} on {node}" if self._named.session else node

    def find(self) -> Executor:
        """Connect to the login node, query the job, and find out the user name on the job's node."""
        return self._line.locate(asks=True).executor

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Wrap a command with ssh or a step of the job, from the login node."""
        return self._line.found().executor.wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """Return the command of an agent on the node: that of a session, or an agent sent to the node until `close`."""
        node = self._line.found()
        if node.agents:
            return ("sh", node.agents[0])
        if self._brought is None:
            self._brought = bring(node.executor)
        return self._brought.argv

    def workspace(self) -> Workspace:
        """Return the job's working directory."""
        job = self._line.found().job
        if not job.folder:
            raise DkdbgError(
                f"job {job.id} does not report its working directory", hint="name it: --to /home/me/code"
            )
        return Workspace(local=".", remote=job.folder, why=f"job {job.id} runs there")

    def endpoint(self) -> Endpoint:
        """Return the endpoint of the named or newest session, through a relay, which outlives ssh and srun."""
        if self._line.why:  # the relay reconnects on its own
            return Endpoint(address=None, why=f"{self.label}: {self._line.why}")
        if why := self._known():
            return Endpoint(address=None, why=why)
        try:
            node = self._line.locate()
            found = [each for each in self._records(node) if isinstance(each, SeenRecord) and each.live]
        except DkdbgError as error:
            return Endpoint.failed(error)
        wanted = self._named.session
        mine = [each for each in found if wanted in {"", each.name, each.id} and each.is_of(self.run)]
        if not mine:
            why = f"no session {wanted} runs on {node.executor.label}".replace("  ", " ")
            return Endpoint(address=None, why=RUN_ABSENT if self.run else why)
        port = self._line.lead(wanted, mine[-1].port)
        return Endpoint(address=(LOOPBACK, port), why="its session does not answer")

    def sessions(self) -> list[SeenSession]:
        """Return the sessions on the node, or on all nodes if the address names none, without sending an agent.

        Raises:
            DkdbgError: no node answers.
        """
        if why := self._known():
            raise DkdbgError(why)
        asked = [self] if self._named.node else self._per_node(self._line.ask(asks=True).nodes)
        try:
            with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
                answers = list(pool.map(lambda each: each._sessions_or_error(), asked))  # noqa: SLF001 - of this class
        finally:
            for each in asked:
                if each is not self:
                    each.close()
        errors = [each for each in answers if isinstance(each, DkdbgError)]
        if len(errors) == len(answers):
            raise errors[0]
        found: list[SeenSession] = []
        for target, answer in zip(asked, answers, strict=True):
            if isinstance(answer, DkdbgError):
                place, label = f"{self._system.scheme} {self._named.job}/{target.label}", target.label
                found.append(
                    sessions.unreadable(
                        target=place, address=str(target.address), id=label, name=label, why=answer
                    )
                )
            else:
                found += answer
        return found

    def each(self) -> Sequence[Target]:
        """Return a target for each live session of the job, and for each node that cannot be queried.

        Return only this target if no session is live, or if the address names a session.
        """
        if self._named.session:
            return [self]
        try:
            seen = [each for each in self.sessions() if not each.is_ended]
        except NoCommandsError:
            self.close()
            raise
        except DkdbgError:  # the job may still start: its endpoint reports why it waits
            return [self]
        live = [each for each in seen if each.state != sessions.UNREADABLE]
        names = [(_node_of(each), each.name) for each in live]
        lines: dict[str, JobLine] = {}
        targets: list[Target] = []
        for (node, name), session in zip(names, live, strict=True):
            chosen = session.id if names.count((node, name)) > 1 else name
            address = self._at(node)
            line = lines[node] = lines.get(node) or self._line_to(node)
            try:
                targets.append(
                    JobTarget(self._system, replace(address, rest=f"{address.rest}:{chosen}"), line)
                )
            except DkdbgError:  # the name of the session does not fit an address
                targets.append(JobTarget(self._system, address, line))
        if not targets:
            return [self]
        silent = {node: each.detail for each in seen if (node := _node_of(each)) not in lines}
        for node, why in silent.items():
            target = JobTarget(self._system, self._at(node), self._line_to(node))
            target._silent = why
            targets.append(target)
        self.close()
        return targets

    def _known(self) -> str:
        """Return why `each` has just failed to query the node, once: a new query may take minutes to fail."""
        why, self._silent = self._silent, ""
        return why

    def deadlines(self) -> Sequence[Deadline]:
        """Return the job's time limit."""
        return self._line.deadlines

    def lost(self) -> str:
        """Return why a command lost its connection; see `core/target.py`."""
        return self._line.lost()

    def again(self, *, silent: bool, limit: float) -> Executor:
        """Find the job's node again after a lost connection."""
        return self._line.again(silent=silent, limit=limit).executor

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """Return the command that prints the job's output file, as the login node sees it."""
        job = self._line.ask(asks=True)
        if not job.output:
            raise DkdbgError(
                f"job {job.id} does not report its output file",
                hint="look in the folder that the job was submitted from",
            )
        file = shlex.quote(job.output)
        tail = f"tail -n {'+1' if lines is None else lines} {'-f ' if follow else ''}-- {file}"
        missing = f"echo {shlex.quote(_NO_FILE.format(job.output))} >&2; exit 1"
        return self._line.login.executor(asks=False).wrap(
            ("sh", "-c", f"[ -e {file} ] || {{ {missing}; }}; exec {tail}")
        )

    def over(self) -> Sequence[str]:
        """Return the command that checks, on the node, whether the job is over: this machine may sleep."""
        return ("sh", "-c", self._system.over(self._line.found().job.id))

    def close(self) -> None:
        """Close the relay and the connection, and release the agent."""
        if self._brought is not None:
            self._brought.close()
            self._brought = None
        self._line.leave()

    def _per_node(self, nodes: Sequence[str]) -> list[JobTarget]:
        return [JobTarget(self._system, self._at(node), self._line_to(node)) for node in nodes if node] or [
            self
        ]

    def _line_to(self, node: str) -> JobLine:
        """Return a line to a node of the job over this target's connection to the login node."""
        named = replace(self._named, node=node, nodes=() if self._named.node else self._line.nodes)
        return JobLine(self._system, self._line.login, named, str(self._at(node)))

    def _at(self, node: str) -> Address:
        """Return the address of a node of the job."""
        login, job = self.address.parts[:2]
        return Address(scheme=self.address.scheme, rest=f"{login}/{job.partition(':')[0]}/{node}")

    def _sessions_or_error(self) -> list[SeenSession] | DkdbgError:
        try:
            return self._remote_sessions()
        except DkdbgError as error:
            return error

    def _remote_sessions(self) -> list[SeenSession]:
        node = self._line.locate(asks=True)
        wanted = [
            each
            for each in self._records(node)
            if isinstance(each, str) or self._named.session in {"", each.name, each.id}
        ]
        where, at = (
            f"{self._system.scheme} {self._named.job}/{node.executor.node}",
            self._at(node.executor.node),
        )
        found = sessions.of_records(wanted, target=where, address=str(at), label=self.label)
        return found if len(found) < 2 else [replace(each, address=f"{at}:{each.id}") for each in found]

    def _records(self, node: Node) -> list[SeenRecord | str]:
        """Return the records of the job's sessions on the node, oldest first; for an unreadable one, the reason.

        Another job of the same user may run on the node. A session that was started by ssh has no job, and is
        included.
        """
        if not node.agents:
            return []
        try:
            found = remote_sessions.records(node.executor, ("sh", node.agents[0]), limit=_AGENT_TIMEOUT_S)
        except BadRecord as error:
            return [str(error)]
        asked = {each for job in (self._named.job, node.job.id) for each in (job, job.partition(".")[0])}
        return [
            each
            for each in found
            if not isinstance(each, SeenRecord) or not each.jobs or not asked.isdisjoint(each.jobs)
        ]


def _node_of(session: SeenSession) -> str:
    return session.address.rpartition("/")[2].partition(":")[0]


def kind_of(system: BatchSystem) -> Kind:
    """Return the kind of a batch system's targets and queue."""
    return Kind(
        target=lambda address, _root: JobTarget(system, address),
        queue=lambda address: JobQueue(system, address),
    )
