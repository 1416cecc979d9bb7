"""The single file unpacks itself once, and never runs what is not exactly what it holds."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dkdbg.agent import unpack
from tests.agent.repack import repack


@pytest.fixture
def runtime(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def single(layout):
    return layout / "agent.pyz"


def environment(runtime: Path, **more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DKDBG_", "PYTHON"))}
    return (
        clean | {"DKDBG_RUNTIME_DIR": str(runtime), "DKDBG_PYTHON": sys.executable, "DKDBG_PORT": "0"} | more
    )


LAUNCH = ("launch", "--wait", "0", "--", "echo", "ran")


def run(runtime: Path, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=environment(runtime), cwd=cwd, capture_output=True, text=True, check=False
    )


def start(single: Path, runtime: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(runtime, "sh", str(single), *(words or LAUNCH))


def unpacked(runtime: Path) -> Path:
    (folder,) = runtime.glob("agent-*")
    return folder


def ran(done: subprocess.CompletedProcess[str]) -> bool:
    return (done.returncode, done.stdout) == (0, "ran\n")


def test_the_first_start_unpacks_and_the_next_one_finds_it(single, runtime):
    assert ran(start(single, runtime))
    folder = unpacked(runtime)
    first = folder.stat().st_ino
    assert ran(start(single, runtime))
    assert unpacked(runtime).stat().st_ino == first
    assert list(folder.glob("dkdbg/agent/supervisor/__pycache__/session.*.pyc"))
    assert [path.name for path in runtime.iterdir() if path.name.startswith(".")] == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (runtime, folder)] == [0o700, 0o755]


def test_what_only_looks_unpacks_nothing(single, runtime):
    assert start(single, runtime, "sessions", "--json").stdout == "[]\n"
    assert start(single, runtime, "health").returncode == 1
    assert not runtime.exists()


def test_it_starts_by_a_name_without_a_folder_and_unpacks_where_the_command_line_says(
    single, runtime, tmp_path
):
    other = tmp_path / "other"
    words = ("launch", "--runtime", str(other), "--", "echo", "ran")
    for _ in range(2):
        assert ran(run(runtime, "sh", single.name, *words, cwd=single.parent))
    assert unpacked(other).is_dir()
    assert not runtime.exists()


def shorten(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(3)


def change(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(b"raise SystemExit('a stranger ran')\n".ljust(len(text), b"#")[: len(text)])


def link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


def replaced(single: Path, runtime: Path, spoil: Callable[[Path], object]) -> None:
    """Start it, and see that the folder which was spoilt before is another one."""
    former = unpacked(runtime)
    spoil(former)
    inode = former.stat().st_ino
    done = start(single, runtime)
    assert ran(done), (spoil, done.stderr)
    assert unpacked(runtime).stat().st_ino != inode, spoil


def test_a_damaged_folder_or_a_file_in_its_place_is_replaced(single, runtime):
    start(single, runtime)
    for damage in (Path.unlink, shorten, change, link, open_to_all):
        replaced(
            single, runtime, lambda folder, damage=damage: damage(folder / "dkdbg/agent/supervisor/launch.py")
        )
        assert [path.name for path in runtime.iterdir() if path.name.startswith(".")] == []
    folder = unpacked(runtime)
    shutil.rmtree(folder)
    folder.write_text("a file")
    assert ran(start(single, runtime))
    assert folder.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_owns_is_not_run(single, runtime):
    """A runtime folder that was open to all until now may hold a folder that somebody has laid there."""
    start(single, runtime)
    for place in ("", "dkdbg/agent", "dkdbg/agent/supervisor/launch.py"):
        replaced(single, runtime, lambda folder, place=place: os.chown(folder / place, 12345, 12345))
        assert unpacked(runtime).stat().st_uid == 0


@pytest.mark.parametrize("blocks", [0, 100, 1800])
def test_where_the_disk_takes_no_more_the_program_runs_without_the_debugger(single, runtime, blocks):
    """Files end after BLOCKS of 512 bytes: when the agent unpacks, or later."""
    line = f'ulimit -f {blocks}; exec sh "$0" launch --wait 0 -- sh -c "echo ran; exit 3"'
    done = run(runtime, "sh", "-c", line, str(single))
    assert (done.returncode, done.stdout) == (3, "ran\n"), done.stderr
    assert ("runs without the debugger" in done.stderr) == (blocks < 1800)


def test_a_command_that_is_not_there_is_said_also_without_the_debugger(single, runtime):
    runtime.write_text("no folder")
    done = start(single, runtime, "launch", "--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


def test_a_changed_file_gets_a_folder_of_its_own_and_one_that_was_cut_off_starts_nothing(
    single, runtime, tmp_path
):
    cut = tmp_path / "cut.pyz"
    cut.write_bytes(single.read_bytes()[:-1000])
    assert start(cut, runtime).returncode not in (0, 125)
    assert not runtime.exists()
    start(single, runtime)
    former = unpacked(runtime)

    def shouting(name, content):
        return content + b"\nprint('changed')\n" if name == "dkdbg/agent/supervisor/launch.py" else content

    other = repack(single, tmp_path / "agent.pyz", shouting)
    assert sorted(start(other, runtime).stdout.split()) == ["changed", "ran"]
    assert len(list(runtime.glob("agent-*"))) == 2
    assert former.is_dir()


def test_many_starts_at_once_unpack_one_folder(single, runtime):
    with ThreadPoolExecutor(6) as pool:
        for done in pool.map(lambda _: start(single, runtime), range(6)):
            assert ran(done), done.stderr
    assert len(list(runtime.glob("agent-*"))) == 1
    assert [path.name for path in runtime.iterdir() if path.name.startswith(".")] == []


def test_a_signal_in_the_moment_in_which_the_scratch_folder_appears_leaves_nothing(tmp_path, monkeypatch):
    made = os.mkdir

    def mkdir(path, mode):
        made(path, mode)
        raise SystemExit

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(SystemExit):
        unpack._unpack("agent.pyz", str(tmp_path / "agent-0"), {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("appears", [".unpack-*", "agent-*-job", "agent-*-job/*/*/*/__pycache__"])
def test_a_job_that_ends_while_its_agent_starts_leaves_nothing_on_the_node(single, runtime, appears):
    argv = ["sh", str(single), "launch", "--wait", "0", "--", "sleep", "300"]
    agent = subprocess.Popen(argv, env=environment(runtime, DKDBG_TRANSIENT="1"), stderr=subprocess.DEVNULL)
    while not list(runtime.glob(appears)):
        assert agent.poll() is None
    agent.terminate()
    assert agent.wait(60) == 128 + signal.SIGTERM
    assert [each.name for each in runtime.iterdir() if "agent-" in each.name or "unpack" in each.name] == []
