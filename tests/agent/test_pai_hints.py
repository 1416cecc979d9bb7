"""What dkdbg says to type about OpenPAI helps: real tasks on this machine, told of by a stand-in for its server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.delivery import single_file
from tests.agent import nc
from tests.agent.test_pai import own_address
from tests.engine.host_doors import typed_door
from tests.engine.projects import dkdbg, must
from tests.hints import in_shell, to_type
from tests.openpai import jobs, protocol, rest, task
from tests.ports import free_port
from tests.typed import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[str]]

TRAIN = "def step(n):\n    return n * 2\n\nprint('sum', sum(step(n) for n in range(3)))\n"
#: The address of the node that the platform names; on a real one others reach it.
NODE = "127.0.0.2"
#: What a user types into `nc` after the token.
SESSION = "p 40 + 2\nc\nq\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "code"
    made.mkdir()
    subprocess.run(["git", "init", "-q", made], check=True)
    for name, text in {"train.py": TRAIN, "setup.py": "", "job.yaml": jobs.PLAIN}.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def start(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a task of what `job.yaml` is now, or with `words` a Python of a job that has nothing but paipdb."""
    started: list[subprocess.Popen[str]] = []
    package = root.parent / "paipdb.zip"
    package.write_bytes(single_file.build_pdb())

    def run(*words: str, port: int = 0, host: str = NODE, **env: str) -> subprocess.Popen[str]:
        if words:
            clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PYTHONUNBUFFERED": "1"}
            told = protocol.environment(port, host=host) if port else {}
            started.append(
                subprocess.Popen(
                    [sys.executable, "-S", *words], cwd=root, env=clean | told | env, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                )
            )  # fmt: skip
        else:
            text, home = (root / "job.yaml").read_text(), tmp_path_factory.mktemp("task")
            env = {"DKDBG_JOIN_DEADLINE": "60"} | env
            started.append(task.start(text, "worker", root, home, port or free_port(), host=host, **env))
        return started[-1]

    yield run
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def log_until(running: subprocess.Popen[str], mark: str) -> str:
    """The log of a task until the line with this mark."""
    assert running.stderr is not None
    said = ""
    for line in running.stderr:
        said += line
        if mark in line:
            return said
    raise AssertionError(said)


def by_nc(root: Path, line: str, token: str) -> str:
    """What a session shows: an `nc` line that is typed, the token, and what a user types then."""
    home = root.parent / "bin"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        ["sh", "-c", line], cwd=root, env={**os.environ, "PATH": nc.path(home)}, input=f"{token}\n{SESSION}", capture_output=True,
        text=True, check=True, timeout=300,
    ).stdout  # fmt: skip


def debugged(root: Path, port: int, token: str) -> str:
    """Where an editor stops that attaches to a port of this machine."""
    options = AttachOptions(host="127.0.0.1", port=port, extra={"dkdbgToken": token})
    with Debugger(options) as debugger:
        debugger.set_breakpoints(str(root / "train.py"), [2])
        debugger.attach()
        return debugger.stack(debugger.wait_stopped(300))[0].name


def ends(running: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it has printed."""
    out, err = running.communicate(timeout=300)
    return running.returncode, out + err


# --- in a job


def test_without_the_agent_an_editor_is_waited_for_once_init_has_written_it(root: Path, start: Start) -> None:
    words, port = ("-m", "paipdb", "--dap", "train.py"), free_port()
    code, said = ends(start(*words, port=port))
    assert code == 2
    [line] = to_type(
        said,
        "dkdbg: --dap needs the whole agent, and there is none here: bring .dkdbg/agent.pyz of `dkdbg init` with the job's code or image and name it in DKDBG_AGENT, or install dkdbg there; pdb without --dap needs nothing more\n",
    )
    must(in_shell(root, f"{line} --yes"))
    (root / ".dkdbg/agent.pyz").rename(root.parent / "agent.pyz")
    there = start(*words, port=port, DEBUG_TIMEOUT="0.3", DKDBG_AGENT=str(root.parent / "agent.pyz"))
    code, said = ends(there)
    assert (code, f"debug host ip is set to {NODE}, port is set to {port}" in said) == (124, True), said


def test_without_a_port_init_asks_the_platform_for_one(root: Path, start: Start) -> None:
    code, said = ends(start("-m", "paipdb", "train.py"))
    assert code == 1
    [line] = to_type(
        said,
        "dkdbg: {}; the task role has to ask for it: resourcePerInstance.ports: {{}: 1}, which dkdbg init --pai writes, or call settrace(port=...)\n",
    )
    must(in_shell(root, f"{line} --yes"))
    assert protocol.load((root / "job.yaml").read_text())["taskRoles"]["worker"]["resourcePerInstance"]["ports"] == {"debug": 1}  # fmt: skip
    code, said = ends(start(DEBUG_TIMEOUT="0.3"))
    assert (code, "No client connect to server in 0.3 seconds" in said) == (124, True), said


def test_pdb_is_reached_by_the_nc_that_the_log_has(root: Path, start: Start) -> None:
    running = start("-m", "paipdb", "train.py", port=free_port())
    said = log_until(running, "type this first: ")
    [line] = to_type(said, "{} (nc {} {}); {}")
    shown = by_nc(root, line, said.split()[-1])
    assert "42" in shown
    assert running.wait(300) == 0


def test_pdb_on_loopback_is_reached_by_nc_in_the_container(root: Path, start: Start) -> None:
    """The address that the platform names is not the container's."""
    running = start("-m", "paipdb", "train.py", port=free_port(), host="203.0.113.7")
    said = log_until(running, "reach it through ssh")
    [line] = to_type(
        said,
        "dkdbg: {} is not an address of this container, because the job is not in the host's network; reach it through ssh: nc {} {}\n",
    )
    said += log_until(running, "type this first: ") if "type this first: " not in said else ""
    token = re.search(r"type this first: (\S+)", said)
    assert token, said
    assert "42" in by_nc(root, line, token[1])
    assert running.wait(300) == 0


# --- init --pai


def test_several_processes_get_an_editor_by_the_option_that_is_said(root: Path) -> None:
    text = jobs.PLAIN.replace("python train.py", "torchrun --nproc-per-node=2 train.py")
    (root / "a b").mkdir()
    (root / "a b/job.yaml").write_text(text)
    said = must(dkdbg(root, "init", "--pai", "a b/job.yaml", "--diff")).stdout
    [line] = to_type(
        said,
        "{} starts several processes, and pdb has one port: dkdbg init --pai {} --dap lets an editor debug all of them; or `import paipdb; paipdb.settrace()` in the code of one",
    )
    must(in_shell(root, f"{line} --yes"))
    assert "command torchrun" not in text
    assert "--dap" in (root / "a b/job.yaml").read_text()


def test_an_editor_gets_the_agent_by_init(root: Path, start: Start) -> None:
    said = must(dkdbg(root, "init", "--pai", "job.yaml", "--dap", "--yes")).stdout
    [line] = to_type(
        said, "an editor needs the whole agent: .dkdbg/{} in the job's code (dkdbg init), or --agent PATH"
    )
    code, said = ends(start())
    assert (code, "there is none here" in said) == (2, True), said
    must(in_shell(root, f"{line} --yes"))
    code, said = ends(start(DEBUG_TIMEOUT="0.3"))
    assert (code, "debug host ip is set to" in said) == (124, True), said


def test_of_several_jobs_and_roles_the_named_one_is_edited(root: Path) -> None:
    (root / "a b").mkdir()
    for name in ("one", "two"):
        (root / "a b" / f"{name}.yaml").write_text(jobs.DEPLOYED)
    (root / "job.yaml").unlink()
    [line] = to_type(dkdbg(root, "init", "--pai", "--yes").stderr, "name one: dkdbg init --pai {}")
    [line] = to_type(in_shell(root, f"{line} --yes").stderr, "name one: dkdbg init --pai {} --role {}")
    must(in_shell(root, f"{line} --yes"))
    assert "debug" in protocol.load((root / "a b/one.yaml").read_text())["defaults"]["deployment"]


def test_a_file_that_is_not_there_makes_way_for_one_that_is(root: Path) -> None:
    [line] = to_type(
        dkdbg(root, "init", "--pai", "nothing.yaml", "--yes").stderr, "dkdbg init --pai job.yaml"
    )
    must(in_shell(root, f"{line} --yes"))


def test_what_is_no_job_leads_to_the_job_or_to_what_is_for_manifests(root: Path) -> None:
    (root / "compose.yaml").write_text("services: {}\n")
    said = dkdbg(root, "init", "--pai", "compose.yaml", "--yes").stderr
    [line] = to_type(said, "name the job's file: dkdbg init --pai job.yaml")
    must(in_shell(root, f"{line} --yes"))
    containers = [{"name": "main", "workingDir": "/code", "command": ["python", "train.py"]}]
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": containers}}}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bert"}, "spec": spec}
    (root / "bert.yaml").write_text(json.dumps(manifest))
    [line] = to_type(
        dkdbg(root, "init", "--pai", "bert.yaml", "--yes").stderr, "dkdbg init --k8s is for manifests"
    )
    if in_shell(root, "command -v kubectl").returncode:
        pytest.skip("kubectl is not installed (.ci/kubectl installs it)")
    assert "deployment/bert" in must(in_shell(root, f"{line} --diff", {"KUBECONFIG": "/dev/null"})).stdout


# --- its server


def test_after_init_the_task_is_found_and_reached_as_it_says(
    root: Path, start: Start, pai_server: rest.Server
) -> None:
    said = must(dkdbg(root, "init", "--pai", "job.yaml", "--yes")).stdout
    lists, reaches = to_type(
        said, "next: submit {}; when it runs: dkdbg ps --on pai://HOST/USER/JOB, then nc ADDRESS PORT"
    )
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
    running = start(port=port, host=node)
    token = log_until(running, "type this first: ").split()[-1]
    shown = must(in_shell(root, lists.replace("pai://HOST/USER/JOB", pai_server.address))).stdout
    [line] = to_type(shown, "nc {} {}; the job's log has its token")
    assert line == reaches.replace("ADDRESS PORT", f"{node} {port}")
    assert "42" in by_nc(root, line, token)
    assert running.wait(300) == 0


def test_after_init_for_an_editor_attach_waits_until_the_task_runs(
    root: Path, start: Start, pai_server: rest.Server
) -> None:
    must(dkdbg(root, "init", "--yes"))
    said = must(dkdbg(root, "init", "--pai", "job.yaml", "--dap", "--yes")).stdout
    [line] = to_type(
        said, "next: submit {}; then dkdbg attach pai://HOST/USER/JOB, which waits until it runs"
    )
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "WAITING", None, 0)]}
    with typed_door(root, line.replace("pai://HOST/USER/JOB", pai_server.address)) as door:
        door.wait("target", ready=False)
        running = start(port=port, host=node)
        token = log_until(running, "its token is ").split()[-1]
        pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
        assert debugged(root, door.port, token) == "step"
        assert door.end() == 0


def test_what_cannot_be_run_in_a_task_is_attached_to(
    root: Path, start: Start, pai_server: rest.Server
) -> None:
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
    said = dkdbg(root, "run", "--on", pai_server.address, "--", "python", "train.py").stderr
    [line] = to_type(
        said, "dkdbg attach {}; for commands the job needs the platform's ssh plugin, and is then ssh://HOST"
    )
    must(dkdbg(root, "init", "--yes"))
    must(dkdbg(root, "init", "--pai", "job.yaml", "--dap", "--yes"))
    running = start(port=port, host=node)
    token = log_until(running, "its token is ").split()[-1]
    with typed_door(root, line) as door:
        assert debugged(root, door.port, token) == "step"
        assert door.end() == 0


def test_an_attach_to_a_task_with_pdb_says_by_which_nc_it_is_reached(
    root: Path, start: Start, pai_server: rest.Server, tmp_path: Path
) -> None:
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
    must(dkdbg(root, "init", "--pai", "job.yaml", "--yes"))
    running = start(port=port, host=node)
    token = log_until(running, "type this first: ").split()[-1]
    with typed(
        root, f"dkdbg attach {pai_server.address} --port {free_port()}", tmp_path / "attach"
    ) as attach:
        said = attach.wait("has to say --dap")
    [line] = to_type(said, "pdb waits at {}: nc {} {}; for an editor the job has to say --dap")
    assert "42" in by_nc(root, line, token)
    assert running.wait(300) == 0


def test_a_token_file_that_cannot_be_read_is_written_or_unset(
    root: Path, pai_server: rest.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pai_server.roles = {"worker": [rest.task(0, "WAITING", None, 0)]}
    file = root.parent / "token"
    monkeypatch.setenv("DKDBG_PAI_TOKEN", "")
    monkeypatch.setenv("DKDBG_PAI_TOKEN_FILE", str(file))
    asks = f"dkdbg ps --on {pai_server.address}"
    assert to_type(in_shell(root, asks).stderr, "write the token there, or unset it") == []
    assert "without a token" in in_shell(root, f"unset DKDBG_PAI_TOKEN_FILE; {asks}").stderr
    must(in_shell(root, f"echo {rest.TOKEN} >{file}; {asks}"))


def test_a_task_that_is_not_there_leads_to_those_that_are(root: Path, pai_server: rest.Server) -> None:
    pai_server.roles = {"worker": [rest.task(0, "WAITING", None, 0)]}
    [line] = to_type(dkdbg(root, "ps", "--on", f"{pai_server.address}/worker/7").stderr, "dkdbg ps --on {}")
    assert "worker/0" in must(in_shell(root, line)).stdout


def test_a_job_without_the_port_gets_it_by_what_is_said(root: Path, pai_server: rest.Server) -> None:
    pai_server.roles = {"worker": [rest.task(0, "RUNNING", "127.0.0.1", 9, label="other")]}
    [line] = to_type(
        dkdbg(root, "ps", "--on", pai_server.address).stderr,
        "dkdbg init --pai job.yaml asks for one in the job's YAML; then submit that",
    )
    must(in_shell(root, f"{line} --yes"))
    assert "debug" in protocol.load((root / "job.yaml").read_text())["taskRoles"]["worker"]["resourcePerInstance"]["ports"]  # fmt: skip
