"""`dkdbg help`, and `dkdbg` alone, say where one is and what to type next."""

import os
import sys

import pytest

from dkdbg.verbs import command_line
from tests.terminals import terminal


def test_the_help_has_every_verb_once_is_that_of_its_option_and_says_which_verb_may_be_meant(script, dkdbg):
    shown = dkdbg(script, "help").out
    verbs = next(each.choices for each in command_line.parser()._actions if each.dest == "verb")
    for verb in verbs:
        assert shown.count(f"\n  {verb} ") == 1, verb
    assert shown.index("start here:") < shown.index("  init ") < shown.index("while it runs:")
    assert dkdbg(script, "--help").out == shown
    for options in ((), ("-C", "."), ("--context", "far"), ("-C", ".", "--context", "far")):
        assert dkdbg(script, *options, "help", "up").out == dkdbg(script, "up", "--help").out != ""
    ran = dkdbg(script, "help", "atach")
    assert (ran.code, "did you mean dkdbg attach?" in ran.err) == (2, True)


@pytest.fixture
def no_sessions(monkeypatch):
    monkeypatch.setattr("dkdbg.targets.registry.sessions", lambda: ([], {"docker": "no engine answers"}))


@pytest.mark.usefixtures("no_sessions")
class TestAlone:
    def test_it_leads_from_nothing_to_the_first_f5(self, script, dkdbg):
        first = dkdbg(script)
        assert first.code == 0
        assert "set up  not yet" in first.out
        assert "next    dkdbg init" in first.out
        assert "docker cannot be queried: no engine answers" in first.out
        assert dkdbg(script, "init", "--yes").code == 0
        then = dkdbg(script).out
        assert "set up  app-debug in .dkdbg/service.compose, F5 attaches to port 5678" in then
        assert "next    set a breakpoint and press F5" in then
        (script / "dkdbg.toml").write_text("[debug]\nwait = 5\n")
        assert "next    dkdbg init shows what would change" in dkdbg(script).out

    def test_it_says_what_is_missing_when_a_file_was_taken_away(self, initialised, dkdbg):
        (initialised / ".dkdbg/agent.pyz").unlink()
        shown = dkdbg(initialised).out
        assert ".dkdbg/ is missing" in shown
        assert "next    dkdbg init" in shown


def test_the_plan_fits_a_screen_and_the_diff_comes_when_asked_for(script):
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    with terminal([sys.executable, "-m", "dkdbg", "init"], columns=80, cwd=script, env=env) as running:
        plan = running.until("d for the diff").replace("\r", "")
        running.type("d\n")
        diff = running.until("d for the diff")
        running.type("n\n")
        assert running.end() == 1  # nothing was written
    assert "+++ " not in plan
    assert "+++ b/compose.yaml" in diff
    because = plan[: plan.index("\ncreate")].splitlines()
    assert max(map(len, because)) < 80, because
    assert len(plan.splitlines()) < 40, plan
    assert not (script / ".dkdbg").exists()
