"""ROS: roslaunch, rosrun, ros2."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class Ros(Launcher):
    """ROS."""

    names = ("roslaunch", "rosrun", "ros2")
    programs = ("roslaunch", "rosrun", "ros2")

    def launch(self, line: Line) -> Launch | None:
        """Return the launch file or node that is a Python file."""
        return self.launched(
            line, next((word for word in line.rest if word.endswith(".py")), None), line.rest
        )


LAUNCHER = Ros()
