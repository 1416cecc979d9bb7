"""Parse addresses of OpenPAI jobs and the answers of its server; see microsoft/pai, src/rest-server. No I/O.

pai://HOST[:PORT]/USER/JOB             all tasks of a job that have asked for a port for debugging
pai://HOST[:PORT]/USER/JOB/ROLE/INDEX  one of them
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.openpai.job import PORT

if TYPE_CHECKING:
    from dkdbg.core.address import Address

#: Final states of a task (docs/swagger.yaml).
ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_STATES = ENDED | {"WAITING", "RUNNING", "STOPPING", "UNKNOWN"}
_HOST = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d{1,5}))?")
_NAME = re.compile(r"[\w.@-]+")
_MOST_TASKS = 10_000


class BadAnswer(ValueError):  # noqa: N818 - a value that is no answer
    """The server's answer is invalid; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class PaiQuery:
    """A parsed address.

    Attributes:
        host, port: the platform's web server; port 0 is the protocol's default.
        role, index: those of a task; None for all tasks.
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
        ip: IP address of its node; empty before it has one.
        port: port for debugging, 0 without one.
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
        or (len(parts) == 5 and not parts[4].isdecimal())
        or int(host["port"] or 0) > 65535
    ):
        raise DkdbgError(
            f"{address} names no job of OpenPAI",
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
        found = [_task(str(name), each) for name, role in roles.items() for each in role["taskStatuses"]]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BadAnswer):
            raise
        raise BadAnswer("it is not a job with task roles") from error
    return found[:_MOST_TASKS]


def chosen(tasks: list[Task], query: PaiQuery) -> list[Task]:
    """Return the tasks that a query selects and that have a port for debugging. Raises DkdbgError: no task matches."""
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
        hint="dkdbg init --pai job.yaml asks for one in the job's YAML; then submit that", exit_code=EXIT_USAGE,
    )  # fmt: skip


def _task(role: str, value: dict[str, Any]) -> Task:
    index, state, ip = value["taskIndex"], value["taskState"], value.get("containerIp") or ""
    if not isinstance(index, int) or isinstance(index, bool) or index < 0 or not _NAME.fullmatch(role):
        raise BadAnswer("one of its tasks has no number")
    if state not in _STATES:
        raise BadAnswer(f"a task has an unknown state: {str(state)[:40]}")
    if ip:
        try:
            ip = str(ipaddress.ip_address(ip))
        except ValueError as error:
            raise BadAnswer("the address of a task is not an address") from error
    ports = value.get("containerPorts") or {}
    text = str(ports.get(PORT, "")).partition(",")[0].strip()
    port = int(text) if text.isdecimal() and 0 < int(text) < 65536 else 0
    return Task(role=role, index=index, state=state, ip=ip, port=port)


TOKEN, TOKEN_FILE, PLAIN = "DKDBG_PAI_TOKEN", "DKDBG_PAI_TOKEN_FILE", "DKDBG_PAI_HTTP"
_TO_GET_ONE = f"make an application token on your profile page of the portal, and set {TOKEN} to it, or {TOKEN_FILE} to a file with it"


def refused(status: int, body: bytes, what: str, *, has_token: bool) -> DkdbgError:
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
            f"OpenPAI does not let you look at {what}: {printable(message[:200])}", hint="ask whose job it is"
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


def unreachable(host: str, why: str, *, plain: bool) -> DkdbgError:
    """Return the error for a server that does not answer at all."""
    hint = f"is the name right, and are you in its network? It was asked by {'HTTP' if plain else 'HTTPS'}"
    if not plain:
        hint += f"; if the portal has only HTTP: {PLAIN}=1, and then anybody on the way can read your token"
    return DkdbgError(f"OpenPAI at {host} cannot be reached: {printable(why[:200])}", hint=hint)
