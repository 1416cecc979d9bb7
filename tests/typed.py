"""A line that somebody types into a shell, and whose program goes on: what it says, and its end by Ctrl-C."""

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.pages import environment

#: Seconds that a loaded machine may take for anything.
_TIMEOUT_S = 300.0


class Typed:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self, *texts: str) -> str:
        """Return what it has said, once each of these stands in it."""
        end = time.monotonic() + _TIMEOUT_S
        while any(each not in self.said for each in texts):
            assert self.process.poll() is None or all(each in self.said for each in texts), self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.05)
        return self.said

    def end(self) -> int:
        """Press Ctrl-C and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(_TIMEOUT_S)


@contextmanager
def typed(
    root: Path, line: str, log: Path, env: Mapping[str, str] | None = None, *, before: str = "true"
) -> Iterator[Typed]:
    """Type a line in `root`, with `dkdbg` on PATH; at the end it is ended.

    Args:
        log: for what it says, a file that is not there yet.
        before: a line that is typed before it.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["sh", "-c", f"{before}; exec {line}"], cwd=root, env=environment(env), stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    made = Typed(process, log)
    try:
        yield made
    finally:
        try:
            made.end()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
