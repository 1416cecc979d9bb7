"""The copy beside a program (`run --sync`)."""

import contextlib
import sys

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.sync import verify
from dkdbg.sync.live_copy import LiveCopy
from dkdbg.targets import registry


@contextlib.contextmanager
def copy_that_fails_to_compare(root, monkeypatch, error):
    """One of a folder to itself."""

    def fail(*_):
        raise error

    monkeypatch.setattr(verify, "verify", fail)
    target = registry.target_of(f"local:{root}", root)
    with contextlib.closing(LiveCopy(root, target, target.find(), python=sys.executable)) as copy:
        yield copy


def test_a_mounted_workspace_that_cannot_be_compared_is_said_in_one_line(root, monkeypatch, capsys):
    """The error's traceback was printed beside the program."""
    with copy_that_fails_to_compare(root, monkeypatch, DkdbgError("it lists a million files")) as copy:
        copy.wait()
    said = f"dkdbg: nothing to sync: {root} on the target is your local folder; could not compare both views: it lists a million files\n"
    assert capsys.readouterr().err == said


def test_an_unexpected_error_in_the_comparison_is_reported(root, monkeypatch):
    with (
        copy_that_fails_to_compare(root, monkeypatch, RuntimeError("broken")) as copy,
        pytest.raises(DkdbgError, match="unexpected RuntimeError: broken"),
    ):
        copy.wait()
