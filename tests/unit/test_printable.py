"""Text of strangers in the terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg import console
from dkdbg.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py", "train.py"),
        ("Übung 训练 تدريب नमस्ते", "Übung 训练 تدريب नमस्ते"),
        ("क्\u200dष", "क्\u200dष"),
        ("a\u3000b\u00a0c", "a\u3000b\u00a0c"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("one\ntwo\rthree\tfour", "one\\ntwo\\rthree\\tfour"),
        ("cod\u202egpj.exe", "cod\\u202egpj.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\U000e0041", "\\U000e0041"),
        ("caf\udce9", "caf\\xe9"),
        (7, "7"),
    ],
)
def test_letters_stay_and_what_commands_a_terminal_is_escaped(text: object, shown: str) -> None:
    assert printable(text) == shown


def test_lines_keep_their_ends_and_tabs() -> None:
    assert printable_lines("a\tb\r\nc\rd\x1b[2J\n") == "a\tb\r\nc\\rd\\x1b[2J\n"


@given(st.text())
def test_nothing_that_is_shown_is_a_control(text: str) -> None:
    shown = printable(text)
    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in shown)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u200e\u200f"
    )


@given(st.text())
def test_json_for_a_program_loses_nothing_and_commands_no_terminal(text: str) -> None:
    said = console.as_json({"name": text})
    assert json.loads(said) == {"name": text}
    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 or each == "\u202e" for each in said)


def test_what_is_said_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.say("a\x1b[2J\nb")
    console.warn("c\x9bK")
    console.diff("+d\x1b[2J\n")
    console.emit_line({"e": "\x9b"})
    said = capsys.readouterr()
    assert (said.out, said.err) == ('a\\x1b[2J\nb\n+d\\x1b[2J\n\n{"e": "\\u009b"}\n', "c\\x9bK\n")
