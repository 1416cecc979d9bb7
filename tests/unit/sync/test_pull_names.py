"""Which folder `--pull` means."""

import os
import sys

import pytest

from dkdbg.core.target import Local
from dkdbg.errors import DkdbgError
from dkdbg.sync.pull import destination, pull, relative
from dkdbg.sync.roots import Roots
from tests.unit.sync.trees import put


def test_a_folder_is_meant_relative_to_the_root_there_or_absolute_and_below_it():
    assert [relative(folder, "/ws") for folder in ("outputs", "outputs/", "/ws/outputs")] == ["outputs"] * 3
    assert [relative(folder, "/ws") for folder in ("./a//b", ".", "/ws")] == ["a/b", "", ""]


@pytest.mark.parametrize("folder", ["/etc", "..", "../etc", "/ws2/a", "a/../../b"])
def test_a_folder_that_is_not_below_the_root_is_refused_and_not_taken_for_another(folder):
    """`--pull /etc` copied `etc` of the workspace."""
    with pytest.raises(DkdbgError, match="is not below /ws"):
        relative(folder, "/ws")


def test_the_whole_root_is_copied_when_it_is_named(tmp_path):
    """What the hint says; nothing of it "lay in the folder that was asked for"."""
    put(tmp_path, {"there/sub/f": "1", "here/": ""})
    roots = Roots(local=str(tmp_path / "here"), remote=str(tmp_path / "there"), pythons=(sys.executable,))
    into = destination(roots.local, None, "there", roots)
    done = pull(roots, Local(), [relative(".", roots.remote)], into, report=lambda _: None)
    assert (done.files, done.left_out) == (1, {})


def pulled(folder, into):
    """Pull `out` of the folder `there` into `into`."""
    roots = Roots(local=str(folder / "here"), remote=str(folder / "there"), pythons=(sys.executable,))
    goal = destination(roots.local, str(into), "there", roots)
    return pull(roots, Local(), ["out"], goal, report=lambda _: None)


def test_files_here_that_a_pull_has_not_written_stay(tmp_path):
    """`--into results` replaced the user's files of the same name, and what the user had changed in pulled ones."""
    put(tmp_path, {"there/out/log": "1", "there/out/notes": "1", "here/": "", "results/out/notes": "mine"})
    results = tmp_path / "results" / "out"
    assert list(pulled(tmp_path, results.parent).left_out) == ["out/notes"]
    put(tmp_path, {"there/out/log": "1, 2"})
    done = pulled(tmp_path, results.parent)
    assert (done.files, (results / "log").read_text(), (results / "notes").read_text()) == (1, "1, 2", "mine")
    put(tmp_path, {"there/out/log": "1, 2, 3", "results/out/log": "1, 2; the loss rises here"})
    done = pulled(tmp_path, results.parent)
    assert (done.files, done.complete) == (0, False)
    assert (results / "log").read_text() == "1, 2; the loss rises here"
    (results / "log").rename(results / "log.mine")
    assert pulled(tmp_path, results.parent).files == 1


@pytest.mark.parametrize("size", [0, 65 << 20])
def test_a_record_that_a_program_there_has_written_neither_ends_a_pull_nor_fills_memory(tmp_path, size):
    put(tmp_path, {"there/out/log": "1", "here/": "", "results/.dkdbg-pulled": "[" * 100_000})
    if size:
        os.truncate(tmp_path / "results" / ".dkdbg-pulled", size)
    assert pulled(tmp_path, tmp_path / "results").files == 1


def test_the_folder_in_a_command_to_type_is_quoted():
    with pytest.raises(DkdbgError) as refused:
        relative("../my data", "/ws")
    assert "--to '/my data' --pull ." in refused.value.hint
