"""Target for tasks of an OpenPAI job: `pai://HOST/USER/JOB[/ROLE/INDEX]`; it supports only attaching."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.core.address import parse
from dkdbg.core.record import BadRecord, decode
from dkdbg.core.record import parse as record_of
from dkdbg.core.sessions import SeenSession, of_record, unreadable
from dkdbg.core.target import Capability, Endpoint, Kind, Target, see_ended
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.openpai import rest
from dkdbg.targets.openpai.rest import ENDED, BadAnswer, chosen, query_of, tasks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.address import Address
    from dkdbg.core.record import SeenRecord
    from dkdbg.targets.openpai.rest import Task

#: Timeout for an answer of the server, and its maximum bytes, enough for a job with thousands of tasks.
_ANSWER_TIMEOUT_S = 20.0
_MAX_ANSWER = 32 << 20
#: Seconds to wait for a greeting: pdb sends one first.
_GREETING_TIMEOUT_S = 0.5
_CONNECT = 3.0
#: Maximum bytes of an agent's record.
_MAX_RECORD_BYTES = 1 << 20
#: Greetings of pdb, and of a debugpy without dkdbg.
_OF_PDB, _OF_DEBUGPY = b"token: ", b"Content-Length: "


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
                why=f"pdb waits at {at}: nc {task.ip} {task.port}; for an editor the job has to say --dap",
            )
        if greeting == _OF_DEBUGPY:
            return Endpoint(address=None, why=f"a debugpy without dkdbg listens at {at}")
        why = f"nothing waits for an editor at {at} yet; the job's log says when"
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
        query, plain = query_of(self.address), os.environ.get(rest.PLAIN, "") == "1"
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
                        raise rest.unreachable(where, "its answer does not end", plain=plain)
        except (OSError, http.client.HTTPException, ssl.CertificateError, ValueError) as error:
            why = (
                getattr(error, "verify_message", "")
                or getattr(error, "strerror", "")
                or str(error)
                or type(error).__name__
            )
            raise rest.unreachable(where, str(why), plain=plain) from error
        if answer.status != 200:
            what = f"job {query.job} of {query.user}"
            raise rest.refused(answer.status, body, what, has_token=bool(token))
        return body

    def _bad(self, error: BadAnswer) -> DkdbgError:
        return DkdbgError(
            f"what {self.address.parts[0]} says of the job cannot be understood: {error}",
            hint="is that host an OpenPAI portal? A browser shows it at /rest-server/api/v2/info",
        )

    def refusal(self) -> DkdbgError:
        """Return the error for verbs other than attaching; see `Target`."""
        return DkdbgError(
            f"{self.address} is a task of OpenPAI: you can attach to it, but not run commands in it",
            hint=f"dkdbg attach {self.address}; for commands the job needs the platform's ssh plugin, and is then ssh://HOST",
            exit_code=EXIT_USAGE,
        )


def _token() -> str:
    """Return this user's token for the server; empty without one. Raises DkdbgError: its file cannot be read."""
    if text := os.environ.get(rest.TOKEN, "").strip():
        return _checked(text, rest.TOKEN)
    path = os.environ.get(rest.TOKEN_FILE, "")
    if not path:
        return ""
    try:
        return _checked(Path(path).read_text().strip(), rest.TOKEN_FILE)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise DkdbgError(
            f"{rest.TOKEN_FILE}={path} cannot be read: {why}", hint="write the token there, or unset it"
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
    if record is None:  # a pdb that has its only client already
        return seen(state="attached", name="pdb, by nc", detail="somebody is there")
    return of_record(record, live=True, target=target, address=address, endpoint=at)


def _target(address: Address, _root: Path) -> PaiTarget:
    query_of(address)
    return PaiTarget(address)


KIND = Kind(target=_target, begin=see_ended)
