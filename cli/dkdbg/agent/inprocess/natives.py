"""Python's own `threading` and `time`, also where gevent has patched these modules.

With GEVENT_SUPPORT (greenlets.py) pydevd copies the unpatched modules when it is imported. Modules that run on
pydevd's threads take these copies from here, and must be imported after pydevd.
"""

from __future__ import annotations

import sys
import threading
import time

__all__ = ["threading", "time"]

TYPE_CHECKING = False
if not TYPE_CHECKING and "pydevd" in sys.modules:
    threading, time = sys.modules["pydevd"].threading, sys.modules["pydevd"].time
