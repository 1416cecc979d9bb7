"""What `dkdbg init` says to do helps, typed as it says it: in a folder whose name has a space, as on many a laptop."""

from __future__ import annotations

import os
import subprocess
import zipfile

import pytest

from dkdbg.agent.program import bundle
from dkdbg.errors import EXIT_CONFLICT, EXIT_ERROR, EXIT_USAGE
from tests.checkout import TRAIN, checkout, run_dkdbg, snapshot
from tests.hints import in_shell, to_type

SLIM = "FROM python:3.11-slim\nWORKDIR /app\nCOPY . .\n"


@pytest.fixture
def root(tmp_path):
    return checkout(tmp_path / "my project", {"train.py": TRAIN})


def said(done, code=EXIT_ERROR):
    """What a refused call said."""
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr


def well(done):
    """What a call said that has to have worked."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- before anything is written


def test_without_a_terminal_one_of_the_two_ways_shows_and_the_other_writes(root):
    text = said(run_dkdbg(root, "init"), EXIT_USAGE)
    writes, shows = to_type(text, "dkdbg init --yes writes, dkdbg init --diff only shows")
    before = snapshot(root)
    assert "create" in well(in_shell(root, shows))
    assert snapshot(root) == before
    well(in_shell(root, writes))
    assert (root / ".vscode/launch.json").is_file()


def test_a_file_that_may_not_be_read_is_shown_with_its_mode(root):
    (root / "compose.yaml").write_text("services: {}\n")
    (root / "compose.yaml").chmod(0)
    [line] = to_type(said(run_dkdbg(root, "init", "--yes")), "ls -l {} shows who may read it")
    assert well(in_shell(root, line)).startswith("----------")


def test_a_folder_that_may_not_be_entered_is_shown_with_its_mode(root, tmp_path):
    root.chmod(0)
    try:
        text = said(run_dkdbg(tmp_path, "-C", str(root), "init"), EXIT_USAGE)
        [line] = to_type(text, "ls -ld {} shows who has it; another folder: {}")
        assert well(in_shell(tmp_path, line)).startswith("d---------")
    finally:
        root.chmod(0o755)


def test_a_compose_file_is_corrected_when_compose_reads_it(root):
    (root / "compose.yaml").write_text("services:\n  web: [x\n")
    text = said(run_dkdbg(root, "init", "--yes"))
    [line] = to_type(text, "Correct {}; then check it: docker compose config -q")
    assert in_shell(root, line).returncode != 0
    (root / "compose.yaml").write_text("services:\n  web:\n    image: x\n")
    well(in_shell(root, line))
    well(run_dkdbg(root, "init", "--yes"))


def test_a_service_is_renamed_when_compose_takes_its_name(root):
    (root / "compose.yaml").write_text("services:\n  a b:\n    image: x\n")
    text = said(run_dkdbg(root, "init", "--yes"))
    [line] = to_type(text, "Rename it in {}; then check it: docker compose config -q")
    assert in_shell(root, line).returncode != 0
    (root / "compose.yaml").write_text("services:\n  a-b:\n    image: x\n")
    well(in_shell(root, line))
    well(run_dkdbg(root, "init", "--yes"))


def test_where_the_first_compose_file_lies_in_a_folder_that_folder_is_set_up(root):
    checkout(root / "de ploy", {"serve.py": TRAIN, "compose.yaml": "services:\n  web:\n    image: x\n"})
    (root / ".env").write_text("COMPOSE_FILE=de ploy/compose.yaml\n")
    text = said(run_dkdbg(root, "init", "--yes"))
    [line] = to_type(text, "set up that folder: dkdbg -C {} init; or name a compose file of the root first")
    well(in_shell(root, f"{line} --yes"))
    assert (root / "de ploy/.vscode/launch.json").is_file()


def test_a_submodule_that_is_not_checked_out_is_there_after_what_is_said(root, tmp_path):
    other = checkout(tmp_path / "other", {"a.py": TRAIN})
    run = lambda *words: subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always", *words], check=True, capture_output=True)  # fmt: skip
    run("-C", str(other), "add", ".")
    run("-C", str(other), "commit", "-qm", "x")
    run("-C", str(root), "submodule", "add", "-q", str(other), "lib")
    run("-C", str(root), "commit", "-qm", "x")
    run("-C", str(root), "submodule", "deinit", "-f", "lib")
    text = well(run_dkdbg(root, "init", "--diff"))
    [line] = to_type(text, "{}, a submodule that is not checked out (git submodule update --init)")
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    well(in_shell(root, line, env))
    assert (root / "lib/a.py").is_file()
    assert "submodule" not in well(run_dkdbg(root, "init", "--diff"))


def test_a_name_that_no_file_of_ours_can_hold_is_renamed(root):
    checkout(root, {"${env:HOME}/a.py": "1\n", "Dockerfile": SLIM})
    service = "services:\n  web:\n    build: .\n    command: python train.py\n    volumes:\n"
    service += "      - {type: bind, source: ., target: /app}\n      - {type: bind, source: './FOLDER', target: /app/lib}\n"
    (root / "compose.yaml").write_text(service.replace("FOLDER", "$${env:HOME}"))
    text = said(run_dkdbg(root, "init", "--yes"), EXIT_CONFLICT)
    [line] = to_type(
        text, "rename it in the repository, or say what to debug: dkdbg init --command 'python train.py'"
    )
    (root / "${env:HOME}").rename(root / "lib")
    (root / "compose.yaml").write_text(service.replace("FOLDER", "lib"))
    well(in_shell(root, f"{line} --yes"))


# --- services


def test_a_service_of_an_old_python_makes_way_for_an_image_of_a_newer_one(root):
    (root / "Dockerfile").write_text(SLIM.replace("3.11", "3.6"))
    (root / "compose.yaml").write_text("services:\n  web:\n    build: .\n    command: python train.py\n")
    text = said(run_dkdbg(root, "init", "--yes", "--service", "web"), EXIT_USAGE)
    [line] = to_type(
        text, "without --service, dkdbg init makes an image with a newer Python; or raise the version there"
    )
    well(in_shell(root, f"{line} --yes"))
    assert "ARG BASE=python:3.8" in (root / "dkdbg.Dockerfile").read_text()
    well(in_shell(root, "docker compose --profile debug config -q"))


def test_a_service_that_only_adds_to_another_files_makes_way_for_one_that_runs(root):
    (root / "Dockerfile").write_text(SLIM)
    (root / "compose.yaml").write_text("services:\n  web:\n    build: .\n    command: python train.py\n")
    (root / "compose.gpu.yaml").write_text("services:\n  web:\n    gpus: all\n")
    text = said(run_dkdbg(root, "init", "--yes", "--service", "compose.gpu.yaml:web"), EXIT_USAGE)
    [line] = to_type(text, "leave --service out, and dkdbg init finds one that runs by itself")
    well(in_shell(root, f"{line} --yes"))
    well(in_shell(root, "docker compose --profile debug config -q"))


def test_a_variable_without_a_value_gets_one_in_the_file_that_compose_reads(root):
    (root / "Dockerfile").write_text(SLIM)
    (root / "compose.yaml").write_text("services:\n  db:\n    image: x\n")
    (root / "compose.train.yaml").write_text(
        "services:\n  web:\n    build: .\n    command: python train.py\n    environment: ['A=${TOKEN_OF_X:?}']\n"
    )
    text = said(run_dkdbg(root, "init", "--yes", "--service", "web"), EXIT_USAGE)
    [line] = to_type(text, "write a value into .env (echo {}=... >> .env), then dkdbg init again")
    echoed = text[text.index("(echo ") + 1 : text.index(")", text.index("(echo "))]
    well(in_shell(root, echoed))
    well(in_shell(root, f"{line} --yes --service web"))
    well(in_shell(root, "docker compose --profile debug config -q"))


def test_a_line_that_python_refuses_is_fixed_and_the_program_is_found(root):
    (root / "train.py").rename(root / "go.py")
    (root / "go.py").write_text("def f(:\n  pass\n\nif __name__ == '__main__':\n  f()\n")
    text = well(run_dkdbg(root, "init", "--yes"))
    [line] = to_type(
        text, "{}:{}; so the container idles (sleep infinity): fix that line and run dkdbg init again"
    )
    (root / "go.py").write_text(TRAIN)
    well(in_shell(root, f"{line} --yes"))
    assert 'command: ["python", "go.py"]' in (root / "compose.yaml").read_text()


def test_of_several_projects_the_named_one_is_set_up(root):
    (root / "train.py").unlink()
    for name in ("a b", "c", "d"):
        checkout(root / name, {
            "main.py": TRAIN, "requirements.txt": f"torch\n{name[0]}-data\n", "README.md": "```bash\npython main.py --epochs 1\n```\n",
        })  # fmt: skip
    text = well(run_dkdbg(root, "init", "--diff"))
    [line] = to_type(text, "{} projects are here: {}{}; set up one of them with dkdbg -C {} init")
    well(in_shell(root, f"{line} --yes"))
    assert (root / "a b/.vscode/launch.json").is_file()


def test_the_line_of_the_env_file_lets_plain_compose_read_ours(root):
    (root / "Dockerfile").write_text(SLIM)
    (root / "compose.yaml").write_text("services:\n  web:\n    build: .\n    command: python train.py\n")
    (root / "compose.override.yaml").write_text("services:\n  web:\n    environment: {A: b}\n")
    text = well(run_dkdbg(root, "init", "--yes"))
    to_type(text, "plain `docker compose` reads our file through this line of .env: COMPOSE_FILE={}")
    assert "web-debug" in well(in_shell(root, "docker compose --profile debug config --services"))


# --- what git does with the files


def test_files_that_git_ignores_are_added_as_it_says(root):
    (root / ".gitignore").write_text(".vscode/\n")
    text = well(run_dkdbg(root, "init", "--yes"))
    [line] = to_type(text, "git ignores {}: git add -f {}; without them F5 works for you alone")
    well(in_shell(root, line))
    assert ".vscode/launch.json" in well(in_shell(root, "git ls-files"))


def test_attributes_that_would_change_the_agent_spare_it_after_the_line_that_is_said(root):
    (root / ".gitattributes").write_text("*.pyz text\n")
    text = well(run_dkdbg(root, "init", "--yes"))
    to_type(
        text, "git would change the agent when it is committed ({} in .gitattributes); this spares it: {}"
    )
    line = text[text.index("printf ") :].splitlines()[0]
    well(in_shell(root, line))
    assert "text: unset" in well(in_shell(root, "git check-attr text .dkdbg/agent.pyz"))
    assert "printf" not in well(run_dkdbg(root, "init", "--yes"))


# --- writing and undoing


def test_a_file_that_may_not_be_written_may_after_what_is_said(root):
    (root / ".vscode").mkdir()
    (root / ".vscode").chmod(0o555)
    [line] = to_type(said(run_dkdbg(root, "init", "--yes")), "chmod u+w {}")
    well(in_shell(root, line))
    well(run_dkdbg(root, "init", "--yes"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of somebody else's, which only root can make")
def test_a_folder_of_somebody_elses_is_ones_own_after_what_is_said(root):
    (root / ".vscode").mkdir(mode=0o755)
    os.chown(root / ".vscode", 65534, 65534)
    [line] = to_type(said(run_dkdbg(root, "init", "--yes")), "sudo chown -R $(id -u):$(id -g) {}")
    subprocess.run(
        ["sh", "-c", line.removeprefix("sudo ")], cwd=root, check=True
    )  # who is root needs no sudo
    assert (root / ".vscode").stat().st_uid == os.geteuid()
    well(run_dkdbg(root, "init", "--yes"))


def test_a_folder_of_ours_that_may_not_be_entered_is_shown_with_its_mode(root):
    (root / ".dkdbg").mkdir()
    (root / ".dkdbg").chmod(0)
    try:
        text = said(run_dkdbg(root, "init", "--yes"), EXIT_USAGE)
        [line] = to_type(text, "ls -ld {} shows who has it; another folder: {}")
        assert well(in_shell(root, line)).startswith("d---------")
    finally:
        (root / ".dkdbg").chmod(0o755)


def test_a_journal_that_may_not_be_read_may_after_what_is_said(root):
    folder = root / ".git/dkdbg"
    folder.mkdir()
    folder.chmod(0)
    [line] = to_type(
        said(run_dkdbg(root, "init", "--yes")),
        "Give yourself permission for it (ls -ld shows who owns it), then try again.",
    )
    assert well(in_shell(root, f"{line} .git/dkdbg")).startswith("d---------")
    folder.chmod(0o755)
    well(run_dkdbg(root, "init", "--yes"))


def test_a_python_that_no_debugpy_of_ours_fits_gets_its_own_after_init_again(root, tmp_path):
    (root / "Dockerfile").write_text(SLIM)
    well(run_dkdbg(root, "init", "--yes"))
    agent, run = root / ".dkdbg/agent.pyz", str(tmp_path / "run")

    def unpacked(name):
        zipfile.ZipFile(agent).extractall(tmp_path / name)
        return [str(tmp_path / name)]

    with pytest.raises(bundle.NoDebugpy) as error:
        bundle.ensure_debugpy(unpacked("before"), run, (3, 8))
    [line] = to_type(
        str(error.value),
        "run `dkdbg init` again with this Python in the image: it adds the debugpy that fits",
    )
    (root / "Dockerfile").write_text(SLIM.replace("3.11", "3.8"))
    well(in_shell(root, f"{line} --yes"))
    assert bundle.ensure_debugpy(unpacked("after"), run, (3, 8)).endswith("debugpy-1.8.21")


def test_edited_files_are_kept_beside_when_the_undo_is_forced(root):
    well(run_dkdbg(root, "init", "--yes"))
    before, file = snapshot(root), root / ".vscode/launch.json"
    file.write_text(file.read_text() + "// mine\n")
    [line] = to_type(
        said(run_dkdbg(root, "init", "--undo"), EXIT_CONFLICT),
        "To undo anyway and keep your versions as <file>.dkdbg-saved: dkdbg init --undo --force",
    )
    well(in_shell(root, line))
    assert "// mine" in (root / ".vscode/launch.json.dkdbg-saved").read_text()
    assert len(snapshot(root)) < len(before)


def test_where_the_journal_is_broken_git_shows_what_was_written(root):
    well(run_dkdbg(root, "init", "--yes"))
    journal = root / ".git/dkdbg/undo.json"
    journal.write_text("{")
    text = said(run_dkdbg(root, "init", "--undo"), EXIT_CONFLICT)
    [line] = to_type(text, "Undo by git instead (git status shows the files), then remove {}.")
    assert ".vscode/" in well(in_shell(root, line))
    journal.unlink()
    well(run_dkdbg(root, "init", "--yes"))
