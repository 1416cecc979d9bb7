"""A program imports as long as its main thread is in an import, or before the last import of the module that runs."""

import pytest

from dkdbg.core.stacks import Frame, Process, Session, Thread
from dkdbg.proof.first_lines import UNKNOWN, importing

IMPORT = Frame("<frozen importlib._bootstrap>", 1360, "_find_and_load", own=False)
TORCH = Frame("/opt/venv/lib/python3.11/site-packages/torch/__init__.py", 9, "<module>", own=False)
LIB = Frame("/app/lib.py", 7, "<module>", own=True)
HEAD, MAIN = (Frame("/app/train.py", line, "<module>", own=True) for line in (2, 9))
STEP = Frame("/app/train.py", 6, "step", own=True)
OTHER = Thread(name="", main=False, frames=(TORCH, IMPORT, HEAD))


@pytest.mark.parametrize(
    ("frames", "is_busy"),
    [
        ((TORCH, IMPORT, HEAD), True),
        ((HEAD,), True),
        ((STEP, HEAD), True),
        ((IMPORT, STEP, MAIN), True),
        ((TORCH, IMPORT), True),
        ((MAIN,), False),
        ((STEP, MAIN), False),
        ((LIB, IMPORT, HEAD), True),
        ((), False),
    ],
)
def test_a_program_imports_until_its_own_code_is_past_the_imports(frames, is_busy):
    main = Thread(name="MainThread", main=True, frames=frames)
    found = importing([session(threads=(main, OTHER))], {"/app/train.py": 3, "/app/lib.py": 0}.get)
    assert (found is not None) is is_busy


@pytest.mark.parametrize(
    ("frames", "path", "own"),
    [
        ((LIB, IMPORT, HEAD), LIB.path, True),
        ((STEP, MAIN, IMPORT), MAIN.path, True),
        ((TORCH, IMPORT, HEAD), TORCH.path, False),
        ((IMPORT, LIB, IMPORT, HEAD), LIB.path, False),
        ((IMPORT, STEP, MAIN), MAIN.path, False),
    ],
)
def test_the_module_that_is_imported_is_own_code_only_while_that_code_runs(frames, path, own):
    main = Thread(name="MainThread", main=True, frames=frames)
    last = {"/app/train.py": 3, "/app/lib.py": 0}
    found = importing([session(threads=(main,)), session(threads=None)], last.get)
    assert (found.path, found.own) == (path, own)


def test_a_process_that_does_not_answer_may_import():
    assert importing([session(threads=None)], {}.get) is UNKNOWN
    assert importing([], {}.get) is None


def session(**values):
    process = Process(pid=7, ppid=1, name="train.py", rank=None, world_size=0, **values)
    return Session(target="x", address="docker://x", id="s", name="s", processes=(process,))
