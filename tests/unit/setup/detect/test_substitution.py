"""Variables are replaced as compose does it."""

import pytest

from dkdbg.setup.detect.substitution import insisted, names, substitute

VALUES = {"LR": "1", "PASS": "a${LR}$LR$$", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("$${LR:-2} $$LR $LR $${NO}", "${LR:-2} $LR 1 ${NO}"),
        ("${PASS} ${NO:-b}", "a${LR}$LR$$ b"),
        ("${A:-${B:-${C:-${D:-e}}}}", "e"),
        ("${A:-$${LR}}", "${LR}"),
        ('${A:-{"a": {"b": $LR}}}', '{"a": {"b": 1}}'),
        ("${LR:-${NO:-x}} ${LR:+${PASS}}", "1 a${LR}$LR$$"),
        ("${EMPTY+x}${EMPTY:+y}${EMPTY-z}${EMPTY:-$LR}", "x1"),
        ("${A:-${LR", "${A:-${LR"),
    ],
)
def test_a_text_is_interpolated_once_also_where_it_was_escaped_or_came_from_a_variable(text, replaced):
    assert substitute(text, VALUES) == replaced


def test_a_variable_in_a_default_is_required_only_where_the_default_is_used():
    text = "${A:-${B:?b}} ${LR:-${C:?c}} ${LR:+${D?d}} ${EMPTY?} $${E:?}"
    assert insisted(text, VALUES) == ("B", "D")
    assert names(text) == ("A", "B", "LR", "C", "LR", "D", "EMPTY")
