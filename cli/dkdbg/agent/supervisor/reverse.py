"""Calls a waiting `dkdbg attach --listen`, from a job that nobody can connect to: DKDBG_CONNECT, by a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

from dkdbg.agent import contract
from dkdbg.agent.proxy.listener import proof, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping, Optional, Tuple

#: Seconds for it to end.
_LIMIT = 10.0


def asked(environment: Mapping[str, str]) -> Optional[Tuple[str, int]]:
    """Return whom the environment says to call, None for nobody.

    Raises:
        ValueError: it names no host and port, or there is no token, or one that could be guessed.
    """
    text = environment.get(contract.ENV_CONNECT, "").strip()
    if not text:
        return None
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host[:1] == "[" and host[-1:] == "]" else host
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(
            "--connect (%s) takes the HOST:PORT of a dkdbg attach --listen, not %r"
            % (contract.ENV_CONNECT, text)
        )
    token = tokens.read(environment)
    if len(token) < proof.SHORT:
        what = "has %d characters" % len(token) if token else "is missing"
        raise ValueError(
            "--connect (%s) leads over a network: the token %s; set %s or %s to that of dkdbg attach --listen, %d random "
            "characters or more"
            % (contract.ENV_CONNECT, what, contract.ENV_TOKEN, contract.ENV_TOKEN_FILE, proof.SHORT)
        )
    return host, int(port)


class Outward:
    """The process that calls, while the session lasts.

    Args:
        to: host and port. about: what it says of this session.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, to: Tuple[str, int], token: str, about: Dict[str, Any]) -> None:
        agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
        # Other jobs of this user have the token too, and none of them has the key.
        about = dict(about, key=os.urandom(16).hex())
        said = {"host": to[0], "port": to[1], "token": token, "about": about}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", agent, "call"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            env=tokens.without(os.environ), start_new_session=True,  # a Ctrl-C in the terminal is for the program
        )  # fmt: skip
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(said).encode() + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """End it, and what it has started."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
