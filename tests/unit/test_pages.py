"""The reader of documentation pages: what it takes for a command, and that none is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import DOCS, Page

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


def page() -> Page:
    return Page.read(Path("page.md"), TEXT)


def test_commands_are_the_lines_of_console_blocks_that_begin_with_a_prompt():
    assert page().commands == ("echo one two", "echo 'three'", "echo four")


def test_a_command_is_run_by_a_shell_and_a_second_time_only_if_it_stands_there_twice(tmp_path):
    read = page()
    assert read.run("echo 'th", cwd=tmp_path).stdout == "three\n"
    with pytest.raises(AssertionError, match="no further command"):
        read.take("echo 'th")


def test_a_command_that_nothing_runs_is_named():
    read = page()

    def take_two() -> None:
        with read.all_run():
            read.take("echo four")
            read.take("echo one")

    with pytest.raises(AssertionError, match=r"nothing runs these commands of page\.md.*three"):
        take_two()


def test_blocks_are_found_by_their_language():
    assert page().json("port") == {"port": 5677}
    assert page().block("sh") == "echo by hand\n"


def test_each_recipe_is_run_by_a_test():
    """`Page.of("recipes/NAME.md")` stands in a test."""
    tests = "\n".join(each.read_text() for each in Path(__file__).parents[1].rglob("test_*.py"))
    for recipe in sorted((DOCS / "recipes").glob("*.md")):
        assert re.search(rf'Page\.of\("recipes/{recipe.name}"\)', tests), recipe.name
