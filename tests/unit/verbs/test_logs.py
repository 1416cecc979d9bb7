"""`dkdbg logs` of places that keep nothing."""

import pytest


@pytest.mark.parametrize("target", ["127.0.0.1:5731", "call://job", "pai://host/user/job"])
def test_of_what_can_only_be_attached_to_it_says_where_to_look(dkdbg, script, target):
    """The hint was `dkdbg run --on` such a place, which is refused."""
    done = dkdbg(script, "logs", target)
    assert done.code == 2
    assert done.err == (
        f"dkdbg: {target} can only be attached to: its program's output cannot be read from here\n"
        "  hint: look where it was started: in that terminal, or in the log of the job\n"
    )


def test_of_this_machine_it_says_how_to_keep_it(dkdbg, script):
    done = dkdbg(script, "logs", "local:")
    assert (done.code, "the output on local is not stored: it went to the terminal" in done.err) == (2, True)
    assert "dkdbg run --on local: -- python3 train.py 2>&1 | tee run.log" in done.err
