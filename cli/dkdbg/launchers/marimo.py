"""marimo (marimo/_cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Marimo(ScriptServer):
    """marimo run."""

    names = ("marimo",)
    programs = ("marimo",)
    modules = ("marimo",)
    verbs = (
        "run",
        "edit",
    )
    port = 2718
    port_options = ("-p",)
    value_options = (
        "-p",
        "--port",
        "--host",
        "--proxy",
        "--base-url",
        "--token-password",
    )


LAUNCHER = Marimo()
