"""`dkdbg attach docker://NAME` of a container that dkdbg did not start says what is there, and its advice works."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from dkdbg import hints
from dkdbg.core.pythons import pythons_in
from dkdbg.dap.debugger import AttachOptions, Debugger
from dkdbg.targets.docker.container import Container
from dkdbg.targets.docker.container_target import advice
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import (
    attach_proxy,
    docker,
    ready_proxy,
    typed_proxy,
    typed_run,
    without_ptrace,
)
from tests.engine.projects import at, dkdbg, must, project, stopped_in, unique
from tests.hints import hinted, in_shell
from tests.pages import environment
from tests.ports import free_port

pytestmark = pytest.mark.engine

LINE = "7\t1\t\t/usr/bin/python3.11\tpython3\t-c\timport time; time.sleep(1e6)\t"


@pytest.fixture
def foreign(start_container, tmp_path):
    """A container whose system lets nobody enter a process."""
    program = ("python3", "-c", "import time; time.sleep(1e6)")
    name = start_container(*without_ptrace(tmp_path), words=program)
    wait_for(lambda: docker("top", name), lambda seen: "python3" in seen)
    return name


def said_about(root, target, last):
    """What attach says of a target, up to a text."""
    with attach_proxy(root, target) as proxy:
        proxy.wait_for(lambda each: last in each["text"])
        assert proxy.end() == 0
        return "\n".join(each["text"] for each in proxy.events)


@pytest.mark.core
def test_a_container_without_an_agent_is_described_the_advice_works_and_a_typo_leads_to_it(tmp_path, foreign):
    said = said_about(tmp_path, f"docker://{foreign}", "dkdbg run --on")
    assert re.search(r"process \d+ \(Python 3\.11\): python3 -c 'import time; time.sleep\(1e6\)'", said), said
    [line] = hinted(said, hints.RUN_BESIDE)
    with typed_run(tmp_path, line) as ran, Debugger(AttachOptions(port=ran.port)) as debugger:
        debugger.attach()
        assert ran.typed.process.poll() is None
    said = said_about(tmp_path, f"docker://{foreign[:-1]}x", "did you mean")
    assert f"did you mean docker://{foreign}?" in said


@pytest.fixture
def running(start_container, tmp_path):
    """Starts containers; this folder is /code in them."""
    code = ("-v", f"{tmp_path}:/code", "-w", "/code")
    return lambda image, *words, options=(): start_container(*code, *options, image=image, words=words)


@pytest.mark.core
def test_a_container_without_a_python_gets_one_under_dkdbg_as_it_says(tmp_path, base_image, running):
    (tmp_path / "train.py").write_text("print('hello')\n")
    name = running(base_image, "sleep", "infinity")
    said = said_about(tmp_path, f"docker://{name}", "no Python runs")
    line = f"dkdbg run --on docker://{name} --wait -- python3 train.py"
    assert line in said
    started = subprocess.Popen(
        ["sh", "-c", f"exec {line}"], cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with ready_proxy(tmp_path, f"docker://{name}") as proxy:
            with Debugger(AttachOptions(port=proxy.port)) as debugger:
                debugger.attach()
            assert started.communicate(timeout=300)[0] == "hello\n"
    finally:
        started.terminate()
        started.wait(300)


@pytest.mark.parametrize("limit", ["26", "30"])
def test_a_program_runs_to_its_end_where_pids_max_leaves_too_few_threads_for_an_editor_and_that_is_said(
    tmp_path, base_image, running, limit
):
    """pydevd starts a thread on the program's own, which raised the error there."""
    (tmp_path / "train.py").write_text(
        "def step():\n    return 1\nfor _ in range(500):\n    step()\nprint('end')\n"
    )
    name = running(base_image, "sleep", "infinity", options=("--pids-limit", limit))
    line = f"dkdbg run --on docker://{name} --wait -- python3 train.py"
    started = subprocess.Popen(
        ["sh", "-c", f"exec {line}"], cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with (
            ready_proxy(tmp_path, f"docker://{name}") as proxy,
            Debugger(AttachOptions(port=proxy.port)) as debugger,
        ):
            debugger.attach()
            debugger.wait_output("pids.max allows only")
            assert started.communicate(timeout=300)[0] == "end\n"
        assert started.returncode == 0
    finally:
        started.terminate()
        started.wait(300)


def test_programs_in_one_container_are_each_behind_their_own_port(tmp_path, base_image, running):
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("import time\nwhile True:\n    time.sleep(0.05)\n")
    name = running(base_image, "sleep", "infinity")

    def line(inner, script, *more):
        words = f"--port {inner} --wait --attach {' '.join(more)} -- python3 {script}"
        return f"dkdbg run --on docker://{name} {words}"

    def stops_at(port):
        with Debugger(at(port, tmp_path, "/code")) as debugger:
            for each in ("a.py", "b.py", "c.py"):
                debugger.set_breakpoints(str(tmp_path / each), [3])
            debugger.attach()
            return Path(debugger.stack(debugger.wait_stopped(300))[0].path).name

    with (
        typed_run(tmp_path, line(5678, "a.py")) as first,
        typed_run(tmp_path, line(5679, "b.py")) as second,
        typed_run(tmp_path, line(5680, "c.py", "--reload")) as third,
    ):
        assert [stops_at(each.port) for each in (third, first, second)] == ["c.py", "a.py", "b.py"]


@pytest.mark.parametrize(
    "options", [("--network", "host"), ()], ids=["in the network of the host", "at an address of its own"]
)
def test_a_plain_debugpy_is_reached_as_it_says(tmp_path, base_image, running, options):
    """Published ports: the page that tests/engine/test_entering.py runs."""
    (tmp_path / "train.py").write_text("import time\nwhile True:\n    time.sleep(0.05)\n")
    served, port = Path(find_spec("debugpy").origin).parent, str(free_port())
    name = running(
        base_image, "python3", "-m", "debugpy", "--listen", f"0.0.0.0:{port}", "train.py",
        options=("-v", f"{served}:/site/debugpy:ro", "-e", "PYTHONPATH=/site", *options),
    )  # fmt: skip
    wait_for(lambda: docker("top", name), lambda seen: "debugpy/adapter" in seen)
    look = 'for each in /proc/[0-9]*; do case $(tr "\\0" " " <$each/cmdline) in python3*-m*--listen*) echo ${each#/proc/};; esac; done'
    number = docker("exec", name, "sh", "-c", look)
    refused = dkdbg(tmp_path, "attach", f"docker://{name}", "--pid", number)
    assert f"dkdbg attach docker://{name}" in refused.stderr
    said = said_about(tmp_path, f"docker://{name}", "attach through dkdbg")
    line = said[said.rindex("dkdbg attach ") :].splitlines()[0]
    with (
        typed_proxy(tmp_path, line) as proxy,
        stopped_in(tmp_path / "train.py", at(proxy.port, tmp_path, "/code"), 3) as (debugger, stop),
    ):
        assert debugger.stack(stop)[0].line == 3


def test_the_service_of_a_container_is_set_up_as_it_says(tmp_path, base_image):
    service = f"    image: {base_image}\n    working_dir: /code\n    volumes: ['.:/code']\n    command: [python3, train.py]\n"
    files = {
        "train.py": "import time\nwhile True:\n    time.sleep(0.05)\n",
        "compose.yaml": f"services:\n  trainer:\n{service}",
    }
    with project(tmp_path / unique("set-up"), files) as root:
        docker("compose", "--project-directory", str(root), "up", "-d")
        name = docker("compose", "--project-directory", str(root), "ps", "--format", "{{.Name}}")
        said = said_about(root, f"docker://{name}", "init --service")
        [line] = hinted(said, hints.INIT_SERVICE)
        assert "trainer-debug" in must(in_shell(root, f"{line} --yes")).stdout
        must(in_shell(root, "docker compose --profile debug config -q"))


def test_what_a_container_says_of_itself_commands_no_terminal_and_no_shell():
    hostile = "8\t1\t\t/usr/bin/python3\tpython3\t$(reboot)\t\n9\t1\t\t/usr/bin/python3\t\x1b[2J\t\n" + LINE
    found = pythons_in(hostile)
    assert [each.pid for each in found] == [7, 8]
    there = Container(id="1", name="box", label="", running=True, host_network=False, published={})
    assert "-- python3 '$(reboot)'" in "\n".join(advice(there, found[1:]))
