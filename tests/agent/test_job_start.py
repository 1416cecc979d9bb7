"""The agent is started from inside a job, by environment variables alone: PYTHONPATH leads to the single file."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dkdbg.agent.autostart import job as begin
from dkdbg.agent.autostart import start_file
from dkdbg.agent.autostart.job import is_program
from dkdbg.agent.state import runtime_dir
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import wait_for

TOKEN = "a-secret-that-nobody-else-knows-0123456789"
#: Says what a program can see of itself and of what it starts, then ends as it is told.
PROGRAM = """
import json, os, signal, subprocess, sys, time
if __name__ == "__main__":
    child = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True)
    print(json.dumps({
        "argv": sys.argv, "pid": os.getpid(), "ppid": os.getppid(), "session": os.environ.get("DKDBG_SESSION_DIR"),
        "environment": dict(os.environ), "child": child.stdout, "path": sys.path, "custom": sys.modules.get("custom") is not None,
    }), flush=True)
    until = os.environ.get("UNTIL")
    while until and not os.path.exists(until):
        time.sleep(0.05)
    if len(sys.argv) > 1 and sys.argv[1].startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


class Job:
    """What a scheduler gives a job: a command, an environment and a folder. Its agents end with the test."""

    def __init__(self, folder: Path, archive: Path) -> None:
        self.folder, self.archive, self.runtime = folder, archive, folder / "run"
        self.program = folder / "train.py"
        self.program.write_text(PROGRAM)
        self.started: list[subprocess.Popen[str]] = []

    def environment(self, **more: str) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("DKDBG_", "PYTHON", "DEBUG"))}
        clean |= {
            "PYTHONPATH": str(self.archive),
            "DKDBG_LISTEN": "0",
            "DKDBG_RUNTIME_DIR": str(self.runtime),
            "DKDBG_JOIN_DEADLINE": "60",
        }
        return {k: v for k, v in (clean | more).items() if v}

    def start(self, *command: str, **more: str) -> subprocess.Popen[str]:
        self.started.append(
            subprocess.Popen(
                command, env=self.environment(**more), cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            )
        )  # fmt: skip
        return self.started[-1]

    def run(self, *command: str, **more: str) -> tuple[int, str, str]:
        process = self.start(*command, **more)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def agents(self) -> dict[int, bytes]:
        found = {}
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = entry.read_bytes()
                words = line.split(b"\0")
                if b"accompany" in words and os.fsencode(self.runtime) in words:
                    found[int(entry.parent.name)] = line
        return found

    def records(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in self.runtime.glob("*/session.json")]

    def record(self) -> dict:
        return max(self.records(), key=lambda each: each["started"], default={})

    def waits(self, *command: str) -> subprocess.Popen[str]:
        """Start a program and return it once its agent waits for an editor."""
        process = self.start(*command, DKDBG_WAIT="forever")
        wait_for(lambda: self.record().get("state") == "waiting", bool)
        return process


@pytest.fixture(scope="module")
def unpacked(layout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    environment = {"DKDBG_RUNTIME_DIR": str(folder), "DKDBG_PORT": "0", "PATH": os.environ["PATH"]}
    subprocess.run(["sh", str(layout / "agent.pyz"), "launch", "--", "true"], env=environment, check=True)
    return next(folder.glob("agent-*"))


@pytest.fixture
def job(tmp_path, layout, unpacked):
    made = Job(tmp_path, layout / "agent.pyz")
    made.runtime.mkdir(mode=0o700)
    shutil.copytree(unpacked, made.runtime / unpacked.name)
    yield made
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    for pid in made.agents():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not made.agents(), bool)


@pytest.fixture
def first():
    """Words that make the command behind them the first process of a container."""
    words = ("unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here")
    return words


def test_a_program_sees_and_gives_what_it_does_without_us(job):
    custom = job.folder / "custom"
    custom.mkdir()
    (custom / "sitecustomize.py").write_text("import sys; sys.modules['custom'] = sys")
    path = f"{job.archive}{os.pathsep}{custom}"
    plain = job.run(sys.executable, "train.py", "7", "--x=a b", PYTHONPATH=str(custom), DKDBG_LISTEN="")
    code, out, err = job.run(sys.executable, "train.py", "7", "--x=a b", PYTHONPATH=path, DKDBG_TOKEN=TOKEN)
    said, without = json.loads(out), json.loads(plain[1])
    assert (code, err) == (plain[0], plain[2]) == (7, "")
    assert said["argv"] == without["argv"]
    assert said["pid"] == job.started[-1].pid  # it is the process that was started
    assert said["ppid"] == without["ppid"]
    assert said["path"] == without["path"]
    assert said["custom"]
    assert said["session"]
    assert str(said["session"]) in said["child"]
    assert job.run(sys.executable, "train.py", "SIGUSR1")[0] == -signal.SIGUSR1


def test_the_token_reaches_no_child_no_log_and_no_command_line(job):
    stop = job.folder / "stop"
    process = job.start(sys.executable, "train.py", DKDBG_TOKEN=TOKEN, UNTIL=str(stop))
    line = process.stdout.readline()
    commands = [Path(f"/proc/{process.pid}/cmdline").read_bytes(), *job.agents().values()]
    assert len(commands) > 1
    stop.touch()
    _, err = process.communicate(timeout=300)
    wait_for(lambda: not job.agents(), bool)  # it writes until then
    written = [
        path.read_bytes() for path in job.runtime.rglob("*") if path.is_file() and path.suffix != ".py"
    ]
    assert "environment" in line
    for text in (line.encode(), err.encode(), *commands, *written):
        assert TOKEN.encode() not in text


def test_ranks_that_start_at_the_same_instant_are_one_session(job):
    stop = job.folder / "stop"
    ranks = [
        job.start(sys.executable, "train.py", RANK=str(n), WORLD_SIZE="8", UNTIL=str(stop)) for n in range(8)
    ]
    sessions = {json.loads(each.stdout.readline())["session"] for each in ranks}
    assert len(sessions) == 1
    wait_for(lambda: len(job.agents()) == 1, bool)
    wait_for(lambda: len(job.record().get("processes", ())) == 8, bool)
    assert {each["rank"] for each in job.record()["processes"]} == set(range(8))
    stop.touch()
    assert [each.wait(300) for each in ranks] == [0] * 8


#: Creates the file that its argument names, and waits for another.
WAITS = """
import os, sys, time
open(sys.argv[1], "w").close()
while not os.path.exists("stop"): time.sleep(0.02)
"""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_programs_whose_standard_streams_are_closed_are_one_session(job, closed):
    job.program.write_text(WAITS)
    for name in ("one", "two"):
        job.start("sh", "-c", f"exec {sys.executable} train.py {name} {closed}")
        wait_for((job.folder / name).exists, bool)
    assert (len(job.agents()), len(job.records())) == (1, 1)
    (job.folder / "stop").touch()
    assert [each.wait(300) for each in job.started] == [0, 0]


def test_an_agent_in_place_of_a_first_process_has_its_lock_and_pipe_in_no_standard_stream(job, first):
    job.program.write_text(WAITS)
    job.start(*first, "sh", "-c", f"exec {sys.executable} train.py one <&- >&- 2>&-")
    wait_for((job.folder / "one").exists, bool)
    ((pid, line),) = job.agents().items()
    words = line.split(b"\0")
    assert min(int(words[words.index(name) + 1]) for name in (b"--lock", b"--ready")) > 2
    assert {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)} == {os.devnull}
    (job.folder / "stop").touch()
    assert job.started[0].wait(300) == 0


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "PBS_JOBID"])
def test_each_batch_job_of_a_user_on_a_machine_is_a_session(job, name):
    """A cancelled one ends no other, and programs of a job find that job's agent."""
    for each in "12", "34":
        job.start(sys.executable, "train.py", DKDBG_WAIT="forever", **{name: f"{each}.server/1"})
    wait_for(lambda: [each["state"] for each in job.records()] == ["waiting"] * 2, bool)
    assert {each["jobs"][0].partition(".")[0] for each in job.records()} == {"12", "34"}
    job.started[0].terminate()
    wait_for(lambda: len(job.agents()) == 1, bool)
    member = job.start(sys.executable, "train.py", DKDBG_WAIT="forever", **{name: "34.server/1"})
    (port,) = (each["port"] for each in job.records() if each["state"] == "waiting")
    with Debugger(AttachOptions(port=port)) as debugger:
        debugger.attach(timeout=300)
        assert [job.started[1].wait(300), member.wait(300)] == [0, 0]
    assert len(job.records()) == 2


def test_files_of_old_batch_jobs_without_an_agent_are_removed(tmp_path):
    names = [start_file.lock_of(start_file.path_in("", {"SLURM_JOB_ID": str(number)})) for number in range(3)]
    for name in [*names, "start.lock"]:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    os.utime(tmp_path / names[0])
    os.mkfifo(tmp_path / "start-pipe.lock")  # waits for no writer
    (tmp_path / "start-link.lock").symlink_to(names[2])
    os.utime(tmp_path / "start-pipe.lock", (1, 1))
    with (tmp_path / names[1]).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        start_file.prune(str(tmp_path))
    left = {each.name for each in tmp_path.iterdir()} - {"start-pipe.lock"}
    assert left == {*names[:2], "start.lock", "start-link.lock"}


@pytest.mark.parametrize("job", ["../../../etc/cron.d/x", "a/b", "..", "x" * 500, "\n\0[1]", "*"])
def test_a_job_of_any_name_has_its_files_in_the_runtime_folder(job):
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "SLURM_JOB_ID_HET_GROUP_0"):
        path = start_file.lock_of(start_file.path_in("/run/dkdbg", {name: job}))
        assert Path(path).parent == Path("/run/dkdbg")
        assert len(Path(path).name) < 200
        assert path.isprintable()


def test_a_lock_that_was_removed_before_it_was_taken_is_taken_anew(tmp_path, monkeypatch):
    lock, begun = runtime_dir.lock, []
    path = Path(start_file.lock_of(start_file.path_in(str(tmp_path), os.environ)))

    def removed_once(file: int) -> bool:
        if not begun:
            begun.append(path.unlink())
        return lock(file)

    def start(*given: object) -> None:
        assert os.path.samestat(os.fstat(given[-1]), path.stat())

    monkeypatch.setattr(runtime_dir, "lock", removed_once)
    monkeypatch.setattr(begin, "_start", start)
    begin._find_or_start("/agent.pyz", ["python", "train.py"], str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_wait_that_was_cancelled_ends_without_a_traceback_and_the_next_run_waits_again(job, number):
    process = job.waits(sys.executable, "train.py")
    process.send_signal(number)
    assert (*process.communicate(timeout=300), process.returncode) == ("", "", -number)
    wait_for(lambda: not job.agents(), bool)
    assert job.run(sys.executable, "train.py", DKDBG_WAIT="0.2") == (124, "", "")


def test_a_program_that_starts_soon_after_a_failed_agent_says_that_it_is_not_debugged(job):
    job.runtime = job.runtime.rename(job.folder / "the run")
    job.run(sys.executable, "train.py", DKDBG_LISTEN="here")
    os.utime(job.runtime / "start", (2**32, 2**32))  # as after a clock step
    code, _, err = job.run(sys.executable, "train.py", "7", DKDBG_LISTEN="here")
    assert (code, err.count("\n"), "failed to start 0 s ago" in err) == (7, 1, True)
    subprocess.run(["sh", "-c", err[err.index("rm ") :]], check=True)
    assert job.run(sys.executable, "train.py", "7", DKDBG_LISTEN="here")[::2] == (7, "")


def test_it_is_debugged_from_its_first_line_on(job):
    process = job.waits(sys.executable, "train.py", "3")
    line = next(n for n, text in enumerate(PROGRAM.splitlines(), 1) if text.startswith("import json"))
    record = job.record()
    assert process.poll() is None
    with Debugger(AttachOptions(port=record["port"])) as debugger:
        debugger.set_breakpoints(str(job.program), [line])
        debugger.attach(timeout=300)
        thread = debugger.wait_stopped(300)
        assert debugger.stack(thread)[0].line == line
        debugger.continue_(thread)
        assert process.wait(300) == 3


def test_one_that_nobody_comes_to_ends_with_the_code_of_launch(job):
    assert job.run(sys.executable, "train.py", DKDBG_WAIT="0.2") == (124, "", "")
    code, out, _ = job.run(sys.executable, "train.py", "5", DKDBG_WAIT="0.2", DKDBG_THEN="run")
    assert code == 5
    assert json.loads(out)["session"]


def test_a_signal_to_a_first_process_that_becomes_the_agent_reaches_the_program(job, first):
    process = job.start(*first, sys.executable, "train.py", "9", UNTIL=str(job.folder / "stop"))
    (agent,) = wait_for(job.agents, bool)
    os.kill(agent, signal.SIGTERM)  # it cannot have begun to fetch signals yet
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_signal_that_ends_the_wait_of_a_first_process_ends_the_program(job, first):
    process = job.waits(*first, sys.executable, "train.py")
    (agent,) = job.agents()
    os.kill(agent, signal.SIGTERM)
    out, _ = process.communicate(timeout=300)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")


#: Waits until no process holds the agent's lock any more.
LOCKS = """
import fcntl, os, time
while True:
    try:
        fcntl.flock(os.open(os.environ["DKDBG_RUNTIME_DIR"] + "/start.lock", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        time.sleep(0.02)
"""


def test_a_first_process_whose_agent_could_not_work_leaves_the_lock_to_others(job, first):
    job.program.write_text(LOCKS)
    code, _, err = job.run(*first, sys.executable, "train.py", DKDBG_LISTEN="here")
    assert (code, "DKDBG_LISTEN" in err) == (0, True)


@pytest.mark.parametrize("left", ["failed", "go\0004194305\0001\0/hook\0\0A=b", None])
def test_an_agent_that_cannot_be_seen_holds_up_no_program(tmp_path, monkeypatch, left):
    monkeypatch.setattr(begin, "_START_TIMEOUT_S", 0.5)
    path = Path(start_file.path_in(str(tmp_path), os.environ))
    held = os.open(start_file.lock_of(str(path)), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    if left is not None:
        path.write_text(left)
        os.utime(path, (1, 1))
    found: list[object] = []
    start = threading.Thread(
        target=lambda: found.append(
            begin._find_or_start("/agent.pyz", ["python", "train.py"], str(tmp_path))
        ),
        daemon=True,
    )
    start.start()
    start.join(60)
    os.close(held)
    assert found == [None]


def test_a_file_system_without_locks_starts_no_agent(tmp_path, monkeypatch):
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path))
    assert begin._open_runtime() == str(tmp_path)
    with pytest.raises(OSError, match="No locks available"):
        begin._find_or_start("/agent.pyz", ["python", "train.py"], str(tmp_path))


def test_who_reads_the_output_sees_its_end(job):
    """The agent stays for a moment, and holds nothing that the program was given."""
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "train.py"], env=job.environment(), cwd=job.folder, stdout=write, stderr=write, pass_fds=[write]
    ) as process:  # fmt: skip
        os.close(write)
        with os.fdopen(read) as output:
            assert json.loads(output.read())["session"]
        assert process.wait(300) == 0


@pytest.mark.parametrize(
    ("environment", "cause"),
    [
        ({"DKDBG_LISTEN": "here"}, "DKDBG_LISTEN takes PORT or HOST:PORT, not 'here'"),
        ({"DKDBG_LISTEN": "", "DKDBG_CONNECT": f"10.0.0.1:5670#sha256:{'0' * 64}"}, "the token is missing"),
        ({"DKDBG_LISTEN": "", "DKDBG_CONNECT": "10.0.0.1:5670"}, "no fingerprint"),
        ({"DKDBG_TOKEN_FILE": "/nowhere/token"}, "cannot read DKDBG_TOKEN_FILE=/nowhere/token"),
        ({"DKDBG_WAIT": "soon"}, "DKDBG_WAIT"),
        ({"DKDBG_RUNTIME_DIR": "/proc/version"}, ""),
    ],
)
def test_what_cannot_be_done_leaves_the_program_alone(job, environment, cause):
    code, out, err = job.run(sys.executable, "train.py", "7", **environment)
    assert (code, err) == (7, "")
    assert not json.loads(out)["session"]
    if cause:  # without a folder to write to nothing is said
        assert cause in (job.runtime / "start.log").read_text()


def test_helpers_start_nothing_and_what_an_installer_starts_is_its_own(job):
    assert job.run(sys.executable, "-c", "print(1)") == (0, "1\n", "")
    assert job.run(sys.executable, "-m", "json.tool", "--help")[0] == 0
    shell = f"echo 'print(2)' | {sys.executable} -; {sys.executable} -m pip --version >/dev/null; echo $?"
    assert job.run("sh", "-c", shell) == (0, "2\n0\n", "")
    assert not (job.runtime / "start.lock").exists()
    pip = job.folder / "pip"
    pip.write_text("import subprocess, sys; sys.exit(subprocess.call([sys.executable, 'train.py', '3']))")
    code, out, _ = job.run(sys.executable, str(pip))
    assert (code, json.loads(out)["session"]) == (3, None)


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("python train.py", True),
        ("python -u -W ignore -Xdev train.py -c", True),
        ("python -m torch.distributed.run train.py", True),
        ("python -um app.train", True),
        ("python /usr/local/bin/torchrun train.py", True),
        ("python -c pass", False),
        ("python -uc pass", False),
        ("python", False),
        ("python -", False),
        ("python -m pip install x", False),
        ("python -mpip install x", False),
        ("python /usr/bin/pip3.11 install x", False),
        ("python setup.py build", False),
    ],
)
def test_a_command_line_is_that_of_a_program(line, is_one):
    assert is_program(line.split(), is_first=False) is is_one


def test_code_on_the_command_line_is_the_program_of_a_container_that_was_started_with_it():
    assert is_program(["python", "-c", "train()"], is_first=True)
    assert not is_program(["python", "train.py"], is_first=True, more_helpers="other,train.py")
