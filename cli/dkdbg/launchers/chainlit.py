"""Chainlit (chainlit/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Chainlit(ScriptServer):
    """chainlit run."""

    names = ("chainlit",)
    programs = ("chainlit",)
    modules = ("chainlit",)
    verbs = ("run",)
    port = 8000
    port_options = ("-p",)
    value_options = (
        "--host",
        "--port",
        "-p",
        "--root-path",
        "--ssl-cert",
        "--ssl-key",
    )


LAUNCHER = Chainlit()
