"""`dkdbg completion`: in each shell as a person has it, with what a page tells that person to type."""

import json
import os
import pty
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

from tests.pages import environment

LIMIT = 300  # s
#: How each shell is started without anybody's settings, and what it is told first.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(dkdbg completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(dkdbg completion zsh)"'),
}


def needs(shell):
    if shutil.which(shell) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {shell} on this machine")


@pytest.fixture
def root(tmp_path):
    """A folder with two places that have names."""
    names = {"cluster": "ssh://login,node1/~/code", "clash": "docker://x"}
    (tmp_path / "dkdbg.toml").write_text(
        "".join(f"[targets.{name}]\nuri = {json.dumps(uri)}\n" for name, uri in names.items())
    )
    return tmp_path


class Shell:
    """An interactive shell in a terminal."""

    def __init__(self, terminal):
        self._terminal = terminal
        self._shown = ""

    def type(self, keys):
        """Press these; what was shown before is forgotten."""
        self._shown = ""
        os.write(self._terminal, keys.encode())

    def until(self, text):
        """What is shown since the last keys, up to the moment in which `text` is."""
        deadline = time.monotonic() + LIMIT
        while text not in self._shown:
            assert time.monotonic() < deadline, self._shown
            if select.select([self._terminal], [], [], 1)[0]:
                self._shown += os.read(self._terminal, 65536).decode(errors="replace")
        return self._shown


@contextmanager
def shell(name, root):
    argv, first = SHELLS[name]
    ours, theirs = pty.openpty()
    env = environment({"TERM": "dumb", "HOME": str(root), "ZDOTDIR": str(root), "HISTFILE": ""})
    running = subprocess.Popen(
        argv, cwd=root, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        it = Shell(ours)
        it.type(f"{first}; echo 'rea''dy'\n")
        it.until("ready")
        yield it
    finally:
        running.kill()
        running.wait()
        os.close(ours)


@pytest.mark.parametrize("name", [*SHELLS])
def test_the_tab_key_completes_verbs_options_and_names_of_places(name, root):
    needs(name)
    with shell(name, root) as it:
        for typed, wanted in (
            ("dkdbg resta", "restart"),
            ("dkdbg attach clu", "cluster"),
            ("dkdbg init --comm", "--command"),
            ("dkdbg run --on clu", "cluster"),
        ):
            it.type(f"{typed}\t")
            assert it.until(f"{wanted} ")
            it.type("\x15echo 'ne''xt'\n")  # Ctrl-U: the line is not run
            it.until("next")


def test_fish_completes_verbs_options_and_names_of_places(root):
    needs("fish")

    def completed(line):
        done = subprocess.run(
            ["fish", "--no-config", "-c", "dkdbg completion fish | source; complete -C $argv[1]", line],
            cwd=root, env=environment({"HOME": str(root)}), capture_output=True, text=True, check=True, timeout=LIMIT,
        )  # fmt: skip
        return {each.split("\t")[0] for each in done.stdout.splitlines()}

    assert completed("dkdbg resta") == {"restart"}
    assert completed("dkdbg attach cl") == {"cluster", "clash"}
    assert completed("dkdbg init --comm") == {"--command"}
