"""Solara (solara/__main__.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Solara(ScriptServer):
    """solara run."""

    names = ("solara",)
    programs = ("solara",)
    modules = ("solara",)
    verbs = ("run",)
    port = 8765
    value_options = (
        "--host",
        "--port",
        "--workers",
        "--env-file",
        "--log-level",
        "--theme-variant",
        "--root-path",
    )


LAUNCHER = Solara()
