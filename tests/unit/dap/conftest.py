"""Programs under the real debugpy."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest


class Programs:
    """Starts scripts under `python -m debugpy --listen`, and ends them after the test."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.started: list[subprocess.Popen] = []

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def listen(self, script, *, wait=True):
        """Start `script` and return the port of its adapter, which is never connected to only to look."""
        # The adapter writes its ports when it listens. A FIFO lets us wait for that without asking again and again.
        endpoints = self.folder / f"endpoints-{len(self.started)}"
        os.mkfifo(endpoints)
        descriptor = os.open(endpoints, os.O_RDONLY | os.O_NONBLOCK)
        wait_option = ["--wait-for-client"] if wait else []
        self.started.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-Xfrozen_modules=off",
                    "-m",
                    "debugpy",
                    "--listen",
                    "127.0.0.1:0",
                    *wait_option,
                    script,
                ],
                env={**os.environ, "DEBUGPY_ADAPTER_ENDPOINTS": str(endpoints)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(20_000), "debugpy's adapter did not come up"
            return json.loads(os.read(descriptor, 4096))["client"]["port"]
        finally:
            os.close(descriptor)

    def end(self):
        for program in self.started:
            program.kill()
            program.communicate()


@pytest.fixture
def programs(tmp_path):
    started = Programs(tmp_path)
    yield started
    started.end()
