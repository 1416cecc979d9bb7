"""Granian (granian/cli.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Granian(AppServer):
    """granian."""

    names = ("granian",)
    programs = ("granian",)
    modules = ("granian",)
    value_options = (
        "--host", "--port", "--uds", "--interface", "--http", "--workers", "--blocking-threads", "--runtime-threads",
        "--runtime-mode", "--loop", "--task-impl", "--backlog", "--backpressure", "--log-level", "--log-config",
        "--access-log-fmt", "--ssl-certificate", "--ssl-keyfile", "--url-path-prefix", "--respawn-interval",
        "--workers-lifetime", "--workers-kill-timeout", "--reload-paths", "--process-name", "--pid-file", "--env-files",
        "--working-dir", "--static-path-mount",
    )  # fmt: skip
    child = "granian worker"
    child_by = "spawn"


LAUNCHER = Granian()
