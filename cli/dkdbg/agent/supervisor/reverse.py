"""Starts the process that connects a job to a waiting `dkdbg attach --listen` (DKDBG_CONNECT)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys

from dkdbg.agent import settings
from dkdbg.agent.proxy.listener import proof, tokens
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping, Optional, Tuple

#: Pattern of the certificate's fingerprint, which follows the address in DKDBG_CONNECT.
_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
#: Seconds that the process has to send the last data, and then to end.
_FLUSH_TIMEOUT_S, _TIMEOUT_S = 2.0, 10.0


def asked(environment: Mapping[str, str]) -> Optional[Tuple[str, int, str]]:
    """Return the host, port and fingerprint to connect to from the environment, None without an address.

    Raises:
        ValueError: the address is malformed, the token is missing or too short, or Python's ssl has no TLS 1.3.
    """
    text = environment.get(settings.ENV_CONNECT, "").strip()
    if not text:
        return None
    address, _, certificate = text.partition("#")
    host, _, digits = address.rpartition(":")
    port = whole_number(digits, 65535)
    host = host[1:-1] if host[:1] == "[" and host[-1:] == "]" else host
    if not host or not port:
        raise ValueError(
            "--connect (%s) takes the HOST:PORT#sha256:... of a dkdbg attach --listen, not %r"
            % (settings.ENV_CONNECT, text)
        )
    fingerprint = _FINGERPRINT.fullmatch(certificate)
    if not fingerprint:
        what = (
            "an invalid fingerprint (not sha256: and 64 hexadecimal digits)"
            if certificate
            else "no fingerprint"
        )
        raise ValueError(
            "--connect (%s) has %s of the certificate of dkdbg attach --listen; copy the line that it prints: "
            "%s=%s#sha256:... (if it prints no fingerprint, it is older than this agent: update it)"
            % (settings.ENV_CONNECT, what, settings.ENV_CONNECT, address)
        )
    token = tokens.read(environment)
    if len(token) < proof.MIN_TOKEN_CHARACTERS:
        what = "has %d characters" % len(token) if token else "is missing"
        raise ValueError(
            "--connect (%s) leads over a network: the token %s; set %s or %s to that of dkdbg attach --listen, %d random "
            "characters or more"
            % (
                settings.ENV_CONNECT,
                what,
                settings.ENV_TOKEN,
                settings.ENV_TOKEN_FILE,
                proof.MIN_TOKEN_CHARACTERS,
            )
        )
    lacking = _lacking_tls()
    if lacking:
        raise ValueError(
            "--connect (%s) needs TLS 1.3, and this Python (%s) has %s; with another one: %s=PATH sh agent.pyz launch -- "
            "COMMAND" % (settings.ENV_CONNECT, sys.executable, lacking, settings.ENV_PYTHON)
        )
    return host, port, fingerprint.group(1).lower()


def _lacking_tls() -> str:
    """Return the name of Python's SSL library if it lacks TLS 1.3; empty if it has TLS 1.3."""
    try:
        import ssl
    except ImportError:
        return "no ssl module"
    return "" if ssl.HAS_TLSv1_3 else ssl.OPENSSL_VERSION


class ReverseConnection:
    """The process that keeps the connection while the session lasts.

    Args:
        to: host, port and fingerprint. about: description of this session for `dkdbg attach --listen`.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, to: Tuple[str, int, str], token: str, about: Dict[str, Any]) -> None:
        agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
        # The key identifies this job when it connects again: the user's other jobs have the same token.
        about = dict(about, key=os.urandom(16).hex())
        settings = {"host": to[0], "port": to[1], "fingerprint": to[2], "token": token, "about": about}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", agent, "call"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            env=tokens.without(os.environ), start_new_session=True,  # a Ctrl-C in the terminal is for the program
        )  # fmt: skip
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """End the process and its children."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_FLUSH_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # it still waits for the host to read the last data
            self._process.terminate()
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
