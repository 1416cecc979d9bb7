"""The sender and the session against a real receiver on a local folder."""

import errno
import os
import re
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dkdbg.core.target import Executor, Local
from dkdbg.errors import DkdbgError
from dkdbg.sync.pull import destination, pull
from dkdbg.sync.receiver import wire
from dkdbg.sync.receiver.problems import explain
from dkdbg.sync.remote import flight
from dkdbg.sync.remote.contact import Contact
from dkdbg.sync.remote.replica import stat
from dkdbg.sync.report import Event, as_line
from dkdbg.sync.roots import Roots
from dkdbg.sync.session import CHANGED_S, Retries, Session
from dkdbg.sync.tree import reading
from dkdbg.sync.verify import verify
from tests.pythons import need
from tests.unit.sync.followed import learnt
from tests.unit.sync.trees import git, put


def once(roots):
    events = []
    session = Session(roots, Local, report=events.append)
    session.once()
    return session, [event.as_json() for event in events]


def test_files_that_the_receiver_refuses_are_one_failure_each_and_the_others_arrive(roots, here, there):
    (here / "d").mkdir()
    refused = [".dkdbg-sync.mine", "d/.dkdbg-sync.mine"]
    for name in (*refused, "other", "d/a", "d/b"):
        (here / name).write_text(name)
    session, events = once(roots)
    failed = {each["path"]: each["reason"] for each in events if each["event"] == "failed"}
    assert sorted(session.failed) == sorted(failed) == refused
    assert all("names that begin with .dkdbg-sync are reserved" in why for why in failed.values())
    assert session.files == 3
    assert (there / "other").read_text() == "other"
    assert sorted(path.name for path in (there / "d").iterdir()) == ["a", "b"]


def test_a_file_that_was_refused_and_is_gone_has_not_failed_any_more(roots, here):
    (here / ".dkdbg-sync.mine").write_text("x")
    with learnt(roots) as (replica, scanner, index):
        replica.converge(index)
        assert list(replica.sender.failed) == [".dkdbg-sync.mine"]
        (here / ".dkdbg-sync.mine").unlink()
        index.apply(scanner.rescan(index, {".dkdbg-sync.mine"}))
        assert replica.steps(index, {".dkdbg-sync.mine"}) == []
        assert replica.sender.failed == {}


def test_a_large_file_goes_on_where_it_was_cut(roots, here, there):
    data = os.urandom(6_000_000)
    (here / "large").write_bytes(data)
    once(roots)
    (there / "large").unlink()
    import hashlib

    part = there / ".dkdbg-sync" / "tmp" / f"part-{hashlib.sha256(data).hexdigest()}"
    part.write_bytes(data[:4_000_000])
    once(roots)
    assert (there / "large").read_bytes() == data


def test_a_second_checkout_deletes_nothing_of_the_first_and_keeps_what_it_replaces(roots, here, there):
    other = here.with_name("other")
    other.mkdir()
    for path, text in (
        (here / "mine", "1"),
        (here / "both", "1"),
        (other / "both", "2"),
        (other / "new", "2"),
    ):
        path.write_text(text)
    once(roots)
    _, events = once(replace(roots, local=str(other)))
    assert next(each["former"] for each in events if each["event"] == "connected") == str(here)
    assert {each.name: each.read_text() for each in there.iterdir() if each.is_file()} == {
        "mine": "1", "both": "2", "new": "2",
    }  # fmt: skip
    assert [each.read_text() for each in there.glob(".dkdbg-sync/kept/**/*") if each.is_file()] == ["1"]
    (other / "new").unlink()
    _, events = once(replace(roots, local=str(other)))
    assert next(each["former"] for each in events if each["event"] == "connected") == ""
    assert sorted(each.name for each in there.iterdir() if each.is_file()) == ["both", "mine"]


@pytest.mark.parametrize("kind", ["clone", "copied checkout", "folder without git", "dkdbg before this one"])
def test_a_folder_of_the_same_path_on_another_machine_deletes_nothing_of_the_first(roots, here, there, kind):
    """Two dev containers with /workspaces/proj: the second one's older clone replaced the work of the first."""
    if kind != "folder without git":
        git(here, "init", "-q")
    put(here, {"both": "work", "mine": "work", "equal": "1"})
    once(roots)
    here.rename(here.with_name("first machine"))
    if kind == "copied checkout":
        shutil.copytree(here.with_name("first machine"), here)
    elif kind == "dkdbg before this one":
        (there / ".dkdbg-sync/source").write_text(str(here))
    here.mkdir(exist_ok=True)
    if kind == "clone":
        git(here, "init", "-q")
    put(here, {"both": "older", "equal": "1"})
    (here / "mine").unlink(missing_ok=True)
    _, events = once(roots)
    told = next(each for each in events if each["event"] == "connected")
    assert told["former"] == str(here)
    assert "by another checkout, machine or version of dkdbg: its files stay" in as_line(
        Event("connected", told)
    )
    assert {each.name: each.read_text() for each in there.iterdir() if each.is_file()} == {
        "both": "older", "mine": "work", "equal": "1",
    }  # fmt: skip
    assert [each.read_text() for each in there.glob(".dkdbg-sync/kept/**/*") if each.is_file()] == ["work"]
    _, events = once(roots)
    assert next(each["former"] for each in events if each["event"] == "connected") == ""


def test_a_dev_container_that_is_rebuilt_with_the_same_checkout_is_no_other_machine(
    roots, here, there, monkeypatch
):
    git(here, "init", "-q")
    put(here, {"changes": "1", "goes": "1"})
    once(roots)
    here.chmod(0o700)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="4f0c1e9d2b7a"))
    (here / "changes").write_text("2")
    (here / "goes").unlink()
    _, events = once(roots)
    assert next(each["former"] for each in events if each["event"] == "connected") == ""
    assert {each.name: each.read_text() for each in there.iterdir() if each.is_file()} == {"changes": "2"}
    assert git(here, "status", "--porcelain") == b"?? changes\n"


def test_verify_says_what_is_missing_different_and_left_over(roots, here, there):
    for name in ("same", "missing", "other", "mode"):
        (here / name).write_text(name)
    once(roots)
    (there / "missing").unlink()
    (there / "other").write_text("OTHER")
    (there / "mode").chmod(0o755)
    (there / "only_there").write_text("")
    found = verify(roots, Local())
    assert found.equal == 1
    assert found.only_remote == ("only_there",)
    assert found.differences == {
        "missing": "is missing on the target", "other": "has different content on the target", "mode": "has mode 644 locally and 755 on the target",
    }  # fmt: skip


def test_a_link_that_was_sent_is_not_sent_again_when_somebody_looks_at_it(roots, here, there):
    (here / "link").symlink_to("a")
    with learnt(roots) as (replica, _, index):
        assert replica.converge(index).sent == 1
        assert (there / "link").readlink() == Path("a")
        assert replica.steps(index, {"link"}) == []


def test_what_is_there_is_asked_in_frames_that_fit_however_long_the_names_are(roots, there):
    deep = "/".join(["\U0001f40d" * 60] * 10)
    with learnt(roots) as (replica, _, _):
        (there / "a").write_text("x")
        found = stat(replica.stream, [*(f"{deep}/{number}" for number in range(3000)), "a"])
    assert list(found) == ["a"]


def test_a_local_root_that_is_the_remote_one_is_refused(roots, here):
    same = Roots(local=roots.local, remote=roots.local, pythons=(sys.executable,))
    with pytest.raises(DkdbgError, match="the same folder"):
        once(same)
    assert not (here / ".dkdbg-sync").exists()


@pytest.mark.parametrize("there", ["here/pkg", "here/pkg/empty", "here/pkg/new", ".", "way"])
def test_a_remote_root_inside_or_around_the_local_one_is_refused(roots, here, tmp_path, there):
    """`docker run -v $PWD/src:/app -w /app`: all of the repository was written into the user's own src/."""
    (here / "pkg" / "empty").mkdir(parents=True)
    (tmp_path / "way").symlink_to("here/pkg")
    (here / "train.py").write_text("of the root")
    (here / "pkg" / "train.py").write_text("of the package")
    nested = replace(roots, remote=str(tmp_path / there))
    with pytest.raises(DkdbgError, match="sync would overwrite your own files") as caught:
        once(nested)
    assert "--to PATH names another folder on the target" in caught.value.hint
    left = {each.relative_to(here).as_posix() for each in here.rglob("*")}
    assert left - {"pkg/new"} == {"train.py", "pkg", "pkg/empty", "pkg/train.py"}
    assert (here / "pkg" / "train.py").read_text() == "of the package"
    assert not (tmp_path / ".dkdbg-sync").exists()


def test_a_remote_root_in_a_folder_that_takes_no_part_is_no_overlap(roots, here):
    (here / "outputs").mkdir()
    (here / ".gitignore").write_text("/outputs/\n")
    (here / "train.py").write_text("x")
    once(replace(roots, remote=str(here / "outputs" / "copy")))
    assert (here / "outputs" / "copy" / "train.py").read_text() == "x"


def test_another_python_is_tried_when_the_first_is_missing(roots, here, there):
    (here / "a").write_text("a")
    several = Roots(local=roots.local, remote=roots.remote, pythons=("/nowhere/python3", sys.executable))
    session = Session(several, Shell, report=lambda _: None)
    session.once()
    assert (there / "a").read_text() == "a"


def test_another_python_is_tried_when_the_first_is_too_old(roots, here, there):
    """RHEL 8 and SLES 15: `python3` is 3.6, and a newer one is beside it."""
    (here / "a").write_text("a")
    old = need(6)
    once(replace(roots, pythons=(old, sys.executable)))
    assert (there / "a").read_text() == "a"
    with pytest.raises(DkdbgError, match=re.escape(f"tried {old} (Python 3.6), /nowhere/python3")):
        Session(replace(roots, pythons=(old, "/nowhere/python3")), Shell, report=lambda _: None).once()


@pytest.mark.parametrize("program", ["/bin/false", "/bin/true", "/bin/cat"])
def test_a_program_that_was_named_as_python_and_is_none_is_said_with_the_way_on(roots, program):
    named = Roots(local=roots.local, remote=roots.remote, pythons=(program,))
    for go in (once, lambda roots: verify(roots, Local())):
        with pytest.raises(DkdbgError) as caught:
            go(named)
        assert f"{program} on local did not run sync's receiver: " in caught.value.message
        assert "omit --python: sync then looks for one" in caught.value.hint
    once(Roots(local=roots.local, remote=roots.remote))  # what the hint says


def test_the_reason_is_what_the_program_said_and_not_the_greeting_of_the_login_shell(roots):
    with pytest.raises(DkdbgError, match=r"receiver: ls: "):
        Session(replace(roots, pythons=("ls",)), Shell, report=lambda _: None).once()


class Shell(Executor):
    """A stand-in for a transport that says 127 for what is not there, and greets before."""

    label = "a shell"

    def wrap(self, argv):
        return ("sh", "-c", 'echo "Welcome to node4, it is Sunday"; exec "$@"', "shell", *argv)


def test_a_path_is_looked_at_again_later_each_time_until_it_is_well():
    again = Retries()
    again.update(changed={"a"}, failed=(), racy=(), now=0.0)
    assert again.next(99.0) == CHANGED_S
    assert again.take(CHANGED_S) == {"a"}
    again.update(changed={"a"}, failed=(), racy=(), now=0.0)
    assert again.next(99.0) == 2 * CHANGED_S
    assert again.take(1.0) == {"a"}
    again.update(changed=(), failed=(), racy=(), now=0.0)
    again.update(changed={"a"}, failed=(), racy=(), now=0.0)
    assert again.next(99.0) == CHANGED_S


@pytest.mark.parametrize("moment", [2, 5], ids=["read", "sent"])
def test_a_large_file_whose_folder_is_gone_at_its_end_does_not_bring_it_back(roots, here, there, moment):
    """Found by the property test (seed 60): END put the file, and so its folder, in place of what had replaced it."""
    (here / "x").mkdir()
    (here / "x" / "large").write_bytes(os.urandom(3_000_000))
    calls = []

    def replace_the_folder():
        calls.append(None)
        if (
            len(calls) != moment
        ):  # the first call comes before the file is read, the next three after its pieces
            return []
        (here / "x").rename(here / "y")
        (here / "x").write_text("a file now")
        changes = scanner.rescan(index, {"x"})
        index.apply(changes)
        return replica.steps(index, [*changes.written, *changes.removed])

    with learnt(roots) as (replica, scanner, index):
        replica.sender.pause = replace_the_folder
        replica.converge(index)
    assert (there / "x").read_text() == "a file now"
    assert replica.view["x"].kind == "f"
    assert "x/large" not in replica.view


def test_a_small_file_does_not_wait_until_a_large_one_is_read(roots, here, there):
    """Its digest is needed before its first byte can be sent: some seconds of a file of 2 GB."""
    with (here / "large").open("wb") as file:
        file.truncate(40 << 20)
    deadline = time.monotonic() + 300
    calls = []

    def pause():
        calls.append(None)
        if len(calls) == 3:
            (here / "small").write_text("saved")
            changes = scanner.rescan(index, {"small"})
            index.apply(changes)
            return replica.steps(index, changes.written)
        if len(calls) == 4:  # what was returned has been sent
            while not (there / "small").exists():
                assert time.monotonic() < deadline, "the small file waits"
                time.sleep(0.001)
            assert [*(there / ".dkdbg-sync" / "tmp").glob("part-*")] == []
        return []

    with learnt(roots) as (replica, scanner, index):
        replica.sender.pause = pause
        replica.converge(index)
    assert (there / "small").read_text() == "saved"
    assert (there / "large").stat().st_size == 40 << 20


def test_a_receiver_of_another_version_is_an_error_and_its_process_ends(roots):
    class Old(Local):
        def wrap(self, *_, **__):
            ready = {"version": 1, "python": "3.8", "user": "u", "root": "/", "probe": "", "empty": True}
            code = f"import os, sys; os.write(1, {wire.encode(wire.READY, ready)!r}); sys.stdin.buffer.read()"
            return (sys.executable, "-c", code)

    contact = Contact(roots.remote, roots.local, pythons=roots.pythons)
    contact.start(Old())
    child = contact._stream._child
    with pytest.raises(
        DkdbgError, match=f"uses version 1 of the sync protocol, this dkdbg version {wire.VERSION}"
    ):
        contact.ready()
    assert child.poll() is not None


def test_small_files_wait_for_answers_when_many_are_on_their_way(roots, here, monkeypatch):
    """Else all answers would wait to be heard until the last file was sent."""
    for number in range(600):
        (here / f"f{number}").write_text(str(number))
    monkeypatch.setattr(flight, "_MAX_OPERATIONS", 100)
    most = 0
    with learnt(roots) as (replica, _, index):
        send = replica.sender._flight.send

        def count(*sent):
            nonlocal most
            send(*sent)
            most = max(most, len(replica.sender._flight._sent))

        monkeypatch.setattr(replica.sender._flight, "send", count)
        assert replica.converge(index).sent == 600
    assert most == 101


def test_a_large_file_whose_mode_changes_before_its_first_piece_is_looked_at_again(roots, here, there):
    path = here / "large"
    path.write_bytes(os.urandom(3_000_000))
    with learnt(roots) as (replica, scanner, index):
        rested = time.time() - 10
        os.utime(path, (rested, rested))
        wait_until_old(path)
        index.apply(scanner.rescan(index, {"large"}))
        sender = replica.sender
        take = sender._stream.take

        def take_and_change(*limit):
            sender._stream.take = take  # once: before the answer that says from where on it is wanted
            path.chmod(0o600)
            return take(*limit)

        sender._stream.take = take_and_change
        path.chmod(0o644)
        wait_until_old(path)
        replica.perform(replica.steps(index, {"large"}))
        assert (there / "large").read_bytes() == path.read_bytes()
        assert "large" in sender.changed
        index.apply(scanner.rescan(index, {"large"}))
        replica.perform(replica.steps(index, {"large"}))
        assert (there / "large").stat().st_mode & 0o777 == 0o600


def wait_until_old(path):
    """Until its stamp says something: it was changed long enough ago."""
    deadline = time.monotonic() + 300
    while time.time_ns() - path.stat().st_ctime_ns < 2 * reading._TICK:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def asked(replica):
    """What is said to the other side from now on: kind, head."""
    said = []
    send = replica.stream.send
    replica.stream.send = lambda kind, *rest: (
        said.append((kind, rest[0] if rest else None)),
        send(kind, *rest),
    )
    return said


def test_only_what_differs_on_either_side_is_sent_at_the_next_start(roots, here, there):
    for folder in ("a", "a/in", "b"):
        (here / folder).mkdir()
        (here / folder / "f").write_text(folder)
        (here / folder / "l").symlink_to("f")
        wait_until_old(here / folder / "f")
    with learnt(roots) as (replica, _, index):
        replica.converge(index)
    (here / "b" / "f").write_text("other")
    wait_until_old(here / "b" / "f")
    (there / "a" / "in" / "l").unlink()
    (there / "a" / "f").write_text("theirs")
    with learnt(roots) as (replica, _, index):
        assert replica.converge(index).sent == 3
    with learnt(roots) as (replica, _, index):
        said = asked(replica)
        assert str(replica.converge(index)) == ""
        assert said == []
    assert [(there / path).read_text() for path in ("a/f", "b/f")] == ["a", "other"]
    assert str((there / "a/in/l").readlink()) == "f"


def test_what_was_touched_after_a_start_without_changes_is_not_sent_again(roots, here, there):
    """Its content is the same: a program that follows its sources must not start anew."""
    for name in ("touched", "changed"):
        (here / name).write_text("same size")
        wait_until_old(here / name)  # else its stamp would be empty
    with learnt(roots) as (replica, _, index):
        replica.converge(index)
    before = (there / "touched").stat()
    with learnt(roots) as (replica, scanner, index):
        replica.converge(index)
        os.utime(here / "touched", ns=(1, 1))
        (here / "changed").write_text("size same")
        index.apply(scanner.rescan(index, {"touched", "changed"}))
        said = asked(replica)
        counts = replica.perform(replica.steps(index, {"touched", "changed"}))
        assert (counts.sent, counts.adopted) == (1, 1)
        assert [(kind, head["path"]) for kind, head in said] == [
            (wire.PUT, "changed"),
            (wire.ADOPT, "touched"),
        ]
    after = (there / "touched").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (there / "changed").read_text() == "size same"


def test_a_folder_that_only_the_other_side_has_is_listed_and_goes(roots, here, there):
    (here / "gone" / "deep").mkdir(parents=True)
    (here / "gone" / "deep" / "f").write_text("1")
    with learnt(roots) as (replica, _, index):
        replica.converge(index)
    shutil.rmtree(here / "gone")
    with learnt(roots) as (replica, _, index):
        assert replica.converge(index).deleted == 3
    assert sorted(one.name for one in there.iterdir()) == [".dkdbg-sync"]


@pytest.mark.parametrize("year", [-9000, 9000])
def test_a_time_that_only_some_filesystems_have_ends_no_stream(roots, there, year):
    at = (year - 1970) * 31_556_952 * 10**9
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        here = Path(folder)
        for name, size in (("a", 3), ("b", 4), ("large", 3_000_000)):
            (here / name).write_bytes(b"x" * size)
            os.utime(here / name, ns=(at, at))
        if (here / "a").stat().st_mtime_ns != at:
            pytest.skip("no tmpfs")
        session, _ = once(replace(roots, local=str(here)))
        assert session.failed == {}
        assert {each.name: each.stat().st_size for each in there.iterdir() if each.is_file()} == {
            "a": 3, "b": 4, "large": 3_000_000,
        }  # fmt: skip
        back = replace(roots, local=str(there), remote=str(here))
        into = destination(back.local, None, "there", back)
        done = pull(back, Local(), [""], into, report=lambda _: None)
        assert (done.files, done.left_out) == (3, {})


def test_a_failed_path_is_sent_again_within_the_time_that_its_hint_names():
    again, now = Retries(), 0.0
    for _ in range(20):
        again.update(changed=(), failed={"a"}, racy=(), now=now)
        assert again.next(now + 1000) - now <= 60
        now = again.next(now + 1000)
        assert again.take(now) == {"a"}
    assert "within a minute" in explain(OSError(errno.ENOSPC, "full"))[1]
