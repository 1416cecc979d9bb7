"""Print the progress of a start: every line in a pipe; on a terminal a progress bar for builds, and the other lines."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.targets.docker.build_steps import BuildStep, BuildSteps

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class StartReport:
    """Receives the lines of progress. If a build fails, prints the output that the progress bar replaced, on exit."""

    def __init__(self) -> None:
        self._status = console.Status()
        self._steps = BuildSteps()
        self._began = time.monotonic()
        self._step: BuildStep | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._redraw, name="dkdbg clock", daemon=True)

    def __call__(self, line: str) -> None:
        """Show a line, or show the build step that it belongs to in the bar."""
        step = self._steps.read(line) if self._status.live else None
        with self._lock:
            if step is None:
                self._step = None
                self._status.say(line)
                return
            for each in step.log:
                self._status.say(each)
            if step.text:
                self._step = step
                self._show(step)

    def _show(self, step: BuildStep) -> None:
        self._status.show(f"{time.monotonic() - self._began:3.0f} s  {step.text}", step.share)

    def _redraw(self) -> None:
        """Update the elapsed seconds while a step prints nothing, such as pip resolving versions."""
        while not self._over.wait(1.0):
            with self._lock:
                if self._step is not None:
                    self._show(self._step)

    def __enter__(self) -> Self:
        if self._status.live:
            self._clock.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._status.live:
            self._clock.join()
        self._status.clear()
        if error is not None:
            for each in self._steps.left():
                console.say(each)
