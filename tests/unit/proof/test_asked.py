"""Which of the loaded files is a copy of the asked one: a namesake is none."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from dkdbg.agent.dap import sources
from dkdbg.proof import line_answer, line_causes, proving
from dkdbg.proof.asked import Asked, Entry
from tests.checkout import checkout

FILES = {
    "pkg/__init__.py": "", "pkg/io.py": "x = 1\n", "utils.py": "y = 1\n", "lib/utils.py": "z = 1\n", "lib/pkg/io.py": "a = 1\n",
    "codecs.py": "b = 1\n",
}  # fmt: skip


def causes(root: Path, asked: str, loaded: str, *, like: str = "", **more: str) -> list[str]:
    """Return the causes for a file of the repository while the program has loaded another one.

    Args:
        loaded: its path there. like: local file with the same content.
        more: further facts of it, as the agent tells them.
    """
    here = sources.describe(str(root / (like or asked)))
    digest = here["digest"] if like else "other"
    there = {"path": loaded, "real": loaded, "exists": True, "kind": "image", "digest": digest}
    mapped = {
        "path": f"/app/{asked}",
        "real": f"/app/{asked}",
        "exists": True,
        "kind": "mount",
        "inode": "1:9",
    }
    local = sources.describe(str(root / asked))
    process = {"pid": 7, "name": "train.py", "answer": {"files": [{"origin": "source", **there, **more}]}}
    said = {"version": 1, "files": [{**mapped, "digest": local["digest"]}]}
    said["sessions"] = [{"id": "s", "name": "s", "state": "running", "processes": [process]}]
    answer = line_answer.parse(json.dumps(said), is_container=True)
    question = Asked(
        path=root / asked, line=1, entry=Entry(port=5678, mappings=((str(root), "/app"),)), remote=f"/app/{asked}",
        session=answer.sessions[0], remote_file=answer.files[0], root=root,
    )  # fmt: skip
    return [each.cause for each in line_causes.causes(question)]


def findings(
    root: Path, python: str = "3.13.1", unhooked: tuple[dict[str, str], ...] = (), *, cluster: bool = False, **facts: object
):  # fmt: skip
    """Return the findings for the first line of utils.py, which the program has loaded; `facts` as the agent tells them."""
    look = sources.describe(str(root / "utils.py"))
    there = {
        "path": "/app/utils.py",
        "real": "/app/utils.py",
        "exists": True,
        "kind": "mount",
        "digest": look["digest"],
    }
    file = {"origin": "source", "code": True, "function": "f", **there, **facts}
    process = {
        "pid": 7,
        "name": "train.py",
        "answer": {"python": python, "cluster": cluster, "files": [file]},
    }
    session = {"id": "s", "name": "s", "state": "running", "processes": [process], "unhooked": unhooked}
    answer = line_answer.parse(
        json.dumps({"version": 1, "files": [there], "sessions": [session]}), is_container=True
    )
    question = Asked(
        path=root / "utils.py", line=1, entry=Entry(port=5678, mappings=((str(root), "/app"),)), remote="/app/utils.py",
        session=answer.sessions[0], remote_file=answer.files[0], root=root,
    )  # fmt: skip
    return list(line_causes.causes(question))


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
def test_a_process_without_the_agent_comes_after_a_cause_that_is_certain(tmp_path, facts, expected):
    root = checkout(tmp_path, dict(FILES))
    found = findings(root, unhooked=({"name": "worker.py", "why": "python -S"},), **facts)
    assert [each.cause for each in found] == expected


@pytest.mark.parametrize(
    ("ran", "expected"), [(False, ["ray-outside", "never-reached"]), (None, ["ray-outside"]), (True, [])]
)
def test_a_line_that_has_not_run_in_a_driver_may_run_in_a_ray_cluster_without_the_agent(
    tmp_path, ran, expected
):
    found = findings(checkout(tmp_path, dict(FILES)), cluster=True, ran=ran)
    assert [each.cause for each in found] == expected


def test_a_file_that_a_server_may_load_with_a_visit_has_the_visit_as_its_remedy(tmp_path):
    path = "/usr/lib/other.py"
    [found] = findings(checkout(tmp_path, dict(FILES)), path=path, real=path, kind="image", digest="x")
    assert (found.cause, "open the address" in found.remedy) == ("not-loaded", True)


@pytest.mark.parametrize(("python", "is_vague"), [("3.11.7", True), ("3.13.1", False)])
def test_where_a_call_or_two_leave_no_trace_a_function_may_have_run_before_the_breakpoint(
    tmp_path, python, is_vague
):
    [found] = findings(checkout(tmp_path, dict(FILES)), python, ran=False)
    assert found.cause == "never-reached"
    assert (
        "perhaps it ran before the breakpoint was set, or in a thread that C++ makes" in found.says
    ) is is_vague
    assert found.remedy.startswith("dkdbg restart with the breakpoint set") is is_vague


@pytest.mark.parametrize(
    ("asked", "loaded"),
    [
        ("utils.py", "/usr/lib/python3/dist-packages/other/utils.py"),
        ("pkg/io.py", "/usr/lib/python3/dist-packages/other/pkg/io.py"),
        ("utils.py", "/app/lib/utils.py"),
        ("pkg/io.py", "/app/lib/pkg/io.py"),
    ],
)
def test_a_namesake_is_no_copy(tmp_path, asked, loaded):
    assert causes(checkout(tmp_path, dict(FILES)), asked, loaded) == ["not-loaded"]


def test_empty_files_are_no_copies_of_each_other(tmp_path):
    loaded = "/usr/lib/python3/dist-packages/other/__init__.py"
    assert causes(checkout(tmp_path, dict(FILES)), "pkg/__init__.py", loaded, like="pkg/__init__.py") == [
        "not-loaded"
    ]


def test_a_frozen_module_of_the_name_of_a_submodule_is_another_one(tmp_path):
    root = checkout(tmp_path, dict(FILES))
    assert causes(root, "pkg/io.py", "", origin="frozen", module="io") == ["not-loaded"]
    assert causes(root, "codecs.py", "", origin="frozen", module="codecs") == ["frozen"]


@pytest.mark.parametrize(
    ("loaded", "like", "cause"),
    [
        ("/usr/lib/python3/dist-packages/pkg/io.py", "", "two-copies"),
        ("/srv/old/pkg/io.py", "", "stale-copy"),
        ("/srv/old/pkg/io.py", "pkg/io.py", "two-copies"),
        ("/srv/build/io.py", "pkg/io.py", "two-copies"),
    ],
)
def test_copies_are_found_by_their_folders_or_their_content(tmp_path, loaded, like, cause):
    assert causes(checkout(tmp_path, dict(FILES)), "pkg/io.py", loaded, like=like)[0] == cause


@pytest.mark.parametrize(
    ("inode", "cause"), [("1:9", "wrong-root"), ("1:8", "two-copies"), ("", "two-copies")]
)
def test_one_file_in_two_mounts_is_no_copy_of_itself(tmp_path, inode, cause):
    root = checkout(tmp_path, dict(FILES))
    assert causes(root, "pkg/io.py", "/workspace/pkg/io.py", like="pkg/io.py", inode=inode)[0] == cause


def test_a_copy_that_cannot_be_read_is_not_said_to_differ(tmp_path):
    root = checkout(tmp_path, dict(FILES))
    assert causes(root, "pkg/io.py", "/srv/old/pkg/io.py", digest="")[0] == "two-copies"


def test_a_mapped_package_is_no_copy_of_itself(tmp_path):
    root = checkout(tmp_path, dict(FILES))
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
    tmp_path, module, loaded, copy
):
    root = checkout(tmp_path, dict(FILES))
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
