"""The rules with the settings of dkdbg.toml, read again whenever rules are made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dkdbg.core import config
from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import read_file
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.rules.sources import MAX_RULE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable


class ConfiguredRules:
    """Makes rules for `Scanner(rules=...)`.

    A dkdbg.toml that becomes invalid later keeps its previous settings.

    Args:
        tell: takes a sentence when that begins and when it is over.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self._problem = ""
        self._last: config.SyncConfig | None = None

    def __call__(self, root: str) -> Rules:
        """Return the rules of `root`, with [sync] of its dkdbg.toml.

        Raises:
            DkdbgError: dkdbg.toml is not valid, the first time.
        """
        try:
            self._last = _read(os.path.join(root, config.FILE_NAME))
        except DkdbgError as error:
            if self._last is None:
                raise
            self._note(f"{error.message}; the previous [sync] settings stay in force")
        else:
            self._note("")
        return Rules(root, ignore=self._last.ignore, max_size=self._last.max_size)

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._tell(problem or f"{config.FILE_NAME} is valid again")


def _read(path: str) -> config.SyncConfig:
    try:
        return config.parse(config.decode(read_file(path, MAX_RULE_BYTES, follow=True))).sync
    except FileNotFoundError:
        return config.SyncConfig()
    except Refused as error:
        raise DkdbgError(f"cannot read {path}: {error.reason}", hint=error.hint) from error
    except OSError as error:
        raise DkdbgError(f"cannot read {path}: {error.strerror}") from error
