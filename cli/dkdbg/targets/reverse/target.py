"""Target for jobs connected to a waiting `dkdbg attach --listen`, queried through that process."""

from __future__ import annotations

import concurrent.futures
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.address import CALL, Address
from dkdbg.core.record import BadRecord, SeenRecord
from dkdbg.core.sessions import UNREADABLE, SeenSession, of_record, unreadable
from dkdbg.core.target import Capability, Endpoint, Executor, Kind, Target, see_ended
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.relay import remote_sessions
from dkdbg.targets.reverse import query_client, query_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.targets.reverse.jobs import ConnectedJob


#: Placeholder for the agent's command line: the agent answers queries, but no other command can be run in the job.
_AGENT = "agent"
#: Name of such a target, for messages.
_TARGET = "job that connects out"
#: Timeout for an answer to `ps`; maximum number of jobs to query at a time.
_ANSWER_TIMEOUT_S, _MAX_PARALLEL = 20.0, 32
#: Seconds without a connection until a job counts as gone: its keeper gives up then too (`agent/relay/keeper.py`).
_GONE_AFTER_S = 120.0


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A job, as the `dkdbg attach` that it is connected to describes it.

    Attributes:
        socket_path: path of that process's socket.
        editor: the port that editors attach to.
        name, id: name and id of the job's session.
        answers: verbs that its agent answers.
        why: why the job is not connected; empty while it is.
        away: seconds since it was last connected.
    """

    socket_path: str
    editor: int
    name: str
    id: str
    answers: frozenset[str]
    why: str
    away: float

    @property
    def address(self) -> str:
        """Return the job's address, as any verb accepts it."""
        return str(Address(scheme=CALL, rest=self.name))


class ReverseTarget(Target):
    """A job connected to a `dkdbg attach --listen`, which another process runs; see `core/target.py`."""

    capabilities = frozenset({Capability.ATTACH_ONLY})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._job: _Job | None = None

    @property
    def label(self) -> str:
        """Return the address, because a container may have the job's name too."""
        return str(self.address)

    def find(self) -> Executor:
        """Find the connected job of this name."""
        self._job = _found(self.address)
        return _JobExecutor(self)

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that sends a query to the job's agent."""
        if self._job is None:
            self.find()
        job = self._job
        if job is None or tty or argv[0] != _AGENT or not query_server.ANSWERED & {*argv[1:2]}:
            raise self.refusal()
        if argv[1] not in job.answers:
            raise DkdbgError(
                f"{self.label}: its agent does not support {argv[1]} over a reverse connection",
                hint="the job's dkdbg is older than yours: start the job again with your agent.pyz",
                exit_code=EXIT_CONFLICT,
            )
        if job.why:
            raise DkdbgError(
                f"{self.label} is not connected: {job.why}",
                hint="it reconnects as long as it runs; the job's log has the reason",
                exit_code=EXIT_CONFLICT,
            )
        program = (sys.executable, "-I", "-S", "-B", str(Path(query_client.__file__).resolve()))
        return (*program, job.socket_path, job.name, job.id, *argv[1:])

    def agent(self) -> tuple[str, ...] | None:
        """Return a placeholder for the agent's command line, as `wrap` expects it."""
        self.find()
        return (_AGENT,)

    def endpoint(self) -> Endpoint:
        """Return no address: the `dkdbg attach --listen` that the job is connected to serves it."""
        try:
            job = _found(self.address)
        except DkdbgError as error:
            return Endpoint(address=None, why=error.message)
        return Endpoint(
            address=None,
            why=f"attach your editor to 127.0.0.1:{job.editor}, the dkdbg attach --listen that the job is connected to",
        )

    def sessions(self) -> list[SeenSession]:
        """Return the job's session."""
        return [_seen(_found(self.address))]

    def refusal(self) -> DkdbgError:
        """Return the error for other commands; see `Target`."""
        return DkdbgError(
            f"{self.label} is a reverse connection: its agent answers queries, but cannot run commands",
            hint=f"dkdbg where {self.label}, dkdbg ranks --on {self.label} stack; attach an editor to the port of dkdbg attach --listen",
            exit_code=EXIT_USAGE,
        )


class _JobExecutor(Executor):
    """A connected job; only queries to its agent reach it."""

    def __init__(self, target: ReverseTarget) -> None:
        self.label = target.label
        self._target = target

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that sends a query to the job's agent."""
        return self._target.wrap(argv, tty=tty)


def _jobs() -> list[_Job]:
    """Return all jobs connected to a `dkdbg attach` of this user on this machine."""
    return [_job(path, each) for path, answer in query_server.servers() for each in answer]


def _job(path: str, answer: dict[str, Any]) -> _Job:
    return _Job(
        socket_path=path, editor=answer["editor"], name=answer["name"], id=answer["id"], answers=frozenset(answer["answers"]),
        why=answer["why"], away=answer["away"],
    )  # fmt: skip


def _found(address: Address) -> _Job:
    """Return the only job of this name. Raises DkdbgError: no job has this name, or several do."""
    jobs = _jobs()
    found = [each for each in jobs if each.name == address.rest]
    if len(found) == 1:
        return found[0]
    if found:
        ports = ", ".join(str(each.editor) for each in found)
        raise DkdbgError(
            f"{address}: several connected jobs have this name; the ports of their dkdbg attach --listen are {ports}",
            hint="end one of them, or name the jobs with DKDBG_NAME",
            exit_code=EXIT_CONFLICT,
        )
    if jobs:
        raise DkdbgError(
            f"{address}: no connected job has this name",
            hint="connected jobs: " + ", ".join(sorted(each.address for each in jobs)),
        )
    raise DkdbgError(
        f"{address}: no job is connected to your dkdbg attach --listen on this machine",
        hint="dkdbg attach --listen 5670 waits for one, and must keep running while you query the job",
    )


def _seen(job: _Job) -> SeenSession:
    """Return a job's session as its agent reports it, or as lost or unreadable. Never raises."""
    lost = SeenSession(
        target=_TARGET, address=job.address, id=job.id, name=job.name, state="lost", detail=job.why
    )
    if job.away > _GONE_AFTER_S:
        return lost
    try:
        found = remote_sessions.records(
            ReverseTarget(Address(scheme=CALL, rest=job.name)).find(), (_AGENT,), limit=_ANSWER_TIMEOUT_S
        )
    except DkdbgError as error:
        detail = error.message.splitlines()[0].removeprefix(f"{job.address} ")
        return replace(lost, target=job.address, state=UNREADABLE, detail=detail)
    except BadRecord as error:
        return unreadable(target=_TARGET, address=job.address, id=job.id, name=job.name, why=str(error))
    for each in found:
        if isinstance(each, SeenRecord) and each.id == job.id:
            at = f"127.0.0.1:{job.editor}"
            return of_record(
                each, live=each.live is not False, target=_TARGET, address=job.address, endpoint=at
            )
    return replace(lost, detail="its agent knows no such session")


def _named(name: str, _root: Path) -> ReverseTarget | None:
    return (
        ReverseTarget(Address(scheme=CALL, rest=name)) if any(each.name == name for each in _jobs()) else None
    )


def _sessions() -> list[SeenSession]:
    jobs = _jobs()
    if not jobs:
        return []
    with concurrent.futures.ThreadPoolExecutor(max_workers=_MAX_PARALLEL) as pool:
        return list(pool.map(_seen, jobs))


KIND = Kind(
    target=lambda address, _root: ReverseTarget(address), named=_named, sessions=_sessions, begin=see_ended
)


class ConnectedJobTarget(Target):
    """A job connected to this process, which runs `dkdbg attach --listen`; see `core/target.py`.

    Args:
        name: unique among the connected jobs.

    Attributes:
        job: the connected job; after its restart, the new one.
    """

    pause = 1.0
    capabilities = frozenset({Capability.ATTACH_ONLY})

    def __init__(self, job: ConnectedJob, name: str) -> None:
        super().__init__(
            Address(scheme=CALL, rest=name)
        )  # other verbs query the job through this process: `targets/reverse/target.py`
        self.job = job
        self.name = name

    def endpoint(self) -> Endpoint:
        """Return the relay's port."""
        why = self.job.why
        return Endpoint(
            address=(LOOPBACK, self.job.local),
            why=f"it is not connected: {why}" if why else "its session does not answer",
        )

    def close(self) -> None:
        """Drop the job."""
        self.job.close()

    def refusal(self) -> DkdbgError:
        """Return the error for other verbs; see `Target`. `attach` uses no other verb, so it is never shown."""
        return DkdbgError(f"{self.name} is a connected job: it supports only attaching", exit_code=EXIT_USAGE)
