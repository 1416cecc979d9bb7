"""The folders of a session in which processes announce themselves, with `PID.json` and a socket `PID.sock`."""

from __future__ import annotations

import contextlib
import os

from dkdbg.agent import contract
from dkdbg.agent.state import procfs
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

#: PID_MAX_LIMIT of Linux, less one.
_MAX_PID = (1 << 22) - 1


class Folders:
    """The folder for processes of the agent's user, and one for each other user that processes have changed to.

    Args:
        own: folder for the agent's own user.
        users: other users' folders by uid; see SessionStore.let_in.
    """

    def __init__(self, own: str, users: Dict[int, str]) -> None:
        self._own = own
        self._users = users

    def all(self) -> List[str]:
        """Return every folder, that of the agent's own user first."""
        return [self._own, *list(self._users.values())]

    def path(self, pid: int, suffix: str) -> str:
        """Return the path of a process's file PID`suffix`, in the folder of the process's user."""
        own = folder = self._own
        if self._users:
            folder = self._users.get(procfs.owner(pid), own)
            # The process may have announced itself in `own` before it changed its user, and again after an exec.
            if not _announces(folder, pid) and _announces(own, pid):
                folder = own
        return os.path.join(folder, "%d%s" % (pid, suffix))

    def why_no_access(self, pid: int) -> str:
        """Return why a process cannot reach the session's files, to announce itself or to join; empty if it can."""
        uid = procfs.owner(pid)
        may = uid in (-1, 0, os.geteuid()) or uid in self._users
        return "" if may else "it runs as uid %d, which cannot reach the session" % uid

    def pids(self) -> List[int]:
        """Return the pids of the announced processes in order."""
        found = set()
        for folder in self.all():
            with contextlib.suppress(OSError):
                names = [name[:-5] for name in os.listdir(folder) if name.endswith(".json")]
                pids = {pid for name in names if (pid := whole_number(name, _MAX_PID))}
                # Another user's folder may hold any number: only pids of that user's own processes count.
                found |= {
                    pid
                    for pid in pids
                    if os.path.dirname(self.path(pid, "")) == folder or not procfs.alive(pid)
                }
        return sorted(found)


def _announces(folder: str, pid: int) -> bool:
    return os.path.exists(os.path.join(folder, "%d.json" % pid))


def of_session(directory: str) -> Folders:
    """Return the folders of the session in `directory`, as they are now."""
    users: Dict[int, str] = {}
    place = os.path.join(directory, contract.USERS_NAME)
    with contextlib.suppress(OSError):  # only sessions of a root agent have it
        users = {
            uid: os.path.join(place, name, contract.PROCESSES_NAME)
            for name in os.listdir(place)
            if (uid := whole_number(name)) is not None
        }
    return Folders(os.path.realpath(os.path.join(directory, contract.PROCESSES_NAME)), users)
