"""One value of .env, everything else to the byte."""

from __future__ import annotations

import subprocess

import pytest

from dkdbg.render.dotenv import decode, encode, value_of, with_value

VALUES = {
    "A=1": "1",
    "A = 1 ": "1",
    "export A=1": "1",
    "A=1\nA=2": "2",
    "A=one # a comment": "one",
    "A=one#no-comment": "one#no-comment",
    'A="one # two"': "one # two",
    "A='one two' # three": "one two",
    "A=": "",
    "A=x=y": "x=y",
    "\ufeffA=1": "1",
    "A=1\r\nB=2\r\n": "1",
    "AA=1": None,
    "# A=1": None,
    "": None,
}


@pytest.mark.parametrize("text", VALUES)
def test_the_value_that_compose_takes(text):
    assert value_of(text, "A") == VALUES[text]


@pytest.mark.engine
@pytest.mark.parametrize("text", [text for text, value in VALUES.items() if value is not None])
def test_compose_reads_the_same_value(tmp_path, text):
    (tmp_path / ".env").write_bytes(text.encode())
    (tmp_path / "compose.yaml").write_text('services:\n  a:\n    image: x\n    hostname: "is${A-unset}"\n')
    done = subprocess.run(
        ["docker", "compose", "config"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = next(line.partition(": ")[2] for line in done.stdout.splitlines() if "hostname" in line)
    assert found.strip("\"'") == f"is{VALUES[text]}"


def test_a_value_is_added_at_the_end():
    assert with_value("B=1\n", "A", "2") == "B=1\nA=2  # dkdbg\n"


def test_a_last_line_without_an_end_gets_one():
    assert with_value("B=1", "A", "2") == "B=1\nA=2  # dkdbg\n"


def test_line_ends_are_those_of_the_file():
    assert with_value("B=1\r\n", "A", "2") == "B=1\r\nA=2  # dkdbg\r\n"


def test_a_line_of_ours_is_replaced_and_the_users_stays():
    text = with_value(with_value("A=1 # mine\nB=1\n", "A", "2"), "A", "3")
    assert text == "A=1 # mine\nB=1\nA=3  # dkdbg\n"


def test_the_users_line_below_ours_does_not_win():
    text = with_value("A=1  # dkdbg\nA=2\n", "A", "3")
    assert value_of(text, "A") == "3"
    assert text == "A=2\nA=3  # dkdbg\n"


def test_a_value_that_is_there_changes_nothing():
    text = "A='2' # mine\r\n\tB=x"
    assert with_value(text, "A", "2") == text


def test_bytes_that_are_no_utf_8_survive():
    data = b"# gr\xfc\xdfe\nA=1\n"
    assert encode(with_value(decode(data), "B", "2")) == data + b"B=2  # dkdbg\n"
