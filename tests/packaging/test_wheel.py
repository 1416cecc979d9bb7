"""The wheel and the sdist carry everything that `init` writes, and work away from the checkout."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.checkout import TRAIN, checkout, snapshot
from tests.commands import command

CHECKOUT = Path(__file__).parents[2]
ARTEFACTS = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for folder in ("templates", "compose", "devcontainer")
    for path in (CHECKOUT / folder).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
CODE = sorted(
    path.relative_to(CHECKOUT / "cli").as_posix()
    for path in (CHECKOUT / "cli" / "dkdbg").rglob("*")
    if path.suffix in {".py", ".sh", ".typed"}
)


def build(out: Path, *kind: str) -> Path:
    """Build; without a kind, the sdist and then the wheel from it."""
    command([sys.executable, "-m", "build", "--no-isolation", *kind, "--outdir", str(out), str(CHECKOUT)])
    return out


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return next(build(tmp_path_factory.mktemp("wheel"), "--wheel").glob("*.whl"))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return build(tmp_path_factory.mktemp("both"))


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if ".dist-info/" not in name)


def test_the_wheel_holds_the_code_and_the_artefacts_and_nothing_else(wheel):
    artefacts = (f"dkdbg/_artefacts/{name}" for name in ["LICENSE", *ARTEFACTS])
    assert names(wheel) == sorted(["paipdb.py", *CODE, *artefacts])


def test_the_wheel_of_the_sdist_is_the_same(wheel, both):
    (wheel_of_the_sdist,) = both.glob("*.whl")
    assert names(wheel_of_the_sdist) == names(wheel)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(wheel_of_the_sdist) as other:
        assert [name for name in names(wheel) if one.read(name) != other.read(name)] == []


def test_the_sdist_brings_the_tests_and_the_licence(both):
    with tarfile.open(next(both.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "Makefile", "tests/conftest.py", "pyproject.toml", *ARTEFACTS} <= inside


def test_the_wheel_works_away_from_the_checkout(wheel, tmp_path):
    """Its dependencies are those of this environment, on the path without the editable install's hook."""
    target = tmp_path / "target"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check",
         "--target", str(target), str(wheel)],
        check=True, capture_output=True,
    )  # fmt: skip
    root = checkout(tmp_path / "repo", {"train.py": TRAIN})
    path = os.pathsep.join([str(target), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])

    def run(*words: str) -> str:
        done = command([sys.executable, "-S", *words], tmp_path, env={"PYTHONPATH": path}, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", "import dkdbg; print(dkdbg.__file__)").strip() == str(target / "dkdbg" / "__init__.py")
    assert "+++ b/compose.yaml" in run("-m", "dkdbg", "-C", "repo", "init", "--diff")
    run("-m", "dkdbg", "-C", "repo", "init", "--yes")
    assert {"compose.yaml", ".dkdbg/agent.pyz", ".dkdbg/up.sh"} <= set(snapshot(root))
