"""Bokeh (bokeh/command/subcommands/serve.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Bokeh(ScriptServer):
    """bokeh serve."""

    names = ("bokeh",)
    programs = ("bokeh",)
    modules = ("bokeh",)
    verbs = ("serve",)
    port = 5006
    value_options = (
        "--port",
        "--address",
        "--allow-websocket-origin",
        "--prefix",
        "--index",
        "--num-procs",
        "--log-level",
        "--log-file",
        "--unix-socket",
        "--session-ids",
    )


LAUNCHER = Bokeh()
