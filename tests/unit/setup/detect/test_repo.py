"""The inspection as a whole: tolerant, bounded, and without effects."""

import os
import subprocess
import sys

import pytest

from dkdbg.core.facts import facts_json
from dkdbg.errors import DkdbgError
from dkdbg.setup.detect.docker.devcontainer import read_devcontainers
from dkdbg.setup.detect.files import MAX_DIR_ENTRIES, MAX_TEXT_BYTES, Tree, decode, join
from dkdbg.setup.detect.repo import inspect


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DkdbgError, match="is not a directory"):
        inspect(tmp_path / "none")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_an_error(project):
    project.root.chmod(0)
    try:
        with pytest.raises(DkdbgError, match="cannot read the folder"):
            project.facts()
    finally:
        project.root.chmod(0o755)


@pytest.mark.parametrize("folder", [".git", ".venv", "node_modules", "__pycache__", "build"])
def test_files_that_are_nobody_s_source_are_not_seen(project, folder):
    assert project.program(f"{folder}/train.py").facts().entrypoint is None


def test_environments_loops_and_broken_links_are_not_seen(project):
    assert project.write("myenv/pyvenv.cfg").program("myenv/train.py").facts().entrypoint is None
    (project.root / "loop").symlink_to(project.root)
    assert project.empty().program("train.py").facts().entrypoint.file == "train.py"
    (project.root / "requirements.txt").symlink_to(project.root / "gone")
    assert project.facts().package_manager == "none"


@pytest.mark.parametrize(
    ("manifest", "seen"),
    [
        ('{"version": 1, "files": {"Dockerfile": ""}}', False), ('{"version": 1, "files": 1}', True),
        ('{"version": 1, "files": {"../part/Dockerfile": ""}}', True), ("[", True), (None, True),
        ('{"version": 1, "files": {"Dockerfile": ""}}' + " " * MAX_TEXT_BYTES, True),
    ],
    ids=["its own", "odd", "outside", "broken", "a FIFO", "too large"],
)  # fmt: skip
def test_files_that_dkdbg_generated_for_a_folder_below_are_no_evidence(project, manifest, seen):
    project.write("part/Dockerfile", "FROM python:3.11-slim\n").program("part/train.py")
    if manifest is None:
        (project.root / "part/.dkdbg").mkdir()
        os.mkfifo(project.root / "part/.dkdbg/manifest.json")
    else:
        project.write("part/.dkdbg/manifest.json", manifest)
    facts = project.facts()
    assert (bool(facts.dockerfiles), facts.entrypoint.file) == (seen, "part/train.py")


def test_a_folder_of_data_is_looked_at_in_part(project):
    (project.root / "data").mkdir()
    for number in range(MAX_DIR_ENTRIES + 50):
        (project.root / "data" / f"{number:06}.txt").touch()
    assert len(Tree(project.root).files) == MAX_DIR_ENTRIES


@pytest.mark.parametrize("raw", [b"\xef\xbb\xbfa\r\nb", "a\nb".encode("utf-16"), b"a\rb"])
def test_marks_and_line_ends_of_other_systems_are_read(raw):
    assert decode(raw) == "a\nb"


def test_an_old_encoding_carriage_returns_and_names_with_blanks_are_read(project):
    (project.root / "train.py").write_bytes("# caf\u00e9\nimport torch\nrun()\n".encode("latin-1"))
    assert project.facts().entrypoint.file == "train.py"
    project.empty().write(
        "docker-compose.yaml", "services:\n  app:\n    build: .\n    ports:\n      - 1:7860\n", newline="\r\n"
    )
    project.write(
        "Dockerfile", 'FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD ["python", "gui.py"]\n', newline="\r\n"
    ).program("gui.py")
    facts = project.facts()
    assert (facts.ports, facts.entrypoint.file, facts.mappings) == ((7860,), "gui.py", ((".", "/app"),))
    project.empty().write("my docs/read me.md", "x").program("my app/main.py")
    assert project.facts().entrypoint.file == "my app/main.py"


def test_a_path_cannot_leave_the_root_and_bytes_that_are_no_text_are_empty():
    assert (join("a", "../b"), join("a", "../../b"), join(".", ".")) == ("b", None, ".")
    assert decode(b"\x7fELF\0\0") == ""


def test_dev_containers_below_the_root_are_listed_and_submodules_that_are_not_checked_out_named(project):
    path, dockerfile = (f"src/a/.devcontainer/{name}" for name in ("devcontainer.json", "Dockerfile"))
    project.write(path, '{\n // why\n "build": {"dockerfile": "Dockerfile", "context": "../../.."},\n}')
    project.write(dockerfile, "FROM python:3.11\n")
    (fact,) = read_devcontainers(Tree(project.root))
    assert (fact.path, fact.dockerfile, fact.context) == (path, dockerfile, ".")
    project.empty().write(".gitmodules", '[submodule "x"]\n\tpath = lib/x\n\turl = u\n')
    (problem,) = project.facts().problems
    assert problem == "lib/x, a submodule that is not checked out (git submodule update --init)"


def test_the_report_is_plain_json(project):
    import json

    project.write("compose.yaml", "services:\n  a:\n    build: .\n    volumes: ['.:/w']\n")
    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /w\nCMD python a.py\n")
    report = json.loads(json.dumps(facts_json(project.program("a.py").facts())))
    assert (report["service"], report["mappings"], report["launcher"]) == (
        {"name": "a", "file": "compose.yaml"}, [{"local": ".", "remote": "/w"}], "python",
    )  # fmt: skip


#: Inspects a folder and prints how often the file that was opened most was opened, and how many files were.
COUNTED = """
import collections, pathlib, sys
from dkdbg.setup.detect.repo import inspect
root, opened = sys.argv[1], collections.Counter()
sys.addaudithook(lambda event, args: event == "open" and str(args[0]).startswith(root) and opened.update([str(args[0])]))
inspect(pathlib.Path(root))
print(max(opened.values()), len(opened))
"""


def test_of_a_large_repository_no_file_is_opened_twice(project):
    source = "import torch\n" + "def f(x):\n    return x.cuda()\n" * 60
    for number in range(1500):
        project.write(f"pkg/m{number % 40}/f{number}.py", source)
    for number in range(100):
        project.program(f"tools/train_{number}.py", source)
    command = [sys.executable, "-c", COUNTED, str(project.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    most, files = done.stdout.split()
    assert (most, files) == ("1", "1600")


ODD = ("3", "x", "[]", "{}", "[1, null, [2]]", "{a: {b: [{}]}}", "null", "true")


KEYS = ["build", "ports", "volumes", "deploy", "command", "depends_on", "profiles", "extends", "image"]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("key", [*KEYS, "devices", "environment"])
def test_a_service_key_of_an_odd_type_is_survived(project, key, value):
    project.write("compose.yaml", f"services:\n  a:\n    {key}: {value}\n")
    assert [fact.name for fact in project.facts().services] == ["a"]


@pytest.mark.parametrize("value", ["3", '"x"', "[]", "[1, [2]]", "{a = {b = [{}]}}", "true"])
@pytest.mark.parametrize(
    "key",
    [
        "project.dependencies", "project.optional-dependencies", "project.scripts", "project.dynamic", "project.name", "dependency-groups",
        "tool.uv.sources", "tool.uv.index", "tool.poetry.dependencies", "tool.poetry.source", "tool.pdm", "tool.pixi.dependencies",
        "build-system", "tool",
    ],
)  # fmt: skip
def test_a_project_key_of_an_odd_type_is_survived(project, key, value):
    facts = project.write("pyproject.toml", f"{key} = {value}\n").program("train.py").facts()
    assert facts.entrypoint.file == "train.py"


def test_a_commented_out_member_with_commas_in_a_devcontainer_is_no_error(tmp_path):
    (tmp_path / ".devcontainer").mkdir()
    text = '{\n\t// Or use a file. See https://containers.dev/x.\n\t"image": "python:3.12",\n\n\t// "features": {},\n\t// "x": [1, 2],\n}\n'
    (tmp_path / ".devcontainer" / "devcontainer.json").write_text(text)
    facts = inspect(tmp_path)
    assert facts.problems == ()
    assert facts.python.version == "3.12"


@pytest.mark.parametrize(
    ("requirements", "undeclared"), [("torch\n", ("numpy",)), ("torch\nnumpy\n", ()), ("jax\n", ()), ("", ())]
)
def test_numpy_that_is_imported_and_not_declared_beside_torch_is_known(project, requirements, undeclared):
    project.write("train.py", "import numpy as np\nimport torch\n").write("requirements.txt", requirements)
    assert project.facts().undeclared == undeclared


@pytest.mark.parametrize(
    ("path", "module", "is_own"),
    [
        ("examples/tabulate/config.json", "tabulate", False), ("examples/accelerate/run.py", "accelerate", False),
        ("datasets/load.py", "datasets", True), ("src/datasets/__init__.py", "datasets", True), ("datasets/wiki.json", "datasets", False),
        ("protos/x.proto", "protos", True), ("lib/model/net.py", "model", True),
    ],
)  # fmt: skip
def test_a_folder_named_like_a_known_distribution_is_the_repositorys_module_only_if_it_is_a_package(
    project, path, module, is_own
):
    project.write(path).write("pyproject.toml", '[project]\nname = "p"\ndependencies = ["rich"]\n')
    facts = project.program("train.py", f"import {module}").facts()
    assert facts.unnamed == (() if is_own else ((module, ""),))


def test_what_torch_needs_for_tensorboard_is_installed_with_it(project):
    project.write("train.py", "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n")
    assert project.facts().requirements == ("torch", "tensorboard")
    project.write("requirements.txt", "torch\n")
    assert project.facts().undeclared == ("tensorboard",)
    project.write("requirements.txt", "torch\ntensorboard==2.1\n")
    assert project.facts().undeclared == ()
