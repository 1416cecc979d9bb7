"""The verbs with Podman, rootful and rootless: it builds by podman, and its containers' health is asked of the agent."""

import json
import os
import signal
import subprocess

import pytest

from dkdbg import hints
from tests.agent.dap_probe import wait_for
from tests.commands import must
from tests.engine.attach_proxies import proxy_of
from tests.engine.projects import LOOP, at, launch_options, stop_in, unique, write
from tests.hints import hinted
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("podman")]


@pytest.fixture
def project(podman, base_image):
    """A fresh repository of the user's after `init`."""
    root = podman.folder / unique("pod")
    must(podman.run("mkdir", str(root)))
    writes = LOOP.replace("    for n in", '    open("out.txt", "w").write("mine")\n        for n in', 1)
    write(root, **{"train.py": writes, ".env": f"DKDBG_BASE={base_image}\nDKDBG_PORT={free_port()}\n"})
    subprocess.run(["chown", "-R", podman.user, str(root)], check=True)
    must(podman.run("git", "init", "-q", cwd=root))
    must(podman.run("dkdbg", "init", "--yes", cwd=root))
    return root


def stops(root, options=None):
    """Whether the program stops in its loop, as launch.json or these options say."""
    stopped = stop_in(root, "train.py", options)
    return (stopped.path, stopped.function) == (str(root / "train.py"), "step") and "loss" in stopped.values


def listed(podman, project):
    """Names and states of sessions; that an editor has left, one says a moment later."""
    seen = json.loads(must(podman.run("dkdbg", "ps", "--json", cwd=project)).stdout)["sessions"]
    # Root's sessions on this machine are those of other tests too.
    return [
        (each["name"], each["state"]) for each in seen if not each["target"].startswith(("local", "call"))
    ]


def test_a_fresh_project_from_up_to_down(podman, project):
    said = must(podman.run("dkdbg", "up", cwd=project)).stdout
    assert "Podman " in said
    assert "COMMIT" in said  # podman has built
    assert stops(project)
    assert (project / "out.txt").stat().st_uid == podman.uid  # the container's root is the user
    wait_for(lambda: listed(podman, project), lambda found: found == [("app-debug", "running")])
    must(podman.run("dkdbg", "restart", cwd=project))
    assert stops(project)
    typed = podman.run("dkdbg", "pdb", "app-debug", cwd=project, text="p 6 * 7\nq\n")
    assert "42" in typed.stdout, typed.stderr
    assert "same folder" in podman.run("dkdbg", "sync", "--once", cwd=project).stdout
    again = must(podman.run("sh", ".dkdbg/up.sh", cwd=project)).stdout  # as F5 does
    assert "COMMIT" not in again  # nothing has changed: no build
    must(podman.run("dkdbg", "down", cwd=project))
    assert not must(podman.run("docker", "ps", "-aq")).stdout.strip()


#: Root's Podman differs only in how its containers are reached and whose files they write.
ROOTLESS = pytest.mark.parametrize("podman", ["rootless"], indirect=True)


@ROOTLESS
def test_another_command_is_built_and_stopped_and_a_program_that_ends_at_once_is_shown(podman, project):
    """The command by `docker compose run`: built by podman, stopped at a breakpoint, with its own exit code."""
    ends = ["dkdbg", "run", "--wait", "0", "--", "-c", "import os, sys; print(os.getcwd()); sys.exit(7)"]
    done = podman.run(*ends, cwd=project)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (7, "/workspace"), done.stderr
    assert "COMMIT" in done.stderr  # podman has built
    running = podman.start_dkdbg(
        "run", "--wait", "300", "--", "train.py", cwd=project, stderr=subprocess.PIPE
    )
    try:
        lines = iter(running.stderr.readline, "")
        told = next(line for line in lines if "attach with: dkdbg attach 127.0.0.1:" in line)
        assert int(told.rpartition(":")[2]) == launch_options(project).port
        next(line for line in lines if "waiting for a debugger" in line)
        [typed] = hinted(told, hints.ATTACH_WITH)
        attach = ["sh", "-c", f"exec {typed} --json --port {free_port()}"]
        with proxy_of(attach, project, podman.environment) as proxy:
            proxy.wait("target", ready=True)
            assert proxy.end() == 0
        assert stops(project)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=300)
        assert running.returncode == 130
    finally:
        running.kill()
        running.wait()
    assert not must(podman.run("docker", "ps", "-aq")).stdout.strip()

    (project / "train.py").write_text("import sys\nsys.exit('no data here')\n")
    for _ in range(5):  # a busy machine may see it running for a moment, which is ready
        done = podman.run("env", "DKDBG_WAIT=0", "dkdbg", "up", cwd=project)
        must(podman.run("dkdbg", "down", cwd=project))
        if done.returncode:
            break
    assert done.returncode
    assert "no data here" in done.stdout + done.stderr


def test_a_command_in_a_container_that_knows_nothing_of_dkdbg(podman, base_image):
    """A rootless container has an address in a network that this machine does not reach: the relay leads there."""
    name = unique("plain")
    must(podman.run("docker", "run", "-d", "--name", name, "-w", "/w", base_image, "sleep", "600"))
    try:
        work = podman.folder / unique("work")
        must(podman.run("mkdir", str(work)))
        write(work, **{"train.py": LOOP})
        must(podman.run("dkdbg", "sync", f"docker://{name}", "--once", cwd=work))
        words = ["--on", f"docker://{name}", "--wait", "300", "--", "python3", "train.py"]
        started = podman.start_dkdbg("run", *words, cwd=work)
        words = ["attach", f"docker://{name}", "--port", str(free_port()), "--json"]
        attach = podman.start_dkdbg(*words, cwd=work, stdout=subprocess.PIPE)
        try:
            heard = next(each for each in map(json.loads, attach.stdout) if each["event"] == "listening")
            assert stops(work, at(heard["port"], work, "/w"))
        finally:
            for each in (attach, started):
                each.send_signal(signal.SIGTERM)
            attach.communicate(timeout=300)
            started.wait(300)
    finally:
        podman.run("docker", "rm", "-f", "-t", "0", name)


@ROOTLESS
def test_a_socket_at_which_no_podman_answers_gets_one_by_what_is_said(podman):
    socket = podman.folder / "run/podman/podman.sock"
    answers = ["env", f"DOCKER_HOST=unix://{socket}", "dkdbg", "ps", "docker://x"]
    assert "podman system service -t 0" in podman.run(*answers).stderr
    must(podman.run("sh", "-c", "exec >pid 2>/dev/null; podman system service -t 0 & echo $!"))
    pid = int((podman.folder / "pid").read_text())
    try:
        wait_for(lambda: podman.run(*answers).stderr, lambda said: "there is no running container x" in said)
    finally:
        os.kill(pid, signal.SIGTERM)
