"""Modal: `modal serve`; `modal run` runs a job elsewhere."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Modal(ScriptServer):
    """modal serve."""

    names = ("modal",)
    programs = ("modal",)
    modules = ("modal",)
    verbs = ("serve",)
    value_options = (
        "--env",
        "-e",
        "--name",
        "--timeout",
    )


LAUNCHER = Modal()
