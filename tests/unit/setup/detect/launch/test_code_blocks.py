"""Blocks of shell commands in documents."""

import pytest

from dkdbg.setup.detect.launch.readme import code_blocks


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\n```bash\nx\ny\n```\nb\n", ["x\ny"]),
        ("~~~\nx\n~~~\n", ["x"]),
        ("```python\nx\n```\n```\ny\n```\n", ["y"]),
        ("a\n\n    x\n    y\n\nb\n", ["x\ny"]),
        ("### Run\n    $ x\n", ["$ x"]),
        ("Run\n---\n    x\n", ["x"]),
        ("a\n    b\n", []),
    ],
)
def test_markdown(text, wanted):
    assert [block.strip() for block in code_blocks(text)] == wanted


def test_restructuredtext():
    assert [*code_blocks("Then::\n\n  x\n  y\n\nb\n", is_rst=True)] == ["x\ny"]
