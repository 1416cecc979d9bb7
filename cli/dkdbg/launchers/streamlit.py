"""Streamlit (streamlit/web/cli.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Streamlit(ScriptServer):
    """streamlit run."""

    names = ("streamlit",)
    programs = ("streamlit",)
    modules = ("streamlit",)
    verbs = ("run",)
    port = 8501
    value_options = (
        "--server.port",
        "--server.address",
        "--server.headless",
        "--logger.level",
        "--theme.base",
    )


LAUNCHER = Streamlit()
