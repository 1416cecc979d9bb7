"""Fallback of `launch` when it cannot debug: run the program anyway, with the reason on stderr.

The disk may be full, or no folder writable. Without dkdbg the program would start.
"""

from __future__ import annotations

import os

from dkdbg.agent import console
from dkdbg.agent.proxy.listener import tokens
from dkdbg.agent.supervisor import child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Optional, Sequence


def become(command: Sequence[str], reason: str, mask: Optional[Iterable[int]] = None) -> int:
    """Report the reason, and replace the agent with the command.

    Returns:
        An exit code, where the command cannot be executed.
    """
    console.log("%s: the program runs without the debugger" % reason)
    try:
        child.become(command, tokens.without(os.environ), mask)
    except child.StartError as error:
        console.log(str(error))
        return error.exit_code
