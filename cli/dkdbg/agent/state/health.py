"""Health check: can a debugger attach? Read from the record and /proc, without connecting."""

from __future__ import annotations

from dkdbg.agent import contract
from dkdbg.agent.state import procfs, records, runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Set


def trouble(folder: Optional[str] = None) -> str:
    """Return in one line why no debugger can attach now; empty when one can. The newest live session counts."""
    found = records.list_records(folder)
    if not found:
        return "no session in %s" % (folder or runtime_dir.default_runtime_dir())
    live = [record for record in found if records.is_live(record)]
    last = (live or found)[-1]
    if last["state"] == "exited":
        return "the last session, %s, has ended with code %s" % (last["id"], last["exit_code"])
    if not live:
        return "the agent of session %s (pid %d) is gone" % (last["id"], last["pid"])
    return _trouble_of(live[-1], procfs.listening_ports())


def _trouble_of(record: contract.Record, listening: Optional[Set[int]]) -> str:
    if record["state"] not in contract.ATTACHABLE:
        return "session %s is %s" % (record["id"], record["state"])
    if listening is not None and record["port"] not in listening:
        return "port %d is not listening" % record["port"]
    return "" if record["adapter_up"] else "debugpy's adapter is gone"
