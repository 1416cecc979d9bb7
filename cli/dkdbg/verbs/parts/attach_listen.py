"""`dkdbg attach --listen`: wait for jobs that can only open outgoing connections."""

from __future__ import annotations

import os
import shlex
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent import settings
from dkdbg.agent.proxy.listener import proof
from dkdbg.agent.state.runtime_dir import RuntimeDirError
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.setup.render import token_file
from dkdbg.targets.reverse import certificate
from dkdbg.targets.reverse.jobs import JobListener
from dkdbg.targets.reverse.query_server import QueryServer
from dkdbg.targets.reverse.target import ConnectedJobTarget

if TYPE_CHECKING:
    import contextlib

    from dkdbg.attach.upstream import Upstream
    from dkdbg.targets.reverse.jobs import ConnectedJob
    from dkdbg.verbs.parts.attach_proxy import AttachProxy, Reporting


def token_of(reporter: Reporting) -> str:
    """Return this user's token; create one if it is missing.

    Raises:
        DkdbgError: the token cannot be read or created, or is short enough to guess.
    """
    token = token_file.read(os.environ)
    if token is None:
        token = token_file.make(os.environ)
        reporter.line(f"created a token: {token_file.path(os.environ)}")
    if len(token) < proof.MIN_TOKEN_CHARACTERS:
        what = f"has {len(token)} characters" if token else "is empty"
        where, remove = settings.ENV_TOKEN, f"unset {settings.ENV_TOKEN}, and dkdbg creates one"
        if settings.ENV_TOKEN not in os.environ:
            where = str(token_file.path(os.environ))
            remove = f"rm {shlex.quote(where)}, and dkdbg creates one"
        raise DkdbgError(
            f"the token ({where}) {what}, and anyone who reaches this port could try to guess it",
            hint=f"{remove}; or set it to {proof.MIN_TOKEN_CHARACTERS} or more random characters",
            exit_code=EXIT_USAGE,
        )
    return token


def _certificate(reporter: Reporting) -> certificate.Certificate:
    """Return this user's TLS certificate; create one if it is missing. Raises DkdbgError: that failed."""
    file = token_file.path(os.environ).with_name("listen.pem")
    found = certificate.load(file)
    if found.is_new:
        reporter.line(f"created a key and its certificate: {file}")
    return found


def wait_for_jobs(
    proxy: AttachProxy, reporter: Reporting, listen: tuple[str, int], token: str, opened: contextlib.ExitStack
) -> None:
    """Accept jobs that connect, until `opened` is closed; each job becomes a target of the proxy.

    Raises:
        DkdbgError: the certificate cannot be read or created, or the address cannot be listened on.
    """
    shown = _certificate(reporter)
    lock = threading.Lock()
    known: dict[str, tuple[ConnectedJobTarget, Upstream]] = {}

    def arrived(job: ConnectedJob) -> None:
        with lock:
            name, number = job.about.name, 1
            while name in known and not known[name][0].job.why:  # a job of this name is still connected
                number += 1
                name = f"{job.about.name}-{number}"
            former = None
            if name in known:  # the same job, restarted
                target, upstream = known[name]
                former, target.job = target.job, job
            else:
                target = ConnectedJobTarget(job, name)
                upstream = proxy.add(target)
                known[name] = target, upstream
        if former is not None:
            former.close()
        upstream.poke()
        reporter.event("called", "has connected, and can be debugged", prefix=name, target=name)

    listener = JobListener(*listen, token, shown, arrived=arrived, log=reporter.line)
    opened.callback(listener.close)
    listener.start()
    address = f"{listen[0] or socket.gethostname()}:{listener.port}"
    where = "in DKDBG_TOKEN" if settings.ENV_TOKEN in os.environ else f"in {token_file.path(os.environ)}"
    connect = f"{address}#sha256:{shown.fingerprint}"
    text = (
        f"jobs can connect to {address}: start them with {settings.ENV_CONNECT}={connect} and {settings.ENV_TOKEN_FILE} "
        f"(or {settings.ENV_TOKEN}) with the token {where}"
    )
    reporter.event("calls", text, host=listen[0], port=listener.port, connect=connect)

    def jobs() -> dict[str, ConnectedJob]:
        with lock:
            return {name: target.job for name, (target, _) in known.items()}

    try:
        server = QueryServer(jobs, editor=proxy.port)
    except (OSError, RuntimeDirError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        reporter.line(f"dkdbg ps, dkdbg where and dkdbg ranks will not reach these jobs: {why}")
        return
    opened.callback(server.close)
    server.start()
