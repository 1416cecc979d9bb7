"""A breakpoint that cannot stop although its line has run is said in the editor, unasked."""

import sys

import pytest

from dkdbg.agent.supervisor import unhit
from tests.agent.dap_probe import Editor

MODULE = "import time\n\nrate = 3\n\n\ndef step(n):\n    return n + rate\n"
PROGRAM = "import sys, time\nsys.path.insert(0, sys.argv[1])\nfrom pkg.model import step\nprint('up', flush=True)\nfor n in range(10**6):\n    step(n)\n    time.sleep(0.001)\n"


@pytest.fixture
def packages(tmp_path):
    """Two copies of a package: the user edits `src`, and `installed` may run."""
    for folder in ("src", "installed"):
        (tmp_path / folder / "pkg").mkdir(parents=True)
        (tmp_path / folder / "pkg" / "__init__.py").touch()
        (tmp_path / folder / "pkg" / "model.py").write_text(MODULE)
    return tmp_path


def started(program, folder):
    running = program(PROGRAM, str(folder))
    assert running.process.stdout.readline() == b"up\n"
    return running


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older ones do not tell what has run")
def test_the_copy_that_runs_is_named(program, packages):
    running = started(program, packages / "installed")
    with Editor(running.port, {str(packages / "src/pkg/model.py"): [7]}) as editor:
        copy = packages / "installed/pkg/model.py"
        text = (
            f"the breakpoint at model.py:7 does not stop: the program runs another copy of the file, {copy}"
        )
        editor.wait_output(text)


def test_a_line_that_ran_with_the_import_is_named_and_one_that_stops_is_not(program, packages):
    running = started(program, packages / "src")
    model = packages / "src/pkg/model.py"
    with Editor(running.port, {str(model): [3], running.script: [6]}) as editor:
        text = "model.py:3 ran before its breakpoint was set, when the program imported pkg.model: start it again"
        said = editor.wait_output(text)
        assert "train.py:6" not in said


OWN = {"origin": "source", "code": True, "function": "", "ran": True, "module": "pkg.model"}


@pytest.mark.parametrize(
    "more",
    [
        {"function": "step"},  # it may run again
        {"ran": None, "at": [4]},  # the import goes on
        {"branch": True},
        {"ran": False},
        {"code": False},
        {"origin": "compiled"},
        {"compiled": "jax", "function": "step"},  # its lines run while jax traces them
    ],
    ids=str,
)
def test_what_may_still_stop_is_not_named(packages, more):
    model = str(packages / "src/pkg/model.py")
    assert unhit.reason(model, 3, [{**OWN, "real": model, **more}]) == ""


@pytest.mark.parametrize(
    ("compiler", "variable"), [("numba", "NUMBA_DISABLE_JIT=1"), ("torch.jit", "PYTORCH_JIT=0")]
)
def test_a_function_that_has_been_compiled_is_named(packages, compiler, variable):
    model = str(packages / "src/pkg/model.py")
    one = {**OWN, "real": model, "function": "step", "compiled": compiler}
    text = f"{compiler} has compiled its function. Start the program with `env {variable} COMMAND`"
    assert unhit.reason(model, 3, [one, one]).endswith(text)
    assert unhit.reason(model, 3, [one, {**one, "compiled": ""}]) == ""  # a process that runs it as Python


def test_a_name_of_a_process_forges_no_line_and_no_flood(packages):
    model, evil = str(packages / "src/pkg/model.py"), "\ndkdbg: forged\x1b]52;c;YQ==\x07" + "x" * 1_000_000
    copy = {**OWN, "path": f"/{evil}/model.py", "real": "/", "module": "pkg.model"}
    for files in ([{**OWN, "real": model, "module": evil}], [copy]):
        text = unhit.reason(model, 3, files)
        assert "model.py:3" in text
        assert text.isprintable()
        assert len(text) < 1000
    short = unhit.reason(model, 3, [{**copy, "path": "/a\nb\x07/model.py"}])
    assert short.endswith("another copy of the file, /a\\nb\\x07/model.py")


@pytest.mark.parametrize("module", ["model", "other.model", ""])
def test_another_file_of_the_name_is_no_copy(packages, module):
    other = packages / "other" / "model.py"
    other.parent.mkdir()
    other.write_text("def step(n):\n    pass\n")
    file = {**OWN, "path": str(other), "real": str(other), "module": module}
    assert unhit.reason(str(packages / "src/pkg/model.py"), 2, [file]) == ""
