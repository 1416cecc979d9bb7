"""The rules with what dkdbg.toml says, read again whenever rules are made."""

from __future__ import annotations

import os

from dkdbg.agent.sync.problems import Refused
from dkdbg.errors import DkdbgError
from dkdbg.model import config
from dkdbg.sync.beneath import read_file
from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.rules.sources import LIMIT


class ConfiguredRules:
    """Makes rules for `Scanner(rules=...)`; a dkdbg.toml that is broken later on leaves what it said before."""

    def __init__(self) -> None:
        self._last: config.SyncConfig | None = None

    def __call__(self, root: str) -> Rules:
        """The rules of `root`, with [sync] of its dkdbg.toml.

        Raises:
            DkdbgError: dkdbg.toml is not valid, the first time.
        """
        try:
            self._last = _read(os.path.join(root, config.FILE_NAME))
        except DkdbgError:
            if self._last is None:
                raise
        return Rules(root, ignore=self._last.ignore, max_size=self._last.max_size)


def _read(path: str) -> config.SyncConfig:
    try:
        return config.parse(config.decode(read_file(path, LIMIT, follow=True))).sync
    except FileNotFoundError:
        return config.SyncConfig()
    except Refused as error:
        raise DkdbgError(f"cannot read {path}: {error.reason}", hint=error.hint) from error
    except OSError as error:
        raise DkdbgError(f"cannot read {path}: {error.strerror}") from error
