"""Jupyter: lab and notebook, and the kernels below them."""

from __future__ import annotations

from dkdbg.launchers.launcher import NOTEBOOK, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Launch, Line


class Jupyter(Launcher):
    """jupyter lab, jupyter notebook; `jupyter nbconvert --execute` is a job and ends."""

    names = ("notebook",)
    programs = ("jupyter", "jupyter-lab", "jupyter-notebook", "notebook", "jupyterlab")
    modules = ("jupyter", "notebook", "jupyterlab")
    role = NOTEBOOK
    port = 8888
    side_ports = (8888,)
    workers = (("ipykernel_launcher", "notebook kernel"),)

    def launch(self, line: Line) -> Launch | None:
        """Return the notebook, or a launch without one."""
        if line.word == "jupyter" and line.rest[:1] not in (["lab"], ["notebook"]):
            return None
        book = next((word for word in line.rest if word.endswith(".ipynb")), None)
        return self.launched(line, book, line.rest)

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Tell whether it is none of the subcommands that end."""
        return not rest or rest[0] not in _ENDS


_ENDS = (
    "nbconvert", "execute", "run", "kernelspec", "trust", "console", "troubleshoot", "labextension", "nbextension", "migrate",
)  # fmt: skip
LAUNCHER = Jupyter()
