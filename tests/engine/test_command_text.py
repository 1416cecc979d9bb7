"""The command that a person gives arrives in the container word by word, whatever is in it."""

import json

import pytest

from dkdbg.core.config import shell_argv
from tests.checkout import TRAIN, checkout, run_dkdbg
from tests.engine.projects import command, must

pytestmark = pytest.mark.engine


def config(root):
    """The services as compose reads them, without a warning."""
    done = command(["docker", "compose", "--profile", "debug", "config", "--format", "json"], root)
    assert done.stderr == ""
    return json.loads(done.stdout)["services"]


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --name 'größe 工' --re '^a$b' --x '{{ y }}' --h '#no' --q \"it's\" --tab 'a\tb' --back 'a\\nb'",
        'python train.py "$HOME" && echo "a: b"',
        "python a.py\necho 2",
    ],
)
def test_compose_gives_the_program_the_same_words(tmp_path, line):
    root = checkout(tmp_path / "repo", {"train.py": TRAIN})
    must(run_dkdbg(root, "init", "--yes", "--command", line))
    (service,) = config(root).values()
    # `config` writes `$` doubled, as it would have to stand in a file.
    assert tuple(word.replace("$$", "$") for word in service["command"]) == shell_argv(line)
    command(["sh", "-n", ".dkdbg/up.sh"], root)
    assert run_dkdbg(root, "init", "--check").returncode == 0


def test_a_folder_whose_name_looks_like_a_variable_is_mounted(tmp_path):
    files = {
        "a$b c/train.py": TRAIN,
        "a$b c/Dockerfile": "FROM scratch\nWORKDIR /app\nCOPY . .\n",
        "compose.yaml": 'services:\n  web:\n    build: "./a$$b c"\n    command: python train.py\n',
    }
    root = checkout(tmp_path / "repo", files)
    must(run_dkdbg(root, "init", "--yes"))
    mounts = config(root)["web-debug"]["volumes"]
    sources = {mount["target"]: mount["source"].replace("$$", "$") for mount in mounts}
    assert sources["/app"] == str(root / "a$b c")
