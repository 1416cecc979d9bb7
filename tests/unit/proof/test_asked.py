"""Which of the loaded files is a copy of the asked one: a namesake is none."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dkdbg.agent.dap import sources
from dkdbg.proof import line_answer, line_causes, proving
from dkdbg.proof.asked import Asked, Entry
from tests.checkout import checkout

FILES = {
    "pkg/__init__.py": "", "pkg/io.py": "x = 1\n", "utils.py": "y = 1\n", "lib/utils.py": "z = 1\n", "lib/pkg/io.py": "a = 1\n",
    "codecs.py": "b = 1\n",
}  # fmt: skip


def findings(
    root: Path, asked: str = "utils.py", loaded: str = "", *, like: str = "", python: str = "3.13.1",
    unhooked: tuple[dict[str, str], ...] = (), cluster: bool = False, joined: bool = False, **facts: object,
):  # fmt: skip
    """Return the findings for the first line of a file of the repository, which the program has loaded.

    Args:
        loaded: path of another file, which it has loaded instead. like: local file with the content of that one.
        facts: further facts of the loaded file, as the agent tells them.
    """
    digest = sources.describe(str(root / asked))["digest"]
    mapped = {
        "path": f"/app/{asked}",
        "real": f"/app/{asked}",
        "exists": True,
        "kind": "mount",
        "digest": digest,
    }
    other = {"path": loaded, "real": loaded, "kind": "image", "digest": "other"}
    if like:
        other["digest"] = sources.describe(str(root / like))["digest"]
    is_other = loaded or facts.get("origin") == "frozen"
    file = {
        "origin": "source",
        "code": True,
        "function": "f",
        **mapped,
        **(other if is_other else {}),
        **facts,
    }
    answer = {"python": python, "cluster": cluster, "files": [file]}
    process = {"pid": 7, "name": "train.py", "joined": joined, "answer": answer}
    session = {"id": "s", "name": "s", "state": "running", "processes": [process], "unhooked": unhooked}
    said = {"version": 1, "files": [{**mapped, "inode": "1:9"}], "sessions": [session]}
    read = line_answer.parse(json.dumps(said), is_container=True)
    question = Asked(
        path=root / asked, line=1, entry=Entry(port=5678, mappings=((str(root), "/app"),)), remote=f"/app/{asked}",
        session=read.sessions[0], remote_file=read.files[0], root=root,
    )  # fmt: skip
    return list(line_causes.causes(question))


def causes(*words: Any, **facts: object) -> list[str]:
    return [each.cause for each in findings(*words, **facts)]


@pytest.fixture
def root(tmp_path):
    return checkout(tmp_path, dict(FILES))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"ran": False, "kept": True}, ["cached", "hook-missing"]),
        ({"code": False}, ["optimised-away", "hook-missing"]),
        ({"ran": False, "compiled": "numba"}, ["compiled", "hook-missing"]),
        ({"ran": False}, ["hook-missing", "never-reached"]),
        ({"function": "", "ran": None}, ["hook-missing"]),
        ({"ran": True}, []),
    ],
)
def test_a_process_without_the_agent_comes_after_a_cause_that_is_certain(root, facts, expected):
    unhooked = ({"name": "worker.py", "why": "python -S"},)
    assert causes(root, unhooked=unhooked, **facts) == expected


@pytest.mark.parametrize(
    ("asked", "loaded", "expected"),
    [
        ("utils.py", "/app/lib/utils.py", ["not-loaded", "hook-missing"]),
        ("utils.py", "/usr/lib/other.py", ["hook-missing", "not-loaded"]),
        ("page.html", "/usr/lib/other.py", ["not-python", "hook-missing"]),
    ],
)
def test_a_process_without_the_agent_hides_no_cause_why_the_others_lack_the_file(
    root, asked, loaded, expected
):
    (root / "page.html").write_text("<p>\n")
    unhooked = ({"name": "worker.py", "why": "python -S"},)
    assert causes(root, asked, loaded, unhooked=unhooked) == expected


@pytest.mark.parametrize(
    ("ran", "expected"), [(False, ["ray-outside", "never-reached"]), (None, ["ray-outside"]), (True, [])]
)
def test_a_line_that_has_not_run_in_a_driver_may_run_in_a_ray_cluster_without_the_agent(root, ran, expected):
    assert causes(root, cluster=True, ran=ran) == expected


def test_a_file_that_a_server_may_load_with_a_visit_has_the_visit_as_its_remedy(root):
    [found] = findings(root, "utils.py", "/usr/lib/other.py")
    assert (found.cause, "open the address" in found.remedy) == ("not-loaded", True)


@pytest.mark.parametrize(
    ("first", "ran", "says"),
    [
        (True, None, "f has not run in "),
        (True, True, "f has not reached "),
        (False, None, ": it was not called, its branch"),
        (False, True, ": its branch"),
    ],
)
def test_a_function_that_never_ran_is_told_from_a_branch_that_was_not_taken(root, first, ran, says):
    [found] = findings(root, first=first, ran=ran, joined=True, breakpoints=[{"line": 1, "early": True}])
    assert (found.cause, says in found.says) == ("never-reached", True), found.says


@pytest.mark.parametrize(("python", "is_vague"), [("3.11.7", True), ("3.13.1", False)])
def test_where_a_call_or_two_leave_no_trace_a_function_may_have_run_before_the_breakpoint(
    root, python, is_vague
):
    [found] = findings(root, python=python, ran=False)
    assert found.cause == "never-reached"
    assert (
        "perhaps it ran before the breakpoint was set, or in a thread that C++ makes" in found.says
    ) is is_vague
    assert found.remedy.startswith("dkdbg restart with the breakpoint set") is is_vague


@pytest.mark.parametrize(
    ("asked", "loaded", "like"),
    [
        ("utils.py", "/usr/lib/python3/dist-packages/other/utils.py", ""),
        ("pkg/io.py", "/usr/lib/python3/dist-packages/other/pkg/io.py", ""),
        ("utils.py", "/app/lib/utils.py", ""),
        ("pkg/io.py", "/app/lib/pkg/io.py", ""),
        ("pkg/__init__.py", "/usr/lib/python3/dist-packages/other/__init__.py", "pkg/__init__.py"),  # empty
    ],
)
def test_a_namesake_is_no_copy_nor_one_empty_file_of_another(root, asked, loaded, like):
    assert causes(root, asked, loaded, like=like) == ["not-loaded"]


@pytest.mark.parametrize(("origin", "is_named"), [("source", True), ("zip", False), ("compiled", False)])
def test_only_a_namesake_with_lines_is_a_place_for_the_breakpoint(root, origin, is_named):
    [found] = findings(root, "utils.py", "/app/lib/utils.py", origin=origin, module="lib.utils")
    assert (found.cause, "in that file" in found.remedy) == ("not-loaded", is_named)


def test_a_frozen_module_of_the_name_of_a_submodule_is_another_one(root):
    assert causes(root, "pkg/io.py", "", origin="frozen", module="io") == ["not-loaded"]
    assert causes(root, "codecs.py", "", origin="frozen", module="codecs") == ["frozen"]


#: A mount of the repository's own file, and a copy that cannot be read.
MOUNT, UNREADABLE = ("/workspace/pkg/io.py", "pkg/io.py"), ("/srv/old/pkg/io.py", "")


@pytest.mark.parametrize(
    ("loaded", "like", "facts", "cause"),
    [
        ("/usr/lib/python3/dist-packages/pkg/io.py", "", {}, "two-copies"),
        ("/srv/old/pkg/io.py", "", {}, "stale-copy"),
        ("/srv/old/pkg/io.py", "pkg/io.py", {}, "two-copies"),
        ("/srv/build/io.py", "pkg/io.py", {}, "two-copies"),
        (*MOUNT, {"inode": "1:9"}, "wrong-root"),
        (*MOUNT, {"inode": "1:8"}, "two-copies"),
        (*MOUNT, {"inode": ""}, "two-copies"),
        (*UNREADABLE, {"digest": ""}, "two-copies"),
    ],
)
def test_copies_are_found_by_their_folders_or_their_content_and_one_file_in_two_mounts_is_none(
    root, loaded, like, facts, cause
):
    assert causes(root, "pkg/io.py", loaded, like=like, **facts)[0] == cause


def test_a_mapped_package_is_no_copy_of_itself(root):
    installed = "/usr/lib/python3/dist-packages"
    for remote, copy in ((installed, ""), ("/app", str(root / "pkg/io.py"))):
        subject = SimpleNamespace(entry=Entry(port=5678, mappings=((str(root), remote),)))
        run = proving._Run(subject, print, print, proving.Proof())
        assert run._local_copy(f"{installed}/pkg/io.py") == copy


@pytest.mark.parametrize(
    ("module", "loaded", "copy"),
    [
        ("pkg.io", "/opt/copy/pkg/io.py", "pkg/io.py"),
        ("pkg.io", "/app/lib/pkg/io.py", ""),
        ("pkg.io", "/usr/lib/python3.11/pkg/io.py", ""),
        ("utils", "/opt/other/utils.py", ""),
        ("codecs", "/usr/lib/python3.11/codecs.py", ""),
        (".etc.passwd", "/opt/copy/passwd.py", ""),
    ],
)
def test_a_module_of_a_package_that_is_loaded_from_outside_of_the_mapping_is_a_copy(
    root, module, loaded, copy
):
    subject = SimpleNamespace(entry=Entry(port=5678, mappings=((str(root), "/app"),)))
    run = proving._Run(subject, print, print, proving.Proof())
    assert run._local_copy(loaded, module) == (str(root / copy) if copy else "")


@pytest.mark.parametrize(
    ("name", "ended", "cause", "names_shell"),
    [
        ("train.py", True, "program-ended", False),
        ("train.py", False, "silent", False),
        ("python3", False, "silent", True),
    ],
)
def test_a_process_that_gives_no_answer_has_ended_or_is_silent(tmp_path, name, ended, cause, names_shell):
    process = {"pid": 7, "name": name, "answer": None, "ended": ended}
    session = {"id": "s", "name": "s", "state": "running", "processes": [process]}
    answer = line_answer.parse(
        json.dumps({"version": 1, "files": [], "sessions": [session]}), is_container=True
    )
    asked = Asked(
        path=tmp_path / "utils.py", line=1, entry=Entry(port=5678, mappings=((str(tmp_path), "/app"),)), remote="/app/utils.py",
        session=answer.sessions[0], remote_file=None, root=tmp_path,
    )  # fmt: skip
    (found,) = line_causes.causes(asked)
    assert (found.cause, "sh -c" in found.remedy) == (cause, names_shell)
