"""What dkdbg says to type next is typed, step by step as a newcomer would, and leads on; so does what errors say."""

from __future__ import annotations

import os
import subprocess

import pytest

from dkdbg.dap.debugger import Debugger
from tests.engine.projects import dkdbg, launch_options, must, repo, take_away, unique
from tests.hints import in_shell, to_type
from tests.ports import free_port
from tests.typed import typed

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("next-steps")]

LOOP = "import time\nn = 0\nwhile True:\n    n += 1\n    print('step', n, flush=True)\n    time.sleep(0.05)\n"


@pytest.fixture(scope="module")
def root(base_image, tmp_path_factory):
    """A repository with a service, which nobody has set up."""
    root = repo(tmp_path_factory.mktemp("hints") / unique("walk"), {"train.py": LOOP})
    compose = f"services:\n  web:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n"
    (root / "compose.yaml").write_text(f"{compose}    command: [python3, train.py]\n")
    (root / ".env").write_text(f"DKDBG_PORT={free_port()}\nDKDBG_WAIT=0\n")
    yield root
    take_away(root, dict(os.environ))


@pytest.fixture(scope="module")
def set_up(root):
    """The repository, set up by what `dkdbg` says in it, and what `init` says then."""
    [line] = to_type(must(dkdbg(root)).stdout, "dkdbg init shows a plan and asks before it writes anything")
    shown = in_shell(root, line)
    assert "web-debug" in shown.stdout
    [writes, _] = to_type(shown.stderr, "dkdbg init --yes writes, dkdbg init --diff only shows")
    return must(in_shell(root, writes)).stdout


def shows(root, line, text):
    """Type a line whose program goes on, until it has printed a text."""
    with typed(root, line, root.parent / unique("log")) as said:
        said.wait(text)


def test_outside_of_a_repository_it_leads_to_one_and_to_the_demo(tmp_path, root, base_image):
    shown = must(dkdbg(tmp_path)).stdout
    [line] = to_type(shown, "go to your repository and type: dkdbg init")
    assert "web-debug" in in_shell(root, line).stdout
    [line] = to_type(shown, "or see the whole path on an example: dkdbg demo")
    place = tmp_path / "tmp"
    place.mkdir()
    done = must(in_shell(tmp_path, line, {"TMPDIR": str(place), "DKDBG_BASE": base_image}))
    assert "demo passed" in done.stdout


def test_after_init_plain_docker_starts_it_and_what_is_said_of_it_stops_it(root, set_up):
    ours, plain = to_type(
        set_up, "next: dkdbg up, or plain Docker: docker compose --profile debug up --build --wait {}"
    )
    must(in_shell(root, plain))
    logs, down = to_type(
        must(dkdbg(root)).stdout,
        "press F5 to attach to {}; dkdbg logs -f shows what it prints, dkdbg down stops it",
    )
    shows(root, logs, "step 3\n")
    must(in_shell(root, down))
    [again] = to_type(must(dkdbg(root)).stdout, "or start it from here: dkdbg up")
    assert again == ours
    logs, down = to_type(
        must(in_shell(root, again)).stdout,
        "next: set a breakpoint and press F5; dkdbg logs -f shows the output, dkdbg down stops it",
    )
    shows(root, logs, "step 3\n")
    with Debugger(launch_options(root)) as debugger:
        debugger.attach()
        where, logs = to_type(
            must(dkdbg(root)).stdout,
            "your editor is attached; dkdbg where shows where each process is, dkdbg logs -f what it prints",
        )
        assert "train.py" in must(in_shell(root, where)).stdout
        shows(root, logs, "step 5\n")
    must(in_shell(root, down))
    assert "web-debug" not in must(dkdbg(root, "ps")).stdout


@pytest.mark.usefixtures("set_up")
def test_what_runs_of_another_repository_is_not_called_this_ones(root, tmp_path):
    """The debug services of most repositories have one name."""
    other = repo(
        tmp_path / unique("other"), {name: (root / name).read_text() for name in ("train.py", "compose.yaml")}
    )
    must(dkdbg(other, "init", "--yes"))
    must(dkdbg(root, "up"))
    try:
        shown = must(dkdbg(other)).stdout
        assert "web-debug" in shown.partition("  runs")[2]
        to_type(shown, "or start it from here: dkdbg up")
        assert "press F5 to attach to web-debug" in must(dkdbg(root)).stdout
    finally:
        must(dkdbg(root, "down"))


@pytest.mark.usefixtures("set_up")
def test_after_a_change_of_the_settings_it_leads_to_what_would_change(root):
    settings, text = root / "dkdbg.toml", (root / "dkdbg.toml").read_text()
    settings.write_text(f"{text}\n[debug]\nwait = 7\n" if "[debug]" not in text else text.replace("[debug]", "[debug]\nwait = 7"))  # fmt: skip
    try:
        [line] = to_type(must(dkdbg(root)).stdout, "dkdbg init shows what would change")
        shown = in_shell(root, line)
        assert "compose.override.yaml" in shown.stdout
    finally:
        settings.write_text(text)


@pytest.mark.usefixtures("set_up")
def test_a_file_of_ours_that_is_gone_is_written_again(root):
    (root / ".dkdbg/agent.pyz").unlink()
    refused = dkdbg(root, "up")
    assert refused.returncode == 2
    [line] = to_type(refused.stderr, "dkdbg init")
    must(in_shell(root, f"{line} --yes"))
    assert (root / ".dkdbg/agent.pyz").is_file()


@pytest.mark.usefixtures("set_up")
def test_a_service_that_was_renamed_gets_its_debug_service_anew(root):
    file, text = root / "compose.yaml", (root / "compose.yaml").read_text()
    file.write_text(text.replace("  web:", "  site:"))
    try:
        refused = dkdbg(root, "up")
        [line] = to_type(
            refused.stderr, "dkdbg init writes the debug service anew, for a service that is there"
        )
        must(in_shell(root, f"{line} --yes"))
        must(dkdbg(root, "up"))
        assert "site-debug" in must(dkdbg(root, "ps")).stdout
        must(dkdbg(root, "down"))
    finally:
        file.write_text(text)
        must(dkdbg(root, "init", "--yes"))


# --- the engine


@pytest.mark.usefixtures("set_up")
def test_an_engine_that_does_not_answer_is_asked_as_it_says(root):
    nobody = {"DOCKER_HOST": f"unix://{root}/nobody.sock"}
    refused = dkdbg(root, "up", env=nobody)
    _, info, context = to_type(
        refused.stderr,
        "start it (sudo systemctl start docker, or Docker Desktop), then `docker info` must answer; `docker context show` and DOCKER_HOST say which one was asked",
    )
    assert in_shell(root, info, nobody).returncode != 0
    must(in_shell(root, info))
    assert must(in_shell(root, context)).stdout.strip()


@pytest.mark.usefixtures("set_up")
def test_a_context_that_is_not_there_leads_to_those_that_are(root):
    refused = dkdbg(root, "up", env={"DOCKER_CONTEXT": "nope"})
    [line] = to_type(
        refused.stderr,
        "docker context ls shows the engines it knows; DOCKER_CONTEXT and DOCKER_HOST choose one",
    )
    names = [each.split()[0] for each in must(in_shell(root, line)).stdout.splitlines()[1:]]
    must(dkdbg(root, "ps", env={"DOCKER_CONTEXT": names[0]}))


@pytest.mark.usefixtures("set_up")
def test_an_api_version_that_the_engine_does_not_speak_is_unset(root):
    env = {"DOCKER_API_VERSION": "1.99"}
    refused = dkdbg(root, "up", env=env)
    [line] = to_type(
        refused.stderr, "unset DOCKER_API_VERSION: docker and the engine agree on one by themselves"
    )
    must(in_shell(root, f"{line}; dkdbg ps", env))


@pytest.mark.usefixtures("set_up")
def test_a_compose_file_that_compose_refuses_is_shown_by_it(root):
    (root / "compose.override.yml").unlink(missing_ok=True)
    file, text = root / "compose.yaml", (root / "compose.yaml").read_text()
    file.write_text(text.replace("    working_dir", "    woking_dir"))
    try:
        [line] = to_type(dkdbg(root, "up").stderr, "docker compose --profile debug config shows where")
        assert "woking_dir" in in_shell(root, line).stderr
    finally:
        file.write_text(text)
    must(in_shell(root, line))


def test_a_base_image_that_cannot_be_had_makes_way_for_the_one_that_is_named(tmp_path, base_image):
    made = repo(tmp_path / unique("base"), {"train.py": LOOP})
    (made / ".env").write_text(f"DKDBG_PORT={free_port()}\nDKDBG_WAIT=0\n")
    must(dkdbg(made, "init", "--yes"))
    try:
        refused = dkdbg(made, "up", env={"DKDBG_BASE": "localhost:1/no/such:image"})
        to_type(
            refused.stderr,
            "log in (docker login), or name one that you have: DKDBG_BASE=registry.example/python:3.11 where dkdbg init wrote the Dockerfile, its FROM line in one of yours",
        )
        named = refused.stderr[refused.stderr.index("DKDBG_BASE=") :].split()[0]
        ours = named.replace("registry.example/python:3.11", base_image)
        must(in_shell(made, f"{ours} dkdbg up"))
        must(in_shell(made, f"{ours} dkdbg down --all"))
    finally:
        take_away(made, dict(os.environ))


def test_no_container_of_a_name_leads_to_those_that_there_are(tmp_path, base_image):
    name = unique("dkdbg-test-hints")
    must(subprocess.run(["docker", "create", "--name", name, base_image, "true"], capture_output=True, text=True, check=False))  # fmt: skip
    try:
        refused = dkdbg(tmp_path, "run", "--on", f"docker://{name}-x", "--", "true")
        [line] = to_type(refused.stderr, "docker ps --all")
        assert name in must(in_shell(tmp_path, line)).stdout
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)


@pytest.mark.usefixtures("set_up")
def test_a_debug_service_that_was_taken_out_by_hand_is_written_again_as_it_says(root):
    file = root / "compose.override.yaml"
    file.write_text("services: {}\n")
    try:
        refused = dkdbg(root, "up")
        [line] = to_type(
            refused.stderr,
            "dkdbg init writes them again; a file of ours that you changed is kept: remove it first",
        )
        file.unlink()
        must(in_shell(root, f"{line} --yes"))
        must(dkdbg(root, "up"))
        must(dkdbg(root, "down"))
    finally:
        file.unlink(missing_ok=True)
        must(dkdbg(root, "init", "--yes"))


@pytest.mark.usefixtures("set_up")
def test_what_the_engine_refuses_for_a_reason_of_its_own_is_the_same_by_hand(root):
    override = root / "compose.override.yaml"
    text = override.read_text()
    named = must(dkdbg(root)).stdout.partition("set up  ")[2].split()[0]
    override.write_text(text.replace("  web-debug:\n", "  web-debug:\n    cap_add: [NOPE]\n"))
    try:
        refused = dkdbg(root, "up")
        [line] = to_type(
            refused.stderr,
            "the same by hand: docker compose --profile debug up --build --wait SERVICE (plain dkdbg names it)",
        )
        assert "NOPE" in in_shell(root, line.replace("SERVICE", named)).stderr
    finally:
        override.write_text(text)


@pytest.mark.usefixtures("set_up")
def test_where_the_debug_service_does_not_run_what_starts_it_is_said(root):
    refused = dkdbg(root, "run", "--on", "compose://web-debug", "--", "true")
    [line] = to_type(refused.stderr, "dkdbg up starts the debug service; docker://NAME names any container")
    must(in_shell(root, line))
    assert "web-debug" in must(dkdbg(root, "ps")).stdout
    must(dkdbg(root, "down"))
