"""`python -m paipdb SCRIPT` and `import paipdb`, as OpenPAI's recipe has them; it lies at the top of what is on PYTHONPATH.

This file also travels into containers, beside the agent: Python 3.8. What it does is in dkdbg.agent.inprocess.pai.
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
    sys.exit(main(called="paipdb"))
