"""Our entry in a file of the user's: ours follows the plan, theirs stays, to the byte."""

import pytest

from dkdbg.setup.render.jsonc import drop, loads, overruled, upsert

APP = {"localRoot": "${workspaceFolder}/app", "remoteRoot": "/app"}
WHOLE = {"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}
CONNECT = {"host": "127.0.0.1", "port": 5678}
OURS = {"name": "dkdbg: attach", "connect": CONNECT, "pathMappings": [APP, WHOLE]}
LAST = {**OURS, "args": ["a", "b"], "justMyCode": True}
MINE = """\
{
    "configurations": [
        {
            "name": "dkdbg: attach",
            "connect": {
                "host": "127.0.0.1",
                "port": 5678 // F5
            },
            "pathMappings": [
                // mine
                {"localRoot": "/data", "remoteRoot": "/mnt"},
                {"localRoot": "${workspaceFolder}/app", "remoteRoot": "/app"}, // app
                {"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}
            ],
            "args": ["a", "b"],
            "env": {"A": "1"}, // added
            "justMyCode": false
        }
    ]
}
"""


def merge(text, want, last=LAST):
    return upsert(text, ["configurations"], "name", want, last=last)


def test_a_pair_of_ours_changes_in_its_place_and_a_new_one_comes_before_one_that_it_is_narrower_than():
    ours = [{**APP, "remoteRoot": "/srv/app"}, WHOLE]
    want = {**LAST, "pathMappings": ours}
    merged = loads(merge(MINE, want))["configurations"][0]
    assert merged["pathMappings"] == [{"localRoot": "/data", "remoteRoot": "/mnt"}, *ours]
    assert "// mine" in merge(MINE, want)
    assert "// app" in merge(MINE, want)
    new = {"localRoot": "${workspaceFolder}/lib", "remoteRoot": "/lib"}
    merged = loads(merge(MINE, {**LAST, "pathMappings": [APP, new, WHOLE]}))["configurations"][0]
    assert merged["pathMappings"][-2:] == [new, WHOLE]


def test_what_is_no_longer_wanted_goes_unless_changed_what_was_removed_stays_away_and_a_new_key_is_added():
    want = {key: value for key, value in LAST.items() if key not in {"args", "justMyCode"}}
    assert merge(MINE, want) == MINE.replace('            "args": ["a", "b"],\n', "")
    text = MINE.replace('            "args": ["a", "b"],\n', "")
    assert merge(text, LAST) == text
    assert "args is removed" in overruled(text, ["configurations"], "name", LAST)
    merged = merge(MINE, {**LAST, "dkdbgToken": "${env:DKDBG_TOKEN}"})
    last = '"justMyCode": false'
    assert merged == MINE.replace(last, f'{last},\n            "dkdbgToken": "${{env:DKDBG_TOKEN}}"')


def test_without_knowing_the_last_one_every_difference_is_the_users():
    want = {**LAST, "connect": {"host": "127.0.0.1", "port": 5679}, "new": 1}
    merged = loads(merge(MINE, want, last=None))["configurations"][0]
    assert (merged["connect"]["port"], merged["justMyCode"], merged["new"]) == (5678, False, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"inputs": [{"id": "t"}], "a": 1}', '{"a": 1}'),
        ('{"a": 1, "inputs": [{"id": "t"}]}', '{"a": 1}'),
        ('{\n  "a": 1, // one\n  "inputs": [\n    {"id": "t"}\n  ]\n}\n', '{\n  "a": 1 // one\n}\n'),
        ('{\r\n  "a": 1,\r\n  "inputs": [\r\n    {"id": "t"}\r\n  ],\r\n}\r\n', '{\r\n  "a": 1,\r\n}\r\n'),
        ('{"inputs": [{"id": "t"}, {"id": "u"}]}', '{"inputs": [{"id": "u"}]}'),
        ('{"inputs": [\n  {"id": "u"}, // mine\n  {"id": "t"} // ours\n]}', '{"inputs": [\n  {"id": "u"} // mine\n  // ours\n]}'),
        ('{"inputs": [{"id": "t", "mine": 1}]}', '{"inputs": [{"id": "t", "mine": 1}]}'),
        ('{"a": 1}', '{"a": 1}'),
    ],
)  # fmt: skip
def test_an_entry_that_is_no_longer_wanted_goes_and_leaves_the_rest(text, expected):
    assert drop(text, ["inputs"], "id", {"id": "t"}) == expected


def test_a_null_of_ours_is_replaced_like_any_other_value():
    before = '{"configurations": [{"name": "b", "x": null, "y": null}]}'
    changed = merge(before, {"name": "b", "x": [], "y": 1}, last={"name": "b", "x": None})
    assert loads(changed) == {"configurations": [{"name": "b", "x": [], "y": None}]}
