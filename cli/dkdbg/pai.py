"""Replace OpenPAI's paipdb by changing one import: `from dkdbg.pai import settrace`, `python -m dkdbg.pai SCRIPT`.

The file is also copied into containers with the agent, so it must run on Python 3.8. The code is in
dkdbg.agent.inprocess.pai.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036 - jobs choose their images
    sys.exit(
        "dkdbg: this is Python {}.{}, debugging needs 3.8 or newer: choose another image".format(
            *sys.version_info
        )
    )

from dkdbg.agent.inprocess.pai import handle_trap, main, post_mortem, set_trace, settrace

__all__ = ["handle_trap", "main", "post_mortem", "set_trace", "settrace"]

if __name__ == "__main__":
    sys.exit(main())
