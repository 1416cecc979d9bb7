"""Any text wherever a repository can put one: `init` writes it literally, or says plainly that it does not."""

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dkdbg.core.plan import ProjectPlan
from dkdbg.delivery import single_file
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.setup.detect.docker.dockerfile_syntax import parse_instructions
from dkdbg.setup.render import jsonc
from dkdbg.verbs.parts import repository
from tests.attacks.fuzz import fuzz_settings
from tests.attacks.start_script import run_script, started_by

CANARY = "CANARY_SANG"
#: What runs, ends a text, or is replaced, in one of the languages that our files are written in.
PAYLOADS = (
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY} #", f"'; touch {CANARY}; '", f'"; touch {CANARY}; "',
    f"\ntouch {CANARY}\n", f"\nRUN touch {CANARY}\n", f"&& touch {CANARY} ||", "${command:workbench.action.quit}",
    "${env:HOME}", "${localEnv:HOME}", "${input:x}", "${PWD}", "$HOME", "$$", "${", "{{ 7 * 7 }}", "{% raw %}", "%s",
    "\n", "\r", "\r\n", "\t", "\0", "\x1b[2J", "\x7f", "\x85", "\u2028", "\ufeff", "\u202e", "\ud800", "\U000e0001",
    "\\", "\\\n", "'", '"', "`", "#", " #", ": ", "- ", "? ", "&a ", "*a", "!reset ", "!!python/object/apply:os.system ",
    "|", ">", "<<EOF", "# escape=`", "# syntax=evil/image", "--privileged", "-v", "..", "../..", "/", "~", "*", "[", "{",
    "é", "日本", "🙂", "a", "b c", "=", ":", ",", "@", "^", "0",
)  # fmt: skip
TEXT = st.lists(st.one_of(st.sampled_from(PAYLOADS), st.text(max_size=3)), min_size=1, max_size=4).map(
    "".join
)
#: A single file name: what no file system takes is left out.
NAME = TEXT.map(lambda text: re.sub(r"[/\0\ud800-\udfff]", "", text)[:40]).filter(
    lambda name: name not in {"", ".", ".."}
)
FIELDS = (
    "service", "command", "entrypoint", "working_dir", "user", "image", "target", "folder", "dockerfile", "base",
    "workdir", "env", "copy", "cmd", "requirement", "dependency", "extra", "script", "python", "module", "index",
    "conda", "include", "container", "setting",
)  # fmt: skip
REPOSITORY = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("compose", "image", "script", "project", "conda")),
        "argv": st.lists(TEXT, max_size=3),
    },
    optional={
        field: NAME if field in {"folder", "dockerfile", "requirement", "module", "conda"} else TEXT
        for field in FIELDS
    },
)


@pytest.fixture(autouse=True)
def one_single_file(monkeypatch):
    """The agent's file is the same each time, and takes a second to make."""
    monkeypatch.setattr(single_file, "build", functools.cache(single_file.build))


def write(root: Path, name: str, content: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8", "surrogatepass"))


def make(root: Path, said: dict[str, Any]) -> None:
    """The repository with its texts, each where its own format can hold it."""
    has, put = said.get, functools.partial(write, root)
    folder, dockerfile = has("folder", "src"), "docker/" + has("dockerfile", "Dockerfile")
    put(f"{folder}/{has('module', 'train')}.py", 'if __name__ == "__main__":\n    print(1)\n')
    put("train.py", "import torch\nprint(1)\n")
    if said["kind"] in {"compose", "image"}:
        lines = [
            f"FROM {has('base', 'python:3.11-slim')}",
            f"WORKDIR {has('workdir', '/app')}",
            f"ENV X={has('env', '1')}",
            f"COPY {json.dumps([folder, has('copy', '/app/src')])}",
            f"USER {has('user', 'root')}",
            f"CMD {json.dumps(['python', 'train.py', *said['argv']]) if said['argv'] else has('cmd', 'x')}",
        ]
        put(dockerfile if said["kind"] == "compose" else "Dockerfile", "\n".join(lines) + "\n")
    if said["kind"] == "compose":
        service: dict[str, Any] = {
            "build": {"context": ".", "dockerfile": dockerfile},
            "volumes": [f"./{folder}:/app/{has('target', 'src')}"],
        }
        if said["argv"]:
            service["command"] = ["python", "train.py", *said["argv"]]
        for key in ("command", "entrypoint", "working_dir", "user", "image"):
            if key in said and key not in service:
                service[key] = said[key]
        services = {has("service", "app"): service, "plain": {"image": "redis"}}
        put("compose.yaml", json.dumps({"services": services}))
        put(".env", f"COMPOSE_FILE={has('include')}\n" if "include" in said else "A=1\n")
    if said["kind"] == "script":
        lines = [f"--extra-index-url {has('index', 'x')}", has("dependency", "torch")]
        put(f"requirements{has('requirement', '')}.txt", "\n".join(lines) + "\n")
        put(".python-version", has("python", "3.11"))
    if said["kind"] == "project":
        project = {
            "name": "x", "requires-python": has("python", ">=3.10"), "dependencies": [has("dependency", "torch"), "numpy"],
            "optional-dependencies": {has("extra", "cuda"): ["torch"], "cpu": ["torch"]},
            "scripts": {has("script", "run"): "train:main"},
        }  # fmt: skip
        lines = [
            f"{key} = {json.dumps(value)}" for key, value in project.items() if not isinstance(value, dict)
        ]
        lines += [
            f"[project.{key}]\n" + "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())
            for key, value in project.items()
            if isinstance(value, dict)
        ]
        put("pyproject.toml", "[project]\n" + "\n".join(lines) + "\n")
    if said["kind"] == "conda":
        packages = {"name": "x", "dependencies": [has("dependency", "torch"), "python=3.11"]}
        put(f"environment{'-' + has('conda') if 'conda' in said else ''}.yml", json.dumps(packages))
    if "container" in said:
        container = {"workspaceFolder": said["container"], "service": said["container"]}
        put(".devcontainer/devcontainer.json", json.dumps(container))
    if "setting" in said:
        put("dkdbg.toml", "[debug]\ncommand = " + json.dumps(said["setting"]) + "\n")


def planned(root: Path) -> tuple[ProjectPlan, dict[str, bytes]] | None:
    """Plan and files, or None where init refuses: in plain words, and nothing is written."""
    try:
        plan, config = repository.make_plan(root)
        wanted = repository.files_for(root, plan, config)
    except DkdbgError as error:
        printable(error.message).encode()
        return None
    return plan, {path: file.content for path, file in wanted.items() if file is not None}


def check_sh(root: Path, plan: ProjectPlan, script: bytes) -> None:
    """Run the start script as the dev container does, with a recorder for an agent, and as the host does."""
    work = root.parent / "work"
    (work / "bin").mkdir(parents=True)
    docker = work / "docker"
    (work / "bin/docker").write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >>{docker}\n')
    (work / "bin/docker").chmod(0o755)
    environ = {"PATH": f"{work / 'bin'}:{os.environ['PATH']}"}
    assert tuple(started_by(script.decode(), work, environ)) == plan.service.argv
    run_script(work, environ)
    asked = docker.read_bytes().decode().split("\0")
    assert plan.service.name in asked
    shutil.rmtree(work)


def literal(path: str) -> str:
    return path.replace("$", "$$")


def check_yaml(plan: ProjectPlan, data: bytes) -> None:
    services = YAML(typ="safe", pure=True).load(re.sub(r": !(override|reset)", ":", data.decode()))[
        "services"
    ]
    names = {plan.service.name, f"{plan.service.name}-devcontainer"}
    assert {name for name in services if not name.startswith("dkdbg-gpu-")} == names
    service = services[plan.service.name]
    words = [*service["entrypoint"], *service.get("command", [])]
    assert words[:4] == ["sh", "/opt/dkdbg/agent.pyz", "launch", "--"]
    expected = plan.service.entrypoint if plan.service.inherits_command else plan.service.argv
    assert words[4:] == [literal(word) for word in expected]
    texts = [volume for volume in service["volumes"] if isinstance(volume, str)]
    for local, remote in plan.service.mounts:
        source = "." if local == "." else f"./{local}"
        long = {"type": "bind", "source": literal(source), "target": literal(remote)}
        assert f"{literal(source)}:{literal(remote)}" in texts or long in service["volumes"]


def check_json(plan: ProjectPlan, files: dict[str, bytes]) -> None:
    launch = jsonc.loads(files[".vscode/launch.json"].decode(), file="launch.json")
    (entry,) = [each for each in launch["configurations"] if each["name"] == "dkdbg: attach"]
    assert [each["remoteRoot"] for each in entry["pathMappings"]] == [str(m.remote) for m in plan.mappings]
    tasks = jsonc.loads(files[".vscode/tasks.json"].decode(), file="tasks.json")
    container = jsonc.loads(files[plan.devcontainer].decode(), file="devcontainer.json")
    assert container["workspaceFolder"] == plan.workspace
    assert "initializeCommand" not in container
    for document in (launch, tasks, container):
        found = set(re.findall(r"\$\{[^}]*\}?", json.dumps(document, ensure_ascii=False)))
        assert found <= {"${workspaceFolder}", "${env:DKDBG_TOKEN}", "${input:dkdbgToken}"}


def check_dockerfile(plan: ProjectPlan, data: bytes) -> None:
    steps = list(parse_instructions(data.decode()))
    runs = len(plan.image.installs) + (0 if plan.facts.package_manager == "conda" else 1)
    assert {step.keyword for step in steps} <= {"ARG", "FROM", "USER", "ENV", "RUN", "WORKDIR", "COPY", "CMD"}
    assert [step.keyword for step in steps].count("FROM") == 1
    assert runs <= [step.keyword for step in steps].count("RUN") <= runs + 2
    assert not [step for step in steps if step.heredocs]
    assert json.loads(steps[-1].rest) == list(plan.service.argv)


def repositories() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dkdbg-fuzz-") as folder:
        yield Path(folder) / "repo"


@pytest.mark.attack(8)
@fuzz_settings(25)
@given(said=REPOSITORY)
def test_any_text_of_a_repository_is_written_literally_or_refused(said):
    """Calls services, files, folders, versions and arguments what a shell, YAML, Docker or an editor would run: none is."""
    for root in repositories():
        root.mkdir()
        make(root, said)
        found = planned(root)
        if found is None:
            continue
        plan, files = found
        check_yaml(plan, files[plan.service.compose_file])
        check_json(plan, files)
        if plan.image.is_generated:
            check_dockerfile(plan, files[plan.image.dockerfile])
        check_sh(root, plan, files[".dkdbg/up.sh"])
        assert not list(root.parent.rglob(CANARY))


@pytest.mark.attack(8)
@pytest.mark.engine
@fuzz_settings(4, full=30)
@given(said=REPOSITORY)
def test_compose_takes_any_text_of_a_repository_literally(said):
    """The same texts through the real docker compose: what it makes of our file is what the repository says."""
    for root in repositories():
        root.mkdir()
        make(root, {**said, "kind": "script"} if said["kind"] == "compose" else said)
        found = planned(root)
        if found is None:
            continue
        plan, files = found
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        config = ["docker", "compose", "-p", "fuzz", "--profile", "debug", "config", "--format", "json"]
        done = subprocess.run(config, cwd=root, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        service = json.loads(done.stdout)["services"][plan.service.name]
        # `config` escapes what compose would replace when it reads it again.
        words = [word.replace("$$", "$") for word in [*service["entrypoint"], *(service["command"] or [])]]
        assert words[4:] == list(plan.service.argv)
        mounts = {
            (each.get("source"), each["target"]) for each in service["volumes"] if each["type"] == "bind"
        }
        for local, remote in plan.service.mounts:
            source = os.path.normpath(root / local).replace("$", "$$")
            assert (source, remote.replace("$", "$$")) in mounts or (
                source.replace("$$", "$"),
                remote,
            ) in mounts


#: Files that init reads.
READ = (
    "Dockerfile", "compose.yaml", "compose.override.yaml", "pyproject.toml", "requirements.txt", "environment.yml",
    ".env", ".vscode/launch.json", ".vscode/tasks.json", ".devcontainer/devcontainer.json", "dkdbg.toml", "setup.py",
    "setup.cfg", "Pipfile", "train.py", "note.ipynb", "Procfile", "README.md", ".dkdbg/manifest.json", ".git", "uv.lock",
    ".python-version", ".github/workflows/ci.yml", "Makefile", "run.sh", ".dkdbg/undo.json",
)  # fmt: skip
FRAGMENTS = (
    "[" * 5000, "{" * 5000, '{"a":' * 3000, "a:\n  - &a [*a, *a]\n", "- " * 2000, "services:\n  a:\n    image: b\n", "[project]\n",
    "dependencies = [", '{"configurations": [{"type": "debugpy", "request": "launch", "program": 3, "args": {}}]}', "(" * 5000,
    "-" * 5000 + "1", "FROM python\n", "RUN <<EOF\n", "a = " + "9" * 6000, '"' * 4000, "\\" * 4000, " " * 20000 + "x", "\0", "\ufeff",
    '{"version": 1, "files": {"a": 3}, "notes": {"b": []}}', "[debug]\n", "a." * 3000, "#" * 5000, "1e999", "!!float .nan", "<<: *a",
    "setup(**" * 800, "x" * 20000, "${A:-" * 3000, "\n" * 20000, "python -m " * 3000, "COPY [" + '"a",' * 3000, "if x:\n" * 500,
)  # fmt: skip
BYTES = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS).map(str.encode), st.binary(max_size=20), TEXT.map(lambda text: text.encode("utf-8", "surrogatepass"))),
    min_size=1, max_size=4,
).map(b"".join)  # fmt: skip


@pytest.mark.attack(8)
@fuzz_settings(40)
@given(contents=st.dictionaries(st.sampled_from(READ), BYTES, min_size=1, max_size=4))
def test_any_bytes_in_the_files_that_init_reads_end_in_seconds(contents):
    """Fills the files that init reads with nests, aliases, bombs and noise: init plans or refuses, within seconds."""
    for root in repositories():
        root.mkdir()
        for name, content in contents.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        planned(root)
