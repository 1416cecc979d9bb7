"""docs/recipes/openpai.md, command by command: a task on this machine, and a stand-in for the platform's server."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent import nc
from tests.agent.conftest import lay_out
from tests.agent.test_pai import own_address
from tests.agent.test_pai_job import TRAIN
from tests.engine.attach_proxies import AttachProxy
from tests.openpai import jobs, protocol, rest, task
from tests.pages import Page, environment
from tests.ports import free_port


@contextlib.contextmanager
def ended(started: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def test_each_command_of_the_recipe_for_openpai_does_what_the_page_says(tmp_path):
    root, home = tmp_path / "code", tmp_path / "bin"
    for folder in (root, home, tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    for name, text in {"job.yaml": jobs.PLAIN, "train.py": TRAIN, "setup.py": ""}.items():
        (root / name).write_text(text)
    lay_out(root / ".dkdbg")
    node, port = own_address(), free_port()
    with rest.serving() as server:
        page = Page.of("recipes/openpai.md")
        page = Page.read(page.path, page.text.replace("openpai.example.com", f"127.0.0.1:{server.port}"))
        env = {
            "PATH": nc.path(home), "DKDBG_PAI_TOKEN": rest.TOKEN, "DKDBG_PAI_HTTP": "1", "HOST": node, "PORT": str(port),
        }  # fmt: skip
        server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
        with page.all_run():
            shown = page.run("dkdbg init --pai job.yaml --diff", cwd=root)
            assert (shown.returncode, "+        debug: 1\n" in shown.stdout) == (0, True), shown
            assert (root / "job.yaml").read_text() == jobs.PLAIN
            assert page.run("dkdbg init --pai job.yaml --yes", cwd=root).returncode == 0
            text = (root / "job.yaml").read_text()
            assert protocol.load(text)["defaults"] == {"deployment": "debug"}
            with ended(task.start(text, "worker", root, tmp_path / "1", port, host=node)) as job:
                said = []
                for line in job.stderr:
                    said.append(line)
                    if found := re.search(r"type this first: (\S+)$", line):
                        break
                assert found, said
                for line in page.block(
                    "text", "paipdb is running on"
                ).splitlines():  # the page's lines, with its values
                    form = (
                        re.escape(line).replace(r"10\.0\.0\.7", re.escape(node)).replace("31415", str(port))
                    )
                    assert re.search(
                        form.replace("0f1e2d3c4b5a6978", "[0-9a-f]{16}") + "\n", "".join(said)
                    ), (line, said)
                listed = page.run("dkdbg ps", cwd=root, env=env)
                assert re.search(rf"worker/0 +pdb, by nc +waiting +{node}:{port} ", listed.stdout), listed
                typed = f"{found[1]}\nb step\nc\nwhere\np n\ncl 1\nc\nq\n"
                session = page.run("nc ", cwd=root, env=env, stdin=typed)
                assert "train.py(4)step()" in session.stdout, session
                assert "The program finished and will be restarted" in session.stdout
                assert job.wait(300) == 0
            assert page.run("dkdbg init --pai job.yaml --dap --yes", cwd=root).returncode == 0
            words = page.words("dkdbg attach")
            words[-1] += f" --json --port {free_port()}"
            started = subprocess.Popen(
                words,
                cwd=root,
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            text = (root / "job.yaml").read_text()
            with (
                ended(started),
                ended(
                    task.start(
                        text, "worker", root, tmp_path / "2", port, host=node, DKDBG_JOIN_DEADLINE="60"
                    )
                ) as job,
            ):
                proxy = AttachProxy(started)
                proxy.wait("listening")
                token = next(
                    found[1] for line in job.stderr if (found := re.search(r"its token is (\S+)$", line))
                )
                extra = {**page.json("dkdbgToken"), "dkdbgToken": token, "pathMappings": []}
                with Debugger(AttachOptions(host="127.0.0.1", port=proxy.port, extra=extra)) as debugger:
                    debugger.set_breakpoints(str(root / "train.py"), [4])
                    debugger.attach()
                    top = debugger.stack(debugger.wait_stopped(300))[0]
                    assert (top.name, debugger.local_values(top)["n"]) == ("step", "0")
                assert proxy.end() == 0
