"""Hypercorn (hypercorn/__main__.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Hypercorn(AppServer):
    """hypercorn."""

    names = ("hypercorn",)
    programs = ("hypercorn",)
    modules = ("hypercorn",)
    value_options = (
        "-b", "--bind", "-w", "--workers", "-k", "--worker-class", "-c", "--config", "--access-logfile", "--access-log",
        "--error-logfile", "--error-log", "--log-level", "--log-config", "--root-path", "--certfile", "--keyfile",
        "--ca-certs", "--insecure-bind", "--quic-bind", "-g", "--group", "-u", "--user", "-m", "--umask", "-p", "--pid",
        "--keep-alive", "--graceful-timeout", "--max-requests", "--server-name", "--websocket-ping-interval",
    )  # fmt: skip
    child = "hypercorn worker"
    child_by = "spawn"
    child_options = ("-w", "--workers", "--reload")


LAUNCHER = Hypercorn()
