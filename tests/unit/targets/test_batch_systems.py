"""What a batch system has to hold, by its module and its line in the registry: a new one is in all of these tests."""

import re
from pathlib import Path

import pytest

from dkdbg.core.address import Address
from dkdbg.errors import DkdbgError
from dkdbg.repository.artefacts import render
from dkdbg.targets import registry
from dkdbg.targets.batch.job import NoCommandsError
from dkdbg.targets.batch.job_script import Script
from dkdbg.verbs import command_line
from tests.engine.projects import command

PROGRAM = Path(__file__).parents[3] / "cli" / "dkdbg"
SCRIPT = Script(
    path="/h/job-12345678/job.sh", tag="job-12345678", name="dkdbg-train.py", options=("--mine", "a b")
)

each_system = pytest.mark.parametrize("entry", registry.batch_systems(), ids=lambda entry: entry.scheme)


@pytest.fixture
def system(entry):
    """The module's object, as its queue has it."""
    return entry.kind.queue(Address(scheme=entry.scheme, rest=""))._system


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
@pytest.mark.parametrize("job", ["x", "7;id", "$(id)", "-7", "7/n1/more"])
def test_what_is_no_job_is_refused(entry, job, tmp_path):
    with pytest.raises(DkdbgError):
        registry.target_of(f"{entry.scheme}://login/{job}", tmp_path)


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


@each_system
def test_a_submission_has_the_user_s_options_and_can_be_found_again(entry, system):
    words = system.submit(SCRIPT)
    assert words[0] == entry.submitter
    assert words[words.index("--mine") + 1] == "a b"
    assert SCRIPT.path in words
    assert system.submitted("no, sorry\n") == ""
    assert "7" in system.cancel("7")


@each_system
def test_where_its_programs_are_not_there_is_said(entry, system):
    for said in (
        f"sh: 1: {entry.submitter}: not found",
        f"bash: line 1: {entry.submitter}: command not found",
    ):
        assert isinstance(system.explain(said, job="", node=""), NoCommandsError)


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
