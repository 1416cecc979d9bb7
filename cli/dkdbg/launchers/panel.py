"""Panel (panel/command/serve.py); a Bokeh server."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Panel(ScriptServer):
    """panel serve."""

    names = ("panel",)
    programs = ("panel",)
    modules = ("panel",)
    verbs = ("serve",)
    port = 5006
    value_options = (
        "--port",
        "--address",
        "--allow-websocket-origin",
        "--prefix",
        "--index",
        "--num-procs",
        "--num-threads",
        "--log-level",
        "--log-file",
        "--setup",
        "--static-dirs",
        "--autoreload",
        "--basic-auth",
    )


LAUNCHER = Panel()
