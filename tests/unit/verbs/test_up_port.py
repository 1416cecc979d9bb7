"""The start script behind F5, where launch.json and the port of the debug service are two: it says so before it starts."""

import os
import socket

import pytest

from tests.commands import command, executable
from tests.ports import free_port


@pytest.fixture
def root(script, dkdbg):
    (script / "dkdbg.toml").write_text(f"[debug]\nport = {free_port()}\n")
    assert dkdbg(script, "init", "--yes").code == 0
    return script


def f5(root, folder, *words, answers="echo docker was called\nexit 3", **environment):
    """Run the script with a fake `docker`: no engine is needed to see what comes before a start."""
    folder.mkdir(exist_ok=True)
    executable(folder / "docker", answers)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "XDG_CACHE_HOME": str(folder), **environment}
    return command(["sh", ".dkdbg/up.sh", *words], root, env=env, check=False)


def port_of(root):
    return int((root / "dkdbg.toml").read_text().split()[-1])


@pytest.mark.parametrize("where", [".env", "environment"])
def test_another_port_than_launch_json_s_is_said_before_anything_starts(root, tmp_path, where):
    port, other = port_of(root), free_port()
    if where == ".env":
        (root / ".env").write_text(f'A=1\nDKDBG_PORT="{other}"\n')
    done = f5(root, tmp_path / "bin", **({"DKDBG_PORT": str(other)} if where == "environment" else {}))
    assert done.returncode == 1
    assert f"launch.json attaches to port {port}, but the debug service gets port {other}" in done.stderr
    assert f'"port": {other} in launch.json, or DKDBG_PORT={port} in .env' in done.stderr
    assert "docker was called" not in done.stdout


def test_the_port_of_one_shell_is_in_no_file_before_up_takes_it(root, dkdbg, monkeypatch):
    """A terminal in the dev container has DKDBG_PORT of the debug service."""
    monkeypatch.setenv("DKDBG_PORT", str(free_port()))
    assert dkdbg(root, "init", "--check").code == 0
    assert f"F5 attaches to port {port_of(root)}\n" in dkdbg(root).out


def test_a_port_where_somebody_else_answers_for_the_editor_is_left_alone(root, tmp_path):
    """As `dkdbg attach` does, or a tunnel."""
    (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
    with socket.create_server(("127.0.0.1", port_of(root))):
        done = f5(root, tmp_path / "bin")
    assert (done.returncode, "docker was called" in done.stdout) == (3, True)


@pytest.mark.parametrize("rewritten", ["{port: 1}", '{"configurations": []}', None])
def test_a_launch_json_that_somebody_has_built_in_another_way_stops_nothing(root, tmp_path, rewritten):
    (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
    launch = root / ".vscode/launch.json"
    launch.unlink() if rewritten is None else launch.write_text(rewritten)
    assert f5(root, tmp_path / "bin").returncode == 3


def test_a_word_that_the_script_does_not_know_starts_nothing(root, tmp_path):
    done = f5(root, tmp_path / "bin", "retsart")
    assert (done.returncode, "docker was called" in done.stdout) == (2, False)
    assert "takes restart, stop, down or nothing" in done.stderr


#: A fake `docker` with a container of a compose project that was started `$FROM` there.
SHOP = (
    'case "$*" in *" ps "*) echo c1 ;; *dev.dkdbg.from*) printf "%s" "$FROM" ;; *working_dir*) echo /home/me/shop ;;\n'
    '  inspect*) echo shop ;; version*) ;; *) echo docker was called: "$@" ;; esac'
)


@pytest.mark.parametrize("what", ["stop", "down"])
def test_stop_and_down_leave_the_project_of_another_user_of_a_remote_engine(root, tmp_path, what):
    """Compose tells projects apart by name alone; `dkdbg up` labels its containers with user, machine and folder."""
    engine = {"DOCKER_HOST": "ssh://box", "LOGNAME": "me"}
    done = f5(root, tmp_path / "bin", what, answers=SHOP, **engine, FROM="bob@laptop:/home/me/shop")
    assert (done.returncode, "docker was called" in done.stdout) == (1, False)
    assert "bob@laptop:/home/me/shop has a compose project called shop too" in done.stderr
    ours = f"me@{socket.gethostname()}:{root.resolve()}"
    done = f5(root, tmp_path / "bin", what, answers=SHOP, **engine, FROM=ours)
    assert (done.returncode, "docker was called: compose" in done.stdout) == (0, True), done.stderr


def test_labels_of_another_users_container_reach_the_terminal_without_control_characters(root, tmp_path):
    hostile = "bob\x1b[2J\r\x07\x7f\x9b2J\ndkdbg: \\033[31m@café:/home"
    done = f5(root, tmp_path / "bin", "stop", answers=SHOP, DOCKER_HOST="ssh://box", FROM=hostile)
    assert done.returncode == 1
    assert "dkdbg: bob?[2J????2J?dkdbg: \\033[31m@café:/home has a compose project" in done.stderr


@pytest.mark.parametrize("name", ["settings", "my 'settings' $HOME"])
def test_the_line_that_gives_the_editor_the_token_can_be_pasted(root, dkdbg, tmp_path, name):
    with (root / "dkdbg.toml").open("a") as file:
        file.write('token = "env"\n')
    assert dkdbg(root, "init", "--yes").code == 0
    token = tmp_path / name / "dkdbg" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("s3cret")
    done = f5(root, tmp_path / "bin", answers="exit 0", XDG_CONFIG_HOME=str(tmp_path / name))
    [line] = [each for each in done.stderr.splitlines() if "export DKDBG_TOKEN" in each]
    assert command(["sh", "-c", f"{line}; echo $DKDBG_TOKEN"]).stdout == "s3cret\n"
