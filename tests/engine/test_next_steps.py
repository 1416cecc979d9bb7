"""What dkdbg says to type next is typed, step by step as a newcomer would, and leads on; so does what errors say."""

from contextlib import contextmanager

import pytest

from dkdbg import hints
from dkdbg.dap.debugger import Debugger
from tests.engine.projects import command, dkdbg, launch_options, must, project, repo, unique
from tests.hints import hinted, in_shell
from tests.ports import free_port
from tests.typed import typed

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("next-steps")]

LOOP = "import time\nn = 0\nwhile True:\n    n += 1\n    print('step', n, flush=True)\n    time.sleep(0.05)\n"


@pytest.fixture(scope="module")
def root(base_image, tmp_path_factory):
    """A repository with a service, which nobody has set up."""
    compose = f"services:\n  web:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n"
    files = {"train.py": LOOP, "compose.yaml": f"{compose}    command: [python3, train.py]\n"}
    files[".env"] = f"DKDBG_PORT={free_port()}\nDKDBG_WAIT=0\n"
    with project(tmp_path_factory.mktemp("hints") / unique("walk"), files) as root:
        yield root


@pytest.fixture(scope="module")
def set_up(root):
    """The repository, set up by what `dkdbg` says in it, and what `init` says then."""
    [line] = hinted(must(dkdbg(root)).stdout, hints.INIT_PLAN)
    shown = in_shell(root, line)
    assert "web-debug" in shown.stdout
    [writes, _] = hinted(shown.stderr, hints.INIT_CHOICE)
    return must(in_shell(root, writes)).stdout


def shows(root, line, text):
    """Type a line whose program goes on, until it has printed a text."""
    with typed(root, line, root.parent / unique("log")) as said:
        said.wait(text)


@contextmanager
def changed(file, before, after):
    """A file with another text in it; at the end it is as it was."""
    text = file.read_text()
    assert before in text, text
    file.write_text(text.replace(before, after))
    try:
        yield
    finally:
        file.write_text(text)


def test_outside_of_a_repository_it_leads_to_one_and_to_the_demo(tmp_path, root):
    shown = must(dkdbg(tmp_path)).stdout
    [line] = hinted(shown, hints.GO_TO_REPOSITORY)
    assert "web-debug" in in_shell(root, line).stdout
    assert hinted(shown, hints.TRY_DEMO) == ["dkdbg demo"]  # which test_demo.py runs


def test_after_init_plain_docker_starts_it_and_what_is_said_of_it_stops_it(root, set_up):
    ours, plain = hinted(set_up, hints.INIT_DONE)
    must(in_shell(root, plain))
    logs, down = hinted(must(dkdbg(root)).stdout, hints.PRESS_F5)
    shows(root, logs, "step 3\n")
    must(in_shell(root, down))
    assert ours in must(dkdbg(root)).stdout
    logs, down = hinted(must(in_shell(root, ours)).stdout, hints.UP_DONE)
    shows(root, logs, "step 3\n")
    with Debugger(launch_options(root)) as debugger:
        debugger.attach()
        where, logs = hinted(must(dkdbg(root)).stdout, hints.ATTACHED)
        assert "train.py" in must(in_shell(root, where)).stdout
        shows(root, logs, "step 5\n")
    must(in_shell(root, down))
    assert root.name not in must(dkdbg(root, "ps")).stdout  # which shows those of tests beside this one


@pytest.mark.usefixtures("set_up")
def test_what_runs_of_another_repository_is_not_called_this_ones(root, tmp_path):
    """The debug services of most repositories have one name; where this one's does not run, what starts it is said."""
    other = repo(
        tmp_path / unique("other"), {name: (root / name).read_text() for name in ("train.py", "compose.yaml")}
    )
    must(dkdbg(other, "init", "--yes"))
    refused = dkdbg(root, "run", "--on", "compose://web-debug", "--", "true")
    assert refused.returncode
    assert "dkdbg up" in refused.stderr
    must(dkdbg(root, "up"))
    try:
        assert "web-debug" in must(dkdbg(root, "ps")).stdout
        shown = must(dkdbg(other)).stdout
        assert "web-debug" in shown.partition("  runs")[2]
        assert "dkdbg up" in shown
        assert "press F5 to attach to web-debug" in must(dkdbg(root)).stdout
    finally:
        must(dkdbg(root, "down"))


@pytest.mark.usefixtures("set_up")
def test_a_file_of_ours_that_is_gone_is_written_again(root):
    (root / ".dkdbg/agent.pyz").unlink()
    refused = dkdbg(root, "up")
    assert refused.returncode == 2
    [line] = hinted(refused.stderr, hints.INIT_FIRST)
    must(in_shell(root, f"{line} --yes"))
    assert (root / ".dkdbg/agent.pyz").is_file()


@pytest.mark.usefixtures("set_up")
def test_a_service_that_was_renamed_gets_its_debug_service_anew(root):
    with changed(root / "compose.yaml", "  web:", "  site:"):
        refused = dkdbg(root, "up")
        assert refused.returncode
        assert "dkdbg init" in refused.stderr
        must(dkdbg(root, "init", "--yes"))
        words = ["docker", "compose", "--profile", "debug", "config", "--services"]
        assert "site-debug" in command(words, root).stdout.split()
    must(dkdbg(root, "init", "--yes"))


@pytest.mark.usefixtures("set_up")
def test_an_engine_that_does_not_answer_is_asked_as_it_says(root):
    nobody = {"DOCKER_HOST": f"unix://{root}/nobody.sock"}
    refused = dkdbg(root, "up", env=nobody)
    info, context = hinted(refused.stderr, hints.ENGINE_DOWN)
    assert in_shell(root, info, nobody).returncode != 0
    must(in_shell(root, info))
    assert must(in_shell(root, context)).stdout.strip()


def test_no_container_of_a_name_leads_to_those_that_there_are(tmp_path, base_image):
    name = unique("dkdbg-test-hints")
    command(["docker", "create", "--name", name, base_image, "true"])
    try:
        refused = dkdbg(tmp_path, "run", "--on", f"docker://{name}-x", "--", "true")
        [line] = hinted(refused.stderr, hints.CONTAINERS)
        assert name in must(in_shell(tmp_path, line)).stdout
    finally:
        command(["docker", "rm", "-f", name])


@pytest.mark.usefixtures("set_up")
def test_a_debug_service_that_was_taken_out_by_hand_is_written_again_as_it_says(root):
    file = root / "compose.override.yaml"
    text = file.read_text()
    with changed(file, text, "services: {}\n"):
        refused = dkdbg(root, "up")
        assert refused.returncode
        assert "dkdbg init" in refused.stderr
    file.unlink()
    must(dkdbg(root, "init", "--yes"))
    assert file.read_text() == text  # what other tests here start


@pytest.mark.usefixtures("set_up")
def test_what_the_engine_refuses_is_shown(root):
    """Compose's own refusals: test_bad_input.py."""
    with changed(root / ".dkdbg/service.compose", "  web-debug:\n", "  web-debug:\n    cap_add: [NOPE]\n"):
        refused = dkdbg(root, "up")
        assert refused.returncode
        assert "NOPE" in refused.stderr


@pytest.mark.usefixtures("set_up")
def test_a_change_of_the_settings_is_seen(root):
    with changed(root / "dkdbg.toml", "[debug]", "[debug]\nwait = 7"):
        assert "was changed after" in must(dkdbg(root)).stdout
        assert "service.compose" in dkdbg(root, "init").stdout
