"""A program in an image without /bin/sh, as distroless and Chainguard images are (GoogleContainerTools/distroless#601)."""

import pytest

from tests.engine import projects
from tests.engine.projects import LOOP, command, dkdbg, must, stop_in, unique
from tests.ports import free_port

pytestmark = pytest.mark.engine


def test_a_program_in_an_image_without_a_shell_is_started_stopped_restarted_and_proven(base_image, tmp_path):
    with projects.distroless(base_image, tmp_path) as image:
        files = {
            "Dockerfile": f'FROM {image}\nWORKDIR /app\nCOPY . .\nCMD ["train.py"]\n',
            "train.py": LOOP,
            "dkdbg.toml": f"[debug]\nport = {free_port()}\nwait = 0\n",
        }
        with projects.project(tmp_path / unique("bare"), files, "init", "--yes") as root:
            must(dkdbg(root, "up"))
            assert stop_in(root, "train.py").function == "step"
            assert " at train.py:" in must(dkdbg(root, "where")).stdout
            assert "restarted, run 2" in must(dkdbg(root, "restart")).stdout
            command(["sh", ".dkdbg/up.sh"], root)
            again = dkdbg(root, "run", "--wait", "0", "--", "/usr/bin/python3", "-c", "print('another')")
            assert (again.returncode, again.stdout) == (0, "another\n")
            must(dkdbg(root, "down"))
            assert "proven in " in must(dkdbg(root, "verify")).stdout
