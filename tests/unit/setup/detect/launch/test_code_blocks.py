"""Blocks of shell commands in documents."""

import pytest

from dkdbg.setup.detect.launch.code_blocks import code_blocks


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
        ("2. Then run:\n<pre>python a.py \\\n--b c</pre> \n3. More\n", ["python a.py \\\n--b c"]),
        ("run <pre/>x</pre> and <PRE class='z'><code>y &amp;&amp; z</code></PRE>", ["x", "y && z"]),
        ("```html\n<pre>x</pre>\n```\n", []),
        ("<pre>x\n```\ny\n```\n", ["y"]),
        ("<pre>x", []),
    ],
)
def test_markdown(text, wanted):
    assert [block.strip() for block in code_blocks(text)] == wanted


def test_restructuredtext():
    assert [*code_blocks("Then::\n\n  x\n  y\n\nb\n", is_rst=True)] == ["x\ny"]
    assert [*code_blocks("<pre>x</pre>\n", is_rst=True)] == []
