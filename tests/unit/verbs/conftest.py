"""`dkdbg` in this process: the exit code and what it printed."""

from dataclasses import dataclass

import pytest

from dkdbg.main import main
from tests.checkout import TRAIN, checkout


@dataclass(frozen=True)
class Ran:
    """How one call ended."""

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
    """A repository of one script."""
    return checkout(tmp_path / "script", {"train.py": TRAIN})
