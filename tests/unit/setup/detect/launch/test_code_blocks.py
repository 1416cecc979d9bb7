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


def test_a_comment_behind_a_continuation_does_not_end_the_command(project):
    lines = ("python train.py --a 1 \\ # the seed", "  --b 2 \\ ", "  --c 3 \\\t# e", "  --d 4  # f", "# g")
    command = project.program("train.py").readme(*lines).facts().entrypoint.command
    assert command == "python train.py --a 1 --b 2 --c 3 --d 4"
