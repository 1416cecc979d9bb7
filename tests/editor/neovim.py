"""A headless Neovim for the tests, with a plugin and an init.lua of its own, driven by its keys."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.needs import give_up
from tests.pythons import cache

TIMEOUT_S = 300
STAND_IN = Path(__file__).parent / "nvim"
#: The frame that the plugin shows, and the local variables in it. The order of both is the plugin's.
_SHOWN = """
(function()
  local session = require("dap").session()
  local frame = session and session.current_frame
  local scope = frame and frame.scopes and frame.scopes[1]
  if not (scope and scope.variables) then return "null" end
  local values = {}
  for _, each in pairs(scope.variables) do values[each.name] = each.value end
  return vim.json.encode({ path = frame.source.path, line = frame.line, name = frame.name, values = values })
end)()
"""


def neovim() -> str:
    """The program, 0.10 or newer: PATH's or what .ci/neovim has unpacked; without it the test is skipped, in CI it fails."""
    known = [str(each) for each in (shutil.which("nvim"), cache() / "neovim" / "nvim") if each]
    found = next((each for each in known if _version(each) >= (0, 10)), None)
    if found is None:
        give_up("no Neovim 0.10 or newer here: .ci/neovim")
    return found


def _version(program: str) -> tuple[int, ...]:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ()
    found = re.match(r"NVIM v(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else ()


def nvim_dap() -> Path:
    """The real plugin: the folder DKDBG_TEST_NVIM_DAP, or what .ci/neovim has cloned; a stand-in where GitHub is out of reach."""
    folder = Path(os.environ.get("DKDBG_TEST_NVIM_DAP") or cache() / "nvim-dap")
    return folder if (folder / "lua/dap.lua").is_file() else STAND_IN


class Neovim:
    """A running one.

    Args:
        program: its path. socket: where it listens. environment: that it runs in.
    """

    def __init__(self, program: str, socket: Path, environment: dict[str, str]) -> None:
        self.program, self.socket, self.environment = program, socket, environment

    def _say(self, flag: str, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, "--server", str(self.socket), flag, text], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip

    def press(self, keys: str) -> None:
        """Press these keys, as `:help keycodes` writes them."""
        done = self._say("--remote-send", keys)
        assert done.returncode == 0, done.stderr

    def ask(self, expression: str) -> str:
        """What an expression of Vim's is."""
        done = self._say("--remote-expr", expression)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip() or done.stderr.strip()

    def wait_until_it_answers(self) -> None:
        end = time.monotonic() + TIMEOUT_S
        while self._say("--remote-expr", "1").returncode:
            assert time.monotonic() < end, "Neovim does not answer"
            time.sleep(0.05)

    def stop(self) -> dict[str, Any]:
        """Wait until the plugin shows a frame of the program, and return it."""
        end = time.monotonic() + TIMEOUT_S
        lua = _SHOWN.replace("\n", " ").replace("'", "''")
        while (shown := json.loads(self.ask(f"luaeval('{lua}')"))) is None:
            assert time.monotonic() < end, f"no stop; Neovim has said: {self.ask('execute([[messages]])')}"
            time.sleep(0.05)
        assert isinstance(shown, dict)
        return shown


@contextmanager
def opened(root: Path, file: str, *, plugin: Path, init: str) -> Iterator[Neovim]:
    """Open a file of a repository, with a plugin installed and an init.lua; nothing of this machine's Neovim counts."""
    program = neovim()
    with tempfile.TemporaryDirectory(prefix="nvim-") as name:  # a socket's path must be short
        home = Path(name)
        (home / "config/nvim").mkdir(parents=True)
        (home / "config/nvim/init.lua").write_text(init)
        pack = home / "data/nvim/site/pack/tests/start"
        pack.mkdir(parents=True)
        (pack / "plugin").symlink_to(plugin)
        places = {
            f"XDG_{each.upper()}_HOME": str(home / each) for each in ("config", "data", "state", "cache")
        }
        environment = {**os.environ, **places, "HOME": name}
        running = subprocess.Popen(
            [program, "--headless", "-n", "--listen", str(home / "socket"), file], cwd=root, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            made = Neovim(program, home / "socket", environment)
            made.wait_until_it_answers()
            yield made
        finally:
            running.kill()
            running.wait()
