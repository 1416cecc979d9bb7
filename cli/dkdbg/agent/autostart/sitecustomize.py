# -*- coding: utf-8 -*-
"""Entry point of the single file.

With `PYTHONPATH=/mnt/agent.pyz` each Python of a job runs this before its first line.

Nothing happens unless DKDBG_CONNECT or DKDBG_LISTEN is set. Then the first program of the container starts the agent,
and all programs become members of that one session (job.py). On any error the program runs as it would without dkdbg.

Any Python of the job may read the file, so it is valid Python 2 as well; there it only runs the user's own
`sitecustomize`.
"""
# Annotations are comments here: Python 2 reads this file too.
# ruff: noqa: ANN202, F401
# mypy: disable-error-code="import-not-found"

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ARCHIVE = os.path.abspath(os.path.dirname(__file__))
#: Holds a reference to this module once it is out of sys.modules: Python 2 would clear its globals.
_kept = {}  # type: dict[str, Any]


def _next():  # type: () -> None
    """Run the next `sitecustomize` on sys.path, as `site` would have."""
    own = _kept["here"] = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize
    except ImportError as error:
        if "sitecustomize" not in str(error):
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


def _without_archive():  # type: () -> list[str]
    return [entry for entry in sys.path if os.path.abspath(entry) != _ARCHIVE]


def _hook():  # type: () -> str
    """Return the hook's folder of the session that this process belongs to; empty if it belongs to none."""
    if sys.version_info < (3, 8) or not (os.environ.get("DKDBG_CONNECT") or os.environ.get("DKDBG_LISTEN")):
        return ""
    if os.path.isdir(os.environ.get("DKDBG_SESSION_DIR") or "/nowhere/"):
        return ""  # below an agent: the hook, which has called this module, has run already
    before = set(sys.modules)
    try:
        from dkdbg.agent.autostart import job

        return job.begin(_ARCHIVE)
    except KeyboardInterrupt:  # Ctrl-C while it waits for an editor: end without a traceback of `site`
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        os._exit(130)  # reached only as a container's process 1, for which the kernel drops the signal
    except Exception as error:
        if os.environ.get("DKDBG_DEBUG"):
            sys.stderr.write("dkdbg: not started in pid %d: %r\n" % (os.getpid(), error))
        return ""
    finally:
        for name in set(sys.modules) - before:
            if name.split(".")[0] == "dkdbg":
                del sys.modules[name]


def _main():  # type: () -> None
    hook = _hook()
    if hook:
        sys.path[:] = [hook] + _without_archive()  # noqa: RUF005 - Python 2
        _next()  # the hook, which runs the user's `sitecustomize`
        return
    removed = [(at, entry) for at, entry in enumerate(sys.path) if os.path.abspath(entry) == _ARCHIVE]
    sys.path[:] = _without_archive()
    try:
        _next()
    finally:  # the user's `sitecustomize` may have changed the path
        for at, entry in removed:
            if entry not in sys.path:
                sys.path.insert(at, entry)


_main()
