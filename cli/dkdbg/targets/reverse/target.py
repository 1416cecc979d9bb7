"""Jobs that have called a waiting `dkdbg attach --listen`: `call://JOB`. That one has the way to them, and lets others ask."""

from __future__ import annotations

import concurrent.futures
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.core.address import CALL, Address
from dkdbg.core.record import BadRecord, SeenRecord
from dkdbg.core.sessions import UNREADABLE, SeenSession, of_record, unreadable
from dkdbg.core.target import Capability, Endpoint, Kind, Reach, Target, see_ended
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.relay import remote_sessions
from dkdbg.targets.reverse import query_client, query_server

if TYPE_CHECKING:
    from collections.abc import Sequence


#: What stands for the agent's command line there: its questions are answered, and nothing else is run.
_AGENT = "agent"
#: Where such a session runs, for people.
_TARGET = "job that has called"
#: Seconds for an answer to `ps`; jobs that are asked at one time.
_LIMIT, _PARALLEL = 20.0, 32
#: Seconds without a call until a job counts as gone: its keeper waits no longer either (`agent/relay/keeper.py`).
_GONE = 120.0


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A job, as the `dkdbg attach` says it that has its line.

    Attributes:
        desk: path of that one's socket. editor: the port that editors attach to.
        name, id: of the job's session. answers: what its agent can be asked.
        why: why it is not connected; empty while it is. away: seconds since it was.
    """

    desk: str
    editor: int
    name: str
    id: str
    answers: frozenset[str]
    why: str
    away: float

    @property
    def address(self) -> str:
        """As any verb takes it."""
        return str(Address(scheme=CALL, rest=self.name))


class CallTarget(Target):
    """See `core/target.py`."""

    capabilities = frozenset({Capability.ATTACH_ONLY})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._job: _Job | None = None

    @property
    def label(self) -> str:
        """The address: the job's name may be that of a container too."""
        return str(self.address)

    def find(self) -> Reach:
        """The job that has called under this name."""
        self._job = _found(self.address)
        return _JobReach(self)

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """A question to its agent."""
        if self._job is None:
            self.find()
        job = self._job
        if job is None or tty or argv[0] != _AGENT or not query_server.ANSWERED & {*argv[1:2]}:
            raise self.refusal()
        if argv[1] not in job.answers:
            raise DkdbgError(
                f"{self.label}: its agent does not answer {argv[1]} to who waits for its call",
                hint="its dkdbg is older than this one: start the job again with an agent.pyz of this one",
                exit_code=EXIT_CONFLICT,
            )
        if job.why:
            raise DkdbgError(
                f"{self.label} is not connected: {job.why}",
                hint="it calls again by itself as long as it runs; the job's log says what hinders it",
                exit_code=EXIT_CONFLICT,
            )
        program = (sys.executable, "-I", "-S", "-B", str(Path(query_client.__file__).resolve()))
        return (*program, job.desk, job.name, job.id, *argv[1:])

    def agent(self) -> tuple[str, ...] | None:
        """Its questions."""
        self.find()
        return (_AGENT,)

    def endpoint(self) -> Endpoint:
        """Return no address: the `dkdbg attach --listen` that took the call serves it."""
        try:
            job = _found(self.address)
        except DkdbgError as error:
            return Endpoint(address=None, why=error.message)
        return Endpoint(
            address=None,
            why=f"attach your editor to 127.0.0.1:{job.editor}: that is the dkdbg attach --listen which it called",
        )

    def sessions(self) -> list[SeenSession]:
        """The job's session."""
        return [_seen(_found(self.address))]

    def refusal(self) -> DkdbgError:
        """See `Target`."""
        return DkdbgError(
            f"{self.label} is a job that has called here: its agent can be asked, and nothing can be run there",
            hint=f"dkdbg where {self.label}, dkdbg ranks --on {self.label} stack; an editor attaches to the dkdbg attach --listen that it called",
            exit_code=EXIT_USAGE,
        )


class _JobReach(Reach):
    """The agent of a job, as something that its questions are asked of."""

    def __init__(self, target: CallTarget) -> None:
        self.label = target.label
        self._target = target

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """A question to the agent."""
        return self._target.wrap(argv, tty=tty)


def _jobs() -> list[_Job]:
    """All that have called a `dkdbg attach` of this user on this machine."""
    return [_job(path, each) for path, said in query_server.desks() for each in said]


def _job(path: str, said: dict[str, Any]) -> _Job:
    return _Job(
        desk=path, editor=said["editor"], name=said["name"], id=said["id"], answers=frozenset(said["answers"]),
        why=said["why"], away=said["away"],
    )  # fmt: skip


def _found(address: Address) -> _Job:
    """The only job of this name.

    Raises:
        DkdbgError: there is none, or several.
    """
    jobs = _jobs()
    found = [each for each in jobs if each.name == address.rest]
    if len(found) == 1:
        return found[0]
    if found:
        ports = ", ".join(str(each.editor) for each in found)
        raise DkdbgError(
            f"{address}: several jobs of this name have called; the ports of their dkdbg attach --listen are {ports}",
            hint="end one of them, or name the jobs with DKDBG_NAME",
            exit_code=EXIT_CONFLICT,
        )
    if jobs:
        raise DkdbgError(
            f"{address}: no job of this name has called",
            hint="those that have: " + ", ".join(sorted(each.address for each in jobs)),
        )
    raise DkdbgError(
        f"{address}: no job has connected to a dkdbg attach --listen of yours on this machine",
        hint="dkdbg attach --listen 5670 waits for one, and has to go on while the job is asked",
    )


def _seen(job: _Job) -> SeenSession:
    """Its session, as its agent says it now. Never raises: it is there, whatever it says."""
    lost = SeenSession(
        target=_TARGET, address=job.address, id=job.id, name=job.name, state="lost", detail=job.why
    )
    if job.away > _GONE:
        return lost
    try:
        found = remote_sessions.records(
            CallTarget(Address(scheme=CALL, rest=job.name)).find(), (_AGENT,), limit=_LIMIT
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


def _target(address: Address, _root: Path) -> CallTarget:
    return CallTarget(address)


def _named(name: str, _root: Path) -> CallTarget | None:
    return CallTarget(Address(scheme=CALL, rest=name)) if any(each.name == name for each in _jobs()) else None


def _sessions() -> list[SeenSession]:
    jobs = _jobs()
    if not jobs:
        return []
    with concurrent.futures.ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
        return list(pool.map(_seen, jobs))


KIND = Kind(target=_target, named=_named, sessions=_sessions, begin=see_ended)
