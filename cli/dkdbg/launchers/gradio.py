"""Gradio: `gradio app.py` (gradio/cli)."""

from __future__ import annotations

from dkdbg.launchers.launcher import SERVER, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class Gradio(Launcher):
    """gradio FILE, which reloads; `python app.py` is the usual way."""

    names = ("gradio",)
    programs = ("gradio",)
    role = SERVER
    port = 7860

    def launch(self, line: Line) -> Launch | None:
        """Return the file, which comes first."""
        if line.rest and line.rest[0].endswith(".py"):
            return self.launched(line, line.rest[0], line.rest[1:])
        return None


LAUNCHER = Gradio()
