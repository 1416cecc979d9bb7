"""Files that cannot be sent as they are now: they grow all the time, or have become too large. It is said."""

import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dkdbg.core.target import Executor, Local
from dkdbg.sync.report import as_line
from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.session import MIN_REST_S, OFTEN, Retries, Session
from dkdbg.sync.tree import reading
from dkdbg.sync.tree.reading import FileChangedError
from dkdbg.sync.verify import verify
from tests.unit.sync.followed import following
from tests.unit.sync.trees import put

LIMIT = 1_000


def limited(roots):
    """These roots, where a file of more than LIMIT bytes takes no part."""
    return replace(roots, rules=lambda root: Rules(root, max_size=LIMIT))


@contextmanager
def meanwhile(write, pause):
    """Call `write` on another thread, with so many seconds between."""
    stop = threading.Event()

    def repeat():
        while not stop.wait(pause):
            write()

    writer = threading.Thread(target=repeat)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def append(path, line=b"line\n"):
    with path.open("ab") as file:
        file.write(line)


def test_a_log_that_grows_all_the_time_is_there_as_far_as_it_was_read_and_is_said(roots, here, there):
    """It never arrived, and nothing was said but "in sync"."""
    with following(roots) as followed:
        (here / "log").write_bytes(b"beginning\n" * 400_000)
        with (here / "log").open("ab", 0) as file, meanwhile(lambda: file.write(b"line\n"), 0.0005):
            followed.until((there / "log").exists)
            followed.until(lambda: followed.named("grows"))
            (here / "b.py").write_text("2")  # nobody waits for the log
            followed.until((there / "b.py").exists)
        assert (here / "log").read_bytes().startswith((there / "log").read_bytes())
        followed.until(lambda: (there / "log").read_bytes() == (here / "log").read_bytes())
        assert "is written constantly" in as_line(followed.named("grows")[0])
        assert len(followed.named("grows")) == 1


class SlowLine(Executor):
    """A stand-in for a line that carries some 20 MB/s."""

    label = "a slow line"
    COPY = "import os, time\nwhile data := os.read(0, 1 << 16):\n    os.write(1, data)\n    time.sleep(0.003)"

    def wrap(self, argv):
        line = 'exec "${@:3}" < <(exec "$1" -c "$2")'
        return ("bash", "-c", line, "slow", sys.executable, self.COPY, *argv)


def test_a_log_that_grows_while_it_travels_arrives_and_holds_up_nobody(roots, here, there):
    """Its changes made it follow itself for ever, sent in vain each time, and nothing was said."""
    (here / "log").write_bytes(b"beginning\n" * 600_000)
    with following(roots, executor=SlowLine) as followed:
        with meanwhile(lambda: append(here / "log"), 0.1):
            (here / "large").write_bytes(b"x" * 3_000_000)
            (here / "small").write_text("1")
            followed.until(lambda: (there / "large").exists() and (there / "small").exists())
            followed.until(lambda: followed.named("grows"))
            followed.until(lambda: (there / "log").read_bytes().endswith(b"line\n"))
        followed.until(lambda: (there / "log").read_bytes() == (here / "log").read_bytes())


def test_a_log_that_is_appended_to_now_and_then_is_said_to_travel_whole(roots, here, there):
    (here / "log").write_bytes(b"beginning\n" * 200_000)
    with following(roots) as followed:
        for line in range(5):
            append(here / "log", b"%d\n" % line)
            followed.until(lambda: (there / "log").stat().st_size == (here / "log").stat().st_size)
        assert [said.facts["path"] for said in followed.named("grows")] == ["log"]
        assert "it is sent whole again" in as_line(followed.named("grows")[0])


def test_a_large_file_that_is_saved_several_times_is_no_log(roots, here, there):
    with following(roots) as followed:
        for size in (3_000_000, 2_000_000, 4_000_000, 2_500_000, 5_000_000):
            (here / "model").write_bytes(b"x" * size)
            followed.until(
                lambda size=size: (there / "model").exists() and (there / "model").stat().st_size == size
            )
        assert not followed.named("grows")


def test_once_sends_of_a_log_what_is_there_and_says_that_it_grows(roots, here, there, monkeypatch):
    put(here, {"log": "beginning\n" * 1_000})
    log = (here / "log").stat().st_ino
    read = reading.os.read

    def read_and_grow(fd, size):
        """A line is written between any two reads, which a thread beside does only on a quiet machine."""
        if os.fstat(fd).st_ino == log:
            append(here / "log")
        return read(fd, size)

    monkeypatch.setattr(reading.os, "read", read_and_grow)
    events = []
    session = Session(roots, Local, report=events.append)
    session.once()
    assert (here / "log").read_bytes().startswith((there / "log").read_bytes())
    assert (there / "log").stat().st_size >= 10_000
    assert [event.facts["path"] for event in events if event.name == "grows"] == ["log"]
    assert (session.failed, session.files) == ({}, 1)


def test_a_file_that_is_not_there_yet_does_not_count_as_in_sync(roots, here):
    session = Session(roots, Local, report=lambda _: None)
    put(here, {"a": "1", "b": "2"})
    session.once()
    assert session.files == 2
    session._retries.update(changed={"a"}, failed=(), racy=(), now=0.0)
    assert session.files == 1


def test_a_file_that_grows_is_read_as_far_as_it_went_when_it_was_opened(root, monkeypatch):
    (root / "log").write_bytes(b"old")
    read = reading.os.read

    def read_and_grow(fd, size):
        append(root / "log", b"new")
        return read(fd, size)

    monkeypatch.setattr(reading.os, "read", read_and_grow)
    with pytest.raises(FileChangedError):
        reading.read(str(root), "log")
    (root / "log").write_bytes(b"old")
    content = reading.read(str(root), "log", growing=True)
    assert (content.body, content.entry.size, content.entry.stamp, content.grown) == (b"old", 3, "", True)
    assert b"".join(reading.pieces(str(root), "log", content.entry, growing=True)) == b"old"


def test_a_file_that_grows_rests_after_it_was_sent_and_others_do_not_have_it_forgotten():
    again = Retries()
    for time_ in range(OFTEN):
        again.update(changed={"log"}, failed=(), racy=(), now=float(time_))
        again.update(changed=(), failed=(), racy={"other"}, now=float(time_))
        assert "log" in again.take(time_ + 0.9)
    again.update(changed={"log"}, failed=(), racy=(), now=10.0)
    assert again.often == {"log"}
    again.update(changed=(), failed=(), racy=(), now=10.0, grew={"log": 0.01})
    assert again.put_off({"log", "a"}, 11.0) == {"a"}
    assert again.take(10.0 + MIN_REST_S) >= {"log"}
    assert again.put_off({"log"}, 13.0) == {"log"}


def test_a_file_that_became_too_large_is_said_until_it_is_small_again_or_gone(roots, here, there):
    """What was sent before stayed there, "in sync" was said, and --verify said equal."""
    put(here, {"data": "1", "a": "1"})
    with following(limited(roots)) as followed:
        put(here, {"data": "2" * (LIMIT + 1)})
        followed.until(lambda: followed.named("failed"))
        assert (
            "the previously sent version is still on the target"
            in followed.named("failed")[0].facts["reason"]
        )
        assert followed.session.files == 1
        assert list(verify(limited(roots), Local()).differences) == ["data"]
        put(here, {"data": "3"})
        followed.until(lambda: (there / "data").read_text() == "3")
        followed.until(lambda: followed.session.failed == {})
        assert followed.session.files == 2
        put(here, {"data": "4" * (LIMIT + 1)})
        followed.until(lambda: followed.session.failed)
        (here / "data").unlink()
        followed.until(lambda: not (there / "data").exists() and not followed.session.failed)


def test_a_save_just_before_the_end_arrives(roots, here, there):
    with following(roots) as followed, (here / "log").open("w") as log:
        log.write("last")
        log.flush()
        followed.session.stop()
        followed.thread.join(300)
        assert (there / "log").read_text() == "last"
