"""Uvicorn."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Uvicorn(AppServer):
    """uvicorn; with `--workers` or `--reload` the app runs in spawned server processes (its own word)."""

    names = ("uvicorn",)
    programs = ("uvicorn",)
    modules = ("uvicorn",)
    value_options = (
        "--host", "--port", "--uds", "--fd", "--reload-dir", "--reload-include", "--reload-exclude", "--reload-delay",
        "--workers", "--loop", "--http", "--ws", "--ws-max-size", "--ws-max-queue", "--ws-ping-interval",
        "--ws-ping-timeout", "--lifespan", "--interface", "--env-file", "--log-config", "--log-level",
        "--forwarded-allow-ips", "--root-path", "--limit-concurrency", "--backlog", "--limit-max-requests",
        "--timeout-keep-alive", "--timeout-graceful-shutdown", "--ssl-keyfile", "--ssl-certfile",
        "--ssl-keyfile-password", "--ssl-version", "--ssl-cert-reqs", "--ssl-ca-certs", "--ssl-ciphers", "--header",
        "--app-dir", "--h11-max-incomplete-event-size",
    )  # fmt: skip
    child = "uvicorn server process"
    child_by = "spawn"
    child_options = ("--workers", "--reload")


LAUNCHER = Uvicorn()
