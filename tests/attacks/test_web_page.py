"""A web page that the user of dkdbg has open: his browser reaches the ports of his machine, loopback too."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.state import procfs
from tests.agent.dap_probe import wait_for
from tests.agent.nc import PROMPT, Client
from tests.commands import command
from tests.ports import free_port

#: Posts lines of pdb's to the port in the ways that ask nobody for leave. A browser that reads pdb's greeting for an
#: answer hangs up: it takes some posts until their lines are read before that. What is held open is left after 5 s.
PAGE = """<script>
const url = "http://127.0.0.1:PORT/", lines = "\\n!open('FILE', 'w').close()\\n";
const limit = new Promise(done => setTimeout(done, 5000));
const text = () => fetch(url, {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: lines});
const posts = [
  ...Array(100).fill(text),
  () => new Promise(done => { new WebSocket(url.replace("http", "ws")).onclose = done; }),
  () => fetch(url.replace("http", "https"), {method: "POST", mode: "no-cors", body: lines}),
];
(async () => {
  await Promise.race([limit, (async () => { for (const post of posts) await post().catch(() => 0); })()]);
  done();
})();
</script>"""

#: How pdb is opened on a port: the program, which stops in each round, and what `launch` is asked for.
LOOP = "import os\n{load}\nx = 1\nwhile not os.path.exists('enough'):\n    {stop}\nprint(x)\n"
WAYS = {
    "launch --pdb": (LOOP.format(load="", stop="breakpoint()"), ("--pdb", "{port}"), {}),
    "settrace(port=)": (
        LOOP.format(load="import dkdbg", stop="dkdbg.settrace(port={port}, timeout=600)"), (), {}
    ),
    "dkdbg.pai": (LOOP.format(load="from dkdbg.pai import settrace", stop="settrace()"), (), {"DEBUG_PORT": "{port}"}),
    "launch --pdb with DKDBG_TOKEN": (
        LOOP.format(load="", stop="breakpoint()"), ("--pdb", "{port}"), {"DKDBG_TOKEN": "geheim"}
    ),
}  # fmt: skip


def start(launch: Any, tmp_path: Path, way: str, port: int) -> Any:
    """Start the program of a way under the agent, and wait until its pdb listens on the port."""
    program, options, env = WAYS[way]
    (tmp_path / "train.py").write_text(program.format(port=port))
    running = launch(
        sys.executable,
        "train.py",
        wait="600" if options else "0",
        options=tuple(word.format(port=port) for word in options),
        env={name: value.format(port=port) for name, value in env.items()},
    )
    await_port(port, running.process)
    return running


def use(running: Any, way: str, port: int) -> None:
    """Be the user who knows the token: look at a value, and let the program run to its end."""
    user = Client(port, running.process, token=WAYS[way][2].get("DKDBG_TOKEN"))
    user.until()
    if WAYS[way][1]:
        user.ask("c")  # from the program's first line to its first breakpoint
    assert user.ask("p x") == "1\n" + PROMPT
    user.ask("!open('enough', 'w').close()")
    user.sock.sendall(b"c\n")
    running.ends(0, "1\n")


def await_port(port: int, process: subprocess.Popen[Any]) -> None:
    wait_for(lambda: process.poll() is not None or port in (procfs.listening_ports() or ()), bool)
    assert process.poll() is None, process.communicate()


@pytest.mark.attack(3)
@pytest.mark.parametrize(
    "way", ["settrace(port=)", "launch --pdb with DKDBG_TOKEN"]
)  # the others: test_another_user.py
def test_a_page_that_posts_to_the_port_of_pdb_runs_nothing(browse, launch, tmp_path, way):
    """Posts Python to pdb's port on loopback from a page in the user's browser: closed after its first line."""
    port, opened = free_port(), tmp_path / "written-by-the-page"
    running = start(launch, tmp_path, way, port)
    browse(PAGE.replace("PORT", str(port)).replace("FILE", str(opened)))
    assert not opened.exists()
    use(running, way, port)


@pytest.mark.attack(12)
def test_a_name_that_was_made_to_mean_this_machine_gets_no_answer(chromium, launch, tmp_path):
    """Reads /status after DNS rebinding, at a name of the attacker's that means 127.0.0.1: 421, with nothing in it."""
    running = launch("sleep", "600")
    port = running.wait_state("running")["port"]
    words = [
        chromium, "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server", "--no-sandbox",
        f"--user-data-dir={tmp_path / 'browser'}", "--host-resolver-rules=MAP attacker.test 127.0.0.1", "--dump-dom",
    ]  # fmt: skip

    def read(host, path="status"):
        return command([*words, f"http://{host}:{port}/{path}"]).stdout

    assert '"state": "running"' in read("127.0.0.1")  # it reads what is there
    for path in ("status", "healthz"):
        said = read("attacker.test", path)
        assert "use an address" in said
        assert "state" not in said


@pytest.mark.attack(12)
def test_a_page_gets_no_answer_by_the_address_either(browse, launch):
    """Fetches /status from a page whose browser lets it read any origin: 403, with nothing in it."""
    running = launch("sleep", "600")
    port = running.wait_state("running")["port"]
    page = """<pre id="said"></pre><script>
    fetch("http://127.0.0.1:PORT/status").then(answer => answer.text()).catch(String).then(text => {
      document.getElementById("said").textContent = text;
      done();
    });
    </script>"""
    said = browse(page.replace("PORT", str(port)), ["--disable-web-security"])
    assert "requests from web pages are rejected" in said
    assert running.name not in said
