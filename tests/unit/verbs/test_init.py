"""`dkdbg init` as a user runs it, without an engine."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys

import pytest

from dkdbg.setup.render import jsonc
from tests.checkout import TRAIN, checkout, run_dkdbg, snapshot
from tests.commands import command
from tests.needs import give_up
from tests.terminals import terminal

COMPOSE = """\
services:
  web:
    build: .
    command: python serve.py
"""
OWN = {
    "serve.py": "print('serving')\n",
    "Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\nCOPY . .\n",
    "docker-compose.yml": COMPOSE,
}


def test_diff_and_check_write_nothing_and_check_passes_after_init_until_the_repository_changes(script, dkdbg):
    before = snapshot(script)
    ran = dkdbg(script, "init", "--diff")
    assert (ran.code, "+++ b/compose.yaml" in ran.out) == (0, True)
    assert dkdbg(script, "init", "--check").code == 1
    assert snapshot(script) == before
    assert dkdbg(script, "init", "--yes").code == 0
    assert dkdbg(script, "init", "--check").code == 0
    (script / "requirements.txt").write_text("requests\n")
    assert dkdbg(script, "init", "--check").code == 1


@pytest.mark.parametrize("files", [{"train.py": TRAIN}, OWN], ids=["bare", "compose"])
def test_a_second_init_changes_no_byte_and_says_so(tmp_path, dkdbg, files):
    root = checkout(tmp_path / "repo", files)
    dkdbg(root, "init", "--yes")
    first, times = snapshot(root), {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    ran = dkdbg(root, "init", "--yes")
    assert ran.code == 0
    assert "nothing to change" in ran.out
    assert snapshot(root) == first
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == times


def test_the_image_of_a_script_without_dependencies_installs_nothing(initialised):
    lines = (initialised / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "ARG BASE=python:3.11-slim",
        "FROM ${BASE}",
        "RUN python3 -m venv /opt/venv",
        "ENV VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:$PATH",
        "WORKDIR /workspace",
        'CMD ["python", "train.py"]',
    ]


def test_an_init_with_nothing_to_change_removes_what_a_killed_one_left(initialised, dkdbg):
    left = initialised / ".vscode/.launch.json.dkdbg-old"
    left.write_text("{}")
    assert dkdbg(initialised, "init", "--check").code == 0
    assert left.exists()
    assert "nothing to change" in dkdbg(initialised, "init", "--yes").out
    assert not left.exists()


def test_undo_names_a_directory_that_stays_and_is_one_object_as_json(initialised, dkdbg):
    (initialised / ".vscode/settings.json").write_text("{}")
    ran = dkdbg(initialised, "init", "--undo")
    assert "left      .vscode/" in ran.out
    assert (initialised / ".vscode/settings.json").exists()
    dkdbg(initialised, "init", "--yes")
    assert "compose.yaml" in json.loads(dkdbg(initialised, "init", "--undo", "--json").out)["removed"]


LAUNCH = {
    "comments and trailing commas": b"""\
// ours, by hand
{
  "version": "0.2.0", /* old */
  "configurations": [
    {"name": "mine", "type": "debugpy", "request": "launch", "program": "x.py",}, // keep
  ],
}
""",
    "CRLF": b'{\r\n\t"version": "0.2.0",\r\n\t"configurations": [\r\n\t\t{\r\n\t\t\t"name": "mine"\r\n\t\t}\r\n\t]\r\n}\r\n',
    "byte order mark": b'\xef\xbb\xbf{\n    "configurations": [],\n    "compounds": []\n}',
    "one line": b'{"configurations": [{"name": "mine"}]}',
}


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(byte in rest for byte in part)


@pytest.mark.parametrize("kind", LAUNCH)
def test_the_users_bytes_of_launch_json_stay(tmp_path, dkdbg, kind):
    before = LAUNCH[kind]
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, ".vscode/launch.json": before})
    dkdbg(root, "init", "--yes")
    after = (root / ".vscode/launch.json").read_bytes()
    entries = jsonc.loads(after.decode())["configurations"]
    mine = jsonc.loads(before.decode())["configurations"]
    assert entries == [*mine, next(entry for entry in entries if entry["name"] == "dkdbg: attach")]
    assert before.startswith(b"\xef\xbb\xbf") == after.startswith(b"\xef\xbb\xbf")
    assert (b"\r\n" in before) == (b"\r\n" in after)
    assert after.count(b"\n") == after.count(b"\r\n") or b"\r\n" not in before
    assert is_subsequence(before, after)
    assert dkdbg(root, "init", "--undo").code == 0
    assert (root / ".vscode/launch.json").read_bytes() == before


def test_the_users_tasks_stay(tmp_path, dkdbg):
    before = b'{\n  // build\n  "version": "2.0.0",\n  "tasks": [ {"label": "build", "command": "make"} ], // end\n}\n'
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, ".vscode/tasks.json": before})
    dkdbg(root, "init", "--yes")
    after = (root / ".vscode/tasks.json").read_bytes()
    labels = [task["label"] for task in jsonc.loads(after.decode())["tasks"]]
    assert labels == ["build", *(f"dkdbg: {verb}" for verb in ("up", "restart", "stop", "logs", "down"))]
    assert is_subsequence(before, after)


def test_a_changed_dkdbg_toml_changes_the_files_and_its_comments_stay(initialised, dkdbg):
    text = "# our choice\n[debug]\nport = 6001   # 5678 is taken by the other project\nwait = 9\n"
    (initialised / "dkdbg.toml").write_text(text)
    assert dkdbg(initialised, "init", "--yes").code == 0
    assert (initialised / "dkdbg.toml").read_text() == text
    service = (initialised / ".dkdbg/service.compose").read_text()
    assert '"127.0.0.1:${DKDBG_PORT:-6001}:6001"' in service
    assert "${DKDBG_WAIT:-9}" in service
    entry = jsonc.loads((initialised / ".vscode/launch.json").read_text())["configurations"][0]
    assert (entry["connect"]["host"], entry["connect"]["port"]) == ("127.0.0.1", 6001)


def test_a_flag_is_remembered_in_dkdbg_toml_which_keeps_its_byte_order_mark(script, dkdbg):
    text = b"\xef\xbb\xbf[debug]\r\nwait = 3\r\n"
    (script / "dkdbg.toml").write_bytes(text)
    assert dkdbg(script, "init", "--yes").code == 0
    assert (script / "dkdbg.toml").read_bytes() == text
    dkdbg(script, "init", "--yes", "--command", "python train.py --epochs 3")
    assert 'command = "python train.py --epochs 3"' in (script / "dkdbg.toml").read_text()
    assert dkdbg(script, "init", "--check").code == 0


@pytest.mark.parametrize(
    ("words", "code", "written"),
    [((), 0, False), (("--diff",), 0, False), (("--check",), 1, False), (("--yes",), 0, True)],
)
def test_json_is_one_object_with_facts_plan_and_changes(script, dkdbg, words, code, written):
    ran = dkdbg(script, "init", "--json", *words)
    assert (ran.code, ran.err) == (code, "")
    said = json.loads(ran.out)
    assert said["facts"]["python"].startswith("3.")
    assert {"what", "why"} == set(said["plan"][0])
    assert "compose.yaml" in [change["path"] for change in said["changes"]]
    assert said["command"] == ["python", "train.py"]
    assert said["written"] is written
    assert (script / "compose.yaml").exists() is written


def test_a_closed_pipe_is_quiet_and_does_not_stop_the_writing(script):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "dkdbg", "init", "--yes"], cwd=script, stdout=nobody, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert (script / "compose.yaml").exists()


def test_an_output_that_cannot_hold_a_name_shows_it_escaped(tmp_path):
    root = checkout(tmp_path / "repo", {"größe.py": TRAIN})
    words = ("init", "--diff", "--command", "python größe.py")
    done = run_dkdbg(root, *words, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe.py" in done.stdout


@pytest.mark.parametrize(
    ("answer", "code", "written"), [("y\n", 0, True), ("n\n", 1, False), ("\x04", 1, False)]
)
def test_a_person_is_asked_once(script, answer, code, written):
    person, program_side = pty.openpty()
    os.write(person, answer.encode())
    done = run_dkdbg(script, "init", stdin=program_side)
    os.close(person)
    os.close(program_side)
    assert done.returncode == code
    assert done.stdout.count("[y/N]") == 1
    assert (script / "compose.yaml").exists() is written


def test_ctrl_c_at_the_question_ends_with_130_and_writes_nothing(script):
    before = snapshot(script)
    with terminal([sys.executable, "-m", "dkdbg", "init"], cwd=script, env={**os.environ}) as running:
        running.until("[y/N]")
        running.process.send_signal(signal.SIGINT)
        assert running.end() == 130
        assert "Traceback" not in running.shown
    assert snapshot(script) == before


def test_minus_c_is_where_it_runs_and_a_subfolder_is_a_place_of_its_own(tmp_path):
    root = checkout(tmp_path / "repo", {"job/train.py": TRAIN})
    done = run_dkdbg(tmp_path, "-C", "repo/job", "init", "--yes")
    assert done.returncode == 0
    assert re.search(
        r"wrote \d+ files in repo/job;[^\n]*\n[^\n]*: cd repo/job, and open it in VS Code\n", done.stdout
    )
    assert (root / "job/compose.yaml").exists()
    assert not (root / "compose.yaml").exists()


def test_a_path_with_letters_of_other_alphabets_and_files_in_other_encodings_are_no_obstacle(tmp_path, dkdbg):
    latin = "# gr\xfc\xdfe\nA=\xe4\n".encode("latin-1")
    files = {**OWN, "docker-compose.override.yml": "services: {}\n", ".env": latin}
    root = checkout(tmp_path / "my répo 工程", files)
    assert dkdbg(root, "init", "--yes").code == 0
    assert dkdbg(root, "init", "--check").code == 0
    assert (root / ".env").read_bytes().startswith(latin)
    assert b"COMPOSE_FILE=" in (root / ".env").read_bytes()


def test_a_repository_on_a_read_only_file_system_is_said_to_be_one(script):
    """Not "no write permission", which nobody can change there (issue 15)."""
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, *user, "--mount", "true"], check=False).returncode:
        give_up("no namespace of mounts can be made here")
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    words = [sys.executable, "-m", "dkdbg", "-C", str(script), "init", "--yes"]
    done = command([unshare, *user, "--mount", "sh", "-c", mount, "sh", str(script), *words], check=False)
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    assert "work in a writable copy" in done.stderr
    assert "chmod" not in done.stderr + done.stdout


def test_the_last_line_names_the_entry_that_f5_has_to_run(script, dkdbg):
    """VS Code's F5 runs what was chosen last, and without a choice the first entry of its list."""
    ran = dkdbg(script, "init", "--yes")
    assert ran.out.splitlines()[-1].endswith('press F5 with "dkdbg: attach"')


def test_beside_other_entries_it_comes_first_in_the_list_and_their_bytes_stay(script, dkdbg):
    theirs = """{
  // mine
  "version": "0.2.0",
  "configurations": [
    {"name": "Python: current file", "type": "debugpy", "request": "launch", "program": "${file}"},  // often
    {"name": "Tests", "type": "debugpy", "request": "launch", "presentation": {"group": "1_tests"}}
  ]
}
"""
    (script / ".vscode").mkdir()
    (script / ".vscode/launch.json").write_text(theirs)
    ran = dkdbg(script, "init", "--yes")
    assert ran.out.splitlines()[-1].endswith(
        'press F5 with "dkdbg: attach" (choose it once under Run and Debug: launch.json has 2 more)'
    )
    after = (script / ".vscode/launch.json").read_text()
    assert all(line.rstrip("},") in after for line in theirs.splitlines())
    entries = jsonc.loads(after)["configurations"]
    groups = {entry["name"]: entry.get("presentation", {}).get("group", "~") for entry in entries}
    assert min(groups, key=groups.__getitem__) == "dkdbg: attach"  # groups by name, entries without one last


GUARDED = "def f(:\n  pass\n\nif __name__ == '__main__':\n  f()\n"


@pytest.mark.parametrize(
    ("files", "line", "command"),
    [
        ({"train.py": "import time\nfor n in range(10:\n  n\n"}, "train.py:2: ", "python train.py"),
        ({"train.py": "x = = 1\n"}, "train.py:1: ", "python train.py"),
        ({"go.py": GUARDED}, "go.py:1: ", "sleep infinity"),
        ({"train.py": "print(1)\n", "old.py": GUARDED}, "", "python train.py"),
    ],
)
def test_a_program_that_does_not_parse_is_named_with_line_and_command(tmp_path, dkdbg, files, line, command):
    root = checkout(tmp_path / "repo", {**files, "requirements.txt": ""})
    ran = dkdbg(root, "init", "--yes")
    assert f"command {command} " in ran.out
    notes = [each for each in ran.out.splitlines() if each.startswith("note: ") and ".py:" in each]
    assert len(notes) == bool(line)
    assert all(each.startswith(f"note: {line}") and command in each for each in notes)
