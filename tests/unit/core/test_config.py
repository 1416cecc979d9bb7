"""dkdbg.toml and the command line in it."""

import dataclasses

import pytest

from dkdbg.core.config import Config, SyncConfig, decode, parse, shell_argv, with_values
from dkdbg.core.settings import KEYS, toml_template
from dkdbg.errors import DkdbgError


def test_what_is_not_said_has_its_default_which_the_template_shows_with_all_keys():
    assert parse("") == parse("[debug]\n") == Config()
    assert parse(toml_template()) == Config()
    text = toml_template().replace("\n# command", "\ncommand").replace("\n# ", "\n")
    sync = SyncConfig(ignore=("data/", "!data/tiny.csv"), max_size=100_000_000)
    assert parse(text) == Config(
        command="python train.py --epochs 1", service="web", port=5678, wait=600, dockerfile="Dockerfile.gpu",
        python="3.11", apt=("libgl1", "ffmpeg"), gpu="optional", beats="heartbeat,Lease*", reload=False, sync=sync,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("command = 3", "command must be a text, not 3"),
        ("command = ''", "command must be a text, not ''"),
        ("service = ['a']", "service must be a text"),
        ("apt = 'git'", "apt must be a list of texts"),
        ("apt = ['git', '-o=x']", "each the name of a Debian package, not ['git', '-o=x']"),
        ("apt = ['a; b']", "each the name of a Debian package"),
        ("apt = [1]", "each the name of a Debian package"),
        ("port = 0", "port must be a whole number from 1 to 65535, not 0"),
        ("port = 65536", "not 65536"),
        ("port = true", "not True"),
        ("port = 1.5", "not 1.5"),
        ("wait = -1", "wait must be a whole number from 0 to 604800, not -1"),
        ("reload = 1", "reload must be true or false, not 1"),
        ("token = 'abc'", "token must be one of none, env, prompt"),
        ("beats = '${x}'", "beats must be shell patterns with commas"),
        ("beats = 'a b'", "beats must be shell patterns with commas"),
        ("continue = 'single'", "continue must be one of all, one, not 'single'"),
        ("prot = 1", "unknown key 'prot'"),
        ("[sync]\nignore = 'data/'", "ignore must be a list of texts, not 'data/'"),
        ("[sync]\nignore = [1]", "ignore must be a list of texts"),
        ("[sync]\nmax_size = 'big'", "max_size must be a size such as \"100 MB\", not 'big'"),
        ("[sync]\nmax_size = 0", "not 0"),
        ("[sync]\nmax_size = '0 MB'", "not '0 MB'"),
        ("[sync]\nmax_size = true", "not True"),
        ("[sync]\nignored = []", "unknown key 'ignored' in [sync]"),
    ],
)
def test_a_wrong_value_is_named(line, said):
    with pytest.raises(DkdbgError) as caught:
        parse(line if line.startswith("[") else f"[debug]\n{line}\n")
    assert said in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("'100 MB'", 100_000_000), ("'2GiB'", 2 * 1024**3), ("'1.5 kB'", 1500), ("4096", 4096), ("'7'", 7),
        ("'1 TB'", 10**12), ("'512 B'", 512), ("'3K'", 3000),
    ],
)  # fmt: skip
def test_a_size_is_read_in_the_usual_units(text, size):
    assert parse(f"[sync]\nmax_size = {text}\n").sync.max_size == size


def test_a_byte_that_is_no_utf_8_is_found_by_its_line_and_a_large_file_refused():
    with pytest.raises(DkdbgError, match=r"dkdbg\.toml:3: byte 0xe4"):
        decode(b"[debug]\n\n# \xe4\n")
    with pytest.raises(DkdbgError, match="has 102 KB, more than 100"):
        parse("[debug]\n" + "#" * 102_000)


def test_a_value_is_set_in_any_file_and_read_again_and_all_else_stays():
    text = "# top\n\n[debug] # table\nport   = 6001 # taken\n\nwait=1\n# end"
    assert with_values(text, port=6001, command=None) == text
    assert with_values(text, wait=2) == text.replace("wait=1", "wait=2")
    apt = '[debug]\napt = [\n  "a", # for a\n  "b" # for b\n]\n'
    assert with_values(apt, apt=["a", "b", "c"]) == apt.replace("for b\n", 'for b\n  "c"\n').replace(
        '"b"', '"b",'
    )
    assert parse(with_values("# mine\n", command="python a.py")).command == "python a.py"
    command = """python -c "print('ä\\n')" --name 'x "y"' \t end"""
    assert parse(with_values("[debug]\n", command=command)).command == command


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("python train.py --epochs 1", ("python", "train.py", "--epochs", "1")),
        ("python 'my file.py' \"two words\"", ("python", "my file.py", "two words")),
        ("python train.py model=large", ("python", "train.py", "model=large")),
        ("python train.py '--filter=a b'", ("python", "train.py", "--filter=a b")),
        ("  python   a.py  ", ("python", "a.py")),
    ],
)
def test_a_plain_command_runs_without_a_shell(command, argv):
    assert shell_argv(command) == argv


@pytest.mark.parametrize(
    "command",
    [
        "A=1 python a.py", "python a.py | tee log", "python a.py && echo done", "python a.py > log", "python $SCRIPT",
        "python a.py *.csv", "python `which x`", "python ~/a.py", "cd src; python a.py", "python a.py &",
    ],
)  # fmt: skip
def test_what_only_a_shell_understands_is_given_to_one_whole(command):
    assert shell_argv(command) == ("sh", "-c", command)


@pytest.mark.parametrize("command", ["python 'x", 'python "x', "python x\\", "", "  ", "\t\n"])
def test_unbalanced_quotes_are_refused_with_the_command_and_an_empty_one(command):
    with pytest.raises(DkdbgError) as caught:
        shell_argv(command)
    assert (repr(command) if command.strip() else "empty") in caught.value.message


def test_each_key_of_the_debug_table_is_a_field_of_the_configuration():
    keys = {"continues" if key == "continue" else key for key in KEYS if "." not in key}
    assert keys == {each.name for each in dataclasses.fields(Config)} - {"sync", "targets"}
