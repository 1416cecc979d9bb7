"""Where the code lies, as an agent's record says it: nothing of it leads out of the repository."""

import pytest

from dkdbg.core.mapping import described, folder_name, pairs_of_record

ROOT = "${workspaceFolder}"


def said(*pairs):
    return [
        {"localRoot": local, "remoteRoot": remote, "exists": True, "kind": "mount"} for local, remote in pairs
    ]


def test_what_a_session_says_is_what_an_editor_gets_up_to_a_hundred():
    found = pairs_of_record(said((ROOT, "/home/me/code"), (f"{ROOT}/src/a", "/opt/a")))
    assert found == ((".", "/home/me/code"), ("src/a", "/opt/a"))
    assert described(found) == [
        {"localRoot": ROOT, "remoteRoot": "/home/me/code"},
        {"localRoot": f"{ROOT}/src/a", "remoteRoot": "/opt/a"},
    ]
    assert len(pairs_of_record(said(*((ROOT, f"/{each}") for each in range(1000))))) == 100


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        {"localRoot": ROOT},
        ["x", None, {"localRoot": 1, "remoteRoot": "/x"}],
        said((f"{ROOT}/../other", "/x")),
        said(("/etc", "/x"), ("${workspaceFolder}x", "/x"), ("${env:HOME}", "/x")),
        said((ROOT, "relative"), (ROOT, None), (ROOT, "/a\x1b]0;x\x07"), (ROOT, "/" + "x" * 5000)),
    ],
)
def test_what_leads_elsewhere_or_is_none_is_left_out(bad):
    assert pairs_of_record(bad) == ()


def test_two_clones_have_two_folders_whose_names_any_shell_takes(tmp_path):
    one, two = folder_name(tmp_path / "a" / "my repo; $x"), folder_name(tmp_path / "b" / "my repo; $x")
    assert one != two
    assert one.startswith("my_repo_x-")
