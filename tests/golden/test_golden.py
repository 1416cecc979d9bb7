"""What `dkdbg init` writes, whole: read these files in review; `pytest --update-golden` writes them again."""

import os
import re
import shutil
import subprocess
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
#: Files that are the same in most projects. `--update-golden` takes them from the first case, a bare script.
SHARED = Path(__file__).parent / "shared"
CASES = sorted((path.name for path in PROJECTS.iterdir()), key=lambda name: (name != "script", name))
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


def written(before: dict, after: dict) -> dict[str, bytes]:
    """The files that differ, without the payload, and with one id for the project, which `init` draws by lot."""
    return {
        name: PROJECT.sub(rb"\1-0123abcd", content)
        for name, (kind, _, content) in after.items()
        if kind == "file"
        and (name not in before or before[name][2] != content)
        and not name.startswith(PAYLOAD)
    }


def expected(case: str) -> dict[str, bytes]:
    """The files of the case, and those that are shared, without what its repository has itself."""
    own, theirs = (snapshot(PROJECTS / case / folder) for folder in ("expected", "repo"))
    shared = {name: found for name, found in snapshot(SHARED).items() if name not in theirs}
    return {name: content for name, (kind, _, content) in (shared | own).items() if kind == "file"}


def store(case: str, files: dict[str, bytes]) -> None:
    folder = PROJECTS / case / "expected"
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        shared = SHARED / name
        is_shared = shared.exists() and (case == CASES[0] or shared.read_bytes() == content)
        path = shared if is_shared else folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("case", CASES)
def test_init_writes_exactly_the_expected_files(case, tmp_path, capsys, request):
    root = repo_of(case, tmp_path)
    before = snapshot(root)
    assert main(["-C", str(root), "init", "--yes"]) == 0, capsys.readouterr().err
    files = written(before, snapshot(root))
    if request.config.getoption("--update-golden"):
        store(case, files)
    wanted = expected(case)
    assert sorted(files) == sorted(wanted)
    for name, content in files.items():
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
    files = expected(case)
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
    files = expected(case)
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
