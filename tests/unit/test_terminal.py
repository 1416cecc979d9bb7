"""Tables, colours and progress: as a terminal gets them, and as a pipe does."""

import re
import subprocess
import sys

import pytest

from dkdbg import terminal
from tests.terminals import in_a_terminal
from tests.unit.targets.test_build_steps import BUILDKIT, ENDS, FAILS

HEADER = ("TARGET", "STATE", "PROCESSES")
STYLES = {"STATE": {"running": "green"}}
ROWS = [("container [red]training[/red]", "running", "rank 0, rank 1, rank 2"), ("局部", "lost", "-")]
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

PROGRAM = f"""
from dkdbg import console
from dkdbg.errors import DkdbgError
console.escape_what_cannot_be_shown()
console.table({HEADER!r}, {ROWS!r}, styles={STYLES!r}, label="  runs  ")
status = console.Status()
status.show("copying: 5 of 10 files, in a folder with a very long name", 0.5)
status.say("done")
console.failure(DkdbgError("no [b]such[/b] thing", hint="dkdbg ps"))
"""


def test_a_pipe_gets_a_table_of_one_line_a_row_and_a_narrow_terminal_all_of_it_in_lines_that_fit():
    assert terminal.table(HEADER, ROWS, styles=STYLES) == [
        "TARGET                         STATE    PROCESSES",
        "container [red]training[/red]  running  rank 0, rank 1, rank 2",
        "局部                           lost     -",
    ]
    lines = [ESCAPE.sub("", line) for line in terminal.table(HEADER, ROWS, columns=40, styles=STYLES)]
    assert all(len(line) <= 40 for line in lines)
    assert len(lines) > 3
    said = "".join("".join(lines).split())
    for cell in (*HEADER, "rank2", "lost", "局部"):
        assert cell in said


@pytest.mark.parametrize(
    ("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_colours_where_it_wants_them(env, *, coloured):
    said = in_a_terminal(PROGRAM, 100, **env)
    assert ("\x1b[32mrunning" in said) == coloured
    assert ("\x1b[1;31mdkdbg:" in said) == coloured
    plain = ESCAPE.sub("", said)
    assert plain.startswith("  runs  TARGET")
    assert "\n        container [red]training[/red]  running  rank 0" in plain
    assert "━━━━━" in plain
    assert plain.endswith("done\ndkdbg: no [b]such[/b] thing\n  hint: dkdbg ps\n")


def test_a_bar_stays_in_one_line_of_a_narrow_terminal_and_in_letters_that_it_can_show():
    said = ESCAPE.sub("", in_a_terminal(PROGRAM, 40).replace("\r", "\n"))
    (line,) = [line for line in said.splitlines() if "━" in line]
    assert len(line) == 39
    assert "copying: 5 of" in line
    said = in_a_terminal(PROGRAM, 100, PYTHONIOENCODING="ascii")
    assert "\\u5c40\\u90e8" in said
    assert "━" not in said


@pytest.mark.parametrize(("columns", "is_whole"), [(80, True), (58, True), (30, False)])
def test_what_people_copy_is_not_taken_apart_while_there_is_room(columns, *, is_whole):
    header = ("TARGET", "SESSION", "ATTACH TO", "PROCESSES")
    ranks = "train.py, rank 0, rank 1, rank 2, rank 3"
    row = ("container project-app-debug-1", "app-debug", "127.0.0.1:5678", ranks)
    lines = terminal.table(header, [row], columns=columns, whole=("SESSION", "ATTACH TO"))
    plain = [ESCAPE.sub("", line) for line in lines]
    assert all(len(line) <= columns for line in plain)
    assert any("127.0.0.1:5678" in line for line in plain) == is_whole
    assert any("app-debug " in line for line in plain) == is_whole


def test_what_a_stranger_is_called_commands_no_terminal_and_is_no_markup():
    name = "\\x1b]0;mine\\x07\\x1b]8;;http://x\\x07[link=http://x][red]a"
    said = in_a_terminal(
        f"from dkdbg import console\nconsole.table(('NAME',), [('{name}',)], label='\\x20')", 120
    )
    assert ESCAPE.sub("", said).splitlines()[1].strip() == name
    assert "\x1b]" not in said


@pytest.mark.parametrize(
    ("text", "columns", "shown"), [("train.py", 20, "train.py"), ("train.py", 5, "train"), ("训练", 3, "训 ")]
)
def test_a_line_is_cut_by_the_columns_that_its_letters_take(text, columns, shown):
    assert terminal.cropped(text, columns) == shown


def build(ending, then=""):
    """A program that reports a build which ends so, and runs `then` before the report is over."""
    return f"""
from dkdbg.verbs.parts.start_report import StartReport
with StartReport() as report:
    for line in {[*BUILDKIT, *ending]!r}:
        report(line)
    {then}
"""


def test_a_step_that_prints_nothing_shows_that_its_time_passes():
    counted = """
import time
from dkdbg import console
times, show = set(), console.Status.show
console.Status.show = lambda self, text, share: (times.add(text.split()[0]), show(self, text, share))
"""
    shown = in_a_terminal(counted + build([], "while len(times) < 3: time.sleep(0.02)"), 100)
    assert len(set(re.findall(r"(\d+) s  ", ESCAPE.sub("", shown)))) == 3


def test_a_build_is_one_line_in_a_terminal_and_all_of_its_log_in_a_pipe():
    shown = in_a_terminal(build(ENDS), 100)
    left = [line.rpartition("\r\x1b[2K")[2] for line in shown.strip("\n").split("\n")]
    assert left == [" Container bp-app-1  Creating"]
    assert "building 2/3: RUN echo hello && sleep 1 && echo more | more" in ESCAPE.sub("", shown)
    piped = subprocess.run([sys.executable, "-c", build(ENDS)], capture_output=True, text=True, check=True)
    assert "#5 1.152 more" in piped.stdout.splitlines()
    assert "\x1b" not in piped.stdout


def test_a_build_that_fails_shows_what_its_command_printed_which_commands_no_terminal():
    shown = in_a_terminal(build(FAILS), 100)
    assert "#6 0.127 a\n" in shown
    assert "------\n" in shown
    assert "echo more | more\n" not in shown
    owned = "#6 0.2 \x1b]0;owned\x07\x1b[2J"
    shown = in_a_terminal(build([owned, *FAILS]), 100)
    assert "owned" in shown
    assert "\x1b]0;" not in shown
    assert "\x1b[2J" not in shown
