"""Explain refusals of OpenPAI's server, and suggest the next step. Only this module matches its error codes."""

from __future__ import annotations

import json

from dkdbg.errors import DkdbgError
from dkdbg.printable import printable

TOKEN, TOKEN_FILE, PLAIN = "DKDBG_PAI_TOKEN", "DKDBG_PAI_TOKEN_FILE", "DKDBG_PAI_HTTP"
_TO_GET_ONE = f"make an application token on your profile page of the portal, and set {TOKEN} to it, or {TOKEN_FILE} to a file with it"


def refused(status: int, body: bytes, what: str, *, has_token: bool) -> DkdbgError:
    """Return the error for an answer other than 200.

    Args:
        status: status code of HTTP.
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
