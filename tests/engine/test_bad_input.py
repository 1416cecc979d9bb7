"""`dkdbg up` where compose or the machine says no: the reason, a hint, and nothing half done."""

import contextlib
import socket

import pytest

from dkdbg.setup.render import jsonc
from tests.checkout import TRAIN, checkout, run_dkdbg, snapshot
from tests.engine.projects import LOOP, command, launch_options, must, project, stop_in, take_away, unique

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("port-5678")]

SERVICE = """\
services:
  web:
    image: BASE
    working_dir: /code
    command: python3 train.py
    volumes: [".:/code"]
"""


def refused(done, code, *said):
    assert done.returncode == code, done.stdout + done.stderr
    assert [part for part in said if part not in done.stderr] == [], done.stderr
    assert "  hint: " in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


GPU = "    deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}\n"
#: What is appended to the service, and what has to be said of it. More of compose's words: tests/unit/targets/test_compose.py.
REJECTED = {
    "    bogus: 1\n": ("does not accept the project's files", "bogus"),
    '    environment: {A: "${B:?say B}"}\n': ("needs a variable", "say B"),
    "    env_file: .env.prod\n": ("env_file", ".env.prod"),
    GPU: ("DKDBG_GPU", "none, nvidia, cdi"),
}


def test_up_refuses_what_compose_does_not_accept_and_changes_nothing(tmp_path, base_image):
    compose = SERVICE.replace("BASE", base_image)
    root = checkout(tmp_path / unique("repo"), {"train.py": TRAIN, "compose.yaml": compose + GPU})
    must(run_dkdbg(root, "init", "--yes"))
    for text, said in REJECTED.items():
        (root / "compose.yaml").write_text(compose + text)
        before = snapshot(root)
        with listener():  # the port would be another, if it came to that
            done = run_dkdbg(root, "up", env={"DKDBG_GPU": "fast"} if text == GPU else None)
        refused(done, 2 if text == GPU else 1, *said)
        assert snapshot(root) == before, text


@contextlib.contextmanager
def listener():
    """Somebody else on port 5678; who else does not matter when it is taken already."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 5678)))
        yield


def test_a_port_that_is_taken_is_passed_over_and_the_editor_learns_of_it(tmp_path, base_image):
    train = "\n".join(line[4:] for line in LOOP.splitlines())
    root = checkout(tmp_path / unique("repo"), {"train.py": train, ".env": "MINE=1\n"})
    env = {"DKDBG_BASE": base_image, "DKDBG_WAIT": "0"}
    must(run_dkdbg(root, "init", "--yes"))
    launch = (root / ".vscode/launch.json").read_text()
    must(command(["git", "add", ".vscode/launch.json"], root))
    try:
        with listener():
            done = must(run_dkdbg(root, "up", env=env))
            assert "port 5678 is taken; using" in done.stdout
            port = launch_options(root).port
            assert port > 5678
            assert (
                f"{port} is only for this machine: do not commit it in .vscode/launch.json\n" in done.stdout
            )
            assert f"ready: attach to 127.0.0.1:{port}" in done.stdout
            assert (root / ".env").read_text() == f"MINE=1\nDKDBG_PORT={port}  # dkdbg\n"
            assert run_dkdbg(root, "init", "--check").returncode == 0
            written = jsonc.loads((root / ".vscode/launch.json").read_text())
            assert jsonc.loads(launch)["version"] == written["version"]
            again = must(run_dkdbg(root, "up", env=env))
            assert "is taken" not in again.stdout
            assert launch_options(root).port == port
            assert stop_in(root, "train.py").path == str(root / "train.py")
        must(run_dkdbg(root, "down"))
        left = command(["docker", "compose", "--profile", "debug", "ps", "--all", "-q"], root, env=env)
        assert left.stdout == ""
    finally:
        take_away(root, env)
    must(run_dkdbg(root, "init", "--undo"))
    assert (root / ".env").read_text() == "MINE=1\n"


def test_a_taken_port_is_passed_over_on_the_hosts_network_too(tmp_path, base_image):
    compose = SERVICE.replace("BASE", base_image) + "    network_mode: host\n"
    root = tmp_path / unique("repo")
    with project(root, {"train.py": TRAIN, "compose.yaml": compose}, "init", "--yes"), listener():
        done = must(run_dkdbg(root, "up"))
        assert "port 5678 is taken; using" in done.stdout
        assert f"ready: attach to 127.0.0.1:{launch_options(root).port}" in done.stdout
        again = must(run_dkdbg(root, "up"))
        assert "is taken" not in again.stdout  # by itself


def test_a_program_that_ends_at_once_is_shown_with_its_last_lines(tmp_path, base_image):
    # A shell ends before the first health check, also on a busy machine.
    env = {"DKDBG_BASE": base_image, "DKDBG_WAIT": "0"}
    words = ("init", "--yes", "--command", "sh -c 'echo no data here; exit 1'")
    with project(tmp_path / unique("repo"), {"train.py": TRAIN}, *words, env=env) as root:
        done = run_dkdbg(root, "up", env=env)
        assert "  | no data here\n" in done.stdout
        refused(done, 1, "ended before an editor could attach")


def test_a_folder_whose_name_gives_no_project_name(tmp_path):
    root = checkout(tmp_path / "工程", {"train.py": TRAIN})
    must(run_dkdbg(root, "init", "--yes"))
    refused(run_dkdbg(root, "up"), 1, "project name", "COMPOSE_PROJECT_NAME")
