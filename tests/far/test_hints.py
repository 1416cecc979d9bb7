"""What is said about hosts behind ssh and tells somebody to type something, typed here by the real ssh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import pytest

from tests.engine.host_doors import typed_door
from tests.engine.projects import dkdbg, must, repo, unique
from tests.far.test_outliving import until
from tests.far.test_reload import Running
from tests.far.test_ssh import NODE, WAITS, refused
from tests.hints import in_shell, to_type
from tests.pages import environment
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]


def may_mount() -> bool:
    """Whether a mount that nobody else sees can be made here, by root."""
    probe = ["unshare", "--mount", "true"]
    return (
        os.geteuid() == 0
        and bool(shutil.which("unshare"))
        and not subprocess.run(probe, check=False, capture_output=True).returncode
    )


@pytest.fixture
def python_of_login(laptop):
    """`python` is a name of Python's on login, and ~/train.py prints a word."""
    laptop.sh("login", "ln -s /usr/bin/python3 /usr/local/bin/python")
    laptop.put("login", "/home/me/train.py", "print('trains')\n")
    yield laptop
    laptop.sh("login", "rm -f /usr/local/bin/python /home/me/train.py")


def test_a_key_that_changed_is_taken_out_by_the_command_that_is_said(laptop, tmp_path):
    """Under the name and in the file that ssh looks it up by, which are not those of the alias."""
    with laptop.with_another_key():
        error = refused(tmp_path, "ssh://login")
        [line] = to_type(
            error.hint,
            "ask whoever runs it; if the new key is right: ssh-keygen -f {} -R {}, then connect once with ssh",
        )
        must(in_shell(tmp_path, line))
        assert laptop.ssh("login", "true").returncode == 0
        must(dkdbg(tmp_path, "ps", "ssh://login"))


def test_a_user_who_is_not_let_in_sees_which_keys_ssh_has(laptop, tmp_path):
    [line] = to_type(refused(tmp_path, "ssh://nobody@login").hint, "ssh-add -l shows your keys; try: {}")
    key = laptop.folder / "key"
    shown = must(in_shell(tmp_path, f"ssh-agent sh -c 'ssh-add -q {key} && {line}'")).stdout
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", key], check=True, capture_output=True, text=True
    ).stdout
    assert fingerprint.split()[1] in shown


def test_a_wrong_line_of_sshs_configuration_is_shown_by_the_command_that_is_said(laptop, tmp_path):
    config = laptop.folder / "config"
    before = config.read_text()
    try:
        config.write_text("Nonsense yes\n" + before)
        [line] = to_type(refused(tmp_path, "ssh://login").hint, "ssh -G {} shows it")
        assert "line 1: Bad configuration option: nonsense" in in_shell(tmp_path, line).stderr
    finally:
        config.write_text(before)
    assert "hostname " in must(in_shell(tmp_path, line)).stdout


@pytest.mark.skipif(not may_mount(), reason="a folder cannot be mounted over ~/.ssh here")
def test_a_configuration_that_others_may_write_to_is_read_after_the_command_that_is_said(laptop, tmp_path):
    folder = tmp_path / "dot-ssh"
    folder.mkdir(mode=0o700)
    config = folder / "config"
    shutil.copy(laptop.folder / "config", config)
    config.chmod(0o666)
    home = Path("~root/.ssh").expanduser()
    home.mkdir(mode=0o700, exist_ok=True)
    path = os.environ["PATH"].replace(f"{laptop.bin}:", "")  # there an ssh reads the file by -F

    def typed(line: str) -> subprocess.CompletedProcess[str]:
        script = f'mount --bind {folder} {home} && exec sh -c "$1"'
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", line], cwd=tmp_path, env=environment({"PATH": path}),
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    [line] = to_type(typed("dkdbg ps ssh://login").stderr, "chmod go-w {}")
    must(typed(line))
    assert "no session" in must(typed("dkdbg ps ssh://login")).stdout


def test_where_nothing_runs_the_command_that_is_said_runs_something(python_of_login, tmp_path):
    for verb in ("pdb", "where"):
        done = dkdbg(tmp_path, verb, "ssh://login")
        [line] = to_type(done.stderr, "dkdbg run --on {} -- python train.py starts one")
        assert must(in_shell(tmp_path, line)).stdout == "trains\n"
    assert python_of_login


def test_what_is_printed_is_kept_by_a_run_that_is_typed_as_logs_says(python_of_login, tmp_path):
    done = dkdbg(tmp_path, "logs", "ssh://login")
    [line] = to_type(
        done.stderr,
        "to keep it, start it this way: dkdbg run --on {} -- python3 train.py 2>&1 | tee run.log",
    )
    must(in_shell(tmp_path, line))
    assert "trains\n" in (tmp_path / "run.log").read_text()
    assert python_of_login


@pytest.fixture
def page_there(laptop):
    """A port of node1's loopback at which a page is served."""
    laptop.put("node1", "/home/me/there/index.html", "there\n")
    serve = "cd /home/me/there && exec python3 -u -m http.server --bind 127.0.0.1 0"
    server = subprocess.Popen(
        ["docker", "exec", "-u", "me", laptop.containers["node1"], "sh", "-c", serve], stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        assert server.stdout is not None
        yield re.findall(r"port (\d+)", server.stdout.readline())[0]
    finally:
        laptop.sh("node1", "pkill -x python3; rm -r /home/me/there", user="me", check=False)
        server.communicate(timeout=300)


def test_ports_of_a_container_are_not_forwarded_and_those_behind_ssh_are(page_there, tmp_path):
    line, _, _ = to_type(
        dkdbg(tmp_path, "forward", "docker://x", page_there).stderr,
        "dkdbg forward ssh://HOST PORT, or dkdbg forward k8s://NAMESPACE/POD PORT; a container publishes its ports: docker run -p",
    )
    line = line.replace("HOST", "login,node1").replace("PORT", page_there)
    forwarding = subprocess.Popen(
        ["sh", "-c", f"exec {line}"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert forwarding.stdout is not None
        here = re.findall(r"127\.0\.0\.1:(\d+) is port", forwarding.stdout.readline())[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{here}/", timeout=300) as said:
            assert said.read() == b"there\n"
    finally:
        forwarding.terminate()
        forwarding.communicate(timeout=300)


def test_a_run_says_how_it_is_attached_to(laptop, tmp_path):
    laptop.put("node1", "/home/me/code/waits.py", WAITS)
    run = Running(tmp_path, "--on", f"{NODE}/~/code", "--", "python3", "waits.py")
    try:
        run.wait_for("up\n")
        [line] = to_type(run.said, "dkdbg: attach with: dkdbg attach {}")
        with typed_door(tmp_path, line) as door:
            door.wait("target", ready=True)
            assert door.end() == 0
    finally:
        run.process.send_signal(2)
        run.end()


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("podman"), reason="to run Podman takes root, and podman"
)
def test_a_podman_elsewhere_is_told_how_the_code_runs_there(laptop, tmp_path):
    root = repo(tmp_path / unique("far-podman"), {"train.py": "print('trains')\n"})
    must(dkdbg(root, "init", "--yes"))
    where = f"tcp://127.0.0.1:{free_port()}"
    folder = tempfile.mkdtemp(prefix="dkdbg-")  # Podman takes no long path for it
    stores = ["--root", f"{folder}/storage", "--runroot", f"{folder}/run"]
    serving = subprocess.Popen(
        ["podman", *stores, "system", "service", "-t", "0", where],
        env={**os.environ, "XDG_RUNTIME_DIR": folder},  # it leaves files there
    )
    try:
        until(lambda: not in_shell(root, "docker version", {"DOCKER_HOST": where}).returncode)
        said = dkdbg(root, "up", env={"DOCKER_HOST": where}).stderr
    finally:
        serving.terminate()
        serving.wait(300)
        shutil.rmtree(folder, ignore_errors=True)
    [line] = to_type(said, "run dkdbg there, or take the code there: dkdbg run --sync --on ssh://HOST -- CMD")
    line = line.replace("HOST", "login").replace("CMD", "python3 train.py")
    assert must(in_shell(root, line)).stdout == "trains\n"
    laptop.sh("login", "rm -r /home/me/dkdbg", user="me")
