"""What a batch system has to hold, by its module and its line in the registry: a new one is in all of these tests."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from dkdbg.core.address import Address
from dkdbg.errors import DkdbgError
from dkdbg.repository.artefacts import render
from dkdbg.targets import registry
from dkdbg.targets.batch.job import NoCommandsError, Script
from dkdbg.verbs import command_line
from tests.agent.dap_probe import wait_for
from tests.commands import command, executable

PROGRAM = Path(__file__).parents[3] / "cli" / "dkdbg"
SCRIPT = Script(
    path="/h/job-12345678/job.sh", tag="job-12345678", name="dkdbg-train.py", options=("--mine", "a b")
)

each_system = pytest.mark.parametrize("entry", registry.batch_systems(), ids=lambda entry: entry.scheme)


@pytest.fixture
def system(entry):
    """The module's object, as its queue has it."""
    return _system(entry)


def _system(entry):
    return entry.kind.queue(Address(scheme=entry.scheme, rest=""))._system


def _called(scheme):
    """The module's object for addresses that begin so."""
    return next(_system(each) for each in registry.batch_systems() if each.scheme == scheme)


def is_shell(text):
    return command(["sh", "-n"], text=text, check=False).returncode == 0


@each_system
def test_a_job_is_named_with_a_login_node_and_without_one(entry, tmp_path):
    for login in ("login", ""):
        place = registry.target_of(f"{entry.scheme}://{login}/7/n1:rank0", tmp_path)
        assert place.label == "rank0 on n1"
        place.close()
    assert f"--on {entry.scheme}://login/7" in registry.how_to_begin(f"{entry.scheme}://login/7")


@each_system
@pytest.mark.parametrize(
    "rest",
    ["login", "login/x", "login/7;id", "login/$(id)", "login/-7", "login/7/n1/more", "login/7/a b", "login/7/$(id)", "login/7/n:",
     "/", "lo;gin/7"],
)  # fmt: skip
def test_an_address_that_names_no_job_or_makes_no_sense_is_refused(entry, rest, tmp_path):
    with pytest.raises(DkdbgError):
        registry.target_of(f"{entry.scheme}://{rest}", tmp_path)


@each_system
def test_its_texts_are_texts_of_sh(system):
    for text in (system.path, system.show("7"), system.over("7"), system.jobs(), f"known=$({system.jobs()})"):
        assert is_shell(text), text


@each_system
def test_its_job_script_runs_the_command_under_the_agent_or_holds_the_nodes(system):
    run = render(system.template, folder="/h/job-1", wait=5, command="python train.py")
    held = render(system.template, folder="/h/held-1", wait=0, command="")
    assert is_shell(run)
    assert is_shell(held)
    assert "agent.pyz" in run
    assert "python train.py" in run
    assert "sleep 60" in held
    assert all("rm -rf /h/" in each for each in (run, held))


class Started:
    """A job's script, run as its system would; its agent and srun are fakes. A file `go` ends the program."""

    def __init__(self, system, tmp_path):
        self.folder, self._go = tmp_path / "job-1", tmp_path / "go"
        self.folder.mkdir()
        executable(tmp_path / "srun", 'exec "$@"')
        executable(
            self.folder / "agent.pyz",
            f"echo x >>{tmp_path}/runs; until [ -e {self._go} ]; do sleep 0.1; done; exit ${{CODE:-0}}",
        )
        self._runs, self._path = tmp_path / "runs", f"{tmp_path}:{os.environ['PATH']}"
        # The system's own copy: it is there whatever becomes of the folder.
        self._script = executable(
            tmp_path / "spooled", render(system.template, folder=str(self.folder), wait=0, command="true")
        )

    def end(self, **variables):
        self._go.touch()
        done = command([self._script], env={"PATH": self._path, **variables}, check=False)
        assert done.returncode == int(variables.get("CODE", 0))

    def requeue(self):
        running = subprocess.Popen(
            [self._script], env={**os.environ, "PATH": self._path}, start_new_session=True
        )
        wait_for(self._runs.exists, bool)
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(300) == 143


@each_system
def test_the_folder_of_a_script_goes_at_its_end(system, tmp_path):
    job = Started(system, tmp_path)
    job.end(LSB_JOBINDEX="0")  # outside of an array
    assert not job.folder.exists()


@each_system
def test_a_requeued_job_starts_again(system, tmp_path):
    job = Started(system, tmp_path)
    job.requeue()
    job.end()
    assert (tmp_path / "runs").read_text() == "x\n" * 2
    assert not job.folder.exists()


@each_system
def test_a_job_that_is_requeued_for_its_exit_code_starts_again(system, tmp_path):
    """RequeueExit in slurm.conf, `bsub -Q 99`: the system knows the codes, and the script does not."""
    job = Started(system, tmp_path)
    job.end(CODE="99")
    job.end()
    assert (tmp_path / "runs").read_text() == "x\n" * 2
    assert not job.folder.exists()


@pytest.mark.parametrize(
    ("scheme", "index"),
    [
        ("slurm", "SLURM_ARRAY_TASK_ID"),
        ("pbs", "PBS_ARRAY_INDEX"),
        ("pbs", "PBS_ARRAYID"),
        ("lsf", "LSB_JOBINDEX"),
    ],
)
def test_every_task_of_an_array_finds_the_agent(scheme, index, tmp_path):
    job = Started(_called(scheme), tmp_path)
    for number in "12":
        job.end(**{index: number})
    assert (tmp_path / "runs").read_text() == "x\n" * 2


@each_system
def test_a_submission_has_the_user_s_options_and_can_be_found_again(entry, system):
    words = system.submit(SCRIPT)
    assert words[0] == entry.submitter
    assert words[words.index("--mine") + 1] == "a b"
    assert SCRIPT.path in words
    assert system.submitted("no, sorry\n") == ""
    assert "7" in system.cancel("7")


@pytest.mark.parametrize(
    ("scheme", "said", "job"),
    [
        ("pbs", "12\n", "12"), ("pbs", "12.pbs\n", "12.pbs"), ("pbs", "12[].pbs\n", "12[].pbs"), ("pbs", "qsub: oh\n", ""), ("pbs", "", ""),
        ("lsf", "Job <12> is submitted to default queue <normal>.\n", "12"), ("lsf", "Job <12> is submitted to queue <gpu>.\n", "12"),
        ("lsf", "Job not submitted.\n", ""),
    ],
)  # fmt: skip
def test_the_number_of_a_new_job_is_what_its_program_prints(scheme, said, job):
    assert _called(scheme).submitted(said) == job


@each_system
def test_where_its_programs_are_not_there_is_said(entry, system):
    for said in (
        f"sh: 1: {entry.submitter}: not found",
        f"bash: line 1: {entry.submitter}: command not found",
    ):
        assert isinstance(system.explain(said, job="", node=""), NoCommandsError)


@pytest.mark.parametrize(
    ("scheme", "said", "cause"),
    [
        ("slurm", "slurm_load_jobs error: Invalid job id specified\n", "Slurm has no job 7"),
        ("slurm", "srun: error: Slurm job 7 has expired\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7\n", "job 7 has ended, or n1 is not one of its nodes"),
        ("slurm", "srun: error: Unable to create step for job 7: Requested node configuration is not available\n", "n1 is not a node of job 7"),
        ("slurm", "srun: error: Unable to create step for job 7: Access/permission denied\n", "job 7 is not yours"),
        ("slurm", "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified\n", "there is no such partition"),
        ("slurm", "sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job submission failed: Requested node configuration is not available\n", "no node of this partition can ever satisfy"),
        ("slurm", "sbatch: error: Invalid --time specification\n", "sbatch does not accept this: Invalid --time specification"),
        ("slurm", "sbatch: unrecognized option '--nope'\nTry \"sbatch --help\" for more information\n", "sbatch does not accept this: unrecognized option '--nope'"),
        ("slurm", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "Slurm's controller does not answer"),
        ("slurm", "sh: 1: squeue: not found\n", "cannot find the commands of Slurm in PATH"),
        ("slurm", "Access denied by pam_slurm_adopt: you have no active jobs on this node\nConnection closed by 172.21.0.3 port 22\n", "n1 only lets in users who have a job on it"),
        ("pbs", "qsub: node(s) specification error\n", "qsub rejects these nodes"),  # OpenPBS 23.06
        ("pbs", "Invalid time limit specified (x)\n", "qsub does not accept this: Invalid time limit specified (x)"),
        ("pbs", "Unknown option: d\nUsage:\n    qsub [-a start_time]\n", "qsub does not accept this: Unknown option: d"),
        ("pbs", "sh: 1: qstat: not found\n", "cannot find the commands of PBS in PATH"),
        ("pbs", "and the output was:\n'sbatch: error: invalid partition specified: nope\n", "there is no such partition"),
        ("lsf", "nope: No such queue. Job not submitted.\n", "there is no such queue"),
        ("lsf", "Bad resource requirement syntax. Job not submitted.\n", "bsub does not accept this: Bad resource requirement syntax"),
        ("lsf", "Job <7>: User permission denied\n", "job 7 is not yours"),
        ("lsf", "Job <7>: No matching job found\n", "LSF has no job 7"),
        ("lsf", "LSF is down. Please wait ...\n", "LSF does not answer"),
        ("lsf", "me@n1: Permission denied (publickey).\n", "n1 refuses ssh"),
    ],
)  # fmt: skip
def test_the_words_of_its_programs_have_a_cause_and_a_next_step_and_are_quoted(scheme, said, cause):
    error = _called(scheme).explain(said, job="7", node="n1")
    assert error.message.startswith(cause)
    assert error.hint
    assert error.message.splitlines()[-1] in f"{cause}\n{said}"


@each_system
def test_the_help_of_submit_names_it_and_its_program(entry, capsys):
    with pytest.raises(SystemExit):
        command_line.parsed(["submit", "--help"], command_line.parser())
    assert re.search(rf"{entry.scheme}://LOGIN\s+\({entry.submitter}\)", capsys.readouterr().out)


@each_system
def test_no_other_module_names_it(entry):
    """A new system is its module and its line: the agent, which travels alone, has a row for its variables."""
    names = re.compile(rf"""\b{entry.scheme}://|["']{entry.scheme}["']""")
    allowed = {PROGRAM / "targets" / "registry.py", *(PROGRAM / "targets" / "batch").glob("*.py")}
    others = [
        path for path in PROGRAM.rglob("*.py") if path not in allowed and names.search(path.read_text())
    ]
    assert others == []
