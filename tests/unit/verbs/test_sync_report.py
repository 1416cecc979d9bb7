"""What a sync says on a terminal, and how much of it."""

from dkdbg.sync.report import event
from dkdbg.sync.text_output import Reporter


def kept(number):
    return event("kept", path=f"file{number}", where=f"kept/file{number}")


def test_many_at_once_are_cut_short_and_what_happens_later_is_said_again(capsys):
    """After twenty lines, nothing of the kind was said any more as long as the sync ran."""
    now = [100.0]
    reporter = Reporter(as_json=False, clock=lambda: now[0])
    for number in range(500):
        reporter.event(kept(number))
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 21
    assert said[-1] == "... and more of these; --json lists all of them"
    now[0] += 60
    reporter.event(kept(501))
    assert "file501" in capsys.readouterr().out


def test_the_line_of_a_sync_counts_what_is_not_synced(capsys):
    reporter = Reporter(as_json=False)
    reporter.event(event("in_sync", files=10, failed=2, seconds=0.1, did=""))
    reporter.event(event("in_sync", files=12, failed=0, seconds=0.1, did=""))
    reporter.event(event("in_sync", files=1, failed=0, seconds=0.1, did=""))
    assert capsys.readouterr().out.splitlines() == [
        "in sync: 10 files, 0.1 s, nothing to do; 2 not synced",
        "in sync: 12 files, 0.1 s, nothing to do",
        "in sync: 1 file, 0.1 s, nothing to do",
    ]
