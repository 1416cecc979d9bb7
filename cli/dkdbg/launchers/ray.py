"""Ray: jobs, the processes of a node, and the workers that run tasks and actors."""

from __future__ import annotations

from dkdbg.launchers.launcher import SERVER, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Launch, Line


class Ray(Launcher):
    """ray job submit, ray start."""

    names = ("ray",)
    programs = ("ray",)
    role = SERVER
    verbs = ("start",)
    side_ports = (8265,)
    helpers = (
        ("ray/dashboard/", "Ray dashboard"),
        ("ray/autoscaler/", "Ray autoscaler"),
        ("ray/_private/log_monitor.py", "Ray log monitor"),
        ("ray/_private/runtime_env/agent", "Ray runtime environment agent"),
    )
    workers = (("ray/_private/workers/default_worker.py", "Ray worker"),)

    def launch(self, line: Line) -> Launch | None:
        """Return the program behind `ray job submit ... --`."""
        if line.rest[:2] != ["job", "submit"] or "--" not in line.rest:
            return None
        inner = line.read.words(line.rest[line.rest.index("--") + 1 :])
        return inner.under(self.shown(line), self.name) if inner else None

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Tell whether a node stays up: `ray start --block`; a job ends."""
        return list(rest[:1]) == ["start"] and "--block" in rest


LAUNCHER = Ray()
