"""What leaves the program stops in the editor that asked for it, once, whatever the program has done to its hooks."""

from typing import Any

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError

EXIT = "import sys\n\ndef main():\n    sys.exit(3)\n\nmain()\n"
OWN_HOOK = (
    "import sys\nsys.excepthook = lambda kind, value, trace: print('mine', value)\nraise ValueError('x')\n"
)


def end(running: Any, **extra: object) -> tuple[int, str, list[tuple[str, int]]]:
    """Run a waiting program to its end: (exit code, its stdout, exceptions that it stopped at, with their lines)."""
    options = AttachOptions(port=running.wait_state("waiting")["port"], extra=extra)
    stops = []
    with Debugger(options) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        try:
            while True:
                stop = debugger.wait_stopped()
                stops.append((stop.text, debugger.stack(stop)[0].line))
                debugger.continue_(stop)
        except DkdbgError as error:
            assert "all programs ended" in str(error)  # noqa: PT017
    code, out, _ = running.finish()
    return code, out, stops


@pytest.mark.parametrize(("codes", "stops"), [(None, []), ([], []), ([0], [("SystemExit", 4)])])
def test_which_exit_codes_stop_is_the_editors_choice(program, codes, stops):
    running = program(EXIT.replace("3", "0"), wait="300")
    assert end(running, breakOnSystemExit=codes) == (0, "", stops)


@pytest.mark.parametrize(("minor", "options"), [(8, ()), (11, ("--on-crash", "hold=1m")), (13, ())])
def test_a_program_with_a_hook_of_its_own_stops_once_also_where_its_crash_is_held(
    program, under, minor, options
):
    running = program(OWN_HOOK, wait="300", options=options, **under(minor))
    assert end(running) == (1, "mine x\n", [("ValueError", 3)])


@pytest.mark.parametrize(("name", "minor"), [("-m", 8), ("-c", 11), ("-m", 12), ("folder", 14)])
def test_modules_commands_and_folders_stop_like_scripts(launch, under, tmp_path, minor, name):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "__main__.py").write_text(EXIT)
    command = {"-m": ("-m", "package"), "-c": ("-c", EXIT), "folder": ("package",)}[name]
    options = under(minor)
    running = launch(options["python"], *command, wait="300", **options)
    assert end(running) == (3, "", [("SystemExit", 4)])


FINE = """
import contextlib

class Rounds:
    def __init__(self):
        self.left = 3
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if not self.left:
            raise StopIteration
        return self.left

try:
    1 / 0
except ZeroDivisionError:
    pass
with contextlib.suppress(ValueError):
    raise ValueError
for _ in Rounds(): pass
"""


@pytest.mark.parametrize("minor", [8, 13])
def test_a_program_that_handles_its_exceptions_does_not_stop(program, under, minor):
    assert end(program(FINE, wait="300", **under(minor))) == (0, "", [])


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    raise ValueError('x')\nfinally:\n    print('end')\n",
        "try:\n    raise ValueError('x')\nfinally:\n    breakpoint()\n    end = 1\n",
        "import contextlib\nwith contextlib.suppress(KeyError):\n    raise ValueError('x')\n",
        "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('x')\n",
        "import threading\ndef fail():\n    raise ValueError('x')\nthreading.Thread(target=fail).start()\n",
    ],
)
@pytest.mark.parametrize("minor", [8, 9, 11, 13])
def test_it_stops_once(program, code, under, minor):
    line = next(number for number, text in enumerate(code.splitlines(), 1) if "ValueError('x')" in text)
    stops = end(program(code, wait="300", **under(minor)))[2]
    assert [each for each in stops if each[0]] == [("ValueError", line)]  # a breakpoint has no name


@pytest.mark.parametrize("minor", [11, 13])
def test_an_exception_has_its_name_and_the_outermost_frame_too(program, under, minor):
    running = program("def fail():\n    raise ValueError('x')\n\nfail()\n", wait="300", **under(minor))
    with running.debugged(filters=["uncaught"]) as debugger:
        stop = debugger.wait_stopped()
        info = stop.session.request("exceptionInfo", {"threadId": stop.thread_id})
        assert [frame.name for frame in debugger.stack(stop)] == ["fail", "<module>"]
        debugger.continue_(stop)
    assert (info["exceptionId"], info["details"]["typeName"]) == ("ValueError", "ValueError")
