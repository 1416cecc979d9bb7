"""Mesop (mesop/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Mesop(ScriptServer):
    """mesop."""

    names = ("mesop",)
    programs = ("mesop",)
    port = 32123
    value_options = (
        "--port",
        "--host",
        "--path",
    )


LAUNCHER = Mesop()
