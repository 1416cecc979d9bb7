"""`launch`: run a command once, so that an editor can attach to its Python processes at any time."""

from __future__ import annotations

from dkdbg.agent import console, contract
from dkdbg.agent.run import child, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    from dkdbg.agent.run.options import Options


def run(options: Options) -> int:
    """Run the command to its end and return the exit code for the agent's own process."""
    return session.run(options, run_once)


def run_once(shared: session.Session) -> Tuple[int, str]:
    """Run the command to its end; return its exit code and how it ended."""
    try:
        running = shared.start_program()
    except child.StartError as error:
        shared.tell(str(error))
        return error.exit_code, str(error)
    except OSError as error:
        return contract.EXIT_AGENT, cannot_prepare(error)
    while running.poll() is None:
        arrival = shared.inbox.next(1.0)
        if arrival is not None:
            running.pass_on(arrival)
        if shared.ended_by_editor.is_set():
            shared.ended_by_editor.clear()
            running.send(15)
    code = running.exit_code if running.exit_code is not None else 255
    end = child.describe_end(code, running.signal)
    shared.say_end(running, end)
    return code, end


def cannot_prepare(error: OSError) -> str:
    """Say on stderr that the hook could not be laid out, and return it for the record."""
    detail = "cannot prepare the hook: %s" % error
    console.log(detail)
    return detail
