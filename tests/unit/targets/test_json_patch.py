"""RFC 6902: the operations between two documents make one of the other."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from dkdbg.targets.kubernetes.overlay import at, between

KEYS = st.sampled_from(["a", "b/c", "d~e", "name", "labels", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def applied(document, operations):
    """As RFC 6902 says, for the operations that are used."""
    document = copy.deepcopy(document)
    for each in operations:
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in each["path"].split("/")[1:]]
        target = document
        for step in way:
            target = target[int(step)] if isinstance(target, list) else target[step]
        if isinstance(target, list):
            if each["op"] == "add":
                assert last == "-"
                target.append(each["value"])
            else:
                assert each["op"] == "replace"
                target[int(last)] = each["value"]
        elif each["op"] == "remove":
            del target[last]
        else:
            assert each["op"] == "add" or last in target, "replaced what is not there"
            target[last] = each["value"]
    return document


@given(DOCUMENTS, DOCUMENTS)
def test_the_operations_between_two_documents_make_one_of_the_other(before, after):
    found = applied(before, between(before, after))
    assert found == after
    assert between(after, found) == []


def test_labels_and_items_of_another_name_are_replaced_as_a_whole_and_pointers_escaped():
    found = between({"labels": {"app": "bert"}, "x": 1}, {"labels": {"ours": "1"}, "x": 1})
    assert found == [{"op": "add", "path": "/labels", "value": {"ours": "1"}}]
    before, after = [{"name": "a", "x": 1}], [{"name": "b", "x": 1}]
    assert between({"c": before}, {"c": after}) == [{"op": "replace", "path": "/c", "value": after}]
    assert at("a/b", 0, "m~n") == "/a~1b/0/m~0n"
