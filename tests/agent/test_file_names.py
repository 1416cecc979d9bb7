"""Breakpoints stop in the file that is meant: Python calls it `//train.py`, or it is mapped by itself."""

import sys

import pytest

from dkdbg.agent.inprocess.pydevd_patches import file_names
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import Client, Editor, wait_for

SPAWNS = """\
import multiprocessing

def work(n):
    return n + 1

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(work(0) + pool.apply(work, (1,)))
"""


@pytest.mark.parametrize("minor", [8, pytest.param(13, marks=pytest.mark.core)])
def test_breakpoints_of_the_file_stop_in_it_and_in_its_workers(launch, under, tmp_path, *, minor):
    script = tmp_path / "train.py"
    script.write_text(SPAWNS)
    options = under(minor)
    running = launch(options["python"], f"/{script}", wait="300", **options)
    with Editor(running.wait_state("waiting")["port"], {str(script): [4]}) as editor:
        running.ends(0, "3\n")
    assert [(stop["path"], stop["line"]) for stop in editor.stops] == [(str(script), 4)] * 2


def test_only_two_slashes_at_the_beginning_of_a_path_mean_something_of_their_own():
    paths = ("//train.py", "///train.py", "/train.py", "/srv//train.py", "train.py", "<string>")
    assert [file_names.single(path) for path in paths] == ["/train.py", "//train.py", *paths[2:]]


def test_what_runs_there_is_looked_at_for_edits(launch, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import time\nprint(1, flush=True)\nwhile True:\n    time.sleep(0.02)\n")
    running = launch(sys.executable, f"/{script}", env={"DKDBG_RESTART": "ask"})
    assert running.process.stdout.readline() == b"1\n"
    wait_for(lambda: running.record()["processes"], bool)
    script.write_text("# edited\n" + script.read_text())
    with Client(running.port).attach() as client:
        client.event("output", text="train.py was changed after the program had been started")


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_that_is_mapped_by_itself_goes_before_the_folder_that_has_it_too(launch, tmp_path, order):
    local, mounted = tmp_path / "local", tmp_path / "workspace"
    mounted.mkdir()
    for each in (mounted / "train.py", tmp_path / "train.py"):
        each.write_text("def step(n):\n    return n + 1\n\nprint(step(0))\n")
    (mounted / "model.py").write_text("x = 1\n")
    pairs = [(local / "train.py", tmp_path / "train.py"), (local, mounted)][::order]
    mappings = [{"localRoot": str(here), "remoteRoot": str(there)} for here, there in pairs]
    running = launch(sys.executable, str(tmp_path / "train.py"), wait="300")
    with Editor(
        running.wait_state("waiting")["port"],
        {str(local / "train.py"): [2], str(local / "model.py"): [1]},
        more={"pathMappings": mappings},
    ) as editor:
        running.ends()
    assert [(stop["path"], stop["line"]) for stop in editor.stops] == [(str(local / "train.py"), 2)]


def test_a_mapped_package_among_the_installed_ones_is_the_users_code(program, tmp_path):
    """`init` mounts the sources over an installed copy; justMyCode would hide them."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    installed = tmp_path / "base/lib" / version / "site-packages"
    for name in ("ours", "theirs"):  # pydevd takes equal code for the same, whatever its file
        (installed / name).mkdir(parents=True)
        (installed / name / "net.py").write_text(f"def rate(n):\n    {name} = n\n    return {name}\n")
    text = "from ours.net import rate\nfrom theirs.net import rate as other\nprint(other(1), rate(2))\n"
    running = program(
        text, wait="300", env={"PYTHONUSERBASE": str(tmp_path / "base"), "PYTHONPATH": str(installed)}
    )
    here = tmp_path / "checkout"
    mappings = ((str(here / "ours"), str(installed / "ours")),)
    with Debugger(AttachOptions(port=running.port, path_mappings=mappings)) as debugger:
        debugger.set_breakpoints(str(here / "ours/net.py"), [2])
        debugger.set_breakpoints(str(installed / "theirs/net.py"), [2])
        debugger.attach()
        assert debugger.stack(debugger.wait_stopped(120))[0].path == str(here / "ours/net.py")
    running.ends(0, "1 2\n")
