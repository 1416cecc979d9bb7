"""A running code-server: VS Code's own workbench and extension host, served on a port of this machine's loopback."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.editor.install import Installed
from tests.ports import free_port

EXTENSION = Path(__file__).parent / "extension"
NOWHERE = json.dumps(dict.fromkeys(("serviceUrl", "itemUrl"), "http://127.0.0.1:9"))
#: What asks people or the network something, and what moves. The rest is VS Code's default.
SETTINGS = {
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": False,
    "extensions.ignoreRecommendations": True,
    "files.autoSave": "off",
    "git.enabled": False,
    "json.schemaDownload.enable": False,
    "npm.fetchOnlinePackageInfo": False,
    "remote.autoForwardPorts": False,
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.enablePersistentSessions": False,
    "terminal.integrated.gpuAcceleration": "off",
    "update.mode": "none",
    "workbench.enableExperiments": False,
    "workbench.reduceMotion": "on",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}


class CodeServer:
    """Where it answers, and where it writes what the editor does."""

    def __init__(self, port: int, password: str, trace: Path) -> None:
        self.port, self.password, self.trace = port, password, trace

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serving(installed: Installed, folder: Path, env: dict[str, str]) -> Iterator[CodeServer]:
    """A code-server with nothing but our extension and settings; all that it keeps lies in `folder`.

    It asks for a password: it has terminals, and others may be at work on this machine.
    """
    data, extensions, trace = folder / "data", folder / "extensions", folder / "trace.jsonl"
    (data / "User").mkdir(parents=True)
    (data / "User/settings.json").write_text(json.dumps(SETTINGS))
    (data / "config.yaml").write_text("cert: false\n")
    shutil.copytree(EXTENSION, extensions / "dkdbg.debugpy-stand-in-0.0.1")
    server = CodeServer(free_port(), secrets.token_hex(16), trace)
    options = {
        "config": data / "config.yaml", "user-data-dir": data, "extensions-dir": extensions,
        "bind-addr": f"127.0.0.1:{server.port}", "auth": "password",
    }  # fmt: skip
    argv = [installed.node, installed.code_server, *(f"--{name}={value}" for name, value in options.items())]
    argv += ["--disable-telemetry", "--disable-update-check", "--disable-workspace-trust", "--disable-proxy"]
    log = folder / "code-server.log"
    with tempfile.TemporaryDirectory(
        prefix="vscode-"
    ) as short:  # for sockets, whose paths may have 107 bytes
        ours = {
            "PASSWORD": server.password, "EDITOR_TRACE": str(trace), "EXTENSIONS_GALLERY": NOWHERE,
            "TMPDIR": short, "XDG_DATA_HOME": str(data),
        }  # fmt: skip
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, env={**os.environ, **env, **ours}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        try:
            _wait_until_it_answers(server, process, log)
            yield server
        finally:
            _end(process)


def _wait_until_it_answers(server: CodeServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{server.url}/healthz"):
            return
        time.sleep(0.05)
    raise AssertionError(f"code-server does not answer: {log.read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with what it has started: terminals and the extension host are of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(300)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(300)
