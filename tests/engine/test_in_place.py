"""The debug service takes the place of the service that it extends: others reach it by that one's name."""

import json
from dataclasses import replace

import pytest

from dkdbg import hints
from dkdbg.dap.debugger import Debugger
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import typed_proxy
from tests.engine.projects import (
    MARK,
    command,
    dkdbg,
    launch_options,
    marked_line,
    must,
    project,
    stop_in,
    unique,
)
from tests.hints import hinted
from tests.ports import free_port
from tests.typed import typed

pytestmark = pytest.mark.engine

API = f"""\
import http.server


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"3")  {MARK}


http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""
FRONT = """\
import urllib.request

while True:
    for name in ("api", "my-api"):
        print(urllib.request.urlopen(f"http://{name}:8000/").read(), flush=True)
"""
COMPOSE = """\
services:
  api:
    image: {base}
    working_dir: /app
    volumes: [".:/app"]
    command: [python3, api.py]
    init: true
    hostname: my-api
    networks: [back]
  front:
    image: {base}
    working_dir: /app
    volumes: [".:/app"]
    command: [python3, -u, front.py]
    depends_on: [api]
    networks: {{back: {{}}}}
    restart: always
  side: {{image: {base}, command: [sleep, "600"], network_mode: "service:api"}}
networks:
  back: {{}}
"""

LATER = f"x = 1\nprint(x)  {MARK}\n"
ALONE = """\
services:
  job:
    image: {base}
    working_dir: /app
    volumes: [".:/app"]
    command: [python3, job.py]
    {network}
  net:
    image: {base}
    command: [sleep, "600"]
networks: {{back: {{internal: true}}}}
"""


def test_calls_by_the_name_of_the_service_stop_and_one_beside_it_is_told(base_image, tmp_path):
    files = {"api.py": API, "front.py": FRONT, "compose.yaml": COMPOSE.format(base=base_image)}
    with project(tmp_path / unique("place"), files) as root:
        api = root / "api.py"
        command(["docker", "compose", "up", "-d", "api"], root)
        must(dkdbg(root, "init", "--yes", "--service", "api"))
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        said = must(dkdbg(root, "up")).stdout
        assert "api is stopped while api-debug answers in its place" in said
        assert "docker compose up --no-deps front\n" in said
        assert "side does not reach api-debug" in said
        assert "network_mode: service:api-debug there" in said
        with Debugger(launch_options(root)) as debugger:
            debugger.set_breakpoints(str(api), [marked_line(api)])
            root_session = debugger.attach()
            debugger.wait_session(lambda each: each.pid and each is not root_session, "the program's session")
            command(["docker", "compose", "up", "-d", "--no-deps", "front"], root)
            for name in ("api", "my-api"):
                stop = debugger.wait_stopped(300)
                host = debugger.evaluate("self.headers['Host']", debugger.stack(stop)[0])
                assert host == f"'{name}:8000'"
                debugger.continue_(stop)
            debugger.set_breakpoints(str(api), [])
            command(["docker", "compose", "start", "api"], root)
            debugger.wait_output("stop it with: docker compose stop api", timeout=300)


@pytest.mark.parametrize("network", ["network_mode: none", "network_mode: service:net"])
def test_a_service_without_a_network_of_its_own_is_debugged_through_dkdbg_attach(
    base_image, tmp_path, network
):
    files = {
        "job.py": f"def f():\n    x = 1\n    print(x)  {MARK}\nf()\n",
        "compose.yaml": ALONE.format(base=base_image, network=network),
        ".env": f"DKDBG_PORT={free_port()}\n",
    }
    with project(tmp_path / unique("alone"), files, "init", "--yes", "--service", "job") as root:
        must(dkdbg(root, "verify"))
        said = must(dkdbg(root, "up")).stdout
        assert "which has no port on this machine" in said
        [line] = hinted(said, hints.REMOTE_ATTACH)
        f5 = command(["sh", ".dkdbg/up.sh"], root, check=False)
        assert f5.returncode == 1
        assert line in f5.stderr
        with typed_proxy(root, line) as proxy:
            stopped = stop_in(root, "job.py", replace(launch_options(root), port=proxy.port))
            assert stopped.function == "f"


@pytest.mark.parametrize("start", ["dkdbg up", "F5"])
def test_a_service_beside_it_that_only_prepares_something_may_end(base_image, tmp_path, start):
    loop = f"import time\nwhile True:\n    time.sleep(0.1)  {MARK}\n"
    prepares = "  prepares: {image: BASE, command: ['true']}\n".replace("BASE", base_image)
    compose = ALONE.format(base=base_image, network="depends_on: [prepares]").replace(
        "  net:\n", prepares + "  net:\n"
    )
    files = {"job.py": loop, "compose.yaml": compose, ".env": f"DKDBG_PORT={free_port()}\n"}
    with project(tmp_path / unique("prepared"), files, "init", "--yes", "--service", "job") as root:
        if start == "F5":
            command(["sh", ".dkdbg/up.sh"], root)
        else:
            must(dkdbg(root, "up"))
        assert stop_in(root, "job.py", launch_options(root)).line == 3


def test_a_file_that_is_mounted_alone_is_the_new_one_after_a_restart(base_image, tmp_path):
    loop = "import time\nwhile True:\n    print('{}', flush=True)\n    time.sleep(0.1)\n"
    dockerfile = f'FROM {base_image}\nWORKDIR /app\nCOPY app.py .\nCMD ["python3", "app.py"]\n'
    files = {"app.py": loop.format("old"), "Dockerfile": dockerfile}
    with project(tmp_path / unique("alone"), files, "init", "--yes") as root:
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\nDKDBG_WAIT=0\n")
        must(dkdbg(root, "up"))
        (root / "new").write_text(loop.format("new"))
        (root / "new").rename(root / "app.py")
        assert "/app/app.py is mounted as a single file" in must(dkdbg(root, "restart")).stdout
        wait_for(lambda: must(dkdbg(root, "logs", "--tail", "3")).stdout, lambda said: said.endswith("new\n"))


def test_restart_after_the_programs_end_starts_its_container_again(base_image, tmp_path):
    dockerfile = f'FROM {base_image}\nWORKDIR /app\nCOPY . .\nCMD ["python3", "-c", "print(1)"]\n'
    with project(tmp_path / unique("ended"), {"Dockerfile": dockerfile}, "init", "--yes") as root:
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\nDKDBG_WAIT=0\n")
        assert "is not running" in dkdbg(root, "restart").stderr
        must(dkdbg(root, "up"))
        compose = ["docker", "compose", "--profile", "debug"]
        states = [*compose, "ps", "--all", "--format", "{{.State}}"]
        for _ in range(2):  # while its end is kept for an editor, and after it
            assert "its container is restarted" in must(dkdbg(root, "restart")).stdout
            with Debugger(launch_options(root)) as debugger:
                debugger.attach()
            wait_for(lambda: command(states, root).stdout, lambda found: found == "exited\n")
        assert command([*compose, "logs", "--no-log-prefix"], root).stdout.count("1\n") >= 3


def test_a_paused_container_is_named_and_restart_leaves_its_program_alone(base_image, tmp_path):
    dockerfile = f'FROM {base_image}\nWORKDIR /app\nCOPY . .\nCMD ["sleep", "600"]\n'
    with project(tmp_path / unique("paused"), {"Dockerfile": dockerfile}, "init", "--yes") as root:
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\nDKDBG_WAIT=0\n")
        must(dkdbg(root, "up"))
        [id_] = command(["docker", "compose", "--profile", "debug", "ps", "-q"], root).stdout.split()
        command(["docker", "pause", id_], root)
        try:
            listed = json.loads(must(dkdbg(root, "ps", "--json")).stdout)["sessions"]
            [session] = [each for each in listed if each["id"] == id_[:12]]
            said = f"container {session['target'].split()[-1]} is paused: docker unpause "
            assert (session["state"], session["detail"].startswith(said)) == ("paused", True)
            assert said in dkdbg(root, "restart").stderr
            assert "[paused]" in dkdbg(root, "why", "Dockerfile:1").stdout
        finally:
            command(["docker", "unpause", id_], root)
        assert "restarted, run 2" in must(dkdbg(root, "restart")).stdout


def test_where_nothing_runs_up_and_f5_say_so_and_dkdbg_run_gets_the_port(base_image, tmp_path):
    compose = f"services:\n  db:\n    image: {base_image}\n    command: sleep 1000\n    init: true\n"
    files = {"compose.yaml": compose, "later.py": LATER, ".env": f"DKDBG_PORT={free_port()}\n"}
    env, idles = {"DKDBG_BASE": base_image}, ("init", "--yes", "--command", "sleep infinity")
    with project(tmp_path / unique("idle"), files, *idles, env=env) as root:
        assert "no program runs in it: dkdbg run -- COMMAND" in must(dkdbg(root, "up", env=env)).stdout
        f5 = command(["sh", ".dkdbg/up.sh"], root, env=env, check=False)
        assert (f5.returncode, "no program runs" in f5.stderr) == (1, True)
        command(["docker", "compose", "up", "-d", "db"], root, env=env)
        with typed(root, "dkdbg run --wait 300 -- python3 later.py", tmp_path / "said", env) as said:
            said.wait("waiting for a debugger")
            assert stop_in(root, "later.py").line == marked_line(root / "later.py")
        assert "still running: db (dkdbg down --all ends the project)" in must(dkdbg(root, "down")).stdout
        label = f"label=com.docker.compose.project={root.name}"
        networks = ["docker", "network", "ls", "-q", "--filter", label]
        assert command(networks).stdout
        command(["docker", "compose", "rm", "-sf", "db"], root, env=env)
        must(dkdbg(root, "down"))  # alone again: the networks were made for it
        assert command(networks).stdout == ""
