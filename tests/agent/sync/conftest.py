"""A root with a sentinel tree around it, and receivers that end with the test."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.agent.sync.host import Host


def snapshot(folder: Path, without: Path | None = None) -> dict[str, Any]:
    """Everything below a folder: mode, times of files, and every byte."""
    found: dict[str, Any] = {}
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(above, name) != without]
        for path in (Path(above, name) for name in [*folders, *files]):
            info = path.lstat()
            what: Any = None
            if stat.S_ISLNK(info.st_mode):
                what = str(path.readlink())
            elif stat.S_ISREG(info.st_mode):
                what = (path.read_bytes(), info.st_mtime_ns, info.st_ctime_ns, info.st_nlink)
            found[str(path.relative_to(folder))] = (oct(info.st_mode), info.st_uid, info.st_ino, what)
    return found


@pytest.fixture
def root(tmp_path):
    """The root of a sync. What lies around it is compared byte by byte when the test is over."""
    fence = tmp_path / "fence"
    inside = fence / "home" / "root"
    inside.mkdir(parents=True)
    (fence / "home" / "secret").write_bytes(b"sentinel\0\xff")
    (fence / "home" / "root-not").mkdir()
    (fence / "home" / "root-not" / "a").write_text("beside")
    (fence / "empty").mkdir()
    (fence / "link").symlink_to("home/secret")
    before = snapshot(fence, inside)
    yield inside
    assert snapshot(fence, inside) == before


@pytest.fixture
def start():
    """Start receivers, which open the root `at`."""
    started: list[Host] = []

    def begin(*arguments, at=None, **more):
        started.append(Host(*arguments, **more))
        if at is not None:
            started[-1].open(at)
        return started[-1]

    yield begin
    for host in started:
        host.close()


@pytest.fixture
def host(start):
    return start()


@pytest.fixture
def live(host, root):
    """A receiver that has opened `root`, and ends well when the test is over."""
    host.open(root)
    yield host
    host.bye()
