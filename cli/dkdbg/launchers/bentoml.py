"""BentoML: `bentoml serve` (bentoml_cli/serve.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class BentoML(AppServer):
    """bentoml serve service:svc, or a folder."""

    names = ("bentoml",)
    programs = ("bentoml",)
    modules = ("bentoml",)
    verbs = ("serve",)
    port = 3000
    port_options = ("-p",)
    value_options = ("-p", "--port", "--host", "--api-workers", "--timeout", "--backlog", "--working-dir")


LAUNCHER = BentoML()
