"""Queries to an agent about source files, and malformed answers."""

import json
import os
from itertools import count
from typing import Any

import pytest

from dkdbg.agent.dap import messages
from dkdbg.attach.child_proxy import Sources


def of(folder):
    """Return the sources of `folder`, which is /w at the target."""
    mappings = [{"localRoot": str(folder), "remoteRoot": "/w/"}, {"localRoot": 1}, None]
    target: Any = None  # nothing is said of it
    found = Sources(mappings, target, "job", {}, count(1 << 20).__next__)
    found.is_answered = True
    return found


def asked(sources, path, wanted=({"line": 1},)):
    arguments = {"source": {"path": path}, "breakpoints": wanted}
    return [json.loads(each) for each in sources.query(messages.request(7, "setBreakpoints", arguments))]


@pytest.mark.parametrize("path", ["/etc/passwd", "{}/../a.py", "{}", "{}-other/a.py", "a.py", 7, None])
def test_no_file_outside_the_mapping_is_asked_for(tmp_path, path):
    found = of(tmp_path)
    assert asked(found, path.format(tmp_path) if isinstance(path, str) else path) == []
    (question,) = asked(found, f"{tmp_path}/b/../a.py")
    assert question["arguments"] == {"path": "/w/a.py"}


@pytest.mark.parametrize("wanted", [[], None, [7], [{"line": "1"}]])
def test_a_request_without_breakpoints_asks_nothing(tmp_path, wanted):
    assert asked(of(tmp_path), f"{tmp_path}/a.py", wanted) == []


@pytest.mark.parametrize(
    "body",
    [
        None, [], {}, {"digest": 7, "lines": 1}, {"digest": "x", "lines": "1"}, {"digest": "x", "lines": -1},
        {"digest": "x", "lines": 10**4000}, {"digest": "x"},
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_says_nothing(tmp_path, body):
    (tmp_path / "a.py").write_text("x = 1\n")
    os.utime(tmp_path / "a.py", (1, 1))
    found = of(tmp_path)
    (question,) = asked(found, f"{tmp_path}/a.py")
    assert found.answered({"request_seq": [], "body": body}) is None
    assert found.answered({"request_seq": question["seq"], "body": body}) == ("", None)
    assert found.with_differences({"request_seq": 7, "body": {"breakpoints": [{}]}}) is None
