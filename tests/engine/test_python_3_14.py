"""An image whose only Python is the newest CPython, under the name `python3.14` alone."""

import pytest

from tests.engine.attach_proxies import Containers, attach_proxy, lay_out, newest_image
from tests.engine.projects import stopped_in
from tests.engine.synced import Box, sync

pytestmark = pytest.mark.engine

LOOP = "import os, time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.01)\n"


def test_an_editor_stops_at_the_first_line_and_attaches_late_and_sync_reaches_it_by_name(tmp_path):
    root = lay_out(tmp_path, train=LOOP)
    containers = Containers(root, newest_image())
    try:
        name = containers.run("python3.14", "train.py")
        with attach_proxy(root, f"docker://{name}") as proxy:
            for line in (1, 4):
                with stopped_in(root / "train.py", containers.options(proxy.port), line) as (debugger, stop):
                    top = debugger.stack(stop)[0]
                    assert (top.path, top.line) == (str(root / "train.py"), line)
                    assert debugger.evaluate("__import__('sys').version_info[:2]", top) == "(3, 14)"
        done = sync(root, f"docker://{name}", "--to", "/ws", "--once", "--python", "python3.14")
        assert (done.returncode, done.stderr) == (0, "")
        assert Box(name).read("/ws/train.py") == LOOP
    finally:
        containers.remove()
