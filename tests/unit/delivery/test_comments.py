"""What is taken out of the agent's sources is what only people read."""

import ast

import pytest

from dkdbg.delivery import single_file

SOURCES = {name: data for name, data in single_file.agent_files().items() if name.endswith(".py")}


class _NoDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
        return node


def _meaning(source):
    return ast.dump(_NoDocstrings().visit(ast.parse(source)), include_attributes=False)


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_of_the_agent_means_the_same_on_the_same_lines(name):
    source = SOURCES[name]
    lean = single_file.without(source)
    assert _meaning(lean) == _meaning(source)
    assert lean.count(b"\n") == source.count(b"\n")


def test_the_words_of_the_whole_agent_are_gone():
    lean = b"".join(map(single_file.without, SOURCES.values()))
    assert not [line for line in lean.splitlines() if line.lstrip().startswith(b"# ")]
    assert len(lean) < 0.85 * sum(map(len, SOURCES.values()))


@pytest.mark.parametrize(
    ("source", "lean"),
    [
        (b'"""One."""\n\nx = 1\n', b'""\n\nx = 1\n'),
        (
            b'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n',
            b'def f():\n    ""\n\n\n\n    return 1\n',
        ),
        (b"# one\nx = 1  # two\n", b"\nx = 1  # two\n"),
        (b"#!/usr/bin/env python3\n", b"#!/usr/bin/env python3\n"),
        (b'X = """\\\n# kept\n"""\n# gone\n', b'X = """\\\n# kept\n"""\n\n'),
        (b"X = '''\n# kept\n'''\n", b"X = '''\n# kept\n'''\n"),
        (b"x = 'it\\'s # kept'\n# gone's\n", b"x = 'it\\'s # kept'\n\n"),
        (b'x = 1  # a lone " mark\n# gone "\n', b'x = 1  # a lone " mark\n\n'),
        (b'f(\n    """kept""",\n)\n', b'f(\n    """kept""",\n)\n'),
    ],
)
def test_strings_keep_what_looks_like_a_comment(source, lean):
    assert single_file.without(source) == lean
