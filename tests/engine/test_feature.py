"""The dev container Feature, built by the real dev container CLI, without a network."""

import json
import re
from pathlib import Path

import pytest

from dkdbg.delivery import single_file
from dkdbg.setup.render.feature import FOLDER, feature_files
from tests.commands import command
from tests.engine.attach_proxies import docker
from tests.engine.devcontainer_cli import devcontainer_cli

__all__ = ["devcontainer_cli"]

pytestmark = pytest.mark.engine

HERE = Path(__file__).parent / "feature"
#: What an installation finds programs in.
PLAIN = {"PATH": "/bin:/usr/bin"}


def write(folder, files):
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


@pytest.fixture(scope="session")
def feature():
    return feature_files(single_file.build((3, 11)))


def test_the_feature_passes_the_dev_container_clis_tests(tmp_path, feature, base_image, devcontainer_cli):
    write(tmp_path / "src" / FOLDER, feature)
    features = {FOLDER: {"installPath": "/srv/my tools"}}
    scenarios = {"elsewhere": {"image": base_image, "remoteUser": "nobody", "features": features}}
    tests = {path.name: path.read_bytes() for path in HERE.iterdir()}
    write(tmp_path / "test" / FOLDER, {**tests, "scenarios.json": json.dumps(scenarios).encode()})
    argv = ["features", "test", "--project-folder", str(tmp_path), "-f", FOLDER, "-i", base_image]
    done = command([devcontainer_cli, *argv])
    output = done.stdout + done.stderr
    for name in {*re.findall(r"vsc-[0-9]+-[0-9a-f]+-features", output)}:  # the CLI leaves its images
        containers = docker("ps", "-aq", "--filter", f"ancestor={name}").split()
        for words in (["rm", "-f", *containers], ["rmi", "-f", f"{name}-uid"], ["rmi", "-f", name]):
            docker(*words, check=False)
    assert output.count("Test Passed!") == 2


@pytest.mark.parametrize(
    ("path", "files", "message"),
    [
        ("relative", {}, "must be an absolute folder"),
        ("/", {}, "must be an absolute folder"),
        ("/opt/dkdbg", {"install.sh": None}, "lacks agent.pyz"),
    ],
)
def test_a_mistake_ends_the_installation_with_what_to_do(tmp_path, feature, path, files, message):
    write(tmp_path, {name: feature[name] for name in files or feature})
    done = command(["sh", str(tmp_path / "install.sh")], env={**PLAIN, "INSTALLPATH": path}, check=False)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_second_installation_replaces_the_agent_and_nothing_else(tmp_path, feature):
    write(tmp_path / "feature", feature)
    target = tmp_path / "target"
    write(target, {"mine": b"", "debugpy-1.0.zip": b"", "dkdbg/old.py": b""})
    command(["sh", str(tmp_path / "feature/install.sh")], env={**PLAIN, "INSTALLPATH": str(target)})
    installed = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert installed == {*feature} - {"devcontainer-feature.json", "install.sh"} | {"mine"}
