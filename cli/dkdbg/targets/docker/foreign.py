"""Advise how to debug a Python process in a container that dkdbg did not start. No I/O."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.pythons import is_debugpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.pythons import PythonThere
    from dkdbg.targets.docker.container import Container

#: Maximum number of processes to show.
SHOWN = 3


def advice(container: Container, found: Sequence[PythonThere]) -> list[str]:
    """Return lines for a user: the processes that run there, and what to type."""
    name = container.name
    if not found:
        return [
            f"no Python runs in {name}, or it has no shell to ask; start one under dkdbg: dkdbg run --on docker://{name} --wait -- python3 train.py"
        ]
    debugpy = next((each.listens for each in found if each.listens), None)
    if is_debugpy(found):
        return _of_debugpy(container, debugpy)
    programs = [
        each for each in found if not any("multiprocessing" in word for word in each.words[1:4])
    ] or list(found)
    lines = [f"{name} runs without dkdbg:"]
    for each in programs[:SHOWN]:
        version = f" (Python {each.version})" if each.version else ""
        lines.append(f"  process {each.pid}{version}: {shlex.join(each.words)[:200]}")
    if programs[SHOWN:]:
        lines.append(f"  and {len(programs) - SHOWN} more")
    lines.append(
        "to debug that command, start it a second time in there, under dkdbg; it waits for your editor:"
    )
    lines.append(hints.RUN_BESIDE(name=name, command=shlex.join(programs[0].words)))
    if container.service:
        lines.append(hints.INIT_SERVICE(service=shlex.quote(container.service)))
    return lines


def _of_debugpy(container: Container, listens: tuple[str, int] | None) -> list[str]:
    host, port = listens or ("", 5678)
    lines = [f"a plain debugpy runs in {container.name}" + (f", on port {port}" if listens else "")]
    published = container.published.get(port)
    if container.host_network:
        lines.append(f"get to it through dkdbg, which keeps its port alive: dkdbg attach 127.0.0.1:{port}")
    elif published:
        outside = published.replace("0.0.0.0:", "127.0.0.1:").replace(":::", "127.0.0.1:")
        lines.append(f"get to it through dkdbg, which keeps its port alive: dkdbg attach {outside}")
    elif listens and host not in {LOOPBACK, "localhost"} and container.address:
        lines.append(
            f"get to it through dkdbg, which keeps its port alive: dkdbg attach {container.address}:{port}"
        )
    else:
        lines.append(
            f"its port is not published: start the container with -p 127.0.0.1:{port}:{port} and --listen 0.0.0.0:{port}"
        )
    return lines
