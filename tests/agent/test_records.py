"""The runtime folder and the records: private, whole, and cleaned up."""

# ruff: noqa: PTH101, PTH106, PTH110, PTH116, PTH118, PTH119, PTH120, PTH208

import errno
import fcntl
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent import contract
from dkdbg.agent.state import batch, procfs, records, runtime_dir


def record(store: records.SessionStore, **fields: object) -> contract.Record:
    base = {"version": 1, "id": store.id, "pid": os.getpid(), "pid_start": procfs.start_ticks(os.getpid())}
    base |= {"boot": procfs.boot_id()}
    base |= {"pid_namespace": procfs.pid_namespace(), "state": "running", "started": 1.0, "expires": None}
    return {**base, **fields}  # type: ignore[return-value,typeddict-item]


def test_the_runtime_folder_is_private(tmp_path):
    path = runtime_dir.open_runtime_dir(str(tmp_path / "a" / "b"))
    assert os.stat(path).st_mode & 0o777 == 0o700
    os.chmod(path, 0o755)
    assert os.stat(runtime_dir.open_runtime_dir(path)).st_mode & 0o777 == 0o700


def test_a_link_in_place_of_the_default_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "link"))
    with pytest.raises(runtime_dir.RuntimeDirError, match="is not a folder"):
        runtime_dir.open_runtime_dir()


def test_an_unwritable_place_is_replaced_by_a_temporary_one():
    path = runtime_dir.open_runtime_dir("/proc/dkdbg")
    assert os.path.basename(path).startswith(f"dkdbg-{os.getuid()}-")
    os.rmdir(path)


def test_a_reader_never_sees_half_a_record(tmp_path):
    store = records.SessionStore(str(tmp_path), "job")
    store.create(record(store))
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            store.update(detail="x" * (number % 5000))

    writer = threading.Thread(target=write)
    writer.start()
    path = tmp_path / store.id / "session.json"
    for _ in range(500):
        json.loads(path.read_text())
    stop.set()
    writer.join()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_name_becomes_a_safe_folder_and_a_session_left_by_a_former_container_is_replaced(tmp_path):
    store = records.SessionStore(str(tmp_path), "../../etc/pass wd")
    assert os.path.dirname(store.directory) == str(tmp_path)
    Path(store.processes_dir, "17.json").write_text("{}")
    Path(store.directory, "ray-1.json").write_text("{}")
    os.close(store._held)  # its agent was killed
    again = records.SessionStore(str(tmp_path), "../../etc/pass wd")
    assert (again.id, os.listdir(again.processes_dir)) == (store.id, [])
    assert sorted(os.listdir(again.directory)) == ["lock", "p"]


@pytest.mark.parametrize("boot", [procfs.boot_id(), "another machine's"])
def test_a_living_session_of_the_same_name_and_pid_is_left_alone(tmp_path, monkeypatch, boot):
    """The agents of two containers that share the folder have one pid each, in PID namespaces of their own."""
    lock = fcntl.flock

    def locks_as_nfs(descriptor: int, operation: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", locks_as_nfs)
    store = records.SessionStore(str(tmp_path), "job")
    store.create(record(store, boot=boot, pid_namespace="another"))
    other = records.SessionStore(str(tmp_path), "job")
    assert Path(store.processes_dir).is_dir()
    assert other.id == f"job.2-{os.getpid()}"
    store.update(state="exited")
    store.finish()
    assert records.SessionStore(str(tmp_path), "job").id == store.id


def test_a_session_that_a_restart_of_the_machine_has_ended_is_replaced(tmp_path):
    store = records.SessionStore(str(tmp_path), "job")
    store.create(record(store, boot="before the restart"))
    store.open_for_users()
    os.close(store._held)
    again = records.SessionStore(str(tmp_path), "job")
    assert again.id == store.id
    assert sorted(os.listdir(again.directory)) == ["lock", "p"]
    assert os.stat(again.directory).st_mode & 0o777 == 0o700


def test_two_agents_that_start_at_once_have_a_folder_each(tmp_path, monkeypatch):
    """The second one starts when the first has made its folder, or has opened its lock; a third ends then."""
    former = records.SessionStore(str(tmp_path), "job")
    found: list[records.SessionStore] = []

    def start_another() -> None:
        monkeypatch.undo()
        found.append(records.SessionStore(str(tmp_path), "job"))

    def after(function, then):
        def call(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            then()
            return result

        return call

    monkeypatch.setattr(os, "open", after(os.open, lambda: [monkeypatch.undo(), former.finish()]))
    found.append(records.SessionStore(str(tmp_path), "job"))
    monkeypatch.setattr(os, "mkdir", after(os.mkdir, start_another))
    found.append(records.SessionStore(str(tmp_path), "job"))
    monkeypatch.setattr(os, "open", after(os.open, start_another))
    found.append(records.SessionStore(str(tmp_path), "job"))
    assert len({each.directory for each in found}) == len(found) == 5
    assert all(os.listdir(each.directory) for each in found)


def test_sockets_get_a_short_path_when_the_folder_is_deep(tmp_path):
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    store = records.SessionStore(str(deep), "job")
    store.create(record(store))
    assert len(store.processes_dir) < 60
    assert os.path.realpath(os.path.join(store.directory, "p")) == store.processes_dir
    store.finish()
    assert not os.path.exists(store.processes_dir)
    assert os.listdir(store.directory) == ["session.json"]


def test_old_finished_sessions_are_removed(tmp_path):
    for number in range(records.MAX_FINISHED + 5):
        store = records.SessionStore(str(tmp_path), f"job{number:02}")
        store.create(record(store, state="exited", started=float(number)))
    records.prune(str(tmp_path))
    left = [one["started"] for one in records.list_records(str(tmp_path))]
    assert left == [float(number) for number in range(5, 25)]


def test_what_a_killed_agent_has_left_is_removed_by_the_next_but_its_record(tmp_path):
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    with subprocess.Popen(["true"]) as gone:
        pass
    for folder in (tmp_path, deep):
        store = records.SessionStore(str(folder), "killed")
        store.create(record(store, pid=gone.pid))
        (Path(store.processes_dir) / "1.sock").touch()
        Path(store.directory, "join.json").write_text("{}")
        records.prune(str(folder))
        assert os.listdir(store.directory) == ["session.json"]
        assert not Path(store.processes_dir).exists()


def test_a_session_of_another_machine_in_a_shared_folder_is_left_alone_and_no_session_here(tmp_path):
    """The machine's own PID namespace has one number on all machines, and a pid of theirs may be one of ours too."""
    with subprocess.Popen(["true"]) as gone:
        pass
    for name, pid in (("none", gone.pid), ("ours", os.getpid())):
        store = records.SessionStore(str(tmp_path), name)
        store.create(record(store, pid=pid, pid_start=None, boot="another machine's"))
        Path(store.directory, "join.json").write_text("{}")
        records.prune(str(tmp_path))
        assert sorted(os.listdir(store.directory)) == ["join.json", "lock", "p", "session.json"]
        assert not records.is_live(store.snapshot())
        os.utime(Path(store.directory, "session.json"), (0, 0))  # it would have changed since
        records.prune(str(tmp_path))
        assert os.listdir(store.directory) == ["session.json"]


def test_a_session_of_a_former_agent_which_named_no_machine_is_live_and_never_broken(tmp_path):
    store = records.SessionStore(str(tmp_path), "former")
    former = record(store)
    del former["boot"]  # type: ignore[misc]
    store.create(former)
    assert records.is_live(former)
    store.update(pid=1 << 30)
    assert not records.is_live(store.snapshot())
    records.prune(str(tmp_path))
    assert Path(store.processes_dir).exists()


def test_records_of_another_version_are_ignored(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "session.json").write_text('{"version": 99}')
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "session.json").write_text("{")
    assert records.list_records(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("environ", "jobs"),
    [
        ({}, []),
        ({"SLURM_JOB_ID": "9"}, ["9"]),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}, ["7", "7_3", "9"]),
        ({"SLURM_JOB_ID": "8", "SLURM_HET_JOB_ID": "7", "SLURM_HET_JOB_OFFSET": "1"}, ["7", "7+1", "8"]),
        (
            {"SLURM_JOB_ID": "7", "SLURM_JOB_ID_HET_GROUP_0": "7", "SLURM_JOB_ID_HET_GROUP_1": "8"},
            ["7", "7+0", "7+1", "8"],
        ),
        ({"PBS_JOBID": "12.server"}, ["12", "12.server"]),
        ({"PBS_JOBID": "12[3].server"}, ["12[3]", "12[3].server", "12[]"]),
        ({"LSB_JOBID": "12", "LSB_JOBINDEX": "3"}, ["12", "12[3]", "12[]"]),
    ],
)
def test_a_job_of_a_batch_system_is_known_by_all_of_its_names(environ, jobs):
    assert batch.jobs(environ) == jobs
