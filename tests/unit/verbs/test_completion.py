"""`dkdbg completion`: in each shell as a person has it, with what a page tells that person to type."""

import json
import shutil

import pytest

from tests.commands import command
from tests.needs import give_up
from tests.pages import environment
from tests.terminals import terminal

LIMIT = 300  # s
#: How each shell is started without anybody's settings, and what it is told first.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(dkdbg completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(dkdbg completion zsh)"'),
}


def needs(shell):
    if shutil.which(shell) is None:
        give_up(f"no {shell} on this machine")


@pytest.fixture
def root(tmp_path):
    names = {"cluster": "ssh://login,node1/~/code", "clash": "docker://x"}
    (tmp_path / "dkdbg.toml").write_text(
        "".join(f"[targets.{name}]\nuri = {json.dumps(uri)}\n" for name, uri in names.items())
    )
    return tmp_path


@pytest.mark.parametrize("name", [*SHELLS])
def test_the_tab_key_completes_verbs_options_and_names_of_places(name, root):
    needs(name)
    argv, first = SHELLS[name]
    env = environment({"TERM": "dumb", "HOME": str(root), "ZDOTDIR": str(root), "HISTFILE": ""})
    with terminal(argv, cwd=root, env=env) as it:
        it.type(f"{first}; echo 'rea''dy'\n")
        it.until("ready")
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
        words = ["fish", "--no-config", "-c", "dkdbg completion fish | source; complete -C $argv[1]", line]
        said = command(words, root, env=environment({"HOME": str(root)})).stdout
        return {each.split("\t")[0] for each in said.splitlines()}

    assert completed("dkdbg resta") == {"restart"}
    assert completed("dkdbg attach cl") == {"cluster", "clash"}
    assert completed("dkdbg init --comm") == {"--command"}
