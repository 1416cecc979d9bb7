"""torch's own profiler around a few optimizer steps, without changes to the steps or the user's code."""

# ruff: noqa: ANN401

from __future__ import annotations

import atexit
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

MODULE = "torch.optim.optimizer"


def follow(path: str, steps: Sequence[int]) -> None:
    """Profile from step `steps[0]` to step `steps[1]`, counted from 1, once torch's optimizers are imported."""
    sys.meta_path.insert(0, _Finder(_Steps(path, steps[0], steps[1])))


class _Steps:
    """Counter of the steps of all optimizers; writes a trace for chrome://tracing and Perfetto."""

    def __init__(self, path: str, first: int, last: int) -> None:
        self._path, self._first, self._last = path, first, last
        self._done = 0
        self._profiler: Any = None

    def arm(self, module: Any) -> None:
        module.register_optimizer_step_post_hook(self._stepped)
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
        except Exception as error:  # the program profiles itself: only one can
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


class _Finder:
    """First finder on sys.meta_path, which removes itself when the module is imported."""

    def __init__(self, steps: _Steps) -> None:
        self._steps = steps

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Return a spec of torch's optimizer module that calls `arm` after the import; None for other modules."""
        if name != MODULE:
            return None
        import importlib.machinery

        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or run is None:
            return None

        def exec_module(module: Any) -> None:
            run(module)
            try:
                self._steps.arm(module)
            except Exception as error:  # a torch before 2.1
                sys.stderr.write(
                    "dkdbg: torch's profiler cannot follow the steps of this torch: %s\n" % error
                )

        spec.loader.exec_module = exec_module  # type: ignore[method-assign, union-attr]
        return spec
