"""Makes coverage ignore the agent's files: they are removed later, and `coverage report` fails if a file is missing."""

# ruff: noqa: ANN401

from __future__ import annotations

import os
import re
import sys

from . import importing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: Called when coverage sees a new file, in the thread that executes it.
meets_file: Callable[[], object] = lambda: None
_AGENT = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
#: Parts of the paths of debugpy's files, which are outside of the program's site-packages.
_DEBUGPY = re.compile(r"/debugpy-[\d.]+/debugpy/|/debugpy/_vendored/")
_MODULE = "coverage.inorout"


def watch() -> None:
    """Patch coverage, now if it is imported, else when the program imports it."""
    importing.after(_MODULE, _leave_out)


def measures() -> bool:
    """Tell whether coverage measures this process now."""
    collector = getattr(sys.modules.get("coverage.collector"), "Collector", None)
    return bool(getattr(collector, "_collectors", None))


def find_spec(name: str, path: Any, target: Any) -> Any:
    """Return a spec of coverage's module whose import patches the module."""
    return importing.Finder(name, _leave_out).find_spec(name, path, target)


def _leave_out(module: Any) -> None:
    true = module.InOrOut.check_include_omit_etc  # coverage 5.0 to 7.17
    if getattr(true, "__module__", "") == __name__:
        return

    def check_include_omit_etc(self: Any, filename: Any, frame: Any) -> Any:
        """Return the reason not to measure a file, None to measure it."""
        if filename.startswith(_AGENT) or _DEBUGPY.search(filename):
            return "is the debugger's"
        meets_file()
        return true(self, filename, frame)

    module.InOrOut.check_include_omit_etc = check_include_omit_etc
