"""Target for tasks of an OpenPAI job; it supports only attaching. For the server's answers see microsoft/pai, src/rest-server.

pai://HOST[:PORT]/USER/JOB             all tasks of a job that have a debug port
pai://HOST[:PORT]/USER/JOB/ROLE/INDEX  one of them
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dkdbg.core.address import parse
from dkdbg.core.record import BadRecord, decode
from dkdbg.core.record import parse as record_of
from dkdbg.core.sessions import SeenSession, of_record, unreadable
from dkdbg.core.target import Capability, Endpoint, Kind, Target, see_ended
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.printable import printable
from dkdbg.targets.openpai.job import PORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.address import Address
    from dkdbg.core.record import SeenRecord

#: Timeout for an answer of the server, and its maximum bytes, enough for a job with thousands of tasks.
_ANSWER_TIMEOUT_S = 20.0
_MAX_ANSWER = 32 << 20
#: Seconds to wait for a greeting, which pdb sends when a client connects.
_GREETING_TIMEOUT_S = 0.5
_CONNECT = 3.0
#: Maximum bytes of an agent's record.
_MAX_RECORD_BYTES = 1 << 20
#: Greetings of pdb, and of a debugpy without dkdbg.
_OF_PDB, _OF_DEBUGPY = b"token: ", b"Content-Length: "
#: Final states of a task (docs/swagger.yaml).
ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_STATES = ENDED | {"WAITING", "RUNNING", "STOPPING", "UNKNOWN"}
_HOST = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d{1,5}))?")
_NAME = re.compile(r"[\w.@-]+")
_MAX_TASKS = 10_000


class PaiTarget(Target):
    """Tasks of a job; see `core/target.py`."""

    capabilities = frozenset({Capability.ATTACH_ONLY})

    @property
    def label(self) -> str:
        """Return user, job and task."""
        return "/".join(self.address.parts[1:])

    def each(self) -> Sequence[PaiTarget]:
        """Return the tasks that have a port for debugging."""
        query, tasks = query_of(self.address), self._tasks()
        return [self] if len(tasks) == 1 else [PaiTarget(parse(query.task(each))) for each in tasks]

    def endpoint(self) -> Endpoint:
        """Return the task's port if an agent listens on it."""
        try:
            tasks = self._tasks()
        except DkdbgError as error:
            return Endpoint(
                address=None, why=f"{error.message}; {error.hint}" if error.hint else error.message
            )
        task = tasks[0]
        at = f"{task.ip}:{task.port}"
        if task.state != "RUNNING" or not task.port:
            return Endpoint(address=None, why=f"the task {task.label} is {task.state.lower()}")
        greeting = _greeting(task)
        if greeting == _OF_PDB:
            return Endpoint(
                address=None,
                why=f"pdb waits at {at}: nc {task.ip} {task.port}; for an editor, the job needs --dap",
            )
        if greeting == _OF_DEBUGPY:
            return Endpoint(address=None, why=f"a debugpy without dkdbg listens at {at}")
        why = f"nothing waits for an editor at {at} yet; see the job's log"
        return Endpoint(address=None if greeting is None else (task.ip, task.port), why=why)

    def sessions(self) -> list[SeenSession]:
        """Return the session of each task that has a port for debugging."""
        query = query_of(self.address)
        return [_seen(each, query.task(each)) for each in self._tasks()]

    def _tasks(self) -> Sequence[Task]:
        """Return the tasks that have a port for debugging."""
        try:
            return chosen(tasks_of(self._job()), query_of(self.address))
        except BadAnswer as error:
            raise self._bad(error) from error

    def _job(self) -> bytes:
        """Request the job from the server. Raises DkdbgError: the server does not answer, or refuses."""
        query, plain = query_of(self.address), os.environ.get(PLAIN, "") == "1"
        kind = http.client.HTTPConnection if plain else http.client.HTTPSConnection
        token = _token()
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        where = self.address.parts[0]
        end = time.monotonic() + _ANSWER_TIMEOUT_S
        try:
            with contextlib.closing(
                kind(query.host, query.port or None, timeout=_ANSWER_TIMEOUT_S)
            ) as connection:
                connection.request("GET", query.path, headers=headers)
                answer, body = connection.getresponse(), b""
                while more := answer.read1(1 << 16):
                    body += more
                    if len(body) > _MAX_ANSWER or time.monotonic() > end:
                        raise _unreachable(where, "its answer is incomplete", plain=plain)
        except (OSError, http.client.HTTPException, ssl.CertificateError, ValueError) as error:
            why = (
                getattr(error, "verify_message", "")
                or getattr(error, "strerror", "")
                or str(error)
                or type(error).__name__
            )
            raise _unreachable(where, str(why), plain=plain) from error
        if answer.status != 200:
            what = f"job {query.job} of {query.user}"
            raise _refused(answer.status, body, what, has_token=bool(token))
        return body

    def _bad(self, error: BadAnswer) -> DkdbgError:
        return DkdbgError(
            f"invalid answer from {self.address.parts[0]} about the job: {error}",
            hint="is that host an OpenPAI portal? A browser shows it at /rest-server/api/v2/info",
        )

    def refusal(self) -> DkdbgError:
        """Return the error for verbs other than attaching; see `Target`."""
        return DkdbgError(
            f"{self.address} is a task of OpenPAI: you can attach to it, but not run commands in it",
            hint=f"dkdbg attach {self.address}; to run commands, submit the job with the platform's ssh plugin and use ssh://HOST",
            exit_code=EXIT_USAGE,
        )


def _token() -> str:
    """Return this user's token for the server; empty without one. Raises DkdbgError: its file cannot be read."""
    if text := os.environ.get(TOKEN, "").strip():
        return _checked(text, TOKEN)
    path = os.environ.get(TOKEN_FILE, "")
    if not path:
        return ""
    try:
        return _checked(Path(path).read_text().strip(), TOKEN_FILE)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise DkdbgError(
            f"{TOKEN_FILE}={path} cannot be read: {why}", hint="write the token to that file, or unset it"
        ) from error


def _checked(token: str, name: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise DkdbgError(
            f"{name} has blanks or line breaks, which no token has", hint="copy it again from the portal"
        )
    return token


def _greeting(task: Task) -> bytes | None:
    """Return the greeting of the task's port: empty if it waits silently, None if nothing listens.

    The greeting is read before closing: otherwise debugpy accepts no further connection (debugpy #1308).
    """
    try:
        with socket.create_connection((task.ip, task.port), timeout=_CONNECT) as sock:
            sock.settimeout(_GREETING_TIMEOUT_S)
            try:
                data = sock.recv(4096)
            except TimeoutError:
                return b""
    except OSError:
        return None
    return next((each for each in (_OF_PDB, _OF_DEBUGPY) if data.startswith(each)), b"")


def _record(task: Task) -> SeenRecord | None:
    """Return the record of the agent at a task's port; None without an answer.

    Raises:
        BadRecord: the answer is invalid.
    """
    end = time.monotonic() + _CONNECT
    try:
        with contextlib.closing(
            http.client.HTTPConnection(task.ip, task.port, timeout=_CONNECT)
        ) as connection:
            connection.request("GET", "/status")
            answer, body = connection.getresponse(), b""
            while (
                (more := answer.read1(1 << 16)) and len(body) < _MAX_RECORD_BYTES and time.monotonic() < end
            ):
                body += more
    except (OSError, http.client.HTTPException, ValueError):
        return None
    what = f"another program listens at {task.ip}:{task.port}; the job's log says where the debugger waits"
    if answer.status != http.client.OK:
        raise BadRecord(what)
    try:
        value = decode(body)
    except BadRecord as error:
        raise BadRecord(what) from error
    return record_of(value)


def _seen(task: Task, address: str) -> SeenSession:
    target, at = f"task {task.label}", f"{task.ip}:{task.port}"
    seen = partial(SeenSession, target=target, address=address, id=task.label, name="-")
    if task.state in ENDED:
        return seen(state="exited", detail=task.state.lower())
    if task.state != "RUNNING" or not task.port:
        state = "queued" if task.state == "WAITING" else task.state.lower()
        return seen(state=state, detail="it does not run yet")
    greeting = _greeting(task)
    if greeting == _OF_PDB:
        by_nc = f"nc {task.ip} {task.port}; the job's log has its token"
        return seen(state="waiting", name="pdb, by nc", endpoint=at, manual_command=by_nc)
    if greeting == _OF_DEBUGPY:
        return seen(state="waiting", name="debugpy", endpoint=at, detail="a debugpy without dkdbg")
    if greeting is None:
        return seen(state="running", detail=f"nothing listens at {at}")
    try:
        record = _record(task)
    except BadRecord as error:
        return unreadable(target=target, address=address, id=task.label, name=task.label, why=str(error))
    if record is None:  # pdb accepts one client, and has it already
        return seen(state="attached", name="pdb, by nc", detail="in use")
    return of_record(record, live=True, target=target, address=address, endpoint=at)


def _target(address: Address, _root: Path) -> PaiTarget:
    query_of(address)
    return PaiTarget(address)


KIND = Kind(target=_target, begin=see_ended)


class BadAnswer(ValueError):  # noqa: N818 - a value that is no answer
    """The server's answer is invalid; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class PaiQuery:
    """A parsed address.

    Attributes:
        host, port: the platform's web server; port 0 is the protocol's default.
        role, index: role and index of one task; None for all tasks.
    """

    host: str
    port: int
    user: str
    job: str
    role: str | None
    index: int | None

    @property
    def path(self) -> str:
        """Return the path of the request for the job."""
        return f"/rest-server/api/v2/jobs/{quote(self.user, safe='')}~{quote(self.job, safe='')}"

    @property
    def whole(self) -> str:
        """Return the address of the job."""
        at = f"[{self.host}]" if ":" in self.host else self.host
        at += f":{self.port}" if self.port else ""
        return f"pai://{at}/{self.user}/{self.job}"

    def task(self, task: Task) -> str:
        """Return the address of one task."""
        return f"{self.whole}/{task.role}/{task.index}"


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task of a job.

    Attributes:
        state: one of the platform's states.
        ip: IP address of its node; empty before it has a node.
        port: port for debugging, 0 if it has none.
    """

    role: str
    index: int
    state: str
    ip: str
    port: int

    @property
    def label(self) -> str:
        """Return role and index, for messages."""
        return f"{self.role}/{self.index}"


def query_of(address: Address) -> PaiQuery:
    """Parse an address. Raises DkdbgError: the address is invalid."""
    parts = address.parts
    host = _HOST.fullmatch(parts[0])
    wrong = host is None or len(parts) not in {3, 5} or not all(_NAME.fullmatch(each) for each in parts[1:])
    if (
        host is None
        or wrong
        or (len(parts) == 5 and whole_number(parts[4]) is None)
        or int(host["port"] or 0) > 65535
    ):
        raise DkdbgError(
            f"{address} is not the address of an OpenPAI job",
            hint="pai://HOST/USER/JOB, or one task of it: pai://HOST/USER/JOB/worker/0", exit_code=EXIT_USAGE,
        )  # fmt: skip
    return PaiQuery(
        host=host["host"].strip("[]"), port=int(host["port"] or 0), user=parts[1], job=parts[2],
        role=parts[3] if len(parts) == 5 else None, index=int(parts[4]) if len(parts) == 5 else None,
    )  # fmt: skip


def tasks_of(body: bytes) -> list[Task]:
    """Return the tasks of a job, in the server's order.

    Args:
        body: the answer to GET /api/v2/jobs/USER~JOB.

    Raises:
        BadAnswer: the body is invalid.
    """
    try:
        roles = json.loads(body)["taskRoles"]
        found = [_task_of(str(name), each) for name, role in roles.items() for each in role["taskStatuses"]]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BadAnswer):
            raise
        raise BadAnswer("it is not a job with task roles") from error
    return found[:_MAX_TASKS]


def chosen(tasks: list[Task], query: PaiQuery) -> list[Task]:
    """Return the selected tasks that have a port for debugging, or all selected ones while none has a node.

    Raises:
        DkdbgError: no task is selected, or none has such a port.
    """
    asked = [
        each for each in tasks if query.role is None or (each.role, each.index) == (query.role, query.index)
    ]
    job = f"the job {query.job} of {query.user}"
    if not asked:
        listed = ", ".join(each.label for each in tasks[:12])
        raise DkdbgError(
            f"{job} has no task {query.role}/{query.index}, it has: {listed or 'none yet'}",
            hint=f"dkdbg ps {query.whole}", exit_code=EXIT_USAGE,
        )  # fmt: skip
    found = [each for each in asked if each.port]
    if found or not any(each.ip for each in asked):  # a task gets its ports together with its node
        return found or asked
    raise DkdbgError(
        f"{job} has no task with a port called {PORT}",
        hint="dkdbg init --pai job.yaml adds one to the job's YAML; then submit the job again", exit_code=EXIT_USAGE,
    )  # fmt: skip


def _task_of(role: str, value: dict[str, Any]) -> Task:
    index, state, ip = value["taskIndex"], value["taskState"], value.get("containerIp") or ""
    if not isinstance(index, int) or isinstance(index, bool) or index < 0 or not _NAME.fullmatch(role):
        raise BadAnswer(f"a task has an invalid role or number: {role[:40]}/{str(index)[:40]}")
    if state not in _STATES:
        raise BadAnswer(f"a task has an unknown state: {str(state)[:40]}")
    if ip:
        try:
            ip = str(ipaddress.ip_address(ip))
        except ValueError as error:
            raise BadAnswer("a task has an invalid IP address") from error
    ports = value.get("containerPorts") or {}
    text = str(ports.get(PORT, "")).partition(",")[0].strip()
    port = whole_number(text, 65535) or 0
    return Task(role=role, index=index, state=state, ip=ip, port=port)


TOKEN, TOKEN_FILE, PLAIN = "DKDBG_PAI_TOKEN", "DKDBG_PAI_TOKEN_FILE", "DKDBG_PAI_HTTP"
_TO_GET_ONE = f"create an application token on your profile page in the portal; set {TOKEN} to it, or {TOKEN_FILE} to a file that contains it"


def _refused(status: int, body: bytes, what: str, *, has_token: bool) -> DkdbgError:
    """Return the error for an answer other than 200.

    Args:
        body: {"code", "message"} (src/rest-server/src/utils/error.js).
        what: the requested object, for messages.
        has_token: whether a token was sent.
    """
    try:
        answer = json.loads(body)
        code, message = str(answer.get("code", "")), str(answer.get("message", ""))
    except (ValueError, AttributeError, RecursionError):
        code, message = "", ""
    if code == "UnauthorizedUserError" or status == 401:
        if not has_token:
            return DkdbgError("OpenPAI requires a token", hint=_TO_GET_ONE)
        return DkdbgError("OpenPAI rejects the token: it has expired or was revoked", hint=_TO_GET_ONE)
    if code in {"NoJobError", "NoTaskError"} or (status == 404 and code):
        return DkdbgError(
            f"OpenPAI has no {what}: {printable(message[:200])}",
            hint="the names are those of the portal's address: .../job-detail.html?username=USER&jobName=JOB",
        )
    if code == "ForbiddenUserError" or status == 403:
        return DkdbgError(
            f"OpenPAI does not let you look at {what}: {printable(message[:200])}",
            hint="ask the owner of the job for access",
        )
    if status in {301, 302, 307, 308}:
        return DkdbgError(
            "the server redirects elsewhere, and your token is not sent there",
            hint="name the host that it redirects to, as a browser shows it: pai://HOST/USER/JOB",
        )
    return DkdbgError(
        f"the server answered {status} when asked for {what}{': ' + printable(message[:200]) if message else ''}",
        hint="is that host an OpenPAI portal? A browser shows it at /rest-server/api/v2/info",
    )


def _unreachable(host: str, why: str, *, plain: bool) -> DkdbgError:
    """Return the error for a server that does not answer at all."""
    hint = f"is the name right, and are you in its network? dkdbg used {'HTTP' if plain else 'HTTPS'}"
    if not plain:
        hint += f"; if the portal has only HTTP: {PLAIN}=1, but then anyone on the network path can read your token"
    return DkdbgError(f"OpenPAI at {host} cannot be reached: {printable(why[:200])}", hint=hint)
