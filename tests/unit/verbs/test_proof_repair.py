"""`dkdbg verify --fix`: a missing module is declared as init writes files, so that it can be undone."""

import json
from dataclasses import replace

import pytest

from dkdbg import console
from dkdbg.proof.finding import Finding
from dkdbg.setup.render import changes, jsonc
from dkdbg.verbs.parts import proof_repair
from dkdbg.verbs.parts.repository import make_plan
from tests.checkout import checkout

MISSING = Finding(link="program", cause="module-missing", says="no cv2", remedy="add it", subject="opencv")
DOCKERFILE = "FROM python:3.12\nCOPY . /app\nRUN pip install -r requirements.txt\nCMD python train.py\n"


@pytest.fixture
def root(tmp_path):
    return checkout(
        tmp_path, {"train.py": "import cv2\n", "Dockerfile": DOCKERFILE, "requirements.txt": "# caf\xe9"}
    )


def mend(root, *, yes, as_json):
    return proof_repair.mend(root, MISSING, yes=yes, as_json=as_json, report=lambda _: None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"# caf\xe9", b"# caf\xe9\nopencv\n"),
        (b"torch\r\nnumpy\r\n", b"torch\r\nnumpy\r\nopencv\r\n"),
        (b"torch\r\nnumpy", b"torch\r\nnumpy\r\nopencv\r\n"),
        (b"", b"opencv\n"),
        ("\ufefftorch\r\n".encode("utf-16-le"), "\ufefftorch\r\nopencv\r\n".encode("utf-16-le")),
        ("\ufefftorch".encode("utf-16-be"), "\ufefftorch\nopencv\n".encode("utf-16-be")),
        ("\ufefftorch\n".encode(), "\ufefftorch\nopencv\n".encode()),
    ],
)
def test_a_requirement_is_appended_and_can_be_undone(root, capsys, before, after):
    file = root / "requirements.txt"
    file.write_bytes(before)
    assert mend(root, yes=True, as_json=False) == "opencv in requirements.txt"
    assert file.read_bytes() == after
    assert "requirements.txt" in capsys.readouterr().out
    changes.Journal(root=root).undo(force=False)
    assert file.read_bytes() == before


def test_a_debian_package_is_added_to_the_dockerfile_of_init_only_and_once(tmp_path):
    library = replace(MISSING, cause="library-missing", subject="libgl1")
    given = {
        "train.py": "import cv2\n",
        "requirements.txt": "opencv-python-headless\n",
        "dkdbg.toml": "# ours\n",
    }
    root = checkout(tmp_path, given)
    assert (
        proof_repair.mend(root, library, yes=True, as_json=True, report=print)
        == "libgl1 in dkdbg.toml and Dockerfile"
    )
    assert "--no-install-recommends libgl1 " in (root / "Dockerfile").read_text()
    assert (root / "dkdbg.toml").read_text().split() == ["#", "ours", "[debug]", "apt", "=", '["libgl1"]']
    assert proof_repair.mend(root, library, yes=True, as_json=True, report=print) == ""
    changes.Journal(root=root).undo(force=False)
    assert sorted(each.name for each in root.iterdir() if each.name != ".git") == sorted(given)
    (root / "Dockerfile").write_text(DOCKERFILE)
    assert proof_repair.mend(root, library, yes=True, as_json=True, report=print) == ""


def test_a_debian_package_changes_nothing_else_that_init_would_change_now(initialised, dkdbg, monkeypatch):
    """The question names the files that are written, and the debug service stays up to date."""
    library = replace(MISSING, cause="library-missing", subject="libgl1")
    (initialised / "train.py").rename(initialised / "learn.py")
    assert "service.compose" in dkdbg(initialised, "init", "--diff").out
    before = {path: path.read_bytes() for path in initialised.rglob("*") if path.is_file()}
    asked = []
    monkeypatch.setattr(console, "ask", lambda question: asked.append(question) or True)
    assert proof_repair.mend(initialised, library, yes=False, as_json=False, report=print)
    assert asked == ["Write dkdbg.toml, Dockerfile?"]
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed - {"undo.json"} == {"dkdbg.toml", "Dockerfile", "manifest.json"}
    assert "was changed after" not in dkdbg(initialised).out
    assert dkdbg(initialised, "init", "--yes").code == 0
    assert "service.compose" not in dkdbg(initialised, "init", "--diff").out


WRONG_ROOT = replace(MISSING, link="mapping", cause="wrong-root", subject=".vscode/launch.json")
PLANNED = {"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}
SECOND = {"localRoot": "${workspaceFolder}", "remoteRoot": "/opt/copy"}


@pytest.mark.parametrize(
    ("written", "after"),
    [
        ([{**PLANNED, "remoteRoot": "/wrong"}, SECOND], [PLANNED, SECOND]),
        ([{"localRoot": "${workspaceFolder}/", "remoteRoot": "/wrong"}], [PLANNED]),
        ([], [PLANNED]),
        (None, [PLANNED]),
        ("none", [PLANNED]),
        ({"odd": 1}, [PLANNED]),
        ([7, None, {}], [7, None, {}, PLANNED]),
    ],
)
def test_a_mapping_of_whatever_form_becomes_the_planned_one(initialised, written, after):
    launch = initialised / ".vscode/launch.json"
    value = jsonc.loads(launch.read_text())
    value["configurations"][0]["pathMappings"] = written
    if written == "none":
        del value["configurations"][0]["pathMappings"]
    launch.write_text(json.dumps(value))
    assert "launch.json" in proof_repair.mend(initialised, WRONG_ROOT, yes=True, as_json=True, report=print)
    assert jsonc.loads(launch.read_text())["configurations"][0]["pathMappings"] == after


def test_a_mapping_that_the_user_has_edited_becomes_the_planned_one_and_others_stay(initialised):
    launch = initialised / ".vscode/launch.json"
    before = launch.read_text()
    own = '"pathMappings": [\n// mine\n{"localRoot": "/lib", "remoteRoot": "/opt/lib"},'
    edited = before.replace('"pathMappings": [', own)
    launch.write_text(edited.replace('"remoteRoot": "/workspace"', '"remoteRoot": "/wrong" /* why */'))
    assert "launch.json" in proof_repair.mend(initialised, WRONG_ROOT, yes=True, as_json=True, report=print)
    assert launch.read_text() == edited
    assert proof_repair.mend(initialised, WRONG_ROOT, yes=True, as_json=True, report=print) == ""


def test_in_json_nothing_is_shown_or_asked(root, capsys, monkeypatch):
    monkeypatch.setattr(console, "ask", lambda *_: pytest.fail("asked"))
    assert mend(root, yes=False, as_json=True) == ""
    assert mend(root, yes=True, as_json=True)
    assert capsys.readouterr().out == ""


def test_the_plan_is_made_once_for_a_remedy(root, monkeypatch):
    made = []
    plan = proof_repair.make_plan
    monkeypatch.setattr(proof_repair, "make_plan", lambda each: made.append(each) or plan(each))
    assert proof_repair.around(root, "").installs_from("x")[:2] == ("requirements.txt", "x")
    assert len(made) == 1


PROJECT = '[project]\nname = "p"\ndependencies = ["numpy", "tqdm>=4"]\n'
INIT, FIX = "dkdbg init, then dkdbg verify", "dkdbg verify; or: dkdbg verify --fix"


@pytest.mark.parametrize(
    ("files", "missing", "answer"),
    [
        ({"pyproject.toml": PROJECT}, "rich", ("pyproject.toml", '"rich" (in dependencies)', INIT)),
        ({"pyproject.toml": PROJECT}, "tqdm", ("pyproject.toml", "", INIT)),
        ({"pyproject.toml": PROJECT, "requirements.txt": "numpy\n-e .\n"}, "rich", ("requirements.txt", "rich", INIT)),
        ({"requirements.txt": "numpy\n"}, "rich", ("requirements.txt", "rich", FIX)),
        ({"environment.yml": "dependencies: [numpy]\n"}, "rich", ("environment.yml", "- rich (below pip:)", "dkdbg verify")),
        ({"Dockerfile": "FROM python:3.12\n", "pyproject.toml": PROJECT}, "tqdm", ("Dockerfile", "RUN pip install tqdm", "dkdbg verify")),
    ],
)  # fmt: skip
def test_the_remedy_of_a_missing_module_leads_to_an_image_with_it_and_fix_is_offered_only_where_it_repairs(
    tmp_path, files, missing, answer
):
    root = checkout(tmp_path, {"train.py": "import rich, tqdm\n", **files})
    assert proof_repair.around(root, "").installs_from(missing) == answer
    found = replace(MISSING, subject=missing)
    assert bool(proof_repair.mend(root, found, yes=True, as_json=True, report=print)) is (answer[2] == FIX)


@pytest.mark.parametrize(
    ("module", "writer"),
    [
        ("pkg.version", "setup.py"),
        ("pkg._about", "pyproject.toml"),
        ("pkg.out", ""),
        ("pkg.other", ""),
        ("version", ""),
    ],
)
def test_a_submodule_that_an_installation_writes_is_known_by_its_file_name(tmp_path, module, writer):
    setup = "open('pkg/version.py', 'w').write('')\nopen('pkg/layout.py')\n"
    scm = '[tool.setuptools_scm]\nwrite_to = "src/pkg/_about.py"\n'
    root = checkout(tmp_path, {"setup.py": setup, "pyproject.toml": scm})
    assert proof_repair.around(root, "").written_by(module) == writer


def test_the_repository_names_the_distributions_of_all_its_dependency_files(root):
    (root / "requirements-dev.txt").write_text("Py_Test>=7  # generated\n")
    named = proof_repair.around(root, "").named_in
    assert [named(each) for each in ("py-test", "generated", "requests")] == [
        "requirements-dev.txt:1",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("files", "inherits"),
    [
        ({}, True),
        ({"compose.yaml": "services: {job: {build: ., entrypoint: []}}\n"}, False),
        ({"Dockerfile": DOCKERFILE + 'ENTRYPOINT ["sh", "run.sh"]\n'}, False),
        ({"dkdbg.toml": "[debug]\ncommand = 'python train.py'\n"}, False),
        ({"Dockerfile": None}, False),
    ],
)
def test_only_a_command_that_nobody_chose_inherits_the_entrypoint_of_a_base_image(root, files, inherits):
    for name, text in files.items():
        (root / name).unlink(missing_ok=True) if text is None else (root / name).write_text(text)
    assert proof_repair.of_plan(root, *make_plan(root)).inherits_entrypoint is inherits


def test_a_module_that_is_missing_on_another_target_is_declared_nowhere(root):
    elsewhere = replace(MISSING, subject="")
    assert proof_repair.mend(root, elsewhere, yes=True, as_json=False, report=lambda _: None) == ""
    assert (root / "requirements.txt").read_text() == "# caf\xe9"
