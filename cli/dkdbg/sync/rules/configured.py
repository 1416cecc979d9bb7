"""The rules with what dkdbg.toml says, read again whenever rules are made."""

from __future__ import annotations

import os

from dkdbg.errors import DkdbgError
from dkdbg.model import config
from dkdbg.sync.rules.rules import Rules


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
        with open(path, "rb") as file:
            return config.parse(config.decode(file.read())).sync
    except FileNotFoundError:
        return config.SyncConfig()
    except OSError as error:
        raise DkdbgError(f"cannot read {path}: {error.strerror}") from error
