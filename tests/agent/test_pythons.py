"""The agent and a breakpoint under every CPython that this machine has."""

from pathlib import Path

import pytest

from dkdbg.agent.inprocess import bundle
from tests.agent.dap_probe import Editor
from tests.agent.repack import repack
from tests.commands import command
from tests.pythons import EDGES, MINORS

AGENT = Path(bundle.__file__).parents[1] / "__main__.py"


@pytest.mark.parametrize("minor", MINORS)
def test_a_first_line_and_a_late_attach_stop_under_every_python(program, under, tmp_path, minor):
    running = program(
        "import os, time\nx = 1\npid = os.fork()\nname = 'child' if pid == 0 else 'parent'\n"
        "if pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nn = 0\n"
        "while not os.path.exists('stop'):\n    n += 1\n    time.sleep(0.02)\nprint('end')\n",
        wait="300",
        env={"PYTHONWARNINGS": "ignore"},
        **under(minor),
    )
    with Editor(running.port, {running.script: [1, 4]}) as editor:
        editor.wait_stops(3)
    assert sorted(stop["line"] for stop in editor.stops) == [1, 4, 4]
    running.wait_state("running")
    with Editor(running.port, {running.script: [10]}) as editor:
        editor.wait_stops(2)
        (tmp_path / "stop").touch()
    err = running.ends(0, "end\n")
    assert all(line.startswith("dkdbg:") for line in err.splitlines()), err


@pytest.mark.parametrize("minor", [9, 13])
def test_a_program_whose_working_folder_is_gone_stops(program, under, tmp_path, minor):
    running = program(
        "import os, time\nos.mkdir('work')\nos.chdir('work')\nos.rmdir('../work')\nprint('up', flush=True)\n"
        "while not os.path.exists(os.path.dirname(__file__) + '/stop'):\n    time.sleep(0.02)\nprint('end')\n",
        **under(minor),
    )
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [7]}) as editor:
        editor.wait_stops(2)
        (tmp_path / "stop").touch()
    running.ends(0, "end\n")


@pytest.mark.parametrize("minor", [8, 11])
def test_a_running_loop_stops_without_pydevds_library(program, under, tmp_path, minor):
    """As on musl and on aarch64, where the library does not load: the main thread traces itself."""
    options = under(minor)
    bare = repack(
        options["layout"] / "agent.pyz",
        tmp_path / "bare" / "agent.pyz",
        lambda name, content: None if name.endswith(".so") else content,
    ).parent
    runtime = tmp_path / "run"
    running = program(
        "import time\nn = 0\nprint('up', flush=True)\nwhile True:\n    n += 1\n    time.sleep(0.02)\n",
        env={"DKDBG_RUNTIME_DIR": str(runtime)},
        **{**options, "layout": bare},
    )
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [5]}) as editor:
        editor.wait_stops(2)
        running.process.terminate()
        _, _, err = running.finish()
    assert all(line.startswith("dkdbg:") for line in err.splitlines()), err


@pytest.mark.parametrize("minor", EDGES)
def test_breakpoint_crash_and_pdb_work_under_old_and_new_pythons(program, under, minor):
    options = under(minor)
    running = program(
        "import time\ndef spin(n):\n    while n:\n        n += 1\n        time.sleep(0.01)\n        if n < 0:\n            n = 0\n"
        "print('up', flush=True)\nspin(1)\nbreakpoint()\nx = 1\nx / 0\n",
        options=("--on-crash", "hold=1m"),
        **options,
    )
    port, script = running.port, running.script
    assert running.process.stdout.readline() == b"up\n"
    pdb = command(
        [options["python"], "-I", "-S", str(AGENT), "pdb", "--name", running.name],
        env={"DKDBG_RUNTIME_DIR": str(running.runtime)},
        text="p spin.__name__\nn\nn\nn\nn\nn\nq\n",
        check=False,
    )
    assert "'spin'" in pdb.stdout, (pdb.stdout, pdb.stderr)
    assert "detached" in pdb.stdout
    with Editor(port, {script: [4]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        stop.value("n = -9", context="repl")
        stop.go_on(without=script)
        on_demand = editor.wait_stops(2)[1]
        on_demand.go_on()
        crashed = editor.wait_stops(3)[2]
        crashed.go_on()
        code, _, err = running.finish()
    assert on_demand["line"] in (10, 11)
    assert crashed["line"] == 12
    assert code == 1
    assert "ZeroDivisionError" in err


def test_a_held_fork_of_a_debugged_process_leaves_stderr_alone(program, under):
    """Python 3.13 reports a thread that `threading` does not know at exit."""
    running = program(
        "import multiprocessing\ndef work():\n    x = 1\nif __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('fork').Process(target=work)\n    child.start()\n    child.join()\n",
        wait="300",
        env={"PYTHONWARNINGS": "ignore"},
        **under(13),
    )
    with Editor(running.port, {running.script: [3]}) as editor:
        editor.wait_stops(1)
    err = running.ends(0)
    assert all(line.startswith("dkdbg:") for line in err.splitlines()), err
