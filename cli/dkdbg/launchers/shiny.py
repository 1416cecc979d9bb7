"""Shiny for Python (shiny/_main.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Shiny(ScriptServer):
    """shiny run."""

    names = ("shiny",)
    programs = ("shiny",)
    modules = ("shiny",)
    verbs = ("run",)
    port = 8000
    port_options = ("-p",)
    value_options = (
        "-h",
        "--host",
        "-p",
        "--port",
        "--autoreload-port",
        "--reload-dir",
        "--ws-max-size",
        "--log-level",
        "-d",
        "--app-dir",
    )


LAUNCHER = Shiny()
