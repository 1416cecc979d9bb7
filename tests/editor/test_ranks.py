"""Two ranks in VS Code: all by one key, left by one Stop, through one port and by a compound of entries with a port for each."""

import pytest

from tests.editor.test_far import home_with_dkdbg
from tests.engine.projects import dkdbg, must
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]

COMPOSE = """\
services:
  trainer:
    image: {image}
    command: python3 ranks.py
    working_dir: /code
    volumes: [".:/code"]
"""
#: What torchrun does on one machine, in half a second; a pair of sockets stands in for a collective.
RANKS = """\
import os
import socket
import subprocess
import sys

ranks = []
for rank, sock in enumerate(socket.socketpair()):
    env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    fd = sock.fileno()
    ranks.append(subprocess.Popen([sys.executable, "train.py", str(fd)], env=env, pass_fds=[fd]))
for each in ranks:
    each.wait()
"""
#: The ranks go together until a file says that they do not; then each is on its own, and a pause finds it in Python.
TRAIN = """\
import os
import socket
import sys
import time

other = socket.socket(fileno=int(sys.argv[1]))
step, alone = 0, False
while not alone:
    step += 1
    mine = b"!" if os.path.exists("alone") else b"."
    other.sendall(mine)
    alone = b"!" in (mine, other.recv(1))
open("alone-" + os.environ["RANK"], "w").close()
while True:
    step += 1
    time.sleep(0.01)
"""
TOGETHER, ALONE = 10, 15


class Ranks:
    """The sessions of two ranks in a window.

    Args:
        editor: the window.
    """

    def __init__(self, editor):
        self.editor, self.trace = editor, editor.trace

    def stop(self, since, reason="breakpoint"):
        """Wait until both have stopped after so many stops in all; returns their sessions."""

        def found():
            return self._sessions("stopped", since, lambda body: body["reason"] == reason)

        return self.editor.until(f"both ranks stop: {reason}", lambda: found() if len(found()) == 2 else [])

    def go_on_by_one_key(self):
        """F5, once, when the window shows that it continues; returns the sessions that go on, when it is told of both."""
        self.editor.page.locator(".debug-toolbar .codicon-debug-continue").wait_for()
        before = [
            len(self.trace.messages(*each)) for each in (("continued",), ("continue",), ("continue", "sent"))
        ]
        self.editor.press("F5")

        def found():
            told = (
                self.trace.messages("continued")[before[0] :] + self.trace.messages("continue")[before[1] :]
            )
            return sorted({each["session"] for each in told})

        ranks = self.editor.until("both ranks go on", lambda: found() if len(found()) == 2 else [])
        assert len(self.trace.messages("continue", "sent")) == before[2] + 1
        return ranks

    def pause_by_one_key(self):
        """F6, once, when the window shows that it can pause; returns the sessions that have stopped."""
        self.editor.page.locator(".debug-toolbar .codicon-debug-pause").wait_for()
        before, asked = len(self.trace.messages("stopped")), len(self.trace.messages("pause", "sent"))
        self.editor.press("F6")
        ranks = self.stop(before, "pause")
        assert len(self.trace.messages("pause", "sent")) == asked + 1
        return ranks

    def take_breakpoint_away(self):
        """F9 on the line of the cursor, until no session has it any more."""
        before = len(self.trace.messages("setBreakpoints"))
        self.editor.toggle_breakpoint()
        self.editor.until(
            "all sessions know it",
            lambda: len(self._sessions("setBreakpoints", before)) == len(self.trace.sessions()),
        )

    def _sessions(self, name, since, fits=lambda _: True):
        new = [each for each in self.trace.messages(name)[since:] if fits(each["message"].get("body") or {})]
        return sorted({each["session"] for each in new})


def test_one_key_and_one_stop_are_for_all_ranks_of_one_port_and_of_a_compound_with_a_port_for_each(
    repository, open_editor, base_image, tmp_path
):
    compose = COMPOSE.format(image=base_image)
    root = repository(**{"compose.yaml": compose, "ranks.py": RANKS, "train.py": TRAIN})
    base = free_port(102)
    must(dkdbg(root, "init", "--ranks", "2", "--port", str(base), "--yes"))
    home = {"HOME": str(home_with_dkdbg(tmp_path / "home")), "SHELL": "/bin/bash"}
    editor = open_editor(root, "train.py", line=TOGETHER, **home)
    both = Ranks(editor)
    editor.toggle_breakpoint()
    editor.press("F5")
    ranks = both.stop(0)
    at = int(editor.until("the stop is shown", lambda: editor.local_variables().get("step")))
    before = len(editor.trace.messages("stopped"))
    assert both.go_on_by_one_key() == ranks
    assert both.stop(before) == ranks
    editor.until("the next one is", lambda: editor.local_variables().get("step") == str(at + 1))
    both.take_breakpoint_away()
    (root / "alone").touch()
    both.go_on_by_one_key()
    editor.until("each rank is on its own", lambda: all((root / f"alone-{rank}").exists() for rank in (0, 1)))
    assert both.pause_by_one_key() == ranks
    editor.end_sessions()

    editor.go_to(ALONE)
    editor.toggle_breakpoint()
    before, attached = len(editor.trace.messages("stopped")), len(editor.trace.messages("attach", "sent"))
    editor.start("dkdbg: ranks")
    others = both.stop(before)
    assert not set(others) & set(ranks)
    editor.until(
        "both are shown", lambda: sorted(editor.trace.sessions()) == ["dkdbg: rank 0", "dkdbg: rank 1"]
    )
    asked = [each["message"]["arguments"] for each in editor.trace.messages("attach", "sent")[attached:]]
    assert sorted(each["connect"]["port"] for each in asked) == [base, base + 1]
    both.take_breakpoint_away()
    assert both.go_on_by_one_key() == others
    assert both.pause_by_one_key() == others
    editor.end_sessions()
