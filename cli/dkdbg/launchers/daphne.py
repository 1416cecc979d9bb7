"""Daphne (daphne/cli.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Daphne(AppServer):
    """daphne; `-b` is an address, the port has an option of its own."""

    names = ("daphne",)
    programs = ("daphne",)
    modules = ("daphne",)
    value_options = (
        "-p", "--port", "-b", "--bind", "-u", "--unix-socket", "--fd", "-e", "--endpoint", "-v", "--verbosity", "-t",
        "--http-timeout", "--access-log", "--log-fmt", "--ping-interval", "--ping-timeout", "--root-path",
        "--application-close-timeout", "--websocket_timeout", "--server-name",
    )  # fmt: skip
    port_options = ("-p",)


LAUNCHER = Daphne()
