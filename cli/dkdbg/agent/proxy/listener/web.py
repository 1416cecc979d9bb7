"""HTTP on the debug port: `/healthz`, and `/status` for the attach proxy. `state/records.py` checks containers.

Browsers that act for a web page are refused. DNS rebinding could let a page read an answer; its browser sends the
page's host name in `Host`, all legitimate clients send an address. No I/O.
"""

from __future__ import annotations

import ipaddress
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

METHODS = (b"GET ", b"HEAD ")
#: Maximum bytes of a request's head.
MAX_HEAD_BYTES = 8192
_END = b"\r\n\r\n"
_MISDIRECTED = "use an address or localhost, not a host name: http://127.0.0.1:PORT/healthz"
_PAGE = "web pages get no answer here"
_BROKEN = "the head of this request is not whole"
_HEAD = (
    b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n"
    b"X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n%s\r\n"
)


def is_whole(data: bytes) -> bool:
    """Tell whether a request's head is complete, or too long."""
    return _END in data or len(data) >= MAX_HEAD_BYTES


class Request:
    """Head of one request; its `path` is empty if missing."""

    def __init__(self, data: bytes) -> None:
        head, end, _ = data[:MAX_HEAD_BYTES].partition(_END)
        line, _, rest = head.partition(b"\r\n")
        self.path = b"".join(line.split(b" ", 2)[1:2])
        self._has_body = not data.startswith(b"HEAD ")
        self._whole = bool(end)
        self._fields: Dict[bytes, List[bytes]] = {}
        for field in rest.split(b"\r\n"):
            name, _, value = field.partition(b":")
            self._fields.setdefault(name.strip().lower(), []).append(value.strip())

    @property
    def refusal(self) -> Tuple[bytes, Dict[str, Any]]:
        """Return status line and content of a refusal; both empty if the request is accepted.

        A request without `Host` does not come from a browser.
        """
        if not self._whole:
            return b"400 Bad Request", {"error": _BROKEN}
        asked_by = self._fields.get(b"sec-fetch-site", [])  # `none`: the user has typed the address
        if b"origin" in self._fields or any(value != b"none" for value in asked_by):
            return b"403 Forbidden", {"error": _PAGE}
        hosts = self._fields.get(b"host", [])
        if len(hosts) > 1 or not all(map(_is_address, hosts)):
            return b"421 Misdirected Request", {"error": _MISDIRECTED}
        return b"", {}

    @property
    def nonce(self) -> str:
        """Return the client's nonce for a proof (proof.py), empty if missing."""
        return b"".join(self._fields.get(b"dkdbg-nonce", [])[:1]).decode("ascii", "replace")

    def shown(self, scheme: bytes) -> str:
        """Return the credentials in `Authorization` for a scheme, named in lower case; empty if missing."""
        for value in self._fields.get(b"authorization", []):
            kind, _, shown = value.partition(b" ")
            if kind.lower() == scheme and shown.strip():
                return shown.strip().decode("utf-8", "replace")
        return ""

    def answer(self, code: bytes, content: Dict[str, Any], more: bytes = b"") -> bytes:
        """Return the whole answer; `more` are further header lines with line ends."""
        body = json.dumps(content).encode() + b"\n"
        return _HEAD % (code, len(body), more) + (body if self._has_body else b"")


def _is_address(host: bytes) -> bool:
    """Tell whether a `Host` field is an address or localhost, with or without a port."""
    name = host.decode("ascii", "replace").lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
