"""A `dkdbg ...` that goes on, at a terminal or with pipes: what it says, and the keys that are pressed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tests import terminals

#: Seconds that a loaded machine may take for anything.
TIMEOUT_S = 300.0


class Running:
    """`dkdbg run`, or another verb, at a terminal or with pipes, and all that it has said."""

    def __init__(self, root, *words: str, terminal: bool = False, verb: str = "run") -> None:
        argv = [sys.executable, "-m", "dkdbg", verb, *words]
        self.said = ""
        self._changed = threading.Condition()
        self.keys = -1
        if terminal:
            self.process, self.keys = terminals.begun(argv, cwd=root)
            self._out = self.keys
        else:
            self.process = subprocess.Popen(
                argv, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            self._out = self.process.stdout.fileno()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._out, 1 << 16)
            except OSError:
                data = b""
            with self._changed:
                self.said += data.decode("utf-8", "replace")
                self._changed.notify_all()
            if not data:
                return

    def wait_for(self, text: str, times: int = 1) -> None:
        self.wait_until(lambda: self.said.count(text) >= times)

    def comes(self, text: str, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: text in self.said, seconds)

    def wait_until(self, fits: Callable[[], bool]) -> None:
        end = time.monotonic() + TIMEOUT_S
        with self._changed:
            while not fits():
                assert time.monotonic() < end, self.said
                self._changed.wait(0.1)  # nobody tells of the end of the process

    def has_ended(self) -> bool:
        return "Shared connection" in self.said or self.process.poll() is not None

    def ctrl_c(self) -> None:
        os.write(self.keys, b"\x03")

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(5)  # ssh may keep the terminal open
        return code
