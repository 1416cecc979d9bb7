"""`run --sync` and `run --reload`: what is saved here runs two hops away."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dkdbg.dap.values import AttachOptions
from tests.engine.attach_proxies import AttachProxy, attach_proxy
from tests.engine.projects import LOOP, dkdbg, must, write
from tests.engine.running import TIMEOUT_S, Running
from tests.kubernetes.ranks import editor
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE = "ssh://login,node1"
#: Says which start it is, and stays.
STAYS = "import time\nprint('up', 'one', flush=True)\nwhile True:\n    time.sleep(0.02)\n"


@contextmanager
def running(laptop, root, *words: str, terminal: bool = False) -> Iterator[Running]:
    made = Running(root, *words, terminal=terminal)
    try:
        yield made
    finally:
        made.end()
        laptop.sh("node1", "pkill -KILL -u me python3; rm -rf /home/me/code /home/me/dkdbg", check=False)


def by_entry(root, proxy: AttachProxy, there: str) -> AttachOptions:
    """What an editor reads that has `root` open, and the launch entry of `dkdbg attach` that has the code `there`."""

    def fitting():
        entries = (each["entry"] for each in proxy.events if each["event"] == "entry")
        return [each for each in entries if there in str(each.get("pathMappings"))]

    with proxy.changed:
        assert proxy.changed.wait_for(fitting, TIMEOUT_S), proxy.events
        entry = fitting()[-1]
    pairs = ((each["localRoot"], each["remoteRoot"]) for each in entry["pathMappings"])
    return AttachOptions(
        host=entry["connect"]["host"], port=entry["connect"]["port"], just_my_code=entry["justMyCode"],
        path_mappings=tuple((local.replace("${workspaceFolder}", str(root)), remote) for local, remote in pairs),
    )  # fmt: skip


def test_a_save_here_starts_it_again_two_hops_away_and_it_stops_again(laptop, tmp_path):
    """No key is pressed: the file travels, the program starts anew, and the editor's session stops in it."""
    write(tmp_path, **{"train.py": LOOP})
    words = ("--reload", "--wait", "300", "--on", f"{NODE}/~/code", "--", "python3", "train.py")
    with running(laptop, tmp_path, *words) as run, attach_proxy(tmp_path, NODE) as proxy:
        here, code = tmp_path / "train.py", "/home/me/code"
        with editor(proxy.port, tmp_path, code) as debugger:
            first = debugger.stack(debugger.wait_stopped(TIMEOUT_S))[0]
            assert "speed" not in debugger.local_values(first)
            here.write_text(here.read_text().replace("    loss =", "    speed = 7; loss ="))
            top = debugger.stack(debugger.wait_stopped(TIMEOUT_S))[0]
            assert (top.path, top.name) == (str(here), "step")
            assert debugger.local_values(top)["speed"] == "7"
        run.wait_for("train.py changed")
        # Attached to without its folder, before it ran: once it is seen, the entry is said again with the right one.
        assert by_entry(tmp_path, proxy, code).path_mappings == ((str(tmp_path), code),)
        assert proxy.end() == 0


def test_at_a_terminal_one_ctrl_c_restarts_and_two_leave(laptop, tmp_path):
    write(tmp_path, **{"stays.py": STAYS})
    words = ("--reload", "--on", f"{NODE}/~/code", "--", "python3", "stays.py")
    with running(laptop, tmp_path, *words, terminal=True) as run:
        run.wait_for("up one")
        (tmp_path / "stays.py").write_text(STAYS.replace("one", "two"))
        run.wait_for("up two")
        run.ctrl_c()
        run.wait_for("up two", 2)
        presses = 1
        while run.process.poll() is None:  # on a slow machine the second one may come too late for the first
            run.ctrl_c()
            presses += 1
            run.wait_until(lambda n=presses: run.said.count("Ctrl-C: restarting") == n or run.has_ended())
        assert run.process.wait(TIMEOUT_S) == 130


def test_the_entry_that_attach_prints_knows_where_the_code_lies_before_it_runs_and_while(laptop, tmp_path):
    """With the folder of the address, with ours where there is none, and by what the session says."""
    write(tmp_path, **{"stays.py": STAYS})
    with attach_proxy(tmp_path, f"{NODE}/~/code") as proxy:  # there is no such folder yet
        assert by_entry(tmp_path, proxy, "/code").path_mappings == ((str(tmp_path), "/home/me/code"),)
    with attach_proxy(tmp_path, NODE) as proxy:
        (before,) = by_entry(tmp_path, proxy, "/home/me/dkdbg/").path_mappings
        assert before[1].startswith("/home/me/dkdbg/")
    with running(laptop, tmp_path, "--sync", "--on", NODE, "--", "python3", "stays.py") as run:
        run.wait_for("up one")
        with attach_proxy(tmp_path, NODE) as proxy:
            assert by_entry(tmp_path, proxy, before[1]).path_mappings == (before,)
    laptop.put("node1", "/home/me/code/stays.py", STAYS)
    with running(laptop, tmp_path, "--on", f"{NODE}/~/code", "--", "python3", "stays.py") as run:
        run.wait_for("up one")
        with attach_proxy(tmp_path, f"{NODE}/~/code") as proxy:
            by_entry(tmp_path, proxy, "/home/me/code")


def test_the_sync_is_over_before_the_program_starts_and_says_why_it_cannot_be(laptop, tmp_path):
    write(tmp_path, **{"a.py": "print('ran')\n"})
    laptop.sh("node1", "mkdir /srv/closed; chmod 755 /srv/closed")
    refused = dkdbg(tmp_path, "run", "--sync", "--on", f"{NODE}/srv/closed/code", "--", "python3", "a.py")
    assert refused.returncode == 1
    assert "the folder /srv/closed/code cannot be created on login,node1: " in refused.stderr
    assert "Permission denied" in refused.stderr
    refused = dkdbg(tmp_path, "run", "--sync", "--on", f"{NODE}/srv/closed", "--", "python3", "a.py")
    assert (refused.returncode, refused.stdout) == (1, ""), refused.stderr


def test_a_connection_that_is_lost_and_made_again_is_said_to_be_both(laptop, tmp_path):
    """Whoever reads that saves do not arrive has to read that they do again."""
    write(tmp_path, **{"stays.py": STAYS})
    words = ("--reload", "--on", f"{NODE}/~/code", "--", "python3", "stays.py")
    with running(laptop, tmp_path, *words) as run:
        run.wait_for("up one")
        laptop.kill_sessions("node1")
        run.wait_for("trying again")
        run.wait_for("in sync: ", 2)
        (tmp_path / "stays.py").write_text(STAYS.replace("one", "two"))
        run.wait_for("up two")


def test_on_this_machine_nothing_is_synced_and_a_save_starts_it_again(tmp_path):
    write(tmp_path, **{"stays.py": STAYS})
    run = Running(tmp_path, "--reload", "--port", str(free_port()), "--", sys.executable, "stays.py")
    try:
        run.wait_for("up one")
        deadline = time.monotonic() + TIMEOUT_S
        while run.said.count("up two") == 0:  # what is saved before the first look at it is no change
            (tmp_path / "stays.py").write_text(STAYS.replace("one", "two"))
            run.comes("up two", 5.0)
            assert time.monotonic() < deadline
    finally:
        run.end()
    assert "sync" not in run.said
    assert must(dkdbg(tmp_path, "--version"))
