"""What options are read as."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.verbs import command_line, parser
from tests.commands import command


@pytest.mark.parametrize(
    ("words", "seconds"), [((), 0), (("--wait",), 600), (("--wait", "0"), 0), (("--wait", "9"), 9)]
)
@pytest.mark.parametrize("verb", ["run", "submit"])
def test_the_default_of_wait_can_be_typed_too(verb, words, seconds):
    """A script that computes the seconds (issue 15)."""
    options = command_line.parsed([verb, *words, "--", "train.py"], command_line.parser())
    assert options.wait == seconds


@pytest.mark.parametrize("value", ["-1", "1.5", "1m", "", "²"])
def test_a_wait_that_is_no_number_of_seconds_is_refused(value):
    with pytest.raises(DkdbgError) as refused:
        command_line.parsed(["run", f"--wait={value}", "--", "train.py"], command_line.parser())
    assert refused.value.exit_code == EXIT_USAGE
    assert f"{value!r} is not a whole number from 0 on" in refused.value.message


@pytest.mark.parametrize("words", [["--version"], ["help"], ["ps", "--help"], ["completion", "bash"]])
def test_nothing_that_is_slow_to_load_is_loaded_before_it_is_needed(words):
    """Each of these takes longer than all of dkdbg's own modules at a start (issue 15)."""
    code = "import atexit, sys\nfrom dkdbg.main import main\n"
    code += "atexit.register(lambda: print('LOADED', *{each.split('.')[0] for each in sys.modules}))\n"
    done = command([sys.executable, "-c", f"{code}main(sys.argv[1:])", *words])
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "dkdbg" in loaded
    slow = "asyncio debugpy docker jinja2 requests rich ssl tomlkit watchdog"
    assert not loaded & set(slow.split())


@pytest.mark.parametrize(
    "line",
    ["init {}", "up {} --diff", "down {}", "ps {} --all", "logs -f {}", "attach {} --port 5", "restart {}", "pdb {}", "where {}",
     "sync --once {}", "forward {} --json 6006 8006:7007"],
)  # fmt: skip
def test_a_target_is_the_first_word_or_the_value_of_on(line):
    """One rule for all verbs; what was typed before it goes on working (issue 32)."""
    first, *others = [
        vars(command_line.parsed(shlex.split(line.format(each)), command_line.parser()))
        for each in ("ssh://a", "--on ssh://a", "--on=ssh://a")
    ]
    assert first.get("target") == "ssh://a" or first["targets"] == ["ssh://a"]
    assert others == [first, first]


def test_several_targets_keep_their_order():
    words = ["ps", "--on", "a", "--json", "--on", "b"]
    assert command_line.parsed(words, command_line.parser()).targets == ["a", "b"]


@pytest.mark.parametrize("line", ["ps --on", "ps --on --json", "run --on", "logs a --on b", "ps --onn a"])
def test_an_on_without_a_target_or_with_one_too_many_is_refused(line):
    with pytest.raises(DkdbgError) as refused:
        command_line.parsed(line.split(), command_line.parser())
    assert refused.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("what", ["pause", "stack", "eval x"])
def test_options_of_ranks_are_accepted_behind_the_subcommand_too(what):
    options = "--on a --on b --json --ranks 0 --limit 3 --frame 1"
    before, behind = (
        vars(command_line.parsed(shlex.split(line), command_line.parser()))
        for line in (f"ranks {options} {what}", f"ranks {what} {options}")
    )
    assert (
        before.pop("on") + before.pop("on_behind") == behind.pop("on") + behind.pop("on_behind") == ["a", "b"]
    )
    assert before == behind
    default = command_line.parsed(shlex.split(f"ranks {what}"), command_line.parser())
    assert (default.json, default.set, default.limit, default.frame) == (False, "all", 10, 0)


def test_a_hint_does_not_suggest_the_word_that_was_refused():
    assert parser.nearest("--json", ["--json", "--jsonl"]) == "--jsonl"
    assert not parser.nearest("--json=1", ["--json", "--ranks"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["--help", "ps --help", "completion bash", "init --diff"])
def test_an_output_that_cannot_be_written_is_named_and_is_no_bug(words, script):
    line = f'exec "$0" -m dkdbg {words} >/dev/full'
    done = command(["sh", "-c", line, sys.executable], cwd=script, check=False)
    assert done.returncode == EXIT_ERROR
    said = "dkdbg: cannot write the output: No space left on device\n  hint: free space on that disk, "
    assert said in done.stderr
    assert "bug" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_messages_that_cannot_be_written_leave_the_exit_code():
    done = command(["sh", "-c", 'exec "$0" -m dkdbg nothing 2>/dev/full', sys.executable], check=False)
    assert (done.returncode, done.stderr) == (EXIT_USAGE, "")


def test_a_full_pipe_is_not_said_to_need_room_on_a_disk():
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb", buffering=0) as pipe:  # noqa: PTH123 - descriptors
        os.set_blocking(writer, False)
        while pipe.write(b" " * 4096):
            pass
        done = subprocess.run(
            [sys.executable, "-m", "dkdbg", "--help"], env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=pipe, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == EXIT_ERROR
    assert done.stderr.startswith("dkdbg: cannot write the output: ")
    assert "hint" not in done.stderr
