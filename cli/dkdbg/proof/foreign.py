"""Diagnose a debugger that runs at a target without dkdbg."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dkdbg.core.address import is_loopback
from dkdbg.core.target import Capability
from dkdbg.errors import DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.proof.finding import Finding

if TYPE_CHECKING:
    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Target


def of_debugpy(target: Target) -> Finding | None:
    """Return the finding for a plain debugpy that this machine cannot reach; None without one."""
    if Capability.LIST_PROCESSES not in target.capabilities:
        return None
    with contextlib.suppress(DkdbgError):
        host, _ = target.listen_address()
        if is_loopback(host):  # the target's loopback is this machine's
            return None
        for each in target.pythons():
            at = each.listens or _of_adapter(each)
            if at is not None and is_loopback(at[0]):
                return Finding(
                    link="listen", cause="loopback-inside",
                    says=f"debugpy (process {each.pid}) listens on {at[0]}:{at[1]} inside {target.label}, where no published port leads",
                    remedy=f'debugpy --listen 0.0.0.0:{at[1]} there, published as "127.0.0.1:{at[1]}:{at[1]}"; or start it under dkdbg, which needs neither',
                )  # fmt: skip
    return None


def _of_adapter(python: PythonThere) -> tuple[str, int] | None:
    """Return where debugpy's adapter listens, by its command line, as `debugpy.listen()` starts it."""
    if not python.is_adapter:
        return None
    options = dict(zip(python.argv, python.argv[1:], strict=False))
    host, port = options.get("--host", "127.0.0.1"), whole_number(options.get("--port", ""), 65535)
    return None if port is None else (host, port)
