"""The reader of documentation pages: what it takes for a command, and that none is forgotten."""

import re
from pathlib import Path

import pytest

from tests.pages import DOCS, Page, blocks

TEXT = """\
# A page

```console
$ echo one \\
    two
printed
$ echo 'three'
```

1. In a list:

   ```console
   $ echo four
   ```

```sh
echo by hand
```

```json
{"port": 5677}
```
"""


def page():
    return Page.read(Path("page.md"), TEXT)


def test_commands_and_blocks_are_found_and_a_command_runs_as_often_as_it_stands_there(tmp_path):
    assert page().commands == ("echo one two", "echo 'three'", "echo four")
    assert page().json("port") == {"port": 5677}
    assert page().block("sh") == "echo by hand\n"
    read = page()
    assert read.run("echo 'th", cwd=tmp_path).stdout == "three\n"
    with pytest.raises(AssertionError, match="no further command"):
        read.take("echo 'th")


def test_a_command_that_nothing_runs_is_named_unless_another_test_runs_it():
    read = page()

    def take_two():
        with read.all_run():
            read.take("echo four")
            read.take("echo one")

    with pytest.raises(AssertionError, match=r"nothing runs these commands of page\.md.*three"):
        take_two()
    read = page()
    with read.all_run(elsewhere=("echo one", "echo 'th")):
        read.take("echo four")


RUN = [
    DOCS / "tutorial.md",
    *sorted((DOCS / "how-to").glob("*.md")),
    *sorted((DOCS / "recipes").glob("*.md")),
]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_each_page_that_says_what_to_type_is_read_by_a_test_that_types_it(path):
    """`Page.of("recipes/NAME.md")` stands in a test; each command is where the reader of pages finds it."""
    tests = "\n".join(
        each.read_text() for each in Path(__file__).parents[1].rglob("test_*.py") if each != Path(__file__)
    )
    assert re.search(rf'"(?:[a-z-]+/)?{path.name}"|^ *\("{path.stem}", ', tests, re.MULTILINE)
    assert Page.of(str(path.relative_to(DOCS))).commands
    others = [block for language, block in blocks(path.read_text()) if language != "console"]
    assert [block for block in others if re.search(r"^\$? *dkdbg ", block, re.MULTILINE)] == []
