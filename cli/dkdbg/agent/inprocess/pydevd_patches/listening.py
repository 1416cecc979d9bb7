"""Handles a program that calls `debugpy.listen()` itself.

In a process that has joined the agent's adapter, debugpy would start another adapter, to which no editor can attach
because the process has a debugger already. That adapter would outlive the program, and keep its address in use.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import sys

from .. import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


def watch(directory: str) -> None:
    """Make `debugpy.listen()` return the session's endpoint while this process has joined the agent's adapter."""
    from debugpy.server import api

    former = api.listen

    def listen(address: Any, _settrace: Any, **kwargs: Any) -> Tuple[str, int]:
        host, port = address
        if not session.is_joined():
            return former(address, **kwargs)  # type: ignore[no-any-return]
        if api.listen.called:
            raise RuntimeError("debugpy.listen() has already been called on this process")
        api.listen.called = True
        endpoint = session.endpoint(directory)
        session.say(
            "debugpy.listen(%r) opens no port: dkdbg debugs this process, attach on %s"
            % ((host, port), endpoint)
        )
        own_host, _, own_port = endpoint.rpartition(":")
        return own_host, int(own_port)

    api.listen = api._starts_debugging(listen)  # debugpy's own wrapper checks the address
    api.listen.called = former.called


def describe_debugger() -> str:
    """Return a text about the other debugger in this process, and how to attach to it or remove it."""
    api: Any = sys.modules.get("debugpy.server.api")
    argv = list(getattr(getattr(api, "_adapter_process", None), "args", ()))
    if "--host" in argv and "--port" in argv:
        host, port = (argv[argv.index(name) + 1] for name in ("--host", "--port"))
        where = "%s:%s" % (host, port) if port != "0" else "a port of its own"
        return "the program called debugpy.listen() on %s: attach there, or remove that call" % where
    return (
        "the program has connected to another debugger (debugpy.connect or pydevd.settrace): remove that call"
    )
