"""tests/attacks/README.md lists the attacks that are tested, and no others."""

from tests.attacks import table


def test_the_table_of_attacks_is_that_of_the_tests_and_has_each_hole():
    text = table.DOCUMENT.read_text()
    assert table.document(text) == text, "run: python -m tests.attacks.table --write"
    assert set(range(1, 18)) <= {one.hole for one in table.attacks()}
