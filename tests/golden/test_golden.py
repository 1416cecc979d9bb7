"""What `dkdbg init` writes: read it in review; `pytest --update-golden` writes it again.

The files for a bare script are stored whole. Those of the other cases are stored by the lines in which they differ: from the
user's file of that name, or from the file that another case gets.
"""

import difflib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import tomlkit
from ruamel.yaml import YAML

from dkdbg.main import main
from dkdbg.setup.plan.editor import ATTACH_NAME
from dkdbg.setup.render import jsonc
from tests.checkout import checkout, snapshot
from tests.commands import command

PROJECTS = Path(__file__).parent / "projects"
CASES = sorted(path.name for path in PROJECTS.iterdir())
#: The case that each is compared with.
BASES = dict.fromkeys(CASES, "script") | {"override": "compose", "script": ""}
#: Names of its base's files that a case does not get.
WITHOUT = "not-written.txt"
#: The single file is the agent's and debugpy's, and the manifest holds its digest.
PAYLOAD = (".dkdbg/agent.pyz", ".dkdbg/manifest.json")
#: The project's id, see project_id in render/editor_files.py.
PROJECT = re.compile(rb"\b(%s)-[0-9a-f]{8}\b" % "|".join(CASES).encode())


def repo_of(case: str, folder: Path) -> Path:
    """A copy of the case's repository, called as the case is."""
    root = folder / case
    shutil.copytree(PROJECTS / case / "repo", root)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@functools.cache
def written(case: str) -> dict[str, bytes]:
    """The files that `init` writes, without the payload, and with one id for the project, which `init` draws by lot."""
    with tempfile.TemporaryDirectory() as folder:
        root = repo_of(case, Path(folder))
        before = snapshot(root)
        assert main(["-C", str(root), "init", "--yes"]) == 0
        return {
            name: PROJECT.sub(b"project-0123abcd", content)
            for name, (kind, _, content) in snapshot(root).items()
            if kind == "file"
            and (name not in before or before[name][2] != content)
            and not name.startswith(PAYLOAD)
        }


def stored(case: str) -> dict[str, bytes]:
    """The same as it is stored: of files that the user or the base has too, the lines that differ."""
    files, base = written(case), written(BASES[case]) if BASES[case] else {}
    repo = snapshot(PROJECTS / case / "repo").items()
    former = base | {name: content for name, (kind, _, content) in repo if kind == "file"}
    found = {name: content for name, content in files.items() if name not in former}
    for name in former.keys() & files.keys():
        if former[name] != files[name]:
            found[f"{name}.diff"] = difference(former[name], files[name])
    if without := sorted(base.keys() - files.keys()):
        found[WITHOUT] = "".join(f"{name}\n" for name in without).encode()
    return found


def difference(before: bytes, after: bytes) -> bytes:
    """The lines that differ, with one before and after them, and without their numbers, which a change above would change."""
    texts = [each.decode().split("\n") for each in (before, after)]
    lines = list(difflib.unified_diff(*texts, n=1, lineterm=""))[2:]
    return "".join("@@\n" if each.startswith("@@ ") else f"{each}\n" for each in lines).encode()


@pytest.mark.parametrize("case", CASES)
def test_init_writes_exactly_the_expected_files(case, request):
    folder, found = PROJECTS / case / "expected", stored(case)
    if request.config.getoption("--update-golden"):
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in found.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    wanted = {name: content for name, (kind, _, content) in snapshot(folder).items() if kind == "file"}
    assert sorted(found) == sorted(wanted)
    for name, content in found.items():
        assert content.decode() == wanted[name].decode(), name


def test_the_id_of_the_project_is_kept_by_the_next_init_and_by_a_clone(tmp_path, capsys):
    def ids(root: Path) -> set[str]:
        entries = jsonc.loads((root / ".vscode/launch.json").read_text())["configurations"]
        (expects,) = (each["connect"]["project"] for each in entries if each["name"] == ATTACH_NAME)
        return {
            expects,
            *re.findall(r'DKDBG_PROJECT: "(.*?)"', (root / ".dkdbg/service.compose").read_text()),
        }

    root = repo_of("script", tmp_path)
    assert main(["-C", str(root), "init", "--yes"]) == 0, capsys.readouterr().err
    (drawn,) = ids(root)
    assert re.fullmatch("script-[0-9a-f]{8}", drawn)
    clone = tmp_path / "another-name"
    shutil.copytree(root, clone)
    (root / ".dkdbg/manifest.json").unlink()  # launch.json has it too
    for folder in (root, clone):
        main(["-C", str(folder), "init", "--yes", "--command", "python train.py --again"])
        assert ids(folder) == {drawn}


@pytest.mark.parametrize("case", CASES)
def test_the_expected_files_name_no_machine_can_be_parsed_and_have_one_port_and_mapping(case):
    places = [str(Path(__file__).parents[2]), os.sep + "tmp" + os.sep + "pytest"]
    files = written(case)
    for name, content in files.items():
        text = content.decode()
        assert [place for place in places if place in text] == [], name
        if name.endswith(".json"):
            jsonc.loads(text, file=name)
        elif name.endswith(".toml"):
            tomlkit.parse(text)
        elif name.endswith(".sh"):
            subprocess.run(["sh", "-n"], input=content, check=True)
    entries = jsonc.loads(files[".vscode/launch.json"].decode())["configurations"]
    entry = next(each for each in entries if each["name"] == ATTACH_NAME)
    tasks = jsonc.loads(files[".vscode/tasks.json"].decode())["tasks"]
    assert entry["preLaunchTask"] in [task["label"] for task in tasks]
    *_, last = YAML(typ="rt").load_all(files[".dkdbg/service.compose"].decode())
    services = last["services"]
    service = next(iter(services.values()))
    port = entry["connect"]["port"]
    assert any(f"${{DKDBG_PORT:-{port}}}:{port}" in line for line in service["ports"])
    mappings = jsonc.loads(service["environment"]["DKDBG_MAPPINGS"].replace("$$", "$"))
    assert mappings == entry["pathMappings"]
    (container,) = [
        jsonc.loads(text.decode()) for name, text in files.items() if name.endswith("devcontainer.json")
    ]
    assert container["workspaceFolder"] in [pair["remoteRoot"] for pair in mappings]


@pytest.mark.engine
@pytest.mark.parametrize("case", CASES)
def test_compose_and_docker_accept_the_files(case, tmp_path):
    """As a teammate clones them. Docker's `--check` where this buildx has it (0.15).

    Else a stage that does not exist, which buildkit looks for after parsing.
    """
    files = written(case)
    root = checkout(repo_of(case, tmp_path), files)
    gpus = ["none", "nvidia", "cdi", "amd"] if b"DKDBG_GPU" in b"".join(files.values()) else ["none"]
    for profile, gpu in [("", "none"), *(("debug", gpu) for gpu in gpus)]:
        env = {"COMPOSE_PROFILES": profile, "DKDBG_GPU": gpu}
        done = command(["docker", "compose", "config", "--services"], root, env=env)
        assert done.stderr == "", (profile, gpu)
        assert any(name.endswith("-debug") for name in done.stdout.split()) == bool(profile)
    has_check = "--check" in command(["docker", "build", "--help"]).stdout
    check = ["--check"] if has_check else ["--target", "no-such-stage"]
    name = "Dockerfile" if (root / "Dockerfile").exists() else "Dockerfile.dkdbg"
    words = ["docker", "build", "--progress", "plain", *check, "--file", name, "."]
    done = command(words, root, check=has_check)
    assert has_check or "no-such-stage" in done.stderr.splitlines()[-1], done.stderr
