"""Profilers of chosen ranks: which processes, by which command line, and what is said of it."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from dkdbg.agent.inprocess.profilers import profiling, ray_collect, torch_profile
from dkdbg.agent.supervisor import profiles
from tests.agent import nsys
from tests.agent.dap_probe import wait_for
from tests.frameworks import python_with

#: Stands for torchrun: it starts two ranks as that does, one after the other, and ends with the sum of their codes.
TORCHRUN = """\
import os, subprocess, sys
codes = []
for rank in "01":
    env = {**os.environ, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "ROLE_NAME": "default"}
    codes.append(subprocess.run([sys.executable, "-u", *sys.argv[1:]], env=env).returncode)
sys.exit(sum(codes))
"""
TRAIN = """\
import os, subprocess, sys
print("rank", os.environ["RANK"], sys.argv[1:], sys.stdout.write_through, flush=True)
subprocess.run([sys.executable, "-c", "print('child')"], check=True)
sys.exit(3 if os.environ["RANK"] == "0" else 4)
"""
LIMIT = 300


@pytest.fixture
def job(tmp_path):
    (tmp_path / "torchrun").write_text(TORCHRUN)
    (tmp_path / "train_policy.py").write_text(TRAIN)
    nsys.install(tmp_path / "bin")
    return tmp_path


def path_with(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_nsys_wraps_the_chosen_rank_alone_with_its_interpreter_and_its_end_is_the_programs(launch, job):
    """With a stand-in for nsys on PATH, and one for torchrun."""
    program = (sys.executable, "torchrun", "train_policy.py", "--lr", "a b")
    code, out, err = launch(
        *program, options=("--nsys-ranks", "0"), env=path_with(job / "bin"), cwd=job
    ).finish(LIMIT)
    assert code == 7
    assert sorted(out.split("\n")) == sorted(
        ["rank 0 ['--lr', 'a b'] True", "rank 1 ['--lr', 'a b'] True", "child", "child", ""]
    )
    (report,) = (job / "dkdbg-profiles").iterdir()
    said = json.loads(report.read_text())
    assert said["program"] == [sys.executable, "-u", "train_policy.py", "--lr", "a b"]
    base = job / "dkdbg-profiles" / "train_policy-rank0_%p"
    assert said["argv"][:7] == ["profile", "-t", "cuda,nvtx", "-s", "none", "-o", str(base)]
    assert report.name.startswith("train_policy-rank0_")
    assert report.name != f"train_policy-rank0_{said['pid']}.nsys-rep"  # the program's pid
    assert "nsys profiling enabled for worker 'train_policy-rank0' (rank 0)" in err
    assert f"nsys of train_policy-rank0: {report} (" in err
    assert "rank1' (" not in err


@pytest.mark.parametrize("in_front", [False, True], ids=["environment", "env in front"])
def test_patterns_of_nemo_rl_choose_ranks_by_name_and_what_matches_nothing_is_told(launch, job, in_front):
    program, nemos = (sys.executable, "torchrun", "train_policy.py"), "NRL_NSYS_WORKER_PATTERNS"
    env = {**path_with(job / "bin"), nemos: " , *vllm* ,*policy*"}
    env |= {"DKDBG_NSYS_OPTIONS": "--capture-range=cudaProfilerApi", "DKDBG_PROFILE_DIR": str(job / "here")}
    words = ("env", f"{nemos}={env.pop(nemos)}") if in_front else ()
    _, _, err = launch(*words, *program, env=env, cwd=job).finish(LIMIT)
    reports = sorted(each.name.rpartition("_")[0] for each in (job / "here").iterdir())
    assert reports == ["train_policy-rank0", "train_policy-rank1"]
    assert "worker 'train_policy-rank1' (matched pattern '*policy*')" in err
    _, _, err = launch(*program, options=("--nsys", "*vllm*"), env=path_with(job / "bin"), cwd=job).finish(
        LIMIT
    )
    assert "nsys: nothing matched --nsys '*vllm*'; the processes were: " in err
    assert "train_policy-rank0, train_policy-rank1" in err
    assert not list((job / "dkdbg-profiles").iterdir())


@pytest.mark.parametrize(
    ("options", "env", "said"),
    [
        (("--nsys", "*"), {}, "nsys is not installed here, and --nsys '*' asks for it: install Nsight Systems"),
        (("--py-spy-ranks", "0-1"), {}, "py-spy is not installed here, and --py-spy-ranks 0-1 asks for it: pip install py-spy"),
        (("--nsys-ranks", "x"), {}, "DKDBG_NSYS_RANKS"),
        (("--torch-profile", "*"), {"DKDBG_TORCH_PROFILE_STEPS": "9"}, "DKDBG_TORCH_PROFILE_STEPS takes FIRST:END"),
        ((), {"NRL_NSYS_WORKER_PATTERNS": "*"}, "nsys is not installed here"),
    ],
)  # fmt: skip
def test_what_cannot_be_profiled_is_said_before_the_program_starts_and_stops_it_unless_only_nemo_rl_asks(
    launch, options, env, said
):
    bare = {"PATH": "/usr/bin:/bin", **env}
    code, out, err = launch("sh", "-c", "echo started", options=options, env=bare).finish(LIMIT)
    assert (code, out) == ((2, "") if options else (0, "started\n"))
    assert said in err


#: Steps of an optimizer, each with a name in the trace.
STEPS = """\
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for n in range(8):
        with torch.profiler.record_function("round %d" % n):
            layer(torch.ones(2, 4)).sum().backward()
        optimizer.step()
"""
#: The class that Ray sends to its worker refers to torch.
ACTOR = f"""\
import os
import ray
import torch

@ray.remote
class Trainer:
  def fit(self):
{STEPS}
ray.init(address="local", num_cpus=1, include_dashboard=False, object_store_memory=80000000, _temp_dir=os.environ["RAY_FOLDER"])
ray.get(Trainer.remote().fit.remote())
print("done", flush=True)
"""


def rounds(trace):
    names = {each.get("name") for each in json.loads(trace.read_text())["traceEvents"]}
    return {f"round {n}" for n in range(8)} & names


def test_torchs_profiler_sees_the_steps_that_were_asked_for(program, tmp_path):
    options = {"options": ("--torch-profile", "fit"), "env": {"DKDBG_TORCH_PROFILE_STEPS": "3:5"}}
    text = f"import torch\nif True:\n{STEPS}"
    err = program(text, name="fit.py", python=python_with("torch"), **options).ends()
    (trace,) = (tmp_path / "dkdbg-profiles").iterdir()
    assert trace.name.startswith("fit_")
    assert rounds(trace) == {"round 2", "round 3"}
    assert f"torch of fit: {trace} (" in err


@pytest.fixture
def ray_folder():
    """A short path, for the sockets of a local Ray."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        yield folder


def test_torchs_profiler_sees_the_steps_of_an_actor_whose_class_imports_torch(ray_folder, program, tmp_path):
    """Torch is loaded with the class, before the profiler looks: it waited for the import."""
    env = {
        "PYTHONPATH": str(next(Path(python_with("torch")).parents[1].glob("lib/*/site-packages"))),
        "DKDBG_TORCH_PROFILE_STEPS": "3:5", "DKDBG_PROFILE_DIR": str(tmp_path / "profiles"), "RAY_FOLDER": ray_folder,
        "RAY_AUTH_MODE": "disabled",
    }  # fmt: skip
    options = ("--ray-workers", "none", "--torch-profile", "Trainer")
    running = program(ACTOR, python=python_with("ray"), options=options, env=env)
    err = running.ends(out="done\n")  # its cluster has ended with it: the file lies here
    (trace,) = (tmp_path / "profiles").glob("*.trace.json")
    assert rounds(trace) == {"round 2", "round 3"}
    assert f"{trace} (" in err


def test_a_profile_of_an_earlier_run_whose_process_had_the_same_pid_stays(tmp_path, monkeypatch):
    folder, paths = tmp_path / "profiles", []
    folder.mkdir()
    tool = {"tool": "torch", "patterns": ["fit"], "ranks": "", "steps": [2, 11]}
    monkeypatch.setattr(torch_profile, "follow", lambda path, _: paths.append(Path(path)))
    for _ in range(3):
        monkeypatch.setenv(profiling.ENV, json.dumps({"folder": str(folder), "tools": [tool]}))
        monkeypatch.setenv(profiling.ENV_PROFILED, "")
        profiling.begin(str(tmp_path), [sys.executable, "fit.py"])
        paths[-1].touch()
    mine = f"fit_{os.getpid()}"
    assert [path.name for path in paths] == [f"{mine}{number}.trace.json" for number in ("", "-2", "-3")]


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [("/a/x.trace.json", True), ("/home/me/.ssh/id_ed25519", False), ("/a/x.trace.json\0", False)],
)
def test_a_node_of_the_cluster_names_no_other_file_than_a_profile(path, is_taken):
    """Each of them can write notes; what they name is copied into the user's folder."""
    note = {
        "node": "n",
        "node_id": "1",
        "python": "p",
        "cluster": "c",
        "pids": [1],
        "paths": ["/a/b.nsys-rep", path],
    }
    assert profiles.is_of_ray(note) == is_taken


def test_files_of_a_cluster_that_has_ended_are_taken_here(tmp_path, capsys):
    theirs, ours = tmp_path / "theirs" / "x.trace.json", tmp_path / "ours"
    theirs.parent.mkdir()
    ours.mkdir()
    theirs.write_text("new")
    (ours / "x.trace.json").write_text("old")
    gone = str(tmp_path / "gone.trace.json")
    files = [
        {"paths": [path], "pids": [], "node": "n1"}
        for path in (str(theirs), str(ours / "x.trace.json"), gone)
    ]
    ray_collect.take(files, str(ours))
    copied, same, lost = map(json.loads, capsys.readouterr().out.splitlines())
    assert Path(copied["at"]).read_text() == "new"
    assert (same["at"], (ours / "x.trace.json").read_text()) == (str(ours / "x.trace.json"), "old")
    assert gone in lost["why"]
    assert "the cluster has ended" in lost["why"]


def test_a_fetched_profile_of_a_node_replaces_none(tmp_path):
    names = []
    for _ in range(4):
        names.append(Path(ray_collect._free(str(tmp_path), "fit_7.trace.json", "node.1")).name)
        (tmp_path / names[-1]).touch()
    ends = ("", "-node_1", "-node_1-2", "-node_1-3")
    assert names == [f"fit_7{end}.trace.json" for end in ends]


@pytest.mark.parametrize(
    "note",
    [
        "[" * 100_000,
        '{"worker": 1, "pid": 1}',
        '{"worker": "w", "tool": "py-spy", "path": 3, "base": "", "pid": 1, "by": 0}',
        '{"worker": "w", "tool": "py-spy", "path": "/nowhere", "base": "", "pid": 1, "by": -1}',
        "\x00\xff",
    ],
)
def test_what_a_program_writes_among_the_notes_breaks_no_end_and_hides_no_note(tmp_path, note):
    """The session's folder is the program's user's too."""
    (tmp_path / "profiled").write_text(note + '\n{"worker": "later", "pid": 2}\n', encoding="latin-1")
    said: list[str] = []
    environment = {"PATH": os.environ["PATH"], "DKDBG_TORCH_PROFILE": "*", "DKDBG_PROFILE_DIR": str(tmp_path)}
    profiles.prepare(environment, said.append)
    profiles.report(str(tmp_path), environment, said.append, lambda _: False)
    assert "nothing matched --torch-profile '*'; the processes were: later" in said[-1]


#: Ends with code 3 and leaves a note of a worker on a node of Ray, whose file this "interpreter" is to fetch.
OF_RAY = """
import json, os, sys
at = dict(node="n", node_id="1", cluster="c", python=os.path.abspath("python"), paths=["/p" * 50000 + ".trace.json"], pids=[1])
note = dict(worker="w", tool="torch", path="/p", base="", pid=1, by=0, **at)
open(os.path.join(os.environ["DKDBG_SESSION_DIR"], "profiled"), "a").write(json.dumps(note) + chr(10))
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("fetches", "said"),
    [
        (
            r"sleep 0.3; cat >/dev/null; printf '\377 caf\351\n' >&2; exit 1",
            "not fetched, it is on n: /p: \ufffd caf\ufffd",
        ),
        ("exec sleep 3000", "not fetched, it is on n: /p: a signal ended the fetch"),
    ],
)
def test_the_end_of_a_run_on_ray_obeys_a_signal_and_keeps_its_exit_code(program, tmp_path, fetches, said):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ntouch fetching\n{fetches}\n")
    python.chmod(0o755)
    running = program(OF_RAY, env={"DKDBG_TORCH_PROFILE": "*"})
    wait_for((tmp_path / "fetching").exists, bool)
    if "signal" in said:
        running.process.terminate()
    assert said in running.ends(3)
