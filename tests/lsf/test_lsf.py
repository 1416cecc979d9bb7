"""Jobs of LSF, by a fake: its commands answer as IBM documents it, and its hosts are this machine."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.core.jobs import Submission
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.targets import registry
from dkdbg.targets.batch import job_queue
from dkdbg.targets.ssh.login import Login
from tests.agent.dap_probe import wait_for
from tests.engine.projects import dkdbg, must, write
from tests.kubernetes.ranks import editor
from tests.pages import Page
from tests.slurm.test_recipes import Typed, number, port, until

#: Runs until there is a file `stop` beside it. The mark is where an editor stops.
TRAIN = """\
import os, time
n = 0
while not os.path.exists("stop"):
    n += 1  # breakpoint
    time.sleep(0.02)
print("trained")
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A repository that is the working folder of jobs too, and LSF's commands on PATH."""
    for name in ("bin", "jobs", "home", "run", "code"):
        (tmp_path / name).mkdir()
    fake = Path(__file__).with_name("fake_lsf.py")
    for name in ("bsub", "bjobs", "bkill", "ssh"):
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{fake.read_text()}")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FAKE_LSF", str(tmp_path / "jobs"))
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    write(tmp_path / "code", **{"train.py": TRAIN})
    yield tmp_path / "code"
    (tmp_path / "code" / "stop").touch()
    jobs = tmp_path / "jobs"
    wait_for(
        lambda: [each.read_text() for each in jobs.glob("*.json")], lambda found: '"RUN"' not in str(found)
    )


class OnThisMachine(Typed):
    """Commands of a page, whose login node is this machine."""

    def _text(self, beginning):
        return (
            super()
            ._text(beginning)
            .replace("lsf://login", "lsf://")
            .replace("--in code", f"--in {self.root}")
        )


def test_the_page_on_lsf(site):
    page = Page.of("recipes/lsf.md")
    typed = OnThisMachine(page, site)
    with page.all_run():
        with typed.running("dkdbg submit --on lsf://login -n 2 -gpu num=1 --in code --wait") as submitted:
            typed.job = number(until(submitted, "is submitted"))
            until(submitted, "runs on hosta, hostb")
            until(submitted, "1 of 1 ranks are up")
            with editor(port(submitted), site, str(site.resolve())) as debugger:
                top = debugger.stack(debugger.wait_stopped(300))[0]
                assert debugger.evaluate("os.environ['LSB_JOBID']", top) == f"'{typed.job}'"
                assert "train.py:4" in typed.run("dkdbg where")
            assert f"lsf {typed.job}/hosta" in typed.run("dkdbg ps")
            assert "trained" not in typed.run("dkdbg logs")
            (site / "stop").touch()
            until(submitted, f"job {typed.job} has ended: DONE")
            assert submitted.wait(300) == 0
        assert not list((site.parent / "home/.cache/dkdbg").glob("job-*"))
        assert "trained" in must(dkdbg(site, "logs", f"lsf:///{typed.job}")).stdout


def test_ctrl_c_before_the_ranks_are_up_cancels_the_job(site):
    typed = OnThisMachine(
        Page.read(Path("x"), "```console\n$ dkdbg submit --on lsf://login -H -- true\n```\n"), site
    )
    with typed.running("dkdbg submit") as submitted:
        job = number(until(submitted, "is submitted"))
        until(submitted, "PSUSP (New job is waiting for scheduling;)")
        submitted.send_signal(signal.SIGINT)
        until(submitted, f"job {job} is cancelled")
    done = dkdbg(site, "run", "--on", f"lsf:///{job}", "--", "hostname")
    assert f"job {job} has ended: EXIT (TERM_OWNER: job killed by owner)" in done.stderr


def test_what_hinders_has_its_cause(site):
    started = must(dkdbg(site, "submit", "--on", "lsf://", "--no-attach", "--", "sleep", "1000"))
    job = number(started.stderr)
    (Path(os.environ["FAKE_LSF"]) / "closed").touch()
    cases = {
        job: "hosta refuses ssh",
        f"{job}/hostc": "hostc is not a node of job",
        "4711": "LSF has no job 4711",
        "x": "'x' is not a job",
    }
    for name, cause in cases.items():
        done = dkdbg(site, "run", "--on", f"lsf:///{name}", "--", "hostname")
        assert (cause in done.stderr, "hint: " in done.stderr) == (True, True), done.stderr
    for options, cause in ((("-q", "nope"), "there is no such queue"), (("-Z",), "Illegal option: -Z")):
        assert cause in dkdbg(site, "submit", "--on", "lsf://", *options, "--", "true").stderr
    subprocess.run(["bkill", job], check=True)


@pytest.mark.parametrize("comes", ["before", "later"])
def test_a_job_whose_submitter_does_not_end_in_time_is_found_or_may_still_come(site, monkeypatch, comes):
    """sbatch too tries again for two minutes while its controller is busy: a second try made two jobs."""
    read, late = Login.read, []

    def outrun(login, argv, *, limit):
        if job_queue._ENDED not in str(argv):
            return read(login, argv, limit=limit)
        if comes == "before":
            read(login, argv, limit=limit)
        late.append(argv)
        raise DkdbgError("it did not end", exit_code=EXIT_TIMEOUT)

    monkeypatch.setattr(Login, "read", outrun)
    wanted = Submission(command=("true",), options=("-H",), wait=0, name="true", folder=str(site))
    with contextlib.closing(registry.queue_of("lsf://")) as queue:
        if comes == "before":
            assert queue.submit(wanted) == "7"
        else:
            with pytest.raises(
                DkdbgError, match="bsub did not end within 60 s; the job may or may not"
            ) as caught:
                queue.submit(wanted)
            subprocess.run(late[0], check=True)
            assert Path(caught.value.hint.partition("script is ")[2]).is_file()
