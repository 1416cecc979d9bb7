"""Ray Serve: `serve run` (ray/serve/scripts.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class RayServe(AppServer):
    """serve run; other programs are called `serve` too, so the verb has to be there."""

    names = ("ray-serve",)
    programs = ("serve",)
    verbs = ("run",)
    value_options = (
        "-a", "--address", "--app-dir", "--working-dir", "--runtime-env", "--runtime-env-json", "--route-prefix", "--name",
    )  # fmt: skip

    def launch(self, line: Line) -> Launch | None:
        """Return the module with the deployment."""
        return super().launch(line) if line.rest[:1] == ["run"] else None


LAUNCHER = RayServe()
