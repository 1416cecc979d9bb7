"""The verbs in a pod: the real kubectl, a stand-in for the API server, and containers that stand for the pods'."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.targets import registry
from tests.engine import projects
from tests.engine.attach_proxies import attach_proxy, proxy_of
from tests.engine.projects import LOOP, dkdbg, marked_line, must, write
from tests.engine.synced import Box, docker, following, take_away
from tests.kubernetes.cluster import Pod
from tests.kubernetes.ranks import editor
from tests.kubernetes.runs import (
    ENDS,
    WAITS,
    ends_by_ctrl_c,
    relays,
    send,
    start,
    wait_until_no_relay_is_left,
)
from tests.ports import free_port

pytestmark = pytest.mark.engine

#: What kubectl says itself, after a command that has failed.
KUBECTLS = "command terminated with exit code"


def left(box: Box) -> list[str]:
    found = box.sh("ls -A /tmp/dkdbg-* 2>/dev/null || :").split()
    return [name for name in found if name.startswith((".", "agent-", "hook-", "debugpy-"))]


def test_output_and_exit_code_are_the_programs_and_nothing_is_left(root, box):
    done = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "python3", "-c", ENDS)
    assert (done.returncode, done.stdout) == (7, "out /srv\n"), done.stderr
    assert "err" in done.stderr.splitlines()
    assert all(line == "err" or line.startswith(("dkdbg: ", KUBECTLS)) for line in done.stderr.splitlines())
    assert left(box) == []


@pytest.mark.usefixtures("box")
def test_doctor_examines_a_pod_from_inside(root):
    done = must(dkdbg(root, "doctor", "--on", "k8s://ml/train-0"))
    assert (
        "warning: shm: k8s://ml/train-0: /dev/shm has 64 MB" in done.stdout
    )  # a container stands for the pod
    assert done.stdout.count("warning: ") == 1


@pytest.mark.usefixtures("box")
def test_a_command_line_gets_there_word_by_word_and_input_and_output_byte_for_byte(root, cluster):
    place = registry.target_of("k8s://ml/app=train", root)
    executor = place.find()
    words = ["", "a b", "$HOME", "*", "'", '"', "`id`", "\\", "ä\n\u202e", "--", "-it", "%41+&c=1"]
    show = "import sys; print(ascii(sys.argv[1:]))"
    argv = executor.wrap(["python3", "-c", show, *words])
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == ascii(words)
    data = os.urandom(3 << 20)
    echoed = subprocess.run(executor.wrap(["cat"]), input=data, capture_output=True, check=True)
    assert (echoed.stdout, echoed.stderr) == (data, b"")
    for code, argv in (
        (0, ["true"]),
        (137, ["sh", "-c", "kill -9 $$"]),
        (127, ["nope"]),
        (126, ["/etc/passwd"]),
    ):
        done = subprocess.run(executor.wrap(argv), capture_output=True, check=False)
        assert done.returncode == code, done
    assert not any("secret-of-alice" in each for each in cluster.asked)


def test_ps_restart_pdb_and_ctrl_c_reach_a_run(root, box):
    running = start(root, "k8s://ml/train-0", "python3", "-c", WAITS)
    try:
        listed = must(dkdbg(root, "ps")).stdout
        assert "pod ml/train-0" in listed
        assert "42" in must(dkdbg(root, "pdb", "k8s://ml/train-0", text="p 40 + 2\nq\n")).stdout
        said = must(dkdbg(root, "restart", "k8s://ml/train-0")).stdout
        assert said == "train-0: restarted, run 2\n"
        while (line := running.stdout.readline()) != "up\n":
            assert line == "interrupted\n"
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=300)
        assert (running.returncode, out) == (9, "interrupted\n")
        assert left(box) == []
    finally:
        running.kill()
        running.wait()


@pytest.mark.usefixtures("box")
def test_what_ends_a_held_pod_is_told_before_the_first_stop_and_listed(root, cluster, made):
    probe, box = {"httpGet": {"port": 80}, "periodSeconds": 7}, made()
    cluster.put(Pod("train-0", {"main": box.name}, container={"livenessProbe": probe}))
    running = start(root, "k8s://ml/train-0", "python3", "-c", WAITS)
    told = "the livenessProbe restarts the container main"
    try:
        with attach_proxy(root, "k8s://ml/train-0") as proxy:
            assert f"{told} after 21 s without an answer" in proxy.wait("deadlines")["text"]
            with Debugger(AttachOptions(port=proxy.port)) as debugger:
                debugger.attach()
                debugger.wait_output(told, timeout=300)
        for verb, key in (("ps", "sessions"), ("where", "jobs")):
            [found] = json.loads(must(dkdbg(root, verb, "k8s://ml/train-0", "--json")).stdout)[key]
            assert [(each["what"], each["after_s"]) for each in found["deadlines"]] == [(told, 21.0)]
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=300)


@pytest.mark.usefixtures("box")
def test_a_terminal_is_the_commands_too(root):
    ends_by_ctrl_c(root, "k8s://ml/train-0", "python3", "-c", WAITS)


@pytest.mark.core
def test_sync_follows_a_save_into_the_working_folder_of_the_pod_and_finds_the_pod_that_comes_after(
    root, cluster, made, box
):
    (root / "train.py").write_text("first\n")
    with following(root, "k8s://ml/app=train") as followed:
        assert box.read("/srv/train.py") == "first\n"
        (root / "train.py").write_text("second\n")
        followed.wait(lambda: box.read("/srv/train.py") == "second\n", "the second content")
        cluster.delete("train-0")
        take_away(box.name)
        followed.wait(lambda: followed.named("lost"), "the loss")
        second = made()
        cluster.put(Pod("train-1", {"main": second.name}, labels={"app": "train"}))
        followed.wait(lambda: second.read("/srv/train.py") == "second\n", "the second pod")
        assert followed.stop() == 0
    verified = must(dkdbg(root, "sync", "--verify", "k8s://ml/train-1")).stdout
    assert "equal" in verified or "same" in verified, verified


def test_the_pod_says_where_the_code_lies(root, box, cluster):
    (root / "train.py").write_text("x\n")
    mapping = '[{"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}]'
    container = {"env": [{"name": "DKDBG_MAPPINGS", "value": mapping}], "workingDir": "/opt/code"}
    cluster.put(Pod("train-0", {"main": box.name}, container=container))
    must(dkdbg(root, "sync", "--once", "k8s://ml/train-0"))
    assert box.read("/workspace/train.py") == "x\n"
    cluster.put(Pod("train-0", {"main": box.name}, container={"workingDir": "/opt/code"}))
    must(dkdbg(root, "sync", "--once", "k8s://ml/train-0"))
    assert box.read("/opt/code/train.py") == "x\n"


def test_a_random_user_without_a_home_in_a_read_only_root_is_enough(root, cluster, made):
    """As OpenShift's restricted-v2 runs a pod: a uid without a passwd entry, HOME=/, no capability."""
    restricted = "-u 1000660000:0 -e HOME=/ --cap-drop ALL --security-opt no-new-privileges"
    box = made(*restricted.split(), "--read-only", "--tmpfs", "/tmp:mode=1777")
    cluster.put(Pod("train-0", {"main": box.name}))
    show = "import os; print(os.getuid(), os.environ['HOME'])"
    done = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "python3", "-c", show)
    assert (done.returncode, done.stdout) == (0, "1000660000 /\n"), done.stderr
    assert docker("exec", box.name, "sh", "-c", "ls -d /tmp/dkdbg-*").strip() == "/tmp/dkdbg-1000660000"


def test_without_any_folder_that_can_be_written_it_says_so(root, cluster, made):
    box = made("-u", "1000660000:0", "-e", "HOME=/", "--read-only", "--tmpfs", "/dev/shm:mode=0755")
    cluster.put(Pod("train-0", {"main": box.name}))
    done = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "true")
    assert done.returncode == 1
    assert "k8s://ml/train-0 rejects the agent" in done.stderr
    assert "DKDBG_RUNTIME_DIR" in done.stderr


@pytest.mark.usefixtures("cluster")
def test_what_a_pod_lacks_is_said(root, box):
    for spoil, said in (
        ("for f in /usr/bin/python* /usr/local/bin/python*; do rm -f $f; done", "has no Python 3.8 or newer"),
        (
            "printf '#!/bin/sh\\nexit 1\\n' >/usr/bin/python3; chmod 755 /usr/bin/python3",
            "has no Python 3.8 or newer",
        ),
        ("rm -f /bin/sh /usr/bin/sh", "the container has no sh"),
    ):
        docker("exec", box.name, "bash", "-c", spoil)
        done = dkdbg(root, "run", "--on", "k8s://ml/train-0", "--", "true")
        assert (done.returncode, said in done.stderr, "hint: " in done.stderr) == (127, True, True), (
            spoil,
            done.stderr,
        )
    done = dkdbg(root, "sync", "--once", "k8s://ml/train-0", "--to", "/srv")
    assert said in done.stderr, done.stderr


TRAIN = ("--", "python3", "train.py")


@contextlib.contextmanager
def attached(root, box, target: str = "k8s://ml/train-0"):
    """An editor attached to a program in the pod train-0, and the started commands, which are ended."""
    write(root, **{"train.py": LOOP})
    docker("cp", str(root / "train.py"), f"{box.name}:/srv/train.py")
    started = [projects.start(root, "run", "--on", "k8s://ml/train-0", *TRAIN)]
    try:
        with attach_proxy(root, target) as proxy, editor(proxy.port, root, "/srv") as debugger:
            yield debugger, started
    finally:
        for each in started:
            each.send_signal(signal.SIGTERM)
            each.communicate(timeout=300)


def test_a_breakpoint_is_hit_through_kubectls_that_are_cut_and_in_the_pod_that_comes_after(
    root, cluster, made, box
):
    """The editor hears that the pod was deleted."""
    with attached(root, box, "k8s://ml/app=train") as (debugger, started):
        stop = debugger.wait_stopped(300)
        for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP):  # killed, and silent
            cut = relays()
            assert cut
            send(number, cut)
            debugger.continue_(stop)
            stop = debugger.wait_stopped(300)
            assert debugger.stack(stop)[0].line == marked_line(root / "train.py")
            send(signal.SIGCONT, cut)  # the stand-in has a process for each kubectl
        cluster.delete("train-0")
        take_away(box.name)
        debugger.wait_output("the pod train-0 was deleted", timeout=300)
        second = made()
        docker("cp", str(root / "train.py"), f"{second.name}:/srv/train.py")
        cluster.put(Pod("train-1", {"main": second.name}, labels={"app": "train"}))
        started.append(projects.start(root, "run", "--on", "k8s://ml/train-1", *TRAIN))
        assert debugger.stack(debugger.wait_stopped(300))[0].name == "step"
    wait_until_no_relay_is_left()  # neither of the proxy's nor of the runs


def test_a_pod_that_is_being_deleted_keeps_its_session_until_its_program_ends(root, cluster, box):
    """Within its grace period the program runs on; a kubectl that fell silent meanwhile ended the session."""
    with attached(root, box) as (debugger, _):
        stop = debugger.wait_stopped(300)
        leaving = {"deletionTimestamp": "2026-11-22T10:01:00Z"}
        cluster.put(Pod("train-0", {"main": box.name}, labels={"app": "train"}, metadata=leaving))
        cut = relays()
        assert cut
        send(signal.SIGSTOP, cut)
        debugger.continue_(stop, timeout=300)
        again = debugger.wait_stopped(300)
        assert again.session is stop.session
        send(signal.SIGCONT, cut)


def test_an_editor_hears_that_the_container_of_its_pod_was_restarted(root, box):
    """The pod and its name stay, and nothing of the former session is in the new container."""
    with attached(root, box) as (debugger, started):
        former = debugger.wait_stopped(300).session
        docker("kill", box.name)
        docker("start", box.name)
        docker("exec", box.name, "sh", "-c", "rm -rf /tmp/dkdbg*")
        debugger.wait_ended(60, session=former)
        debugger.wait_output("connection to the process lost")
        assert started[0].wait(60) == 255
        started.append(projects.start(root, "run", "--on", "k8s://ml/train-0", *TRAIN))
        assert debugger.wait_stopped(300).session is not former


def test_a_port_of_a_pod_is_brought_here(root, box):
    serving = "import http.server as h; h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler).serve_forever()"
    docker("exec", "-d", box.name, "python3", "-c", serving)
    knock = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8000))\" 2>/dev/null"
    box.sh(f"until {knock}; do sleep 0.1; done")
    words = ["forward", "k8s://ml/app=train", f"{free_port()}:8000", "--json"]
    with proxy_of([sys.executable, "-m", "dkdbg", *words], root) as forwarding:
        local = forwarding.wait("port")["local"]
        with urlopen(f"http://127.0.0.1:{local}/", timeout=300) as answer:
            assert answer.status == 200
    wait_until_no_relay_is_left()


ECHO = (
    "import sys\n"
    "print('up', flush=True)\n"
    "for count, line in enumerate(sys.stdin, 1): print(count, line.strip(), flush=True)\n"
    "sys.exit(count)\n"
)


def talking(root, target: str, text: str) -> subprocess.Popen[bytes]:
    """A program in the pod that can be spoken with; it is up."""
    words = ("run", "--on", target, "--", "python3", "-c", text)
    running = projects.start(root, *words, bufsize=0, stdin=subprocess.PIPE, text=False)
    assert running.stdout.readline() == b"up\n", running.communicate()
    return running


def test_input_output_and_exit_code_pass_cuts_once_and_in_order(root, box):
    running = talking(root, "k8s://ml/train-0", ECHO)
    try:
        for number in (1, 2, 3):
            send(signal.SIGKILL, relays())
            running.stdin.write(b"line %d\n" % number)
            assert running.stdout.readline() == b"%d line %d\n" % (number, number)
        out, err = running.communicate(timeout=300)
        assert (running.returncode, out) == (3, b""), err
        assert left(box) == []
        wait_until_no_relay_is_left()
    finally:
        running.kill()
        running.communicate()


def test_a_pod_that_was_deleted_under_a_program_is_said_soon(root, box, cluster):
    running = talking(root, "k8s://ml/train-0", WAITS)
    try:
        cluster.pods.clear()
        take_away(box.name)
        _, err = running.communicate(timeout=300)
        assert running.returncode == 255
        assert b"the pod train-0 was deleted" in err, err
        assert b"kubectl get pods --namespace=ml" in err
    finally:
        running.kill()
        running.communicate()
