"""What an agent answers about a line is untrusted: root there may have written it."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg.core.record import BadRecord
from dkdbg.errors import DkdbgError
from dkdbg.proof import line_answer

KEYS = st.sampled_from(
    ["version", "files", "sessions", "processes", "answer", "path", "line", "mappings", "rank", "pid", "breakpoints", "at", "started", "kind", "tracer", "branch", "gone", "logs", "condition"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.booleans())
def test_any_json_is_an_answer_or_is_refused(said, is_container):
    answer = line_answer.parse(json.dumps({**said, "version": 1}), is_container=is_container)
    assert isinstance(answer, line_answer.LineAnswer)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', "[" * 100_000])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(BadRecord):
        line_answer.parse(text, is_container=True)


def test_only_a_container_has_files_of_an_image():
    said = {"version": 1, "files": [{"path": "/a.py", "kind": "image"}]}
    kinds = [line_answer.parse(json.dumps(said), is_container=each).files[0].kind for each in (True, False)]
    assert kinds == ["image", line_answer.DISK]


def answering(said):
    return SimpleNamespace(
        running_agent=lambda: ["agent"], wrap=lambda _: ["printf", "%s", json.dumps(said)], label="it", address="local:",
        capabilities=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    "files", [[], ["/b.py"], ["/a.py"], ["/etc/passwd", "/b.py"], ["/a.py", "/b.py", "/c.py"]]
)
def test_an_answer_about_other_files_is_refused(files):
    said = {"version": 1, "files": [{"path": each} for each in files]}
    with pytest.raises(DkdbgError, match="other files"):
        line_answer.ask(answering(said), "/a.py", 1, also=["/b.py"])


def test_an_answer_about_the_asked_files_is_taken():
    said = {"version": 1, "files": [{"path": "/a.py"}, {"path": "/b.py"}]}
    answer = line_answer.ask(answering(said), "/a.py", 1, also=["/b.py"])
    assert [each.path for each in answer.files] == ["/a.py", "/b.py"]


def test_an_agent_that_fails_shows_no_traceback():
    target = answering({})
    line = "echo 'Traceback (most recent call last):' >&2; echo 'KeyError: 1' >&2; exit 1"
    target.wrap = lambda _: ["sh", "-c", line]
    with pytest.raises(DkdbgError, match=r"^it: its agent ended with exit code 1$"):
        line_answer.ask(target, "/a.py", 1)
