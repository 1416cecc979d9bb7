"""The single file unpacks itself once, and never runs what is not exactly what it holds."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import zipimport
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


#: A file that each start imports.
ONE = "dkdbg/agent/supervisor/launch.py"
UNPACKED = f"{unpack._PACKAGES}/{ONE}"
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


def give_away(path: Path) -> None:
    """As in a runtime folder that was open to all until now: somebody may have laid a folder there."""
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


def become_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("a file")


def test_the_first_start_unpacks_the_next_one_finds_it_and_none_runs_what_is_changed(single, runtime):
    assert ran(start(single, runtime))
    folder = unpacked(runtime)
    first = folder.stat().st_ino
    assert ran(start(single, runtime))
    assert unpacked(runtime).stat().st_ino == first
    assert list(folder.glob(f"{unpack._PACKAGES}/dkdbg/agent/supervisor/__pycache__/session.*.pyc"))
    assert [path.name for path in runtime.iterdir() if path.name.startswith(".")] == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (runtime, folder)] == [0o700, 0o755]
    change(folder / UNPACKED)
    assert ran(start(single, runtime))


@pytest.mark.parametrize(
    ("spoil", "place"),
    [(each, UNPACKED) for each in (Path.unlink, shorten, change, link, open_to_all, give_away)]
    + [
        (give_away, ""),
        (give_away, unpack._PACKAGES),
        (give_away, f"{unpack._PACKAGES}/dkdbg/agent"),
        (become_a_file, ""),
    ],
)
def test_a_folder_that_is_damaged_or_belongs_to_another_user_is_replaced(single, runtime, spoil, place):
    zipimport.zipimporter(str(single))  # reads its directory, as an import from the file does
    runtime.mkdir(mode=0o700)
    folder = Path(unpack.folder_of(str(single), str(runtime)))
    content = (folder / UNPACKED).read_bytes()
    spoil(folder / place)
    spoilt = folder.stat().st_ino
    assert unpack.folder_of(str(single), str(runtime)) == str(folder)
    assert folder.stat().st_ino != spoilt
    assert list(runtime.iterdir()) == [folder]
    info = (folder / UNPACKED).lstat()
    assert (oct(info.st_mode), info.st_uid) == ("0o100644", os.geteuid())
    assert (folder / UNPACKED).read_bytes() == content


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
        return content + b"\nprint('changed')\n" if name == ONE else content

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


def test_what_a_killed_process_had_begun_to_unpack_goes_with_a_later_start(single, runtime):
    left = runtime / (unpack._SCRATCH + "0123456789abcdef")
    (left / "dkdbg").mkdir(parents=True)
    runtime.chmod(0o700)
    assert ran(start(single, runtime))
    assert left.is_dir()  # another process may be unpacking it
    os.utime(left, (0, 0))
    assert ran(start(single, runtime))
    assert not left.exists()


@pytest.mark.parametrize("appears", [".unpack-*", "agent-*-job", "agent-*-job/*/*/*/*/__pycache__"])
def test_a_job_that_ends_while_its_agent_starts_leaves_nothing_on_the_node(single, runtime, appears):
    argv = ["sh", str(single), "launch", "--wait", "0", "--", "sleep", "300"]
    agent = subprocess.Popen(argv, env=environment(runtime, DKDBG_TRANSIENT="1"), stderr=subprocess.DEVNULL)
    while not list(runtime.glob(appears)):
        assert agent.poll() is None
    agent.terminate()
    assert agent.wait(60) == 128 + signal.SIGTERM
    assert [each.name for each in runtime.iterdir() if "agent-" in each.name or "unpack" in each.name] == []
