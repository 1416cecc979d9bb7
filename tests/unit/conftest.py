"""What all unit tests share: repositories, and `dkdbg` in this process."""

import functools
import shutil
from dataclasses import dataclass

import pytest

from dkdbg.delivery import single_file
from dkdbg.main import main
from tests.checkout import TRAIN, checkout
from tests.unit.project import Project


@pytest.fixture(scope="session", autouse=True)
def _one_single_file():
    """Build the agent's single file once for each debugpy: it is half of the time of each `init` in this process.

    Other tests of the same worker find the cache too, since it lasts until the session ends.
    """
    build = single_file.build
    cached = functools.cache(lambda python, _debugpy: build(python))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_file, "build", lambda python: cached(python, single_file.debugpy_for(python)))
        yield


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def dkdbg(capsys):
    """Run `dkdbg -C root words...`."""

    def run(root, *words) -> Ran:
        capsys.readouterr()
        try:
            code = main(["-C", str(root), *words])
        except SystemExit as stop:  # argparse
            code = stop.code if isinstance(stop.code, int) else 1
        said = capsys.readouterr()
        return Ran(code=code, out=said.out, err=said.err)

    return run


@pytest.fixture
def script(tmp_path):
    return checkout(tmp_path / "script", {"train.py": TRAIN})


@pytest.fixture(scope="session")
def _once_initialised(tmp_path_factory):
    """Make `script` after `dkdbg init` when the first test asks for it."""

    @functools.cache
    def made():
        root = checkout(tmp_path_factory.mktemp("initialised") / "script", {"train.py": TRAIN})
        assert main(["-C", str(root), "init", "--yes"]) == 0
        return root

    return made


@pytest.fixture
def initialised(_once_initialised, script):
    """`script` after `dkdbg init`: a copy, which takes a tenth of the time."""
    return shutil.copytree(_once_initialised(), script, dirs_exist_ok=True)


@pytest.fixture
def project(tmp_path):
    """An empty repository, which a test writes."""
    root = tmp_path / "project"
    root.mkdir()
    return Project(root)
