"""What the verbs say of containers and of a debug service, and tell somebody to type, is typed and helps."""

import ctypes
import json
import os
import subprocess

import pytest

from dkdbg import hints
from dkdbg.setup.render.manifest import digest
from tests.engine import projects
from tests.engine.attach_proxies import attach_proxy, typed_proxy
from tests.engine.projects import LOOP, command, dkdbg, must, unique, write
from tests.engine.synced import docker, starting
from tests.hints import hinted, in_shell
from tests.pages import environment
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("hints")]

LIMIT = 300


def entered(root, line):
    """Whether typing a `dkdbg pdb ...` gets into a program."""
    done = command(["sh", "-c", line], root, env=environment(), text="p 6 * 7\nq\n", check=False)
    return "42\n" in done.stdout


@pytest.fixture(scope="module")
def project(base_image, tmp_path_factory):
    """A repository after `init`, whose service is not started; its image is that of all tests."""
    files = {"train.py": LOOP, ".env": f"DKDBG_PORT={free_port()}\nDKDBG_BASE={base_image}\n"}
    with projects.project(tmp_path_factory.mktemp("hints") / unique("hints"), files, "init", "--yes") as root:
        yield root


@pytest.fixture
def down(project):
    """The project without a container."""
    must(dkdbg(project, "down"))
    return project


@pytest.fixture
def started(project):
    """The project, whose program waits in its debug service."""
    must(dkdbg(project, "up"))
    return project


def test_where_no_service_runs_or_one_has_ended_up_starts_it_and_without_its_wait_pdb_enters_it(down):
    [line] = hinted(dkdbg(down, "logs").stderr, hints.SERVICE_UP)
    must(in_shell(down, line))
    must(dkdbg(down, "logs"))
    assert "DKDBG_WAIT=0 dkdbg up" in dkdbg(down, "pdb").stderr
    must(in_shell(down, "DKDBG_WAIT=0 dkdbg up"))
    assert entered(down, "dkdbg pdb")
    docker("stop", "-t", "5", f"{down.name}-app-debug-1")
    with attach_proxy(down, "app-debug") as proxy:
        proxy.wait_for(lambda each: each.get("text") == hints.SERVICE_UP())
    [line] = hinted(dkdbg(down, "where", "compose://app-debug").stderr, hints.SERVICE_UP)
    must(in_shell(down, f"DKDBG_WAIT=0 {line}"))
    assert "train.py" in must(dkdbg(down, "where", "compose://app-debug")).stdout


def test_an_agent_that_is_not_understood_is_brought_up_to_date_by_what_is_said(down):
    """With a stand-in for one of another version, which answers another thing to `ranks`."""
    agent, manifest = down / ".dkdbg/agent.pyz", down / ".dkdbg/manifest.json"
    ours = digest(agent.read_bytes())
    agent.rename(down / ".dkdbg/other.pyz")
    agent.write_text('#!/bin/sh\n[ "$1" != ranks ] || exec echo "{}"\nexec sh /opt/dkdbg/other.pyz "$@"\n')
    agent.chmod(0o755)
    # As its `init` wrote it.
    manifest.write_text(manifest.read_text().replace(ours, digest(agent.read_bytes())))
    must(dkdbg(down, "up", env={"DKDBG_WAIT": "0"}))
    assert "dkdbg init, dkdbg down, then dkdbg up" in dkdbg(down, "ranks", "eval", "6 * 7").stderr
    must(dkdbg(down, "init", "--yes"))
    must(dkdbg(down, "down"))
    must(dkdbg(down, "up", env={"DKDBG_WAIT": "0"}))
    assert "42" in must(dkdbg(down, "ranks", "eval", "6 * 7")).stdout


def test_a_container_without_an_agent_says_where_one_runs_and_how_to_begin(started, start_container):
    plain = start_container("-w", "/srv")
    assert "no dkdbg agent runs on" in dkdbg(started, "restart", f"docker://{plain}").stderr
    assert f"{started.name}-app-debug-1" in must(dkdbg(started, "ps")).stdout
    docker("exec", "-d", plain, "python3", "-c", "import time\nwhile True: time.sleep(0.01)")
    [line] = hinted(dkdbg(started, "pdb", f"docker://{plain}").stderr, hints.HOW_TO_ENTER)
    with typed_proxy(started, line) as proxy:
        said = proxy.wait_for(lambda each: " --pid " in each["text"])["text"]
        assert proxy.end() == 0
    assert f"dkdbg attach docker://{plain} --pid" in said


def test_a_command_in_the_service_beside_the_one_that_runs_says_how_to_attach(started):
    words = ("run", "--wait", str(LIMIT), "--", "train.py")
    with projects.started(started, *words, stdout=subprocess.DEVNULL) as running:
        said = ""
        while "waiting for a debugger" not in said:
            read = running.stderr.readline()
            assert read, said
            said += read
        [line] = hinted(said, hints.PORT_TAKEN)
        with typed_proxy(started, line) as proxy:
            proxy.wait("target", ready=True)
            assert proxy.end() == 0


def test_a_port_of_an_attach_is_free_when_that_is_stopped_and_a_run_needs_a_command(tmp_path, monkeypatch):
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    port = str(free_port())
    words = ("run", "--on", "local:", "--port", str(free_port()), "--attach", port, "--", "true")
    with attach_proxy(tmp_path, "local:", port=int(port)) as proxy:
        run, attach = hinted(dkdbg(tmp_path, *words).stderr, hints.PORT_HELD)
        must(in_shell(tmp_path, f"{run} {free_port()} --on local: --port {free_port()} -- true"))
        assert f"{attach} local:".split()[1:] == proxy.process.args[3:5]
        assert proxy.end() == 0
    must(dkdbg(tmp_path, *words))
    refused = dkdbg(tmp_path, "run", "--on", "local:")
    assert (refused.returncode, "dkdbg run -- " in refused.stderr) == (2, True), refused.stderr


def test_a_container_without_a_folder_for_code_gets_it_by_what_is_said(start_container, tmp_path):
    name = start_container()
    write(tmp_path, **{"train.py": "print('trains')\n"})
    done = dkdbg(tmp_path, "run", "--sync", "--on", f"docker://{name}", "--", "python3", "train.py")
    assert f"dkdbg sync docker://{name} --once --to /code" in done.stderr
    must(dkdbg(tmp_path, "sync", f"docker://{name}", "--once", "--to", "/code"))
    done = must(dkdbg(tmp_path, "run", "--on", f"docker://{name}", "--", "python3", "/code/train.py"))
    assert done.stdout == "trains\n"


def test_more_files_than_are_said_beside_a_run_are_listed_by_what_is_said(start_container, tmp_path):
    """Those that cannot be written there by `--verify`; why one does not take part by `--explain`."""
    place = f"docker://{start_container('-w', '/w', '--tmpfs', '/w/data:ro')}"
    write(tmp_path, **{f"data/{n}.txt": f"{n}\n" for n in range(25)})
    for n in range(25):
        (tmp_path / f"link{n}").symlink_to("/etc/passwd")
    said = must(dkdbg(tmp_path, "run", "--sync", "--on", place, "--", "true")).stderr
    [line] = hinted(said, hints.SYNC_VERIFY)
    assert "--json lists all of them" in in_shell(tmp_path, line).stdout
    shown = json.loads(in_shell(tmp_path, f"{line} --json").stdout)["differences"]
    assert {f"data/{n}.txt" for n in range(25)} <= set(shown)
    unsaid = next(f"link{n}" for n in range(25) if f"link{n}:" not in said)
    assert "leads out of the root" in must(dkdbg(tmp_path, "sync", "--explain", unsaid)).stdout
    assert "dkdbg -C ROOT sync --explain" in dkdbg(tmp_path / "data", "sync", "--explain", "../link1").stderr


def mapped(*pairs):
    """The options of a container that says where code lies."""
    found = [{"localRoot": "${workspaceFolder}/" + local, "remoteRoot": remote} for local, remote in pairs]
    return ("-w", "/w", "-e", f"DKDBG_MAPPINGS={json.dumps(found)}")


@pytest.mark.parametrize(
    ("pairs", "said", "folder"),
    [
        ((("a b", "/w/a"), ("c", "/w/c d")), "dkdbg -C 'a b' sync TARGET --to /w/a", "a b"),
        ((("linked", "/w/a"),), "sync TARGET --to PATH", "../other"),
    ],
    ids=["several folders", "a folder outside"],
)
def test_code_that_is_not_one_folder_of_the_repository_is_synced_as_it_says(
    start_container, tmp_path, *, pairs, said, folder
):
    name, root = start_container(*mapped(*pairs)), tmp_path / "here"
    write(root, **{"a b/x.py": "x\n", "c/y.py": "y\n", "../other/x.py": "x\n"})
    (root / "linked").symlink_to("../other")
    assert said in dkdbg(root, "sync", "--once", f"docker://{name}").stderr
    must(dkdbg(root, "-C", folder, "sync", "--once", f"docker://{name}", "--to", "/w/a"))
    assert docker("exec", name, "cat", "/w/a/x.py") == "x\n"


def exchange(one, other):
    """Each gets the other's name, at once: there is no moment without one of them."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)
    assert done == 0, os.strerror(ctypes.get_errno())


def test_a_root_that_was_exchanged_is_synced_by_a_new_start(start_container, tmp_path):
    place, root = f"docker://{start_container('-w', '/w')}", tmp_path / "code"
    write(root, **{"x.py": "x\n"})
    with starting(root, place) as following:
        following.wait(lambda: following.named("in_sync"), "in sync once")
        exchange(root, write(tmp_path / "other", **{"y.py": "y\n"}))
        write(tmp_path / "other", **{"x.py": "changed\n"})  # which sync sees by the folder, not by its name
        following.process.wait(LIMIT)
        said = following.rest()
    assert "nothing was deleted" in said
    assert docker("exec", place.removeprefix("docker://"), "cat", "/w/x.py") == "x\n"
    must(dkdbg(root, "sync", "--once", place))
    assert docker("exec", place.removeprefix("docker://"), "cat", "/w/y.py") == "y\n"
