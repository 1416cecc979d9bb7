"""All verbs with an engine on another machine: nothing is mounted there, nothing is published here."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap

import pytest

from dkdbg import hints
from dkdbg.errors import EXIT_CONFLICT, EXIT_ENGINE, EXIT_USAGE
from tests.agent.dap_probe import wait_for
from tests.engine import projects
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import (
    LOOP,
    at,
    command,
    dkdbg,
    must,
    stop_in,
    unique,
    write,
)
from tests.hints import hinted, in_shell
from tests.ports import free_port
from tests.typed import typed

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("box")]

SERVICE = "app-debug"


@pytest.fixture
def project(laptop, tmp_path):  # noqa: ARG001
    """A fresh repository after `init`; what it makes over there is taken away, its volumes too."""
    with projects.project(tmp_path / unique("far-engine"), {"train.py": LOOP}, "init", "--yes") as root:
        yield root


def container(laptop, root):
    said = laptop.docker("container", "inspect", f"{root.name}-{SERVICE}-1")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)[0]


def listed(root):
    """Names and states of the service's sessions; that an editor has left, one says a moment later."""
    said = must(dkdbg(root, "ps", "--json", f"compose://{SERVICE}")).stdout
    return [(each["name"], each["state"]) for each in json.loads(said)["sessions"]]


def test_a_fresh_project_is_debugged_there_from_f5_and_up_to_down_beside_another_command(
    laptop, project, tmp_path
):
    """The command runs beside the service's own program, whose agent has the debug port.

    A restart with what was synced: test_recipes.py.
    """
    refused = dkdbg(project, "run", "--", "train.py", "two words")
    assert (refused.returncode, refused.stdout) == (EXIT_USAGE, "")
    words = ["--on", f"compose://{SERVICE}", "--", "python3", "train.py", "two words"]
    run = f"dkdbg run {shlex.join(words)}"
    assert run in refused.stderr
    port = free_port()
    launch = project / ".vscode/launch.json"
    launch.write_text(launch.read_text().replace("5678", str(port)))
    (project / ".env").write_text(f"DKDBG_PORT={port}\n")
    bare, with_it = paths()
    alone = f5(project, bare)
    assert alone.returncode == 1
    assert "pip install dkdbg" in alone.stderr
    assert laptop.docker("container", "inspect", f"{project.name}-{SERVICE}-1").returncode
    first = f5(project, with_it)
    assert first.returncode == 1
    said = must(dkdbg(project, "up")).stdout
    [attach] = hinted(said, hints.REMOTE_ATTACH)
    assert attach == f"dkdbg attach --port {port}"
    assert attach in first.stderr
    [sync] = hinted(said, hints.REMOTE_SYNC)
    assert "ready at ssh://box" in said
    found = container(laptop, project)
    assert not found["NetworkSettings"]["Ports"].get("5678/tcp")
    assert {each["Type"] for each in found["Mounts"]} == {"volume"}
    # Other users of that machine reach its loopback: a published port would be theirs, too.
    assert ":162E " not in laptop.sh("cat /proc/net/tcp /proc/net/tcp6")  # 5678

    with attach_proxy(project, port=port) as proxy:
        proxy.wait("target")
        assert f5(project, with_it).returncode == 0
        stopped = stop_in(project, "train.py")
        assert (stopped.path, stopped.function) == (str(project / "train.py"), "step")
        write(project, **{"train.py": LOOP.replace("1.0 /", "-7.0 /")})
        must(in_shell(project, f"{sync} --once"))
        assert not json.loads(must(dkdbg(project, "sync", "--verify", "--json")).stdout)["differences"]
        assert proxy.end() == 0
    wait_for(lambda: listed(project), lambda found: found == [(SERVICE, "running")])
    assert "42" in must(dkdbg(project, "pdb", text="p 6 * 7\nq\n")).stdout

    ends = ["python3", "-c", "import os, sys; print(os.getcwd()); sys.exit(7)"]
    by_name = ["--on", f"docker://{project.name}-{SERVICE}-1", "--port", "5680", "--"]
    for where in (words[:3], by_name):
        done = dkdbg(project, "run", *where, *ends)
        assert (done.returncode, done.stdout) == (7, "/workspace\n"), done.stderr
    with typed(project, run.replace(" --on ", " --wait 300 --on "), tmp_path / "run.log"):
        wait_for(lambda: listed(project), lambda found: ("train.py", "waiting") in found)
        with attach_proxy(project, f"compose://{SERVICE}") as proxy:
            assert stop_in(project, "train.py", at(proxy.port, project, "/workspace")).function == "step"
            assert proxy.end() == 0
        wait_for(lambda: dict(listed(project)), lambda found: found["train.py"] == "running")
        assert (SERVICE, "running") in listed(project)  # its own program was left alone

    down = must(dkdbg(project, "down")).stdout
    (mount,) = found["Mounts"]
    line = f"docker volume rm {mount['Name']}"
    assert line in down
    assert laptop.docker("container", "inspect", found["Id"]).returncode
    must(in_shell(project, line))  # nobody uses it any more: no container was left


def test_a_run_there_is_proven_beside_the_service_with_the_files_of_its_image_and_leaves_nothing(
    laptop, base_image, tmp_path
):
    made = "RUN mkdir gen && echo made there > gen/made.txt"
    program = "print(open('gen/made.txt').read(), flush=True)\n" + textwrap.dedent(LOOP)
    files = {
        "Dockerfile": f"FROM {base_image}\nWORKDIR /app\nCOPY . .\n{made}\nCMD python3 train.py\n",
        "train.py": program,
        "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
    }

    def all_of_it():
        kinds = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
        return [sorted(laptop.docker(*words, "--quiet").stdout.split()) for words in kinds]

    with projects.project(tmp_path / unique("far-image"), files, "init", "--yes", "--wait", "0") as root:
        before = all_of_it()
        write(root, **{"train.py": "import no_such_module\n" + program})
        missing = dkdbg(root, "verify")
        assert missing.returncode == 1
        assert "[module-missing]" in missing.stdout
        write(root, **{"train.py": program})
        assert all_of_it() == before
        must(dkdbg(root, "up"))
        wait_for(lambda: dkdbg(root, "logs").stdout, lambda said: "made there" in said)
        running = all_of_it()
        proof = json.loads(must(dkdbg(root, "verify", "--json")).stdout)
        assert {"digest", "mapping", "stop"} <= {each["link"] for each in proof["links"]}
        assert not proof["left"]
        assert all_of_it() == running


def paths():
    """PATH without a dkdbg, and with this one."""
    folder = os.path.dirname(sys.executable)  # noqa: PTH120 - what is there is a link
    bare = os.pathsep.join(
        each for each in os.environ["PATH"].split(os.pathsep) if not shutil.which("dkdbg", path=each)
    )
    return bare, f"{folder}{os.pathsep}{bare}"


def f5(project, path):
    """The task, as VS Code runs it first."""
    return command(["sh", ".dkdbg/up.sh"], project, env={"PATH": path}, check=False)


def test_what_up_refuses_there_is_named_before_anything_is_made_the_hint_leads_to_a_start(laptop, project):
    """One reason after the other: a file, the service's scale, two mounts, and no address range for a network."""
    write(project, **{"compose.override.yaml": f"services:\n  {SERVICE}:\n    scale: 0\n"})
    refused = dkdbg(project, "up")
    assert refused.returncode
    assert "docker compose ps --all" in refused.stderr
    secret = project / "secret.txt"
    secret.write_text("nobody reads this\n")
    secret.chmod(0)
    (project / "compose.override.yaml").unlink()
    assert "dkdbg sync --explain" in in_shell(project, "dkdbg up").stderr
    said = must(in_shell(project, "dkdbg sync --explain secret.txt")).stdout
    assert said == "secret.txt: synced: no rule leaves it out\n"
    write(project, **{"dkdbg.toml": "[sync]\nignore = ['secret.txt']\n"})
    must(dkdbg(project, "down"))
    (project / "data").mkdir()
    write(project, **{"compose.override.yaml": f'services:\n  {SERVICE}:\n    volumes: ["./data:/data"]\n'})
    done = dkdbg(project, "up")
    assert done.returncode
    assert "app-debug mounts ./data at /data" in done.stderr
    assert not laptop.docker("ps", "-aq", "--filter", f"name={project.name}").stdout
    write(
        project, **{"compose.override.yaml": f'services:\n  {SERVICE}:\n    volumes: ["/srv/none:/data"]\n'}
    )
    done = dkdbg(project, "up")
    assert "a folder that the service mounts is not on the engine's machine" in done.stderr
    assert not laptop.docker("ps", "-q", "--filter", f"name={project.name}").stdout
    assert "none" not in laptop.sh("ls /srv")
    laptop.sh("mkdir -p /srv/none && echo there >/srv/none/file")
    # An engine has address ranges for some thirty networks (this one for eight), and projects that nobody took down hold them.
    laptop.docker("network", "prune", "--force")
    laptop.sh("while docker network create full-$(docker network ls -q | wc -l); do :; done >/dev/null 2>&1")
    try:
        refused = dkdbg(project, "up")
        assert refused.returncode == EXIT_CONFLICT, refused.stderr
        assert "docker network prune" in refused.stderr
    finally:
        laptop.docker("network", "prune", "--force")
    must(dkdbg(project, "up"))
    assert laptop.docker("exec", f"{project.name}-{SERVICE}-1", "cat", "/data/file").stdout == "there\n"


def test_a_service_of_somebody_elses_of_the_same_name_is_left_alone(laptop, project):
    """Two people with a folder of the same name at one machine: compose would take the one's container for the other's."""
    name = f"{project.name}-{SERVICE}-1"
    labels = {
        "com.docker.compose.project": project.name,
        "com.docker.compose.service": SERVICE,
        "com.docker.compose.project.working_dir": str(project),
        "com.docker.compose.oneoff": "False",
        "com.docker.compose.config-hash": "0",
        "com.docker.compose.container-number": "1",
        "dev.dkdbg.from": "anna@laptop:/home/anna/far-engine",
    }
    words = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    must(
        laptop.docker("run", "-d", "--init", "--name", name, *words, "dkdbg-test/python:3.11", "sleep", "600")
    )
    before = container(laptop, project)["Id"]
    for verb in ("up", "down"):
        done = dkdbg(project, verb)
        assert done.returncode, verb
        assert "started by anna@laptop:/home/anna/far-engine" in done.stderr
        assert container(laptop, project)["Id"] == before
    laptop.docker("rm", "-f", name)


def test_a_context_chooses_it_by_name_as_dockers_own_option_does(laptop, monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST")
    must(laptop.docker("context", "create", "gpu-box", "--docker", "host=ssh://box"))
    name = unique("seen")
    label = ("--label", f"dev.dkdbg.session={name}")
    must(laptop.docker("run", "-d", "--name", name, *label, "dkdbg-test/python:3.11", "sleep", "600"))
    try:
        assert name in must(dkdbg(tmp_path, "--context", "gpu-box", "ps")).stdout
        assert name in must(dkdbg(tmp_path, "ps", env={"DOCKER_CONTEXT": "gpu-box"})).stdout
        assert name not in must(dkdbg(tmp_path, "ps")).stdout
        assert "does not know which engine" in dkdbg(tmp_path, "--context", "nowhere", "ps").stderr
    finally:
        laptop.docker("rm", "-f", name)


def test_what_hinders_ssh_and_what_hinders_docker_there_are_told_apart(laptop, tmp_path, project):
    said = {}
    hosts = ("nobody-known@box", f"box:{free_port()}", "nowhere.invalid", "other@box")
    for host in (f"ssh://{each}" for each in hosts):
        done = dkdbg(project, "up", env={"DOCKER_HOST": host})
        assert done.returncode == EXIT_ENGINE, host
        said[host.partition("//")[2].partition(":")[0]] = done.stderr
    assert "accepts none of the keys that ssh offers" in said["nobody-known@box"]
    assert "nothing listens for ssh" in said["box"]
    assert "there is no host nowhere.invalid" in said["nowhere.invalid"]
    assert "no Docker engine answers there" in said["other@box"]  # not in the group docker
    assert "usermod -aG docker" in said["other@box"]
    laptop.sh("usermod -aG docker other")
    in_shell(tmp_path, "ssh -O exit other@box")  # to log in again
    seen = dkdbg(project, "ps", "docker://x", env={"DOCKER_HOST": "ssh://other@box"})
    assert "there is no running container x" in seen.stderr
    laptop.sh("gpasswd -d other docker")
    in_shell(tmp_path, "ssh -O exit other@box")
    known = laptop.folder / "known"
    before = known.read_text()
    laptop.forget()
    other = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    key = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    known.write_text("".join(f"{line.split()[0]} {key}\n" for line in before.splitlines()))
    try:
        assert "has changed: the machine was reinstalled" in dkdbg(project, "up").stderr
    finally:
        known.write_text(before)
