"""Sanic (sanic/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Sanic(AppServer):
    """sanic; `module` alone means that it finds the app in there."""

    names = ("sanic",)
    programs = ("sanic",)
    modules = ("sanic",)
    bare_module = True
    value_options = (
        "-H", "--host", "-p", "--port", "-u", "--unix", "-w", "--workers", "--cert", "--key", "--tls", "-R", "--reload-dir",
    )  # fmt: skip
    port_options = ("-p",)


LAUNCHER = Sanic()
