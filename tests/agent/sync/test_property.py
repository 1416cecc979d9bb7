"""Random work on the local side while streams and receivers die and the remote side is meddled with: equal in the end.

The watcher, the session and the receiver are the real ones; the receiver runs on a local folder behind a pipe that can
be cut at either end. Rules come and go: what they leave out is asked of git. 30 sequences; 2,000 with DKDBG_TEST_FULL=1; DKDBG_TEST_SEED=N runs one of them.
"""

import contextlib
import ctypes
import os
import random
import signal
import sys
import threading
import time
import traceback

import pytest

from dkdbg.core.target import Executor
from dkdbg.sync.roots import Roots
from dkdbg.sync.session import Session
from tests.agent.sync.churn import RULE_FILES, Churn, contents, left_out, picture
from tests.processes import children

PART = 10
ALL = 2000 if os.environ.get("DKDBG_TEST_FULL") else 30


class Relay(Executor):
    """A stand-in for a transport: a pipe before the receiver, either of which can be killed."""

    label = "a local folder"

    def wrap(self, argv):
        return ("bash", "-c", 'exec "$@" < <(exec cat)', "relay", sys.executable, *argv[1:])


def parts_of_streams():
    """Pids of the receivers and of the pipes before them, of the streams that run now."""
    receivers = [pid for pid in children(os.getpid()) if children(pid)]
    return receivers + [pipe for receiver in receivers for pipe in children(receiver)]


class Meddler:
    """What somebody else does on the remote side; what it adds must never be lost."""

    def __init__(self, root, dice):
        self.root, self.dice = root, dice
        self.added = {}
        self.number = 0

    def step(self):
        files = [
            os.path.join(at, name)
            for at, _, names in os.walk(self.root)
            for name in names
            if ".dkdbg-sync" not in at
        ]
        folders = [at for at, _, _ in os.walk(self.root) if ".dkdbg-sync" not in at]
        what = self.dice.choice(("add", "touch", "remove"))
        try:
            if what == "add":
                self.number += 1
                path = os.path.join(self.dice.choice(sorted(folders)), f"there-{self.number}")
                content = f"only there {self.number} {self.dice.random()}".encode()
                with open(path, "xb") as file:
                    file.write(content)
                self.added[content] = path
            elif files:
                path = self.dice.choice(sorted(files))
                if path in self.added.values() or os.path.islink(path):
                    return
                if what == "remove":
                    os.unlink(path)
                else:
                    # never makes a file: sync may have removed it since it was listed
                    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab") as file:
                        file.write(b"meddled")
        except OSError:
            pass


class Rig:
    def __init__(self, folder, dice):
        self.local, self.remote = folder / "here", folder / "there"
        self.local.mkdir()
        self.remote.mkdir()
        self.events = []
        self.churn = Churn(str(self.local), dice)
        self.meddler = Meddler(str(self.remote), dice)
        self.dice = dice
        self.problem = None
        self.replaced = 0
        self.session = Session(
            Roots(local=str(self.local), remote=str(self.remote)), Relay, report=self.events.append
        )
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            self.session.follow()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.problem = error

    def start(self):
        """Return when it was in sync once: what fails before that is an error, as it should be."""
        self.thread.start()
        while not any(event.name == "in_sync" for event in self.events):
            assert self.thread.is_alive(), self.problem
            time.sleep(0.01)

    def where(self):
        """What the session is doing."""
        frame = sys._current_frames().get(self.thread.ident)
        return "".join(traceback.format_stack(frame)[-6:]) if frame else "it has ended"

    def kill_something(self):
        parts = parts_of_streams()
        if parts:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.dice.choice(parts), signal.SIGKILL)

    def sequence(self):
        """Some operations with faults in between; whether both sides were equal in the end."""
        meddled = replaced = False
        for _ in range(self.dice.randint(3, 14)):
            self.churn.step()
            luck = self.dice.random()
            if luck < 0.06:
                self.kill_something()
            elif luck < 0.14:
                self.meddler.step()
                meddled = True
            elif luck < 0.155:
                self.replace_remote()
                replaced = True
            elif luck < 0.5:
                time.sleep(self.dice.choice((0.001, 0.01, 0.06)))
        self.churn.rest()
        if meddled or replaced:  # seen at the next start of a receiver, or at the next save
            self.reconnect()
        return self.differences()

    def replace_remote(self):
        """Put an empty folder in the place of the remote root, which somebody moves away."""
        self.replaced += 1
        old = self.remote.parent / f"old{self.replaced}"
        old.mkdir()
        here = -100  # AT_FDCWD
        done = ctypes.CDLL(None).renameat2(here, bytes(old), here, bytes(self.remote), 2)  # RENAME_EXCHANGE
        assert done == 0
        self.meddler.added.clear()
        self.churn.log.append("the remote root was replaced")

    def reconnect(self):
        """Cut the stream, and return when there is another: what was to be killed may have been ending anyway."""
        before = self.connections()
        while self.connections() == before and self.thread.is_alive():
            self.kill_something()
            end = time.monotonic() + 2
            while self.connections() == before and time.monotonic() < end:
                time.sleep(0.01)

    def connections(self):
        return sum(event.name == "connected" for event in self.events)

    def differences(self, seconds=300):
        """What is not as it should be after `seconds` at most."""
        deadline = time.monotonic() + seconds
        while True:
            problems = self._look()
            if not problems or time.monotonic() > deadline or not self.thread.is_alive():
                return problems
            time.sleep(0.02)

    def _look(self):
        try:
            here, there = picture(str(self.local)), picture(str(self.remote))
            everything = contents(str(self.remote)) if self.meddler.added else set()
            ruled = any(os.path.basename(path) in RULE_FILES for path in here)
            out = left_out(str(self.local), list(here)) if ruled else set()
        except OSError as error:  # something moved while we looked
            return [str(error)]
        problems = [
            f"{path!r}: {_short(entry)} here, {_short(there.get(path))} there"
            for path, entry in here.items()
            if there.get(path) != entry and path not in out
        ]
        ours = {os.path.relpath(path, self.remote) for path in self.meddler.added.values()}
        problems += [
            f"{path!r} is only there"
            for path in there.keys() - here.keys()
            if path not in ours and not any(other.startswith(path + "/") for other in ours)
        ]
        problems += [f"{content!r} is lost" for content in self.meddler.added if content not in everything]
        return problems


def _short(entry):
    return entry and (*entry[:-1], entry[-1][:20] if len(entry) > 2 else entry[-1])


SEED = os.environ.get("DKDBG_TEST_SEED")


@pytest.mark.parametrize("seed", [int(SEED)] if SEED else range(ALL // PART))
def test_whatever_happens_here_and_to_the_stream_both_sides_are_equal_in_the_end(seed, tmp_path):
    rig = Rig(tmp_path, random.Random(seed))
    rig.start()
    try:
        for number in range(PART):
            problems = rig.sequence()
            story = "\n".join([*rig.churn.log[-40:], *(str(event.as_json()) for event in rig.events[-40:])])
            assert rig.problem is None, f"{rig.problem!r} in sequence {number} of seed {seed}\n{story}"
            found = "\n".join(problems[:20])
            assert not problems, f"sequence {number} of seed {seed}:\n{found}\n{rig.where()}\n{story}"
    finally:
        rig.session.stop()
        rig.thread.join(300)
    assert not rig.thread.is_alive()
