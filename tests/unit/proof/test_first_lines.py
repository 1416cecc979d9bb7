"""Where a run surely stops: the first lines of the user's modules and functions."""

from pathlib import Path

from dkdbg.proof import first_lines
from dkdbg.setup.detect.files import Tree
from tests.checkout import checkout

TEXT = '''"""Module."""
from __future__ import annotations

import os


@staticmethod
def f(x: int) -> int:
    """Doc."""
    global G
    return x


async def g(): return 1


class A:
    def m(self):
        def inner():
            pass
        return inner
'''


def test_docstrings_future_imports_and_declarations_have_no_code():
    found = first_lines.of_text("/r/a.py", TEXT)
    assert found.module == 4
    assert found.functions == (("f", 11), ("m", 19), ("inner", 20))


def test_what_is_no_python_or_has_no_code_is_left_out():
    assert first_lines.of_text("/r/a.py", "print 'old'") is None
    assert first_lines.of_text("/r/a.py", '"""Only text."""\n') is None


def test_the_program_is_found_behind_launchers_and_its_file_comes_first(tmp_path):
    files = {
        "src/pkg/run.py": "x = 1\n",
        "src/pkg/__init__.py": "",
        "train.py": "y = 1\n",
        "tests/test_a.py": "z = 1\n",
    }
    tree = Tree(checkout(tmp_path, dict(files)))

    def entry(*words):
        return first_lines.program_of(tree, words).removeprefix(f"{tmp_path}/")

    assert entry("python3", "-m", "pkg.run") == "src/pkg/run.py"
    assert entry("torchrun", "--nproc-per-node", "2", "train.py", "--lr", "1") == "train.py"
    assert entry("sh", "-c", "cd /app && exec python3 train.py") == "train.py"
    assert entry("uvicorn", "pkg.run:app", "--port", "8000") == "src/pkg/run.py"
    order = [Path(each.path).name for each in first_lines.of_tree(tree, str(tmp_path / "train.py"))]
    assert order == ["train.py", "run.py", "test_a.py"]


def test_a_program_with_an_error_in_its_syntax_is_run_so_that_it_is_told(tmp_path):
    tree = Tree(checkout(tmp_path, {"train.py": "def f(:\n", "other.py": "def f(:\n"}))
    [found] = first_lines.of_tree(tree, str(tmp_path / "train.py"))
    assert (Path(found.path).name, found.module) == ("train.py", 1)
