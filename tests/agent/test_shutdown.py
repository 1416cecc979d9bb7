"""The end of a process that has joined: it waits for what has to be sent, and for nobody else."""

import threading
from types import SimpleNamespace

from dkdbg.agent.inprocess.pydevd_patches import shutdown
from dkdbg.agent.state import processes
from tests.agent.dap_probe import Editor, wait_for


def test_who_still_sends_is_waited_for_and_who_reads_until_the_editor_leaves_is_not():
    """With the threads of a debugger of pydevd's, as a stand-in."""
    reader, checks, writer = threading.Thread(), threading.Thread(), threading.Thread()
    debugger = SimpleNamespace(
        created_pydb_daemon_threads=dict.fromkeys((reader, checks, writer), 1),
        reader=reader,
        check_alive_thread=checks,
    )
    waits = threading.Thread(target=shutdown._wait_for_threads, args=(debugger, 1e9), daemon=True)
    waits.start()
    waits.join(0.1)
    assert waits.is_alive()
    del debugger.created_pydb_daemon_threads[writer]
    waits.join(300)
    assert not waits.is_alive()


def test_an_editor_gets_all_that_short_processes_print_and_their_ends(program, tmp_path):
    child = tmp_path / "child.py"
    child.write_text("x = 1\nprint(x)\n")
    running = program(
        "import subprocess, sys\nfor _ in range(3):\n    subprocess.run([sys.executable, 'child.py'], check=True)\n",
        wait="300",
    )
    with Editor(running.port, {str(child): [2]}) as editor:
        assert [stop["line"] for stop in editor.wait_stops(3)] == [2, 2, 2]
        running.ends(0, "1\n1\n1\n")
    ended = [session for session in editor.sessions.values() if "terminated" in session.seen]
    assert len(ended) == 5  # the root, the program, its children


LINGERING = """
import atexit, os, time

def linger():
    open("lingers", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)

atexit.register(linger)
print("up", flush=True)
"""


def test_a_process_whose_session_ended_with_its_program_is_not_announced_again_to_the_same_editor(
    program, tmp_path
):
    """The agent's question comes late on a busy machine: the process has joined by itself, and has ended."""
    running = program(LINGERING, wait="300")
    with Editor(running.port, {}) as editor:
        wait_for((tmp_path / "lingers").exists, bool)
        pid = running.record()["child"]
        session = wait_for(lambda: editor.sessions.get(pid), bool)
        wait_for(lambda: "terminated" in session.seen, bool)
        (sock,) = running.runtime.glob(f"{running.name}-*/p/{pid}.sock")
        assert processes.ask(str(sock), "join") == "the program has ended"
        (tmp_path / "go").touch()
        running.ends()
