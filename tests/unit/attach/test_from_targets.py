"""Messages of a target that reach an editor."""

import json

import pytest

from dkdbg.attach import from_targets


def passed(**message):
    shown, _ = from_targets.of_process(json.dumps(message).encode())
    return json.loads(shown) if shown else None


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/home/x/train.py", True),
        ("C:\\work\\train.py", True),
        ("c:/work/train.py", True),
        ("<frozen importlib>", True),
        ("//host/share/x.py", False),
        ("\\\\host\\share\\x.py", False),
        ("\\/host/x.py", False),
        ("http://host/x.py", False),
        ("vscode-remote://ssh-remote+host/x.py", False),
        ("command:pwn", False),
    ],
)
def test_a_source_is_a_file_of_this_machine_or_has_no_path(path, kept):
    source = {"name": "x.py", "path": path, "adapterData": 1}
    body = {"stackFrames": [{"id": 1, "name": "f", "line": 1, "source": source}]}
    answer = passed(seq=1, type="response", request_seq=2, command="stackTrace", success=True, body=body)
    expected = {"name": "x.py", "path": path} if kept else {"name": "x.py"}
    assert answer["body"]["stackFrames"][0]["source"] == expected


def test_of_a_key_that_is_written_twice_or_another_way_an_editor_gets_what_was_judged_and_no_restart():
    body = b'{"type":"event","event":"output","body":{"output":"x","\\u0073ource":{"path":"//host/x"}}}'
    assert json.loads(from_targets.of_process(body)[0])["body"]["source"] == {}
    body = b'{"type":"request","command":"runInTerminal","type":"event","event":"stopped","body":{}}'
    stopped = {"seq": 0, "type": "event", "event": "stopped", "body": {}}
    assert json.loads(from_targets.of_process(body)[0]) == stopped
    ended = passed(type="event", event="terminated", body={"restart": {"pwn": 1}})
    assert ended["body"] == {}


@pytest.mark.parametrize(
    "name", ["${command:x}", "$${command:x}", "a${env:SECRET}", "\x1b[2J", "x" * 500, 7, None, ""]
)
def test_a_name_holds_no_variable_of_the_editor(name):
    shown = from_targets.name(name)
    assert "${" not in shown
    assert shown.isprintable()
    assert len(shown) <= 80
