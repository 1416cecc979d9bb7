"""The agent that a broker serves, as seen from the broker. The supervisor's session implements it. No I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Optional, Sequence, Set

    from dkdbg.agent import contract
    from dkdbg.agent.inprocess.ranks import RankSet


class Agent:
    """Access to the agent's adapter and program; the methods of this base class have no effect.

    Attributes:
        token: see tokens.py; empty to accept each attach.
        project: id of the project that this port belongs to; empty to accept an attach for any project.
        what_runs: the program's command, for messages.
        continues: CONTINUE_ONE if continuing a rank continues only that rank, unless the editor's configuration
            decides otherwise; see group_control.py.
        may_restart: whether an editor may restart the program.
        checks_code: whether to call `check_code` before an attach; see `CHECK_CODE` in connection.py.
    """

    def __init__(
        self,
        token: str = "",
        *,
        project: str = "",
        what_runs: str = "",
        continues: str = "",
        may_restart: bool = False,
        checks_code: bool = False,
    ) -> None:
        self.token = token
        self.project = project
        self.what_runs = what_runs
        self.continues = continues
        self.may_restart = may_restart
        self.checks_code = checks_code

    # -- the adapter and the port -----------------------------------------------------------------------------------

    def dial(self) -> Optional[socket.socket]:
        """Return a connection to the adapter, None while it is not running."""
        return None

    def is_adapter_gone(self) -> bool:
        """Tell whether the adapter will not be started again."""
        return False

    def admit(self, client: socket.socket) -> None:
        """Record that this client has shown the token."""

    def log(self, text: str) -> None:
        """Log one line for the user."""

    # -- the program ------------------------------------------------------------------------------------------------

    def name_of(self, pid: int) -> str:
        """Return the name of a process."""
        return "process %d" % pid

    def processes(self) -> Sequence[contract.Process]:
        """Return the processes in the session's record."""
        return ()

    def on_stop(self, pid: int, where: str) -> None:
        """Record where a process is stopped; an empty text means that it runs."""

    def on_other_agent_held(self) -> None:
        """Record that a rank of the same job is stopped at another agent; called about every second during the stop."""

    def check_code(self) -> Set[int]:
        """Check for edited files; return the processes that this attach is about to end.

        See `CHECK_CODE` in connection.py.
        """
        return set()

    def is_chosen(self, pid: int) -> bool:  # noqa: ARG002
        """Tell whether a process is selected for debugging."""
        return True

    def choose(self, wanted: Optional[RankSet]) -> None:
        """Select the ranks to debug; None selects those that the agent was started with."""

    def take_deadlines(self, said: object) -> None:
        """Record the target's time limits as the controller sent them; `said` is not validated."""

    def release(self, pid: int) -> None:
        """Resume a process that waits at its start for a session."""

    def restart(self) -> None:
        """Restart the program."""
