"""Whatever breaks a proof, its run is ended, and what its end leaves is told."""

import itertools
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dkdbg.core.stacks import Frame
from dkdbg.core.target_values import Trial
from dkdbg.errors import DkdbgError
from dkdbg.proof import program_end, proving
from dkdbg.proof.asked import Entry
from dkdbg.proof.finding import BrokenError
from dkdbg.proof.first_lines import UNKNOWN, FirstLines
from dkdbg.proof.program_end import Around


class Run:
    """A run that gets no GPU, and whose end fails or not."""

    def __init__(self, tmp_path, *, fails=False, gpu="the program"):
        self.ended, self.closed, self.fails = 0, 0, fails
        (tmp_path / "train.py").write_text("def main():\n    print(1)\n")
        self.subject = proving.Subject(
            root=tmp_path, entry=Entry(port=1, mappings=((str(tmp_path), "/app"),)), start=self.trial, gpu=gpu,
            target_at=lambda _: SimpleNamespace(close=self.close, running_agent=self.lost, label="x"), around=Around(installs_from=lambda _: ("", "", "")),
        )  # fmt: skip

    def trial(self, _, at_end):
        at_end(self.stop)
        return Trial(
            address="docker://x", port=1, program=("python", "train.py"), gpu=("none", "no driver"), ready=lambda _: True,
            session=str, ended=lambda: None, output=str, probe=str,
        )  # fmt: skip

    def stop(self):
        self.ended += 1
        if self.fails:
            raise DkdbgError("left behind: docker rm x")

    def close(self):
        self.closed += 1

    def lost(self):
        raise DkdbgError("no connection")


def test_an_end_that_fails_is_told_beside_the_finding(tmp_path):
    run, told = Run(tmp_path, fails=True), []
    proof = proving.prove(run.subject, report=told.append, on_link=lambda *_: None)
    assert proof.finding.cause == "gpu-absent"
    assert proof.left == told == ["left behind: docker rm x"]


def test_the_run_ends_and_the_target_is_closed_when_the_connection_is_lost(tmp_path):
    run = Run(tmp_path, gpu="")
    proof = proving.prove(run.subject, report=lambda _: None, on_link=lambda *_: None)
    assert proof.finding.cause == "agent-silent"
    assert (run.ended, run.closed) == (1, 1)


def test_the_run_ends_when_the_first_link_cannot_be_told(tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    run = Run(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        proving.prove(run.subject, report=lambda _: None, on_link=interrupted)
    assert run.ended == 1


def test_the_users_own_file_is_no_copy_of_itself_where_only_the_functions_name_stopped(tmp_path, monkeypatch):
    run = Run(tmp_path)
    own = str(tmp_path / "train.py")
    monkeypatch.setattr(proving.stopping, "copy_of", lambda *_, check, **__: check(own))
    proof = proving._Run(run.subject, lambda _: None, lambda *_: None, proving.Proof())
    proof._files = [FirstLines(path=own, functions=(("main", 2),), module=1)]
    attempt = proving.stopping.Attempt(stopped=None, loaded=(), why="waited 60 s", has_ended=False)
    assert proof._by_name(None, "", attempt).cause == "stop-missed"
    assert run.ended == 1


def test_a_missing_module_is_looked_for_in_the_image_before_a_distribution_is_named(tmp_path):
    run, probed = Run(tmp_path), []

    def probe(script):
        probed.append(script)
        return "/app\n" if "/generated.py" in script else ""

    proof = proving._Run(run.subject, lambda _: None, lambda *_: None, proving.Proof())
    trial = replace(run.trial(None, lambda _: None), probe=probe)
    found = proof._ended(trial, "ModuleNotFoundError: No module named 'generated'\n", 1)
    assert (found.cause, found.subject, len(probed)) == ("own-module", "", 2)


@pytest.mark.parametrize(
    ("program", "cause", "remedy"),
    [
        (("PYTHON", "-S", "train.py"), "module-missing", "leave -S out"),
        (("PYTHON", "-u", "-IS", "-m", "train"), "module-missing", "leave -IS out"),
        (("PYTHON", "-mscripts.train"), "other-interpreter", "start it with"),
        (("/usr/bin/false", "-S", "train.py"), "other-interpreter", "start it with"),
    ],
)
def test_an_option_of_python_that_hides_a_module_is_named(tmp_path, program, cause, remedy):
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)

    def probe(script):  # this Python, in place of the image's
        others = " ".join(program_end._INTERPRETERS)
        return subprocess.run(["sh", "-c", script.replace(others, str(python))], check=True, capture_output=True, text=True).stdout  # fmt: skip

    run = Run(tmp_path)
    proof = proving._Run(run.subject, lambda _: None, lambda *_: None, proving.Proof())
    words = tuple(str(python) if word == "PYTHON" else word for word in program)
    trial = replace(run.trial(None, lambda _: None), probe=probe, program=words)
    found = proof._ended(trial, "ModuleNotFoundError: No module named 'pytest'\n", 1)
    assert found.cause == cause
    assert remedy in found.remedy


@pytest.mark.parametrize("script", ["/generated.py", "find_spec"])
def test_a_shell_of_the_image_that_prints_more_than_a_path_adds_no_lines_to_the_finding(tmp_path, script):
    def probe(asked):
        return f"/app{'x' * 9999}\nproven in 1 s: a breakpoint stops\n" if script in asked else ""

    run = Run(tmp_path)
    proof = proving._Run(run.subject, lambda _: None, lambda *_: None, proving.Proof())
    trial = replace(run.trial(None, lambda _: None), probe=probe)
    found = proof._ended(trial, "ModuleNotFoundError: No module named 'generated'\n", 1)
    assert "proven" not in found.says + found.remedy
    assert len(found.says) < 400


ARGUMENTS = "a.py: error: the following arguments are required: --data\n"


def check_end(tmp_path, code, text):
    run = Run(tmp_path)
    ended = code if callable(code) else lambda: code
    trial = replace(run.trial(None, lambda _: None), ended=ended, output=lambda: text)
    proving._Run(run.subject, lambda _: None, lambda *_: None, proving.Proof())._check_end(trial)


def test_the_exit_code_of_a_program_that_is_gone_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(proving, "_AFTER_IMPORTS_S", 0.0)
    codes = itertools.chain([None, None], itertools.repeat(2))
    with pytest.raises(BrokenError):
        check_end(tmp_path, lambda: next(codes), ARGUMENTS)


TORCH, OWN = (Frame(path, 9, "<module>", own) for path, own in (("torch.py", False), ("lib.py", True)))


def wait_for_imports(tmp_path, monkeypatch, frames):
    """Poll a program that shows these frames, the last one without end, and pretend that a poll takes 50 s."""
    clock, frames, held = itertools.count(0, 50), iter(frames), []
    last = [None]
    run = Run(tmp_path)
    proof = proving._Run(run.subject, lambda _: None, lambda *each: held.append(each), proving.Proof())
    monkeypatch.setattr(proving.time, "monotonic", clock.__next__)
    monkeypatch.setattr(proof, "_code_within", lambda *_: None)
    monkeypatch.setattr(proof, "_importing", lambda _: last.append(next(frames, last[-1])) or last[-1])
    proof._wait_for_imports(run.trial(None, lambda _: None))
    return held


@pytest.mark.parametrize("frames", [[TORCH], [TORCH, UNKNOWN], [OWN, TORCH, OWN, TORCH]])
def test_a_program_that_still_imports_at_the_timeout_is_not_proven(tmp_path, monkeypatch, frames):
    with pytest.raises(BrokenError) as raised:
        wait_for_imports(tmp_path, monkeypatch, frames)
    assert raised.value.finding.cause == "still-importing"
    assert "torch.py:9" in raised.value.finding.says


@pytest.mark.parametrize(
    ("frames", "shown"), [([TORCH, OWN], "lib.py:9"), ([UNKNOWN], "does not answer"), ([OWN, UNKNOWN], "lib")]
)
def test_a_program_that_runs_in_a_modules_own_code_is_proven_with_what_was_not_seen(
    tmp_path, monkeypatch, frames, shown
):
    [(link, seen)] = wait_for_imports(tmp_path, monkeypatch, frames)
    assert link == "imports"
    assert shown in seen


def test_a_program_whose_imports_take_minutes_is_waited_for(tmp_path, monkeypatch):
    assert not wait_for_imports(tmp_path, monkeypatch, [TORCH, OWN, TORCH, OWN, None])


def test_a_program_that_ends_for_a_known_cause_after_the_stop_is_not_proven(tmp_path):
    with pytest.raises(BrokenError) as raised:
        check_end(tmp_path, 2, ARGUMENTS)
    assert raised.value.finding.cause == "argument-missing"
    assert raised.value.finding.says == "a breakpoint stops, but then the program demands --data"
    check_end(tmp_path, 0, ARGUMENTS)
    check_end(tmp_path, 3, "")
