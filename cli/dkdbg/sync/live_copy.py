"""The code on a target, kept equal to the local files while a command runs on the target."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.agent.settings import ENV_MAPPINGS
from dkdbg.core.mapping import NoFolderError, described
from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import local_root
from dkdbg.sync.remote.contact import PYTHONS, Contact, SameFolderError
from dkdbg.sync.report import as_line

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.target import Executor, Target
    from dkdbg.sync.report import Event
    from dkdbg.sync.session import Session

#: Events to print beside a program's output, and the maximum number of each kind. Others are dropped, for example those
#: of saved files: the message about the restart names these files.
_EVENTS, _MAX_EACH = (
    frozenset({"failed", "kept", "skipped", "grows", "polled", "settings", "quiet", "lost", "progress"}),
    20,
)
#: Seconds between two lines of progress.
_PROGRESS_INTERVAL_S = 5.0
#: Timeout in seconds to send the last files at the end.
_END_TIMEOUT_S = 5.0


class LiveCopy:
    """Keeps the files of `root` on a target equal from `wait` to `close`, on a separate thread.

    Args:
        root: the repository's root, resolved.
        executor: runs commands on the target; from `target.find()`.
        python: interpreter on the target; None to look for one.

    Attributes:
        folder: the folder of the copy on the target.
        environment: variables by which the remote agent learns of the copy, as `NAME=value` arguments for `env`.

    Raises:
        DkdbgError: the target's folder for the code is unknown.
    """

    def __init__(self, root: Path, target: Target, executor: Executor, *, python: str | None) -> None:
        from dkdbg.sync import shared
        from dkdbg.sync.roots import Roots
        from dkdbg.sync.rules.rules import ConfiguredRules
        from dkdbg.sync.session import Session

        try:
            workspace = shared.folder_of(target, executor)
        except NoFolderError as error:
            at = shlex.quote(str(target.address))
            raise DkdbgError(
                error.message,
                hint=f"dkdbg sync {at} --once --to /code copies the code; without --sync: dkdbg run --on {at} -- python /code/train.py",
                exit_code=error.exit_code,
            ) from error
        self.folder = workspace.remote
        self.environment = (f"{ENV_MAPPINGS}={json.dumps(described([(workspace.local, workspace.remote)]))}",)
        self._label = target.label
        self._arrived = threading.Event()
        self._why: DkdbgError | None = None
        self._ended = False
        self._reported: Counter[str] = Counter()
        self._is_lost = False
        self._next = time.monotonic() + _PROGRESS_INTERVAL_S
        local = local_root(root, workspace.local)
        contact = Contact(workspace.remote, local, pythons=(python,) if python else PYTHONS)
        contact.start(executor)
        self._target = target
        self._roots = roots = Roots(
            local=local,
            remote=workspace.remote,
            rules=ConfiguredRules(lambda reason: _say(reason)),  # noqa: PLW0108 - looks `_say` up at each call
            pythons=contact.pythons,
        )
        self._session: Session = Session(roots, target.find, report=self._event, contact=contact)
        self._thread = threading.Thread(target=self._follow, name="dkdbg copy", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until both sides are equal; the thread then keeps them equal until `close`.

        Raises:
            DkdbgError: the files cannot be written on the target, with the reason.
        """
        self._arrived.wait()
        if self._why is not None:
            raise self._why

    def close(self) -> None:
        """Send the last saved files, and end."""
        self._ended = True
        self._session.stop()
        self._thread.join(_END_TIMEOUT_S)

    def _follow(self) -> None:
        try:
            try:
                self._session.follow()
            except SameFolderError:
                self._compare()
        except DkdbgError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the thread's last line of defence: the program goes on
            self._fail(
                DkdbgError(f"unexpected {type(error).__name__}: {error}", hint="report this bug in dkdbg")
            )
        finally:
            self._arrived.set()

    def _compare(self) -> None:
        """Compare the local and the remote view of a shared folder: nothing is sent, but changes may appear late."""
        from dkdbg.sync.verify import of_one_folder, verify

        same = f"nothing to sync: {self.folder} on the target is your local folder"
        try:
            found = of_one_folder(verify(self._roots, self._target.find()))
        except DkdbgError as error:
            _say(f"{same}; could not compare both views: {error.message}")
            return
        _say(f"{same}; files equal in both views: {found.equal:,}")
        for path, what in sorted(found.differences.items())[:_MAX_EACH]:
            _say(f"differs: {path} {what}")

    def _fail(self, error: DkdbgError) -> None:
        if self._arrived.is_set():
            if not self._ended:
                _say(f"files that you save are no longer sent to {self._label}: {error.message}")
        else:
            self._why = error

    def _event(self, happened: Event) -> None:
        if happened.name == "in_sync" and not self._arrived.is_set():
            _say(f"{as_line(happened)}; files that you save are sent to {self._label}:{self.folder}")
            self._arrived.set()
        elif happened.name == "in_sync" and self._is_lost:
            self._is_lost = False
            _say(as_line(happened))
        elif happened.name == "progress":
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + _PROGRESS_INTERVAL_S
                _say(as_line(happened))
        elif happened.name in _EVENTS:
            self._is_lost |= happened.name == "lost"
            self._reported[happened.name] += 1
            if self._reported[happened.name] <= _MAX_EACH:
                _say(as_line(happened))
            elif self._reported[happened.name] == _MAX_EACH + 1:
                _say(f"... and more of these{self._more(happened.name)}")

    def _more(self, name: str) -> str:
        """Return the hint for listing the remaining events of this name; empty for other events."""
        if name in {"failed", "kept", "grows"}:
            return f"; {hints.SYNC_VERIFY(target=shlex.quote(str(self._target.address)))}"
        return "; dkdbg sync --explain PATH says why a file is left out" if name == "skipped" else ""


def _say(text: str) -> None:
    """Print a line to standard error. On a terminal end it with CR LF: the program may have set raw mode."""
    end = "\r\n" if sys.stderr.isatty() else "\n"
    console.warn(f"dkdbg: {text}".replace("\n", end) + end.removesuffix("\n"))
