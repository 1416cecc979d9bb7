"""One value of .env, everything else to the byte."""

import time

import pytest

from dkdbg.repository.dotenv import decode, encode, local_port, value_of, with_value
from tests.commands import command

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


def test_a_line_of_a_hostile_repository_is_read_soon():
    began = time.monotonic()
    spaces = " " * 60_000
    assert value_of(f"A={spaces}x{spaces}y{spaces}\n{spaces}export{spaces}B", "A") == f"x{spaces}y"
    assert time.monotonic() - began < 60


@pytest.mark.engine
@pytest.mark.parametrize("text", [text for text, value in VALUES.items() if value is not None])
def test_compose_reads_the_same_value(tmp_path, text):
    (tmp_path / ".env").write_bytes(text.encode())
    (tmp_path / "compose.yaml").write_text('services:\n  a:\n    image: x\n    hostname: "is${A-unset}"\n')
    done = command(["docker", "compose", "config"], tmp_path)
    found = next(line.partition(": ")[2] for line in done.stdout.splitlines() if "hostname" in line)
    assert found.strip("\"'") == f"is{VALUES[text]}"


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("B=1\n", "2", "B=1\nA=2  # dkdbg\n"),
        ("B=1", "2", "B=1\nA=2  # dkdbg\n"),
        ("B=1\r\n", "2", "B=1\r\nA=2  # dkdbg\r\n"),
        ("A=1 # mine\nB=1\nA=2  # dkdbg\n", "3", "A=1 # mine\nB=1\nA=3  # dkdbg\n"),
        ("A=1  # dkdbg\nA=2\n", "3", "A=2\nA=3  # dkdbg\n"),
        ("A='2' # mine\r\n\tB=x", "2", "A='2' # mine\r\n\tB=x"),
    ],
    ids=[
        "at the end",
        "no last line end",
        "line ends of the file",
        "ours is replaced",
        "ours wins",
        "no change",
    ],
)
def test_a_value_is_written_and_all_else_stays(before, value, after):
    assert with_value(before, "A", value) == after
    assert value_of(after, "A") == value


def test_bytes_that_are_no_utf_8_survive():
    data = b"# gr\xfc\xdfe\nA=1\n"
    assert encode(with_value(decode(data), "B", "2")) == data + b"B=2  # dkdbg\n"


@pytest.mark.parametrize(
    ("value", "port"),
    [("5680", 5680), ("0", 5678), ("70000", 5678), ("²", 5678), ("9" * 5_000, 5678)],
    ids=["a port", "0", "too large", "no digit", "digits"],
)
def test_the_local_port_is_the_one_of_env_if_it_is_a_port(value, port, tmp_path, monkeypatch):
    assert local_port(tmp_path, 5678) == 5678
    (tmp_path / ".env").write_text(f"DKDBG_PORT={value}\n")
    assert local_port(tmp_path, 5678) == port
    monkeypatch.setenv("DKDBG_PORT", "5690")
    assert local_port(tmp_path, 5678) == 5690, "compose puts the environment first"
