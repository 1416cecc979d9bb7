"""Find the pods in which this user runs a command from this machine, by the command lines of their local kubectl."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Command line that `dkdbg run` starts, joined with spaces (`PodReach.wrap`, `Brought.argv`): the agent, or a relay
#: that leads to it, after a check whether its file still exists after a cut (`relay/remote_program.py`).
_RUN = re.compile(
    r'\S* exec -it? --namespace=(\S+) --container=(\S+) (\S+) -- sh -c exec "\$0" "\$@" '
    r"(?:sh -c .* )?env DKDBG_RUN=[0-9a-f]+ sh \S+\.pyz (?:launch|relay) "
)


def pods() -> list[str]:
    """Return `NAMESPACE/POD/CONTAINER` of each, as in addresses; exclude those of another kubeconfig."""
    found = (_RUN.match(line) for line in _command_lines())
    return sorted({f"{each[1]}/{each[3]}/{each[2]}" for each in found if each})


def _config_of(process_folder: Path) -> bytes:
    """Return KUBECONFIG of a process, empty if unset. Raises OSError."""
    settings = (process_folder / "environ").read_bytes().split(b"\0")
    return next((each for each in settings if each.startswith(b"KUBECONFIG=")), b"")


def _command_lines() -> Iterator[str]:
    """Yield the command lines of this user's processes."""
    proc = Path("/proc")
    if not (proc / "self" / "cmdline").exists():  # macOS
        with contextlib.suppress(DkdbgError):
            yield from process.run(
                ["ps", "-ww", "-o", "command=", "-U", str(os.getuid())]
            ).stdout.splitlines()
        return
    ours = os.fsencode(f"KUBECONFIG={os.environ['KUBECONFIG']}") if "KUBECONFIG" in os.environ else b""
    for entry in proc.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid() and _config_of(entry) == ours:
                yield (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
