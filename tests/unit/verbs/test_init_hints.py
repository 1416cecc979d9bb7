"""Refusals of `dkdbg init`, and two hints that are typed: in a folder whose name has a space, as on many a laptop."""

import zipfile

import pytest

from dkdbg import hints
from dkdbg.agent.inprocess import bundle
from dkdbg.errors import EXIT_CONFLICT, EXIT_ERROR, EXIT_USAGE
from tests.checkout import TRAIN, checkout, run_dkdbg, snapshot
from tests.commands import must
from tests.hints import hinted, in_shell
from tests.unit.project import SLIM


@pytest.fixture
def root(tmp_path):
    return checkout(tmp_path / "my project", {"train.py": TRAIN})


def said(ran, code=EXIT_ERROR):
    assert ran.code == code, ran.out + ran.err
    return ran.err


def test_without_a_terminal_nothing_is_written_and_one_of_the_two_ways_shows_and_the_other_writes(
    root, dkdbg
):
    before = snapshot(root)
    text = said(dkdbg(root, "init"), EXIT_USAGE)
    assert "nothing was written" in text
    writes, shows = hinted(text, hints.INIT_CHOICE)
    assert "create" in must(in_shell(root, shows)).stdout
    assert snapshot(root) == before
    must(in_shell(root, writes))
    assert (root / ".vscode/launch.json").is_file()


def test_a_second_service_takes_the_place_of_the_first_and_the_plan_says_how_to_stop_in_both(root, dkdbg):
    service = "    build: .\n    command: python {}\n    volumes: ['.:/app']\n"
    both = "services:\n  web:\n" + service.format("train.py") + "  worker:\n" + service.format("work.py")
    for name, text in {"Dockerfile": SLIM, "work.py": TRAIN, "compose.yaml": both}.items():
        (root / name).write_text(text)
    before = dkdbg(root, "init", "--yes", "--service", "web")
    after = dkdbg(root, "init", "--yes", "--service", "worker").out
    note = hints.INIT_BESIDE(former="web-debug", service="web")
    assert (before.code, note in before.out) == (0, False)
    assert hinted(after, hints.INIT_BESIDE) == [  # the page on compose, which is run, has both
        "docker compose up --detach web",
        "dkdbg attach compose://web --pid 1",
    ]
    shown = dkdbg(root, "init", "--diff", "--service", "worker")
    assert (shown.code, note in shown.out) == (0, False)


def test_a_python_that_no_debugpy_of_ours_fits_gets_its_own_after_init_again(root, dkdbg, tmp_path):
    (root / "Dockerfile").write_text(SLIM)
    assert dkdbg(root, "init", "--yes").code == 0
    agent, run = root / ".dkdbg/agent.pyz", str(tmp_path / "run")

    def unpacked(name):
        zipfile.ZipFile(agent).extractall(tmp_path / name)
        return [str(tmp_path / name)]

    with pytest.raises(bundle.NoDebugpy) as error:
        bundle.ensure_debugpy(unpacked("before"), run, (3, 8))
    assert "`dkdbg init`" in str(error.value)
    (root / "Dockerfile").write_text(SLIM.replace("3.11", "3.8"))
    assert dkdbg(root, "init", "--yes").code == 0
    assert bundle.ensure_debugpy(unpacked("after"), run, (3, 8)).endswith("debugpy-1.8.21")


def test_edited_files_are_kept_beside_when_the_undo_is_forced(root, dkdbg):
    assert dkdbg(root, "init", "--yes").code == 0
    file, generated = root / ".vscode/launch.json", root / "Dockerfile"
    file.write_text(file.read_text() + "// mine\n")
    generated.write_text("# mine\n")
    edited = snapshot(root)
    [line] = hinted(said(dkdbg(root, "init", "--undo"), EXIT_CONFLICT), hints.UNDO_ANYWAY)
    assert snapshot(root) == edited
    assert "Dockerfile.dkdbg-saved" in must(in_shell(root, line)).stdout
    assert "// mine" in (root / ".vscode/launch.json.dkdbg-saved").read_text()
    assert (root / "Dockerfile.dkdbg-saved").read_text() == "# mine\n"
    assert not file.exists()
    assert not generated.exists()


WEB = "services:\n  web:\n    build: .\n    command: python train.py\n"
BINDS = "    volumes:\n      - {type: bind, source: ., target: /app}\n      - {type: bind, source: './$${env:HOME}', target: /app/lib}\n"


@pytest.mark.parametrize(
    ("files", "words", "code", "cause"),
    [
        ({"compose.yaml": "services:\n  a b:\n    image: x\n"}, (), EXIT_ERROR, "a b"),
        ({"${env:HOME}/a.py": "1\n", "Dockerfile": SLIM, "compose.yaml": WEB + BINDS}, (), EXIT_CONFLICT, "${env:HOME}"),
        ({"Dockerfile": SLIM.replace("3.11", "3.6"), "compose.yaml": WEB}, ("--service", "web"), EXIT_USAGE, "3.6"),
        ({"Dockerfile": SLIM, "compose.yaml": WEB, "compose.gpu.yaml": "services:\n  web:\n    gpus: all\n"},
         ("--service", "compose.gpu.yaml:web"), EXIT_USAGE, "compose.gpu.yaml"),
        ({"Dockerfile": SLIM, "compose.yaml": "services:\n  db:\n    image: x\n",
          "compose.train.yaml": WEB + "    environment: ['A=${TOKEN_OF_X:?}']\n"}, ("--service", "web"), EXIT_USAGE, "TOKEN_OF_X"),
    ],
    ids=["name of a service", "name of a folder", "old Python", "an addition", "a variable"],
)  # fmt: skip
def test_what_init_cannot_debug_is_refused(root, dkdbg, files, words, *, code, cause):
    checkout(root, files)
    before = snapshot(root)
    assert cause in said(dkdbg(root, "init", "--yes", *words), code)
    assert snapshot(root) == before


@pytest.mark.parametrize(("folder", "code"), [(".dkdbg", EXIT_USAGE), (".git/dkdbg", EXIT_ERROR)])
def test_a_folder_of_ours_that_may_not_be_entered_is_refused(root, folder, code):
    (root / folder).mkdir()
    (root / folder).chmod(0)
    try:
        done = run_dkdbg(root, "init", "--yes")
        assert done.returncode == code, done.stdout + done.stderr
        assert folder.removeprefix(".git/") in done.stderr
    finally:
        (root / folder).chmod(0o755)


def test_an_engine_that_an_option_chooses_is_named_for_the_commands_that_follow(root, dkdbg, monkeypatch):
    monkeypatch.setenv("DOCKER_CONTEXT", "")  # set again at the end
    assert "export DOCKER_CONTEXT='gpu box'\n" in dkdbg(root, "--context", "gpu box", "init", "--yes").err
    assert "DOCKER_CONTEXT" not in dkdbg(root).err
