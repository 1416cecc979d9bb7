"""Python's own `threading` and `time`, even where gevent has patched these modules.

With GEVENT_SUPPORT (greenlets.py) pydevd has unpatched copies of the modules, made when it was imported. Modules whose
code runs on pydevd's threads import the copies from here, and must be imported after pydevd.
"""

from __future__ import annotations

import sys
import threading
import time

__all__ = ["threading", "time"]

TYPE_CHECKING = False
if not TYPE_CHECKING and "pydevd" in sys.modules:
    threading, time = sys.modules["pydevd"].threading, sys.modules["pydevd"].time
