"""The wait for an editor before the program's first start."""

from __future__ import annotations

import math
import time

from dkdbg.agent import console, contract
from dkdbg.agent.run import child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from dkdbg.agent.run.session import Session


def for_editor(session: Session) -> Optional[Tuple[int, str]]:
    """Wait as asked; return None when the program may start, else the agent's exit code and why."""
    options, where = session.options, session.endpoint
    if options.wait <= 0:
        console.log("a debugger can attach on %s at any time" % where)
        return None
    forever = math.isinf(options.wait)
    end = time.monotonic() + options.wait
    limit = "without limit" if forever else "up to %g s" % options.wait
    session.show(
        "waiting",
        expires=None if forever else time.time() + options.wait,
        detail="waiting for a debugger, %s" % limit,
    )
    console.log("waiting for a debugger on %s, %s" % (where, limit))
    while not session.attached:
        arrival = session.inbox.next(min(1.0, max(0.0, end - time.monotonic())))
        if arrival is not None and arrival.number in child.ENDING:
            return 128 + arrival.number, "signal %d while waiting for a debugger" % arrival.number
        if time.monotonic() >= end and not session.attached:
            if options.then == "run":
                console.log("no debugger within %g s: going on without" % options.wait)
                session.store.update(expires=None)
                return None
            console.log("no debugger within %g s: the program was not started" % options.wait)
            return contract.EXIT_NOBODY_CAME, "no debugger within %g s" % options.wait
    session.show("running", expires=None, detail="")
    return None
