"""docs/recipes/two-ssh-hops.md, command by command, with a laptop, a login node and a node behind it."""

import json
from pathlib import Path

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent import nsys
from tests.engine.attach_proxies import AttachProxy, proxy_of
from tests.engine.projects import LOOP, marked_line, must, write
from tests.far.test_attach import fetched, wait_listening
from tests.pages import Page, begun, environment
from tests.ports import free_port
from tests.torchrun import TORCHRUN

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

#: Seconds that a loaded machine may take for anything.
TIMEOUT_S = 300.0


@pytest.mark.core
def test_each_command_of_the_recipe_for_two_ssh_hops_does_what_the_page_says(laptop, tmp_path):
    page = Page.of("recipes/two-ssh-hops.md")
    write(tmp_path, **{"train.py": LOOP, "dkdbg.toml": page.block("toml", "[targets.node]")})
    laptop.put("node1", "/home/me/code/runs/log.txt", "loss 1\n")
    laptop.put("node1", "/home/me/www/index.html", "board\n")
    try:
        with page.all_run():
            loop = page.words("dkdbg run --reload")
            proxy = [*page.words("dkdbg attach")]
            proxy[-1] += f" --json --port {free_port()}"
            with begun(loop, tmp_path) as run:
                said = iter(run.stdout.readline, "")
                assert any("attach with: dkdbg attach node" in line for line in said)
                assert any("waiting for a debugger" in line for line in said)
                with proxy_of(proxy, tmp_path, environment()) as attached:
                    debug(page, attached, tmp_path)
                    assert "train.py" in must(page.run("dkdbg ps", cwd=tmp_path)).stdout
                    assert "restarted" in must(page.run("dkdbg restart", cwd=tmp_path)).stdout
                    assert "no difference" in must(page.run("dkdbg sync node --verify", cwd=tmp_path)).stdout
            must(page.run("dkdbg init node", cwd=tmp_path))
            assert '"name": "dkdbg: on node"' in (tmp_path / ".vscode/launch.json").read_text()
            must(page.run("dkdbg sync node --pull", cwd=tmp_path))
            assert [each.read_text() for each in (tmp_path / "dkdbg-pulled").rglob("log.txt")] == ["loss 1\n"]
            forward(page, laptop, tmp_path)
    finally:
        laptop.sh("node1", "pkill -KILL -u me python3; rm -rf /home/me/code /home/me/www", check=False)


def test_the_profile_of_rank_0_on_a_node_comes_here_as_its_page_says(laptop, tmp_path):
    """With stand-ins for nsys and torchrun."""
    page = Page.of("how-to/profile.md")
    bin_ = nsys.install(tmp_path / "nsys", python="/usr/bin/env -S python3")
    for name, text in (("nsys", (bin_ / "nsys").read_text()), ("torchrun", TORCHRUN)):
        laptop.put("node1", f"/usr/local/bin/{name}", text, user="root")
        laptop.sh("node1", f"chmod 755 /usr/local/bin/{name}")
    laptop.put(
        "node1", "/home/me/code/train.py", "import os\nprint('rank', os.environ['RANK'], flush=True)\n"
    )
    try:
        done = must(page.run("dkdbg run --on ssh://", cwd=tmp_path))
        assert {f"rank {rank}" for rank in range(4)} <= set(done.stdout.splitlines())
        (report,) = (tmp_path / "dkdbg-pulled").rglob("*.nsys-rep")
        assert (report.parent.name, report.name.startswith("train-rank0_")) == ("dkdbg-profiles", True)
        assert json.loads(report.read_text())["program"][-1] == "train.py"
    finally:
        laptop.sh("node1", "rm -rf /home/me/code /usr/local/bin/nsys /usr/local/bin/torchrun", check=False)


def debug(page: Page, proxy: AttachProxy, root: Path) -> None:
    """F5 with the entry of the page, and a save."""
    entry, shown = proxy.wait("entry", TIMEOUT_S)["entry"], page.json("pathMappings")
    assert entry == {**shown, "connect": {"host": "127.0.0.1", "port": proxy.port}}
    pairs = tuple(
        (each["localRoot"].replace("${workspaceFolder}", str(root)), each["remoteRoot"])
        for each in entry["pathMappings"]
    )
    here = root / "train.py"
    with Debugger(AttachOptions(port=proxy.port, path_mappings=pairs)) as debugger:
        debugger.set_breakpoints(str(here), [marked_line(here)])
        debugger.attach()
        debugger.wait_stopped(TIMEOUT_S)
        here.write_text(here.read_text().replace("    loss =", "    speed = 7; loss ="))
        top = debugger.stack(debugger.wait_stopped(TIMEOUT_S))[0]
        assert (top.path, debugger.local_values(top)["speed"]) == (str(here), "7")


def forward(page: Page, laptop, root: Path) -> None:
    """TensorBoard's port, by a server in its place: here it may be taken."""
    laptop.sh(
        "node1", "cd /home/me/www; python3 -m http.server -b 127.0.0.1 6006 >/dev/null 2>&1 &", user="me"
    )
    wait_listening(laptop, 6006)
    words = page.words("dkdbg forward")
    words[-1] = words[-1].replace(" 6006", f" {(here := free_port())}:6006")
    with begun(words, root) as running:
        assert any(str(here) in line for line in iter(running.stdout.readline, ""))
        assert fetched(here) == b"board\n"
