"""The pages on Slurm and PBS: each of their commands, run as it stands there; the job's number is the one that it has."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.projects import LOOP, dkdbg, must, write
from tests.hints import in_shell
from tests.kubernetes.ranks import editor
from tests.pages import Page, environment

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

CODE = "/home/me/code"


class Typed:
    """Commands of a page, in a terminal of their own each."""

    def __init__(self, page: Page, root: Path) -> None:
        self.page, self.root, self.job = page, root, "7"

    def _text(self, beginning: str) -> str:
        return self.page.take(beginning).replace("login/7", f"login/{self.job}")

    def run(self, beginning: str) -> str:
        return must(in_shell(self.root, self._text(beginning))).stdout

    @contextmanager
    def running(self, beginning: str) -> Iterator[subprocess.Popen[str]]:
        """Ended by Ctrl-C, both outputs in one."""
        started = subprocess.Popen(
            ["sh", "-c", "exec " + self._text(beginning)], cwd=self.root, env=environment(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            yield started
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGINT)
            started.wait(300)
            for pipe in (started.stdin, started.stdout):
                pipe.close()


def until(started: subprocess.Popen[str], text: str) -> str:
    said = []
    for line in started.stdout:
        said.append(line)
        if text in line:
            return line
    raise AssertionError((text, said))


def port(started: subprocess.Popen[str]) -> int:
    found = re.search(r'"port": (\d+)', until(started, '"port": '))
    return int(found[1])


def number(line: str) -> str:
    return line.split()[2]


def stops(root: Path, port: int, count: int) -> list[str]:
    """Attach by the entry; the nodes of the processes that stop."""
    with editor(port, root, CODE) as debugger:
        seen = [debugger.wait_stopped(300) for _ in range(count)]
        return sorted(
            debugger.evaluate("__import__('os').uname().nodename", debugger.stack(each)[0]) for each in seen
        )


@pytest.fixture
def root(laptop, tmp_path):
    """A repository, of which the cluster has nothing yet."""
    write(tmp_path, **{"train.py": LOOP})
    laptop.sh("login", f"rm -rf {CODE}", user="me")
    return tmp_path


def test_the_page_on_slurm(laptop, root):
    page = Page.of("recipes/slurm.md")
    typed = Typed(page, root)
    with page.all_run():
        # found/far.md 5: the page's first command found no folder.
        refused = dkdbg(root, "submit", "--on", "slurm://login", "--in", "code", "--", "true")
        assert (refused.returncode, "there is no folder code on" in refused.stderr) == (2, True), (
            refused.stderr
        )
        assert "dkdbg sync ssh://login/~/code --once" in refused.stderr
        assert "in sync" in typed.run("dkdbg sync ssh://login")
        with typed.running("dkdbg submit --on slurm://login --nodes 2") as submitted:
            typed.job = number(until(submitted, "is submitted"))
            until(submitted, "4 of 4 ranks are up")
            assert stops(root, port(submitted), 4) == ["'node-12'", "'node-12'", "'node-22'", "'node-22'"]
            until(submitted, "rank3 on node-22")
        with typed.running("dkdbg attach") as attached:
            assert len(stops(root, port(attached), 4)) == 4
        assert "rank 3" in typed.run("dkdbg ps")
        assert "in sync" in typed.run("dkdbg sync slurm://login")
        with typed.running("dkdbg forward") as forwarding:
            until(forwarding, "is port 8265 of node-22")
            until(forwarding, "  connected")
        assert typed.run("dkdbg run") == "node-22\n"
        laptop.cancel_all()
        with typed.running("dkdbg submit --on slurm://login --in code --gres gpu:1 --interactive") as held:
            held.stdin.write("echo $(hostname) $CUDA_VISIBLE_DEVICES; pwd\n")
            held.stdin.close()
            until(held, CODE)
            until(held, "is cancelled")


def test_the_page_on_pbs(root):
    page = Page.of("recipes/pbs.md")
    typed = Typed(page, root)
    with page.all_run():
        assert "in sync" in typed.run("dkdbg sync ssh://login")
        with typed.running(
            "dkdbg submit --on pbs://login -l nodes=node-22:ppn=2:gpus=1 --in code --i"
        ) as held:
            typed.job = number(until(held, "is submitted"))
            until(held, "runs on node-22")
            with typed.running("dkdbg run") as program, typed.running("dkdbg attach") as attached:
                until(program, "waiting")
                assert stops(root, port(attached), 1) == ["'node-22'"]
            held.stdin.close()
            until(held, "is cancelled")
        with typed.running(
            "dkdbg submit --on pbs://login -l nodes=node-22:ppn=2:gpus=1 --in code --w"
        ) as submitted:
            typed.job = number(until(submitted, "is submitted"))
            until(submitted, "1 of 1 ranks are up")
            with editor(port(submitted), root, CODE) as debugger:
                top = debugger.stack(debugger.wait_stopped(300))[0]
                assert debugger.evaluate("__import__('os').uname().nodename", top) == "'node-22'"
                assert debugger.evaluate("__import__('os').environ['CUDA_VISIBLE_DEVICES']", top) == "'0'"
            target = f"pbs://login/{typed.job}"
            assert f"pbs {typed.job}/node-22" in must(dkdbg(root, "ps", target)).stdout
            assert must(dkdbg(root, "run", "--on", target, "--", "hostname")).stdout == "node-22\n"
            refused = dkdbg(root, "run", "--on", f"{target}/node-12", "--", "x")
            assert "node-12 is not a node of job" in refused.stderr
