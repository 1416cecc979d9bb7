"""Text of strangers in the terminal."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg import console
from dkdbg.printable import ForTerminal, is_text, printable, printable_lines


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
def test_letters_stay_and_what_commands_a_terminal_is_escaped(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"a\tb\r\n", b"c"], "a\tb\r\nc"),
        ([b"\x1b[1;31", b"mred\x1b[0m"], "\x1b[1;31mred\x1b[0m"),
        ([b"\x1b]52;c;", b"aWQ=\x07"], "\\x1b]52;c;aWQ=\\x07"),
        ([b"\x1b[2J\x1b[6n\x1bc"], "\\x1b[2J\\x1b[6n\\x1bc"),
        ([b"\x1b[1", b"A\x1b"], "\\x1b[1A\\x1b"),
        ([b"\x1b[" + b"1" * 99, b"m"], "\\x1b[" + "1" * 99 + "m"),
        ([b"10 %\r", b"20 %\r", b"\n"], "10 %\n20 %\r\n"),
        (["ü🙂".encode()[:3], "ü🙂".encode()[3:]], "ü🙂"),
        ([b"\xc2", b"\x9b31m \xff\x08"], "\\x9b31m \\xff\\x08"),
        (["cod\u202egpj".encode()], "cod\\u202egpj"),
    ],
)
def test_output_for_a_terminal_keeps_lines_tabs_and_colours(pieces, shown):
    clean = ForTerminal()
    assert "".join(clean(each).decode() for each in (*pieces, b"")) == shown


@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"\x1b", b"[", b"1;3", b"m", b"\r", b"\n"])))
def test_no_output_commands_a_terminal(pieces):
    clean = ForTerminal()
    shown = "".join(clean(each).decode() for each in (*filter(None, pieces), b""))
    left = re.sub(r"\x1b\[[0-9;:]*m|[\n\t]|\r(?=\n)", "", shown)
    assert all(map(is_text, left))


def test_lines_keep_their_ends_and_tabs():
    assert printable_lines("a\tb\r\nc\rd\x1b[2J\n") == "a\tb\r\nc\\rd\\x1b[2J\n"


@given(st.text())
def test_nothing_that_is_shown_is_a_control_and_json_loses_nothing(text):
    shown = printable(text)
    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in shown)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u200e\u200f"
    )
    said = console.as_json({"name": text})
    assert json.loads(said) == {"name": text}
    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 or each == "\u202e" for each in said)


def test_what_is_said_commands_no_terminal(capsys):
    console.say("a\x1b[2J\nb")
    console.warn("c\x9bK")
    console.diff("+d\x1b[2J\n")
    console.emit_line({"e": "\x9b"})
    said = capsys.readouterr()
    assert (said.out, said.err) == ('a\\x1b[2J\nb\n+d\\x1b[2J\n\n{"e": "\\u009b"}\n', "c\\x9bK\n")
