"""The JSONC editor: our entries change, every other byte stays."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdbg.errors import DkdbgError
from dkdbg.setup.render.jsonc import drop, loads, upsert
from dkdbg.setup.render.jsonc_edit import Edit

ENTRY = {"name": "dkdbg: attach", "connect": {"host": "127.0.0.1", "port": 5678}, "args": ["a", "b"]}

LAUNCH = """\
{
    // Use IntelliSense to learn about possible attributes.
    "version": "0.2.0", /* pinned */
    "configurations": [
        {
            "name": "Python: Current File",
            "type": "debugpy"  // theirs
        }
        // { "name": "off" }
    ]
}
"""


def add(text, value=ENTRY, last=None):
    return upsert(text, ["configurations"], "name", value, last=last, file="launch.json")


def test_an_entry_is_appended_after_the_last_and_its_comments_once_and_comments_in_it_survive():
    assert add(LAUNCH) == LAUNCH.replace(
        """\
        }
        // { "name": "off" }
""",
        """\
        },
        // { "name": "off" }
        {
            "name": "dkdbg: attach",
            "connect": {
                "host": "127.0.0.1",
                "port": 5678
            },
            "args": ["a", "b"]
        }
""",
    )
    once = add(LAUNCH)
    assert add(once) == once
    text = add(LAUNCH).replace('"port": 5678', '"port": 5678 // mine')
    assert add(text) == text


def test_of_duplicate_names_the_first_is_edited_and_of_duplicate_keys_the_last():
    text = '{"configurations": [\n  {"name": "a", "x": 1},\n  {"name": "a", "x": 1}\n]}'
    assert loads(add(text, {"name": "a", "x": 3}, last={"name": "a", "x": 1})) == {
        "configurations": [{"name": "a", "x": 3}, {"name": "a", "x": 1}]
    }
    assert loads(append('{"a": ["1"], "a": ["2"]}', ["a"], "3")) == {"a": ["2", "3"]}
    assert append('{"a": ["1"], "a": ["2"]}', ["a"], "3") == '{"a": ["1"], "a": ["2", "3"]}'


def test_true_and_one_are_not_equal():
    changed = add(
        '{"configurations": [{"name": "a", "x": true}]}', {"name": "a", "x": 1}, last={"name": "a", "x": True}
    )
    assert loads(changed)["configurations"][0]["x"] is not True


def test_the_files_newlines_tabs_mark_and_trailing_commas_are_kept():
    text = '\ufeff{\r\n\t"configurations": [\r\n\t\t{\r\n\t\t\t"name": "x",\r\n\t\t},\r\n\t],\r\n}\r\n'
    changed = add(text, {"name": "y"})
    assert changed == (
        '\ufeff{\r\n\t"configurations": [\r\n\t\t{\r\n\t\t\t"name": "x",\r\n\t\t},\r\n'
        '\t\t{\r\n\t\t\t"name": "y"\r\n\t\t},\r\n\t],\r\n}\r\n'
    )


def put(text, path, value):
    return Edit.of(text, "f.json").insert_at(path, value)


def append(text, path, item):
    edit = Edit.of(text, "f.json")
    array = edit.container(path, list)
    return edit.insert_at(path, [item]) if array is None else edit.append(array, item)


@pytest.mark.parametrize("blank", ["", "\n", "  \r\n\t"])
def test_a_blank_file_becomes_a_root_object(blank):
    assert add(blank, {"name": "y"}).replace("\r", "") == (
        '{\n    "configurations": [\n        {\n            "name": "y"\n        }\n    ]\n}\n'
    )


def test_what_is_missing_is_made_a_root_behind_comments_an_array_and_the_objects_on_the_way_with_long_arrays_in_lines():
    assert put("// mine\n\n", ["a"], 1) == '// mine\n{\n    "a": 1\n}\n'
    assert add('{\n  "version": "0.2.0" // v\n}\n', {"name": "y"}) == (
        '{\n  "version": "0.2.0", // v\n  "configurations": [\n    {\n      "name": "y"\n    }\n  ]\n}\n'
    )
    text = append('{"name": "n"}', ["customizations", "vscode", "extensions"], "x")
    assert loads(text) == {"name": "n", "customizations": {"vscode": {"extensions": ["x"]}}}
    long = "x" * 50
    text = put("{}", ["a"], [long, long])
    assert text == f'{{\n    "a": [\n        "{long}",\n        "{long}"\n    ]\n}}'


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ("[]", '[\n    "x"\n  ]'),
        ("[ ]", '[\n    "x"\n  ]'),
        ("[ // none\n  ]", '[ // none\n    "x"\n  ]'),
        ("[ /* none */ ]", '[ /* none */\n    "x"\n  ]'),
        ('["a"]', '["a", "x"]'),
        ('["a",]', '["a", "x",]'),
        ('["a" /* b */]', '["a", "x" /* b */]'),
        ('["a" // b\n  ]', '["a", "x" // b\n  ]'),
        ('["a" // b\n  , ]', '["a" // b\n  , "x", ]'),
        ('[\n    "a"]', '[\n    "a",\n    "x"]'),
        ('[\n    "a", // b\n  ]', '[\n    "a", // b\n    "x",\n  ]'),
    ],
)
def test_a_scalar_joins_an_array_in_the_arrays_own_way(array, expected):
    text = '{\n  "extensions": %s\n}\n'
    assert append(text % array, ["extensions"], "x") == text % expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "f.json:3:3: expected ',' or '}', found '\"'"),
        ("\ufeff[1, nul]", "f.json:1:5: expected a value, found 'n'"),
        ("{} x", "f.json:1:4: expected the end of the file, found 'x'"),
        ('{"a" 1}', "f.json:1:6: expected ':' after the key 'a', found '1'"),
        ("{'a': 1}", "f.json:1:2: expected a key in double quotes or '}', found \"'\""),
        ('["a\nb"]', "f.json:1:2: expected a closed string with valid escapes, starting here, found '\"'"),
        ("{\r\n/* a", "f.json:2:1: expected '*/' for the comment that starts here, found '/'"),
        ("[1,,2]", "f.json:1:4: expected a value, found ','"),
        ("[01]", "f.json:1:2: expected a value, found '0'"),
        ("{", "f.json:1:2: expected a key in double quotes or '}', found the end of the file"),
        ("[" * 500, "f.json:1:202: expected at most 200 levels of nesting, found '['"),
    ],
)
def test_an_invalid_file_is_refused_with_its_place(text, message):
    with pytest.raises(DkdbgError) as caught:
        loads(text, file="f.json")
    assert str(caught.value) == message
    assert "f.json" in caught.value.hint


SPACE = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", " /* c */ ", " // c\n"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def jsonc(draw, value):
    """`value` as text with space, comments and trailing commas strewn in."""

    def write(value):
        if isinstance(value, dict):
            parts = [f"{json.dumps(k)}{draw(SPACE)}:{draw(SPACE)}{write(v)}" for k, v in value.items()]
        elif isinstance(value, list):
            parts = [write(v) for v in value]
        else:
            return json.dumps(value)
        body = ",".join(draw(SPACE) + part + draw(SPACE) for part in parts)
        comma = "," if parts and draw(st.booleans()) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + body + comma + draw(SPACE) + closing

    return draw(SPACE) + write(value) + draw(SPACE)


@st.composite
def documents(draw):
    value = draw(st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
    names = st.fixed_dictionaries({"name": st.sampled_from("abc"), "x": VALUES})
    value["configurations"] = draw(st.lists(names | SCALARS, max_size=3))
    return value, draw(jsonc(value))


@settings(max_examples=150, deadline=None, database=None)
@given(documents(), VALUES)
def test_any_file_parses_back_to_itself_with_the_entry_in_its_place(document, x):
    value, text = document
    assert loads(text) == value
    entry = {"name": "b", "x": x}
    items = list(value["configurations"])
    found = [i for i, item in enumerate(items) if isinstance(item, dict) and item["name"] == "b"]
    last = items[found[0]] if found else None
    items = [*items[: found[0]], entry, *items[found[0] + 1 :]] if found else [*items, entry]
    changed = add(text, entry, last)
    assert loads(changed) == {**value, "configurations": items}
    assert add(changed, entry, entry) == changed
    for comment in ("/* c */", "// c"):
        assert found or changed.count(comment) == text.count(comment)


@settings(max_examples=150, deadline=None, database=None)
@given(VALUES, VALUES, VALUES)
def test_a_merge_of_anything_ends_and_a_second_one_changes_nothing(have, want, last):
    text = json.dumps({"configurations": [{"name": "b", "x": have}]})
    merged = add(text, {"name": "b", "x": want}, {"name": "b", "x": last})
    assert add(merged, {"name": "b", "x": want}, {"name": "b", "x": last}) == merged
    if json.dumps(have) == json.dumps(want):  # 0 is no False there
        assert merged == text


@settings(max_examples=150, deadline=None, database=None)
@given(documents())
def test_any_file_is_valid_without_an_entry_and_has_all_the_others(document):
    value, text = document
    items = value["configurations"]
    found = [i for i, item in enumerate(items) if isinstance(item, dict) and item["name"] == "b"]
    rest = [item for i, item in enumerate(items) if i != found[0]] if found else items
    wanted = {**value, "configurations": rest}
    if found and not rest:
        del wanted["configurations"]
    last = items[found[0]] if found else {"name": "b"}
    assert loads(drop(text, ["configurations"], "name", last)) == wanted
