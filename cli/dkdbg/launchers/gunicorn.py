"""Gunicorn (gunicorn/config.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Gunicorn(AppServer):
    """gunicorn; the app runs in forked workers. `module` alone means `module:application`."""

    names = ("gunicorn",)
    programs = ("gunicorn",)
    modules = ("gunicorn", "gunicorn.app.wsgiapp")
    bare_module = True
    value_options = (
        "-c", "--config", "-b", "--bind", "--backlog", "-w", "--workers", "-k", "--worker-class", "--threads",
        "--worker-connections", "--max-requests", "--max-requests-jitter", "-t", "--timeout", "--graceful-timeout",
        "--keep-alive", "--reload-engine", "--reload-extra-file", "--chdir", "-e", "--env", "-p", "--pid",
        "--worker-tmp-dir", "-u", "--user", "-g", "--group", "-m", "--umask", "--access-logfile", "--access-logformat",
        "--error-logfile", "--log-file", "--log-level", "--logger-class", "--log-config", "--log-config-json",
        "--log-syslog-to", "--statsd-host", "-n", "--name", "--pythonpath", "--paste", "--forwarded-allow-ips",
        "--keyfile", "--certfile", "--ca-certs", "--ssl-version",
    )  # fmt: skip
    child = "gunicorn worker"
    child_by = "fork"


LAUNCHER = Gunicorn()
