"""What a program answers at a stop is untrusted: any text, and perhaps no frame."""

import contextlib
from types import SimpleNamespace

import pytest

from dkdbg.dap.values import AttachOptions
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.proof import stopping
from dkdbg.proof.first_lines import FirstLines

FILES = (FirstLines(path="/r/train.py", module=1, functions=(("main", 4),)),)
FRAME = SimpleNamespace(path="/r/train.py", line=4, name="main")


class Fake:
    """A debugger of one program: its stacks, stop by stop, and its answer to every expression."""

    def __init__(self, stacks, answer):
        self.stacks, self.answer, self.continued = list(stacks), answer, 0

    def __call__(self, _options):
        return contextlib.nullcontext(self)

    def wait_stopped(self, _timeout):
        if not self.stacks:
            raise DkdbgError("nothing stops", exit_code=EXIT_TIMEOUT)
        return SimpleNamespace(session=SimpleNamespace(name="train.py"))

    def stack(self, _stop, *, levels):
        return self.stacks.pop(0)[:levels]

    def evaluate(self, *_args, **_options):
        return self.answer

    def continue_(self, _stop):
        self.continued += 1

    def local_values(self, _frame):
        return {}

    def set_breakpoints(self, *_):
        pass

    def set_functions(self, _names):
        pass

    def attach(self):
        pass


def stopped(monkeypatch, stacks, answer="[]"):
    fake = Fake(stacks, answer)
    monkeypatch.setattr(stopping, "Debugger", fake)
    attempt = stopping.stop(
        AttachOptions(port=1), FILES, timeout=0.0, check=lambda _: False, is_idle=lambda: True
    )
    return attempt, fake


@pytest.mark.parametrize(
    "answer", ["7", "{[]: 1}", "[", "(" * 100_000, "['a', 'b', None]", "[1, [2]]", "'\0'"]
)
def test_any_answer_to_an_expression_is_one(monkeypatch, answer):
    attempt, _ = stopped(monkeypatch, [[FRAME]], answer)
    assert (attempt.stopped.function, attempt.stopped.executable) == ("main", "")


def test_a_stop_without_a_frame_is_left(monkeypatch):
    attempt, fake = stopped(monkeypatch, [[], [FRAME]])
    assert attempt.stopped is not None
    assert fake.continued == 1
    monkeypatch.setattr(stopping, "Debugger", Fake([[], [FRAME]], "[]"))
    looked = []
    stopping.copy_of(AttachOptions(port=1), FILES, timeout=1.0, check=looked.append)
    assert looked == ["/r/train.py"]


def test_the_body_of_a_class_is_no_function(monkeypatch):
    body = SimpleNamespace(path="/r/train.py", line=1, name="Loop")
    attempt, fake = stopped(monkeypatch, [[body], [FRAME]])
    assert (attempt.stopped.function, attempt.stopped.is_function, fake.continued) == ("main", True, 1)
    attempt, _ = stopped(monkeypatch, [[body]])
    assert (attempt.stopped.function, attempt.stopped.is_function) == ("Loop", False)
