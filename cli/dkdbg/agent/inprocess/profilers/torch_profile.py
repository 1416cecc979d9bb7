"""Runs torch's own profiler around a few optimizer steps, without changes to the user's code."""

# ruff: noqa: ANN401

from __future__ import annotations

import atexit
import sys

from .. import importing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

MODULE = "torch.optim.optimizer"


def follow(path: str, steps: Sequence[int]) -> None:
    """Profile steps `steps[0]` to `steps[1]` - 1, counted from 1, once torch's optimizers are imported."""
    importing.after(MODULE, _Steps(path, steps[0], steps[1]).arm)


class _Steps:
    """Counter of the steps of all optimizers; writes a trace for chrome://tracing and Perfetto."""

    def __init__(self, path: str, first: int, last: int) -> None:
        self._path, self._first, self._last = path, first, last
        self._done = 0
        self._profiler: Any = None

    def arm(self, module: Any) -> None:
        try:
            module.register_optimizer_step_post_hook(self._stepped)
        except Exception as error:  # a torch before 2.1
            sys.stderr.write("dkdbg: profiling by optimizer steps needs torch 2.1 or newer: %s\n" % error)
            return
        if self._first <= 1:
            self._start()
        atexit.register(self._finish)

    def _stepped(self, *_: Any) -> None:
        self._done += 1
        if self._done >= self._last - 1:
            self._finish()
        elif self._done == self._first - 1:
            self._start()

    def _start(self) -> None:
        try:
            import torch.profiler

            profiler = torch.profiler.profile(record_shapes=True)
            profiler.start()
            self._profiler = profiler
        except Exception as error:  # the program uses torch's profiler itself: only one can run
            sys.stderr.write("dkdbg: torch's profiler does not start: %s\n" % error)

    def _finish(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        try:
            profiler.stop()
            profiler.export_chrome_trace(self._path)
        except Exception as error:  # such as a full disk
            sys.stderr.write("dkdbg: torch's profile was not written: %s\n" % error)
            return
        sys.stderr.write(
            "dkdbg: torch's profile of %d steps: %s\n" % (self._done - self._first + 1, self._path)
        )
