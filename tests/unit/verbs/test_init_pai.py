"""`dkdbg init --pai`: the diff first, the file to the byte after undo, and what is wrong with its cause and next step."""

import json
import subprocess

import pytest

from dkdbg.main import main
from tests.commands import command
from tests.openpai import jobs, protocol


@pytest.fixture
def root(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "job.yaml").write_text(jobs.PLAIN)
    return tmp_path


def test_the_diff_is_shown_written_and_taken_back(root, capsys):
    job = root / "job.yaml"
    assert main(["-C", str(root), "init", "--pai", "--diff"]) == 0
    said = capsys.readouterr().out
    assert job.read_text() == jobs.PLAIN
    assert "+      ports:\n+        debug: 1\n" in said
    assert "train.py of worker waits up to 600 s for a debugger" in said
    assert main(["-C", str(root), "init", "--pai", "job.yaml", "--yes"]) == 0
    assert "dkdbg ps pai://HOST/USER/JOB" in capsys.readouterr().out
    assert protocol.load(job.read_text())["defaults"] == {"deployment": "debug"}
    assert main(["-C", str(root), "init", "--pai", "--check"]) == 0
    assert main(["-C", str(root), "init", "--undo"]) == 0
    assert job.read_text() == jobs.PLAIN
    assert command(["git", "status", "--short"], root).stdout == "?? job.yaml\n"


def test_an_agent_that_is_there_is_named_and_a_secret_is_the_token(root, capsys):
    (root / "job.yaml").write_text(jobs.PLAIN + "secrets:\n  dkdbg_token: geheim\n")
    code = main(
        ["-C", str(root), "init", "--pai", "--dap", "--agent", "/mnt/me/agent.pyz", "--json", "--yes"]
    )
    assert (code, json.loads(capsys.readouterr().out)["script"]) == (0, "train.py")
    text = (root / "job.yaml").read_text()
    assert "base64" not in text
    assert "export DKDBG_TOKEN='<% $secrets.dkdbg_token %>'" in text
    assert "command python -m dkdbg.pai --dap" in text


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ([], "when it runs: dkdbg ps pai://HOST/USER/JOB, then nc ADDRESS PORT\n"),
        (["--dap"], "then dkdbg attach pai://HOST/USER/JOB, which waits until it runs\n"),
    ],
)
def test_pdb_is_reached_by_nc_and_an_editor_through_attach(words, then, root, capsys):
    assert main(["-C", str(root), "init", "--pai", "--yes", *words]) == 0
    assert capsys.readouterr().out.endswith(f"next: submit job.yaml; {then}")
    left = {str(each.relative_to(root)) for each in root.glob(".dkdbg/*.pyz")}
    assert left == ({".dkdbg/agent.pyz"} if words else set()), "the rest of `dkdbg init` is not needed"
    assert main(["-C", str(root), "init", "--pai", "--check", *words]) == 0
    assert main(["-C", str(root), "init", "--undo"]) == 0
    assert not list(root.glob(".dkdbg/*.pyz"))


@pytest.mark.parametrize(
    ("files", "words", "said", "hint"),
    [
        ({}, ["nothing.yaml"], "there is no file nothing.yaml", "dkdbg init --pai job.yaml"),
        ({"b/two.yaml": jobs.DEPLOYED}, [], "2 job protocols here: job.yaml, b/two.yaml", "--pai job.yaml"),
        ({"job.yaml": "a: 1\n"}, [], "there is no OpenPAI job protocol here", "--pai job.yaml"),
        ({"job.yaml": "a: 1\n"}, ["job.yaml"], "job.yaml: it is not an OpenPAI job protocol", "name the job's file"),
        ({"job.yaml": jobs.DEPLOYED}, [], "job.yaml has 2 task roles: ps, worker", "--role ps"),
        ({}, ["job.yaml", "--role", "ps"], "job.yaml has no task role ps, it has: worker", "--role worker"),
        ({}, ["job.yaml", "--command", "python eval.py"], "it runs train.py, setup.py", "--command 'python train.py'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(root, capsys, files, words, *, said, hint):
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    assert main(["-C", str(root), "init", "--yes", "--pai", *words]) == 2
    error = capsys.readouterr().err
    assert (said in error, hint in error) == (True, True), error


def test_a_job_without_a_script_gets_the_rest_and_is_told_what_to_write(root, capsys):
    text = jobs.PLAIN.replace("        python train.py\n", "        ./train\n").replace(
        "python setup.py install", "make"
    )
    (root / "job.yaml").write_text(text)
    assert main(["-C", str(root), "init", "--pai", "--yes"]) == 0
    assert "write `python -m paipdb SCRIPT ARGUMENTS`" in capsys.readouterr().out
    assert "paipdb.zip" in (root / "job.yaml").read_text()
