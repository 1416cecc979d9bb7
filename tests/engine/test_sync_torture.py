"""kill -9 of everything in the middle of many files: nobody ever sees half a file, and both sides end equal."""

import hashlib
import os
import signal

import pytest

from tests.agent.dap_probe import wait_for
from tests.engine.projects import unique
from tests.engine.synced import Box, docker, starting, sync, take_away
from tests.processes import children

pytestmark = pytest.mark.engine

COUNT = 10_000 if os.environ.get("DKDBG_TEST_FULL") else 1_500
TO = ("--to", "/ws")

# The first line of each file is the digest of the rest. The container's own program reads all of them, all the time.
READER = """
import hashlib, os, time
open('/log/started', 'a').write('x')
seen = 0
while True:
    for at, folders, names in os.walk('/ws'):
        folders[:] = [f for f in folders if f != '.dkdbg-sync']
        for name in names:
            path = os.path.join(at, name)
            try:
                data = open(path, 'rb').read()
            except FileNotFoundError:
                continue
            head, _, rest = data.partition(b'\\n')
            if head != hashlib.sha256(rest).hexdigest().encode():
                open('/log/bad', 'a').write('%s %d\\n' % (path, len(data)))
            seen += 1
    open('/log/seen.new', 'w').write(str(seen))
    os.replace('/log/seen.new', '/log/seen')
    time.sleep(0.001)
"""


def write_all(root, salt):
    for number in range(COUNT):
        folder = root / f"p{number // 200}"
        folder.mkdir(exist_ok=True)
        rest = f"{salt} {number}\n".encode() * (number % 97 + 1)
        (folder / f"m{number}.py").write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
    rest = os.urandom(5_000_000)
    (root / "large.bin").write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


def stream_of(process):
    """Pid of the local end of the stream, `docker exec`."""
    return children(process.pid, "docker")


@pytest.fixture
def box(base_image):
    """A container whose only program is the reader."""
    name = unique("dkdbg-torture")
    program = "import os; os.makedirs('/ws', exist_ok=True); os.makedirs('/log', exist_ok=True)\n" + READER
    docker("run", "-d", "--name", name, base_image, "python3", "-c", program)
    try:
        yield Box(name)
    finally:
        take_away(name)


def copied(followed):
    """How many files the sync said to have copied since it began; all, when it has copied them between two words."""
    events = followed.named("progress")
    return COUNT if followed.named("in_sync") else events[-1]["files"] if events else 0


def in_sync_again(followed):
    """Whether it was in sync after it had lost the container."""
    names = [event["event"] for event in list(followed.events)]
    return "in_sync" in names[names.index("lost") :]


def wait_alone(box):
    """Return when the receiver of a sync that was killed has ended: it keeps its lock for so long."""
    wait_for(
        lambda: docker("top", box.name).splitlines(), lambda seen: len(seen) == 2
    )  # the titles, and the reader


def test_kill_9_of_container_stream_and_dkdbg_shows_no_half_file_and_ends_equal(box, tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    write_all(root, "one")
    with starting(root, f"docker://{box.name}", *TO) as followed:
        followed.wait(lambda: copied(followed) > COUNT // 10, "the first copy is under way")
        docker("kill", "-s", "KILL", box.name)
        docker("start", box.name)
        # The first copy may have been complete before the kill: what counts is what is said after the loss.
        followed.wait(lambda: followed.named("lost"), "the loss of the container is said")
        followed.wait(lambda: in_sync_again(followed), "in sync after the container was killed", 300)
        write_all(root, "two")
        before = len(followed.named("lost"))
        for pid in stream_of(followed.process):
            os.kill(pid, signal.SIGKILL)
        followed.wait(lambda: len(followed.named("lost")) > before, "the loss of the stream is said")
        followed.wait(lambda: len(followed.named("connected")) >= 3, "connected again")
    # leaving the block kills dkdbg with -9, in the middle of the second copy
    assert followed.process.returncode == -signal.SIGKILL
    write_all(root, "three")
    wait_alone(box)
    with starting(root, f"docker://{box.name}", *TO) as followed:
        followed.wait(lambda: copied(followed) > COUNT // 10, "the third copy is under way")
    wait_alone(box)
    done = sync(root, f"docker://{box.name}", *TO, "--once")
    assert done.returncode == 0, done.stderr
    done = sync(root, f"docker://{box.name}", *TO, "--verify")
    equal = f"{COUNT + 1 + -(-COUNT // 200):,} equal, no difference"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, equal)
    assert box.read("/log/bad") == ""
    # The reader has come around since the container was started again.
    wait_for(lambda: int(box.read("/log/seen") or 0), lambda seen: seen > COUNT)
    assert box.read("/log/started") == "xx"
