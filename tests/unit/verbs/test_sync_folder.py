"""Which folder `dkdbg sync` copies, below the root that is set up."""

import signal
import sys

import pytest

from dkdbg.main import main
from dkdbg.sync.session import Session
from dkdbg.targets import registry
from tests.checkout import TRAIN, checkout
from tests.commands import command
from tests.unit.sync.trees import put


def files_of(folder):
    return {each.relative_to(folder).as_posix() for each in folder.rglob("*.py")}


@pytest.fixture
def repository(tmp_path, monkeypatch, dkdbg):
    """One that is set up, in whose folder `a` somebody is."""
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, "a/one.py": "", "a/b/two.py": ""})
    assert dkdbg(root, "init", "--yes").code == 0
    monkeypatch.chdir(root / "a")
    return root


WHOLE = {"train.py", "a/one.py", "a/b/two.py"}


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("words", "files"),
    [
        (("-C", "../a", "sync", "local:", "--to", "{there}"), {"one.py", "b/two.py"}),
        (("-C", "b", "sync", "local:", "--to", "{there}"), {"two.py"}),
        (("-C", "..", "sync", "local:", "--to", "{there}"), WHOLE),
        (("-C", "../a", "sync", "local:{there}"), WHOLE),
        (("sync", "local:", "--to", "{there}"), WHOLE),
        (("sync", "local:{there}"), WHOLE),
    ],
)
def test_a_folder_that_is_named_with_where_to_is_copied_itself(tmp_path, capsys, words, files):
    """`dkdbg -C a sync TARGET --to /wa`, as a hint says it, copied the whole repository to /wa."""
    there = tmp_path / "there"
    capsys.readouterr()
    assert main([*(each.format(there=there) for each in words), "--once"]) == 0, capsys.readouterr().err
    assert files_of(there) == files


def test_with_such_a_folder_a_name_is_still_looked_for_in_the_repository(repository, tmp_path, monkeypatch):
    there = tmp_path / "there"
    monkeypatch.setattr(registry, "target_of", lambda _name, root: asked.append(root) or local)
    asked, local = [], registry.target_at(registry.address_of("local:"), repository)
    assert main(["-C", "b", "sync", "trainer", "--to", str(there), "--once"]) == 0
    assert main(["-C", "b", "sync", "trainer", "--to", str(there), "--verify"]) == 0
    assert (asked, files_of(there)) == ([repository, repository], {"two.py"})


@pytest.mark.usefixtures("repository")
def test_a_folder_outside_of_the_repository_is_synced_as_the_hint_says(tmp_path):
    there, other = tmp_path / "there", tmp_path / "other"
    other.mkdir()
    (other / "three.py").touch()
    assert main(["-C", str(other), "sync", "local:", "--to", str(there), "--once"]) == 0
    assert files_of(there) == {"three.py"}


def test_a_copy_that_is_interrupted_before_both_sides_are_equal_is_no_success(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setattr(Session, "_converge", lambda *_: signal.raise_signal(signal.SIGTERM))
    former = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["-C", str(here), "sync", "local:", "--to", str(tmp_path / "there"), "--once"]) == 130
    finally:
        signal.signal(signal.SIGTERM, former)


#: A pull that gets a signal while a file arrives.
PULLS = """import signal, sys
number = signal.Signals[sys.argv[1]]
if sys.argv[2] == "ignored":
    signal.signal(number, signal.SIG_IGN)
from dkdbg.main import main
from dkdbg.sync import pull
start = pull._Puller._content
def content(*arguments):
    signal.raise_signal(number)
    return start(*arguments)
pull._Puller._content = content
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("name", "inherited", "code"),
    [("SIGTERM", "", 130), ("SIGHUP", "", 130), ("SIGINT", "", 130), ("SIGHUP", "ignored", 0)],
)
def test_a_pull_that_a_signal_ends_leaves_no_partial_file_and_nohup_keeps_it(tmp_path, name, inherited, code):
    put(tmp_path, {"here/": "", "there/outputs/log": "1"})
    words = (
        "-C",
        tmp_path / "here",
        "sync",
        f"local:{tmp_path}/there",
        "--pull",
        "outputs",
        "--into",
        tmp_path / "into",
    )
    done = command([sys.executable, "-c", PULLS, name, inherited, *map(str, words)], check=False)
    assert done.returncode == code, done.stderr
    assert [each.name for each in tmp_path.glob("into/outputs/*")] == ([] if code else ["log"])
