"""What a session leaves behind in the agent when its process has ended: nothing, whatever its client does."""

from pathlib import Path

from tests.agent.dap_probe import Editor, Session, wait_for

CHILDREN = """import os, subprocess, sys, time
while not os.path.exists("go"):
    time.sleep(0.02)
for _ in range(6):
    subprocess.run([sys.executable, "child.py"], check=True)
while True:
    time.sleep(0.02)
"""


class Careless(Editor):
    """An editor that neither leaves nor closes a session whose process has ended."""

    def _leave(self, session: Session) -> None:
        pass


def _weight(pid: int) -> tuple[int, int]:
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_a_client_that_keeps_ended_sessions_open_does_not_fill_the_agent(program, tmp_path):
    child = tmp_path / "child.py"
    child.write_text("x = 1\n")
    running = program(CHILDREN)
    with Careless(running.port, {str(child): [1]}) as editor:
        editor.wait_attached(2)
        wait_for(lambda: running.record()["processes"], bool)  # the agent follows it to its end from then on
        before = _weight(running.process.pid)
        (tmp_path / "go").touch()
        editor.wait_stops(6, timeout=300)
        wait_for(
            lambda: _weight(running.process.pid), lambda now: now[0] <= before[0] and now[1] <= before[1]
        )
