"""`dkdbg verify` and `dkdbg why` name the right cause of seeded faults, and find nothing in healthy projects.

All projects have one image, so that its layers are built once; each fault changes one thing. Faults that need no files of
their own are seeded in one project, which is restored after each test.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dkdbg import hints
from dkdbg.delivery import single_file
from dkdbg.setup.render import jsonc
from tests.agent.dap_probe import wait_for
from tests.agent.repack import repack
from tests.checkout import git
from tests.engine.projects import command, dkdbg, must, repo, started, take_away, unique
from tests.hints import hinted
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("proof")]

TRAIN = """\
import time

from pkg.net import rate


def step(n):
    loss = rate(n)
    return loss


def never(n):
    return n + 1


def main():
    for n in range(100000):
        step(n)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
"""
NET = """\
def rate(n):
    scale = 2
    return scale / (n + 1)
"""
DOCKERFILE = """\
FROM {base}
WORKDIR /app
COPY . /app
CMD ["python3", "train.py"]
"""
FILES = {
    "train.py": TRAIN, "pkg/__init__.py": "", "pkg/net.py": NET, "compose.yaml": "services: {job: {build: .}}\n",
    "Dockerfile": DOCKERFILE, "requirements.txt": "",
}  # fmt: skip
#: A reloader: the program starts itself again, as Flask, Django and uvicorn do.
RELOADER = """\
import os
import subprocess
import sys
import time


def serve():
    while True:
        time.sleep(0.05)


if "RUN_MAIN" in os.environ:
    serve()
sys.exit(subprocess.call([sys.executable, FLAGS"train.py"], env={**os.environ, "RUN_MAIN": "1"}))
"""
OVERRIDE = ".dkdbg/service.compose"


@dataclass
class Project:
    """A repository that is set up, and what is started in it."""

    root: Path
    env: dict[str, str]
    said: str
    opened: contextlib.ExitStack

    @property
    def launch(self) -> Path:
        return self.root / ".vscode/launch.json"

    def edit(self, name: str, before: str, after: str) -> None:
        path = self.root / name
        text = path.read_text()
        assert before in text, text
        path.write_text(text.replace(before, after))

    def compose(self, *words: str) -> None:
        command(["docker", "compose", "--profile", "debug", *words], self.root, env=self.env)

    def up(self) -> None:
        """Start the debug service without a wait for an editor, as plain Docker does."""
        self.env["DKDBG_WAIT"] = "0"
        self.compose("up", "--build", "--wait", "job-debug")

    def ask(self, *words: str) -> dict:
        done = dkdbg(self.root, *words, "--json", env=self.env)
        said = json.loads(done.stdout)
        found = said["findings"] if "findings" in said else [said["finding"]] if said["finding"] else []
        assert done.returncode == (1 if found else 0), done.stdout + done.stderr
        return {**said, "findings": found, "causes": [each["cause"] for each in found]}

    def until_loaded(self, where: str) -> None:
        """Wait until the program has begun."""
        wait_for(
            lambda: self.ask("why", where)["facts"],
            lambda facts: any(each.startswith("loaded") for each in facts),
        )


@contextlib.contextmanager
def made(folder: Path, base: str, files: dict[str, str]) -> Iterator[Project]:
    """Make a repository of these files, with `dkdbg init`; everything is taken away at the end."""
    wanted = {name: textwrap.dedent(text).replace("{base}", base) for name, text in (FILES | files).items()}
    root = repo(folder / unique("proof"), wanted)
    (root / "dkdbg.toml").write_text(f"[debug]\nport = {free_port()}\n")
    env = {"DKDBG_BASE": base}
    with contextlib.ExitStack() as opened:
        opened.callback(take_away, root, env)
        yield Project(root, env, must(dkdbg(root, "init", "--yes", env=env)).stdout, opened)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory, base_image):
    """A project with a module that its program does not load."""
    with made(tmp_path_factory.mktemp("proof"), base_image, {"other.py": "x = 1\n"}) as found:
        git(found.root, "add", "--all")
        git(found.root, "commit", "-qm", "x")
        yield found


@contextlib.contextmanager
def restored(found: Project) -> Iterator[Project]:
    """The project, as it was before at the end."""
    with contextlib.ExitStack() as opened:
        yield replace(found, env=dict(found.env), opened=opened)
    found.compose("down", "--volumes", "--remove-orphans", "--timeout", "2")
    for words in (["checkout", "-q", "."], ["clean", "-fdxq"]):
        git(found.root, *words)


@pytest.fixture
def project(healthy, tmp_path, base_image):
    """Make a project of these files; without any it is the healthy one."""
    with contextlib.ExitStack() as stack:
        yield lambda files=None: stack.enter_context(
            made(tmp_path, base_image, files) if files else restored(healthy)
        )


@pytest.fixture(scope="module")
def running(healthy):
    """The healthy project, whose service runs from now on."""
    healthy.up()
    healthy.until_loaded(STEP)
    return healthy


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


STEP = f"train.py:{line_of(TRAIN, 'loss = rate')}"
IN_NET = f"pkg/net.py:{line_of(NET, 'scale = 2')}"


# -- healthy projects -----------------------------------------------------------------------------------------------


@pytest.mark.core
def test_a_healthy_project_is_proven_and_nothing_of_the_run_is_left(project):
    found = project()
    before = sorted(each.name for each in found.root.rglob("*"))
    (line,) = hinted(found.said, hints.INIT_VERIFY)
    said = found.ask(*line.split()[1:])
    assert said["proven"], said
    assert said["stop"]["function"] == "main"
    assert {"mapping", "digest", "listen", "stop", "interpreter"} <= {each["link"] for each in said["links"]}
    for kind in (["ps", "-a", "--format", "{{.Names}}"], ["network", "ls"], ["volume", "ls"]):
        assert found.root.name not in command(["docker", *kind]).stdout, kind
    assert sorted(each.name for each in found.root.rglob("*")) == before


OTHER = {
    "compose.yaml": "services: {job: {build: .}, other: {build: ., command: [sleep, '600'], profiles: [other]}}\n"
}


def verifying(it: Project) -> subprocess.Popen[str]:
    """Start `dkdbg verify` and return once its run is up."""
    env = {**os.environ, **it.env}
    running = it.opened.enter_context(
        started(it.root, "verify", "--json", stderr=subprocess.DEVNULL, env=env)
    )
    names = ["docker", "ps", "--format", "{{.Names}}"]
    is_up = f"{it.root.name}-job-debug-run"
    wait_for(
        lambda: (command(names).stdout, running.poll()), lambda now: is_up in now[0] or now[1] is not None
    )
    return running


def test_what_the_user_starts_meanwhile_stays(project):
    found = project(
        {**OTHER, "train.py": "import time\n\ntime.sleep(600)\n"}
    )  # only a module's own code stops
    found.compose("build", "other")
    running = verifying(found)
    time.sleep(2)  # the start itself has returned
    found.compose("up", "-d", "other")
    assert running.poll() is None
    assert json.loads(running.communicate(timeout=120)[0])["proven"]
    names = command(["docker", "ps", "--format", "{{.Names}}"]).stdout.split()
    assert [each for each in names if found.root.name in each] == [f"{found.root.name}-other-1"]


def test_a_service_that_the_program_needs_and_that_was_stopped_is_stopped_again_afterwards(project):
    found = project(
        {"compose.yaml": """\
            services:
              job: {build: ., depends_on: [db]}
              db: {image: {base}, command: [sleep, "600"], init: true, environment: {A: "1"}}
            """}
    )  # fmt: skip
    found.compose("up", "-d", "db")
    found.compose("stop", "--timeout", "1", "db")
    found.edit("compose.yaml", 'A: "1"', 'A: "2"')
    seen = ["docker", "container", "inspect", "--format", "{{.State.Running}}", f"{found.root.name}-db-1"]
    assert command(seen).stdout == "false\n"
    assert found.ask("verify")["proven"]
    assert command(seen).stdout == "false\n"


def test_a_changed_service_keeps_running_beside_others_that_the_program_waits_for(project):
    found = project(
        {"compose.yaml": """\
            services:
              job:
                build: .
                depends_on:
                  db: {condition: service_started}
                  cache: {condition: service_healthy}
                  migrate: {condition: service_completed_successfully}
              db: {image: {base}, command: [sleep, "600"], init: true, environment: {A: "1"}}
              cache:
                image: {base}
                command: [sh, -c, "sleep 1; touch /ready; exec sleep 600"]
                init: true
                healthcheck: {test: [CMD, ls, /ready], interval: 1s}
              migrate: {image: {base}, command: ["true"], depends_on: [db]}
            """}
    )  # fmt: skip
    found.compose("up", "-d", "db")
    names = f"name=^{found.root.name}-"
    seen = ["docker", "ps", "--all", "--no-trunc", "--filter", names, "--format", "{{.ID}} {{.State}}"]
    before = command(seen).stdout
    found.edit("compose.yaml", 'A: "1"', 'A: "2"')
    assert found.ask("verify")["proven"]
    assert command(seen).stdout == before
    found.edit("compose.yaml", '["true"]', '["false"]')
    (finding,) = found.ask("verify")["findings"]
    assert (finding["cause"], finding["detail"][0]) == (
        "dependency-fails",
        """  engine: service "migrate" didn't complete successfully: exit 1""",
    )
    assert command(seen).stdout == before


#: Ends whoever calls it before the command of this number after `compose run`.
SIGNALLING = """\
#!/bin/sh
case "$*" in *" run --name "*) : >{count} ;; esac
if [ -e {count} ]; then echo >>{count}; fi
if [ "$(grep -c '' {count} 2>/dev/null)" = {number} ]; then kill -TERM $PPID; sleep 0.5; fi
exec {docker} "$@"
"""


@pytest.mark.parametrize("number", [1, 5])
def test_a_signal_at_any_moment_of_the_start_removes_the_run(project, tmp_path, number):
    found, wrapper = project(), tmp_path / "bin/docker"
    wrapper.parent.mkdir()
    wrapper.write_text(
        SIGNALLING.format(count=tmp_path / "count", number=number, docker=shutil.which("docker"))
    )
    wrapper.chmod(0o755)
    found.env["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
    done = dkdbg(found.root, "verify", "--json", env=found.env)
    assert done.returncode == 130, done.stdout + done.stderr
    for kind in (["ps", "-a", "--format", "{{.Names}}"], ["network", "ls"]):
        assert found.root.name not in command(["docker", *kind]).stdout, kind


HEALTHY = {
    "a service": {"train.py": """\
        import http.server


        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)


        http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
        """},
    "a reloader": {"train.py": RELOADER.replace("FLAGS", "")},
    "a variable that the image's shell expands": {
        "Dockerfile": DOCKERFILE.replace('["python3", "train.py"]', 'exec python3 "${PWD}/train.py"')
    },
    "an end within a second": {"train.py": "def main():\n    print(1)\n\n\nmain()\n"},
    "a module of a package": {
        "Dockerfile": DOCKERFILE.replace('"train.py"', '"-m", "pkg.run"'), "pkg/run.py": "from pkg.net import rate\n\n\ndef go():\n    print(rate(1))\n\n\ngo()\n",
    },
    "a tool of a repository that trains on a GPU": {"model.py": "import torch\n\n\ndef train(model):\n    return model.cuda()\n"},
    "processes": {"train.py": """\
        import multiprocessing


        def work(n):
            return n + 1


        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, range(4)))
        """},
}  # fmt: skip


@pytest.mark.parametrize("kind", HEALTHY)
def test_other_healthy_projects_are_proven_too(project, kind):
    said = project(HEALTHY[kind]).ask("verify")
    assert said["proven"], said
    assert "$$" not in str(said["links"])


@pytest.mark.parametrize("network", ["network_mode: none", "networks: [n]}}\nnetworks: {n: {internal: true"])
def test_a_proof_says_what_f5_needs_where_no_port_of_this_machine_leads_to_the_program(project, network):
    found = project({"compose.yaml": f"services: {{job: {{build: ., {network}}}}}\n"})
    said = found.ask("verify")
    assert said["proven"], said
    port = jsonc.loads(found.launch.read_text(), file="launch.json")["configurations"][0]["connect"]["port"]
    (listen,) = [each["seen"] for each in said["links"] if each["link"] == "listen"]
    assert f"dkdbg attach --port {port} " in listen


# -- faults that `verify` names -------------------------------------------------------------------------------------


def edits(name: str, before: str, after: str) -> Callable[[Project], None]:
    return lambda it: it.edit(name, before, after)


def port_taken(it: Project) -> None:
    entry = jsonc.loads(it.launch.read_text(), file="launch.json")["configurations"][0]
    it.opened.enter_context(socket.create_server(("127.0.0.1", entry["connect"]["port"])))


def debugpy_missing(it: Project) -> None:
    agent = it.root / ".dkdbg" / single_file.NAME
    copy = repack(
        agent, it.root / "copy.pyz", lambda name, data: None if name.startswith("debugpy-") else data
    )
    copy.replace(agent)


def mount_another_clone(it: Project, change: Callable[[bytes], bytes]) -> None:
    """Mount another clone than the one that is open, with a changed program."""
    other = it.root.with_name(f"{it.root.name}-other")
    command(["cp", "-r", str(it.root), str(other)])
    (other / "train.py").write_bytes(change(TRAIN.encode()))
    it.edit(OVERRIDE, '- ".:/app"', f'- "{other}:/app"')


def other_content(it: Project) -> None:
    mount_another_clone(it, lambda text: text.replace(b"loss = rate(n)", b"loss = rate(n) * 2"))


VERIFIED: dict[str, tuple[Callable[[Project], None], str, dict[str, str]]] = {
    "wrong root": (edits(".vscode/launch.json", '"remoteRoot": "/app"', '"remoteRoot": "/workspace/wrong"'), "wrong-root", {}),
    "127.0.0.1 inside the container": (edits(OVERRIDE, 'DKDBG_HOST: "0.0.0.0"', 'DKDBG_HOST: "127.0.0.1"'), "loopback-inside", {}),
    "port taken": (port_taken, "port-taken", {}),
    "debugpy missing": (debugpy_missing, "debugpy-missing", {}),
    "port published on 0.0.0.0": (edits(OVERRIDE, '"127.0.0.1:${DKDBG_PORT', '"0.0.0.0:${DKDBG_PORT'), "published-openly", {}),
    "another interpreter's flags": (edits(OVERRIDE, '"python3"', '"python3", "-S"'), "hook-missing", {}),
    "digest differs": (other_content, "digest-differs", {}),
    "reloader on, its child is not attached": (lambda _: None, "hook-missing", {"train.py": RELOADER.replace("FLAGS", '"-S", ')}),
    "GPU requested but absent": (
        lambda _: None, "gpu-absent",
        {"compose.yaml": "services: {job: {build: ., deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}}}\n"},
    ),
    "symlinked root": (
        lambda _: None, "symlink",
        {"Dockerfile": DOCKERFILE.replace("WORKDIR", "RUN mkdir /srv/code && ln -s /srv/code /app\nWORKDIR")},
    ),
    "undeclared module": (lambda _: None, "module-missing", {"train.py": "import cv2\n\n\ndef main():\n    pass\n\n\nmain()\n"}),
    "two copies, the installed one runs": (
        lambda _: None, "two-copies",
        {"scripts/go.py": "from pkg.net import rate\n\n\ndef main():\n    print(rate(1))\n\n\nmain()\n",
         "Dockerfile": "FROM {base}\nWORKDIR /app\nCOPY . /app\nRUN cp -r pkg /usr/lib/python3/dist-packages/\nCMD [\"python3\", \"scripts/go.py\"]\n"},
    ),
    "module that only the image has": (
        lambda _: None, "own-module",
        {"train.py": "import vocab\n\n\ndef main():\n    pass\n\n\nmain()\n",
         "Dockerfile": "FROM {base}\nWORKDIR /app\nRUN mkdir -p /srv/made && echo > /srv/made/vocab.py\nCOPY . /app\nCMD [\"python3\", \"train.py\"]\n"},
    ),
    "module of another interpreter": (
        lambda _: None, "other-interpreter",
        {"train.py": "import colour\n\n\ndef main():\n    pass\n\n\nmain()\n",
         "Dockerfile": "FROM {base}\nWORKDIR /app\nRUN python3 -m venv --without-pip /opt/env && echo > /opt/env/lib/python3.11/site-packages/colour.py\nCOPY . /app\nCMD [\"python3\", \"train.py\"]\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=[pytest.mark.core] if each == "wrong root" else []) for each in VERIFIED],
)
def test_verify_names_the_first_broken_link(project, kind):
    seed, cause, files = VERIFIED[kind]
    found = project(files)
    seed(found)
    said = found.ask("verify", "--timeout", "60")
    assert not said["proven"]
    assert said["causes"] == [cause], said
    assert said["findings"][0]["remedy"]


@pytest.mark.parametrize("kind", ["port taken", "wrong root"])
def test_fix_corrects_launch_json_and_proves_the_project(project, kind):
    found = project()
    VERIFIED[kind][0](found)
    said = found.ask("verify", "--fix", "--yes")
    assert said["proven"], said
    assert len(said["mended"]) == 1


#: A base image whose ENTRYPOINT sets the environment up, as those of ROS and micromamba do.
ENTRYPOINT = """\
FROM {base}
RUN mkdir /opt/ros && echo >/opt/ros/rclpy.py
RUN printf '#!/bin/sh\\nPYTHONPATH=/opt/ros:$PYTHONPATH exec "$@"\\n' >/entry.sh && chmod +x /entry.sh
ENTRYPOINT ["/entry.sh"]
"""


def test_the_entrypoint_of_a_base_image_that_the_program_needs_is_named_and_fix_starts_it_by_that(
    project, base_image
):
    name = other = unique("entry")
    build = ["docker", "build", "--quiet", "--tag", name, "-"]
    subprocess.run(build, input=ENTRYPOINT.replace("{base}", base_image), text=True, check=True)
    try:
        files = {"Dockerfile": DOCKERFILE.replace("{base}", name), "train.py": f"import rclpy\n{TRAIN}"}
        found = project(files)
        (finding,) = found.ask("verify")["findings"]
        assert finding["cause"] == "entrypoint-left-out"
        assert "dkdbg init --command '/entry.sh python3 train.py'" in finding["remedy"]
        said = found.ask("verify", "--fix", "--yes")
        assert said["proven"], said
        # One that sets nothing, as that of nvidia/cuda, is not the cause.
        build[-2] = other = unique("entry")
        banner = ENTRYPOINT.replace("PYTHONPATH=/opt/ros:$PYTHONPATH ", "echo hello; ")
        subprocess.run(build, input=banner.replace("{base}", base_image), text=True, check=True)
        found = project({**files, "Dockerfile": DOCKERFILE.replace("{base}", other)})
        assert found.ask("verify")["findings"][0]["cause"] == "own-module"
        found.edit("train.py", "import rclpy\n", "")
        links = {link["link"]: link["seen"] for link in found.ask("verify")["links"]}
        assert links["interpreter"].endswith("; without the base image's ENTRYPOINT /entry.sh")
    finally:
        command(["docker", "rmi", "--force", name, other])


def test_the_entrypoint_of_a_base_image_whose_user_is_not_root_is_part_of_the_command(project, base_image):
    name = unique("entry")
    build = ["docker", "build", "--quiet", "--tag", name, "-"]
    text = ENTRYPOINT.replace("{base}", base_image) + "RUN useradd --create-home mamba\nUSER mamba\n"
    subprocess.run(build, input=text, text=True, check=True)
    try:
        files = {"Dockerfile": DOCKERFILE.replace("{base}", name), "train.py": f"import rclpy\n{TRAIN}"}
        assert project(files).ask("verify")["proven"]
    finally:
        command(["docker", "rmi", "--force", name])


# -- faults that `why` names ----------------------------------------------------------------------------------------


def edited_copy(it: Project) -> None:
    """Run the copy of the image, and edit the file here."""
    it.edit(OVERRIDE, '      - ".:/app"\n', "")
    it.up()
    it.edit("train.py", "loss = rate(n)", "loss = rate(n) * 2")


def windows_lines(it: Project) -> None:
    mount_another_clone(it, lambda text: text.replace(b"\n", b"\r\n"))
    it.up()


def exited(it: Project) -> None:
    it.env["DKDBG_WAIT"] = "0"
    it.compose("up", "-d", "--build", "job-debug")
    running = ["docker", "compose", "--profile", "debug", "ps", "-q", "--status", "running"]
    wait_for(lambda: command(running, it.root).stdout, lambda seen: not seen)


def without_profile(it: Project) -> None:
    command(["docker", "compose", "up", "-d", "--build"], it.root, env=it.env)


WORKERS = """\
import os
import subprocess
import sys
import time


def work(rank):
    value = rank + 1
    return value


if "RANK" in os.environ:
    while True:
        if os.environ["RANK"] == "1":
            work(1)
        time.sleep(0.02)
for rank in "01":
    subprocess.Popen([sys.executable, "train.py"], env={**os.environ, "RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank})
time.sleep(100000)
"""


def one_rank(it: Project) -> None:
    it.env["DKDBG_RANKS"] = "0"
    it.up()


ASKED: dict[str, tuple[Callable[[Project], None], str, str, dict[str, str]]] = {
    "stale COPY": (edited_copy, STEP, "stale-copy", {}),
    "two copies": (
        Project.up, IN_NET, "two-copies",
        {"scripts/go.py": "import time\n\nfrom pkg.net import rate\n\nwhile True:\n    rate(1)\n    time.sleep(0.05)\n",
         "Dockerfile": "FROM {base}\nWORKDIR /app\nCOPY . /app\nRUN cp -r pkg /usr/lib/python3/dist-packages/\nCMD [\"python3\", \"scripts/go.py\"]\n"},
    ),
    "container exited": (exited, STEP, "container-exited", {"train.py": "import sys\n\n\ndef step():\n    pass\n\n\nsys.exit(3)\n" + TRAIN}),
    "profile not active": (without_profile, STEP, "profile-inactive", {}),
    "wrong rank": (one_rank, f"train.py:{line_of(WORKERS, 'value = rank')}", "rank-not-chosen", {"train.py": WORKERS}),
    "CRLF differs": (windows_lines, STEP, "crlf", {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", ASKED)
def test_why_names_the_first_broken_link(project, kind):
    seed, where, cause, files = ASKED[kind]
    found = project(files)
    seed(found)
    until = time.monotonic() + 60
    said = found.ask("why", where)
    while said["causes"][:1] != [cause] and time.monotonic() < until:  # the program is about to begin
        time.sleep(0.5)
        said = found.ask("why", where)
    assert said["causes"][:1] == [cause], said
    assert said["findings"][0]["remedy"]


def test_why_names_just_my_code_for_an_installed_file(running):
    said = running.ask("why", "/usr/lib/python3.11/threading.py:900")
    assert said["causes"][:1] == ["just-my-code"], said
    assert said["findings"][0]["remedy"]


def test_a_line_that_runs_again_and_again_has_no_finding(running):
    assert running.ask("why", STEP)["causes"] == []
    assert running.ask("why", IN_NET)["causes"] == []
    service = ["docker", "compose", "--profile", "debug", "ps", "-q"]
    before = command(service, running.root).stdout
    assert running.ask("verify")["proven"]
    assert command(service, running.root).stdout == before


def test_a_plain_debugpy_that_listens_on_the_loopback_of_its_container(tmp_path, start_container):
    root = repo(tmp_path / unique("proof"), {"train.py": TRAIN, "pkg/net.py": NET})
    package = Path(str(importlib.util.find_spec("debugpy").origin)).parent
    name = start_container(
        "-v", f"{root}:/app", "-w", "/app", "-v", f"{package}:/opt/d/debugpy:ro", "-e", "PYTHONPATH=/opt/d",
        "-p", "127.0.0.1::5678", words=("python3", "-m", "debugpy", "--listen", "5678", "train.py"),
    )  # fmt: skip
    found = Project(root, {}, "", contextlib.ExitStack())
    wait_for(
        lambda: found.ask("why", STEP, "--on", f"docker://{name}")["causes"],
        lambda causes: causes == ["loopback-inside"],
    )
