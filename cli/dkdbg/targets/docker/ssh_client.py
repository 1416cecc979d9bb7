"""A client of the Docker SDK for an engine behind ssh, through the docker command's own connection to it.

The SDK's ssh needs paramiko, which reads other settings than ssh.
"""

from __future__ import annotations

import socket
from typing import Any

from docker.api.client import APIClient
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.transport.unixconn import UnixHTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from dkdbg import process


class _Connection(HTTPConnection):
    """A connection whose socket is the standard input and output of `docker system dial-stdio`."""

    _command: Any = None

    def connect(self) -> None:
        self.sock, theirs = socket.socketpair()
        with theirs:
            self._command = process.start(
                ("docker", "system", "dial-stdio"), stdin=theirs.fileno(), stdout=theirs.fileno(),
                stderr=process.DISCARD, new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        super().close()
        if self._command is not None:
            self._command.kill()
            self._command.wait()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _Adapter(UnixHTTPAdapter):  # type: ignore[misc]
    def get_connection(self, _url: str, _proxies: object = None) -> HTTPConnectionPool:
        return self.pools.setdefault("", _Pool("localhost"))  # type: ignore[no-any-return]


class SshClient(APIClient):  # type: ignore[misc]
    """Client of the engine that the docker command selects."""

    def __init__(self) -> None:
        super().__init__(base_url="unix://", version=DEFAULT_DOCKER_API_VERSION)
        self.mount("http+docker://", _Adapter("http+unix://"))
        self._version = self.version(api_version=False)["ApiVersion"]
