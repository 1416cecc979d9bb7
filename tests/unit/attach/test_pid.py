"""`dkdbg attach --pid`: where the port leads."""

import json
from types import SimpleNamespace

from dkdbg.attach.pid import Entered
from tests.agent.dap_probe import wait_for


def test_a_target_leads_to_the_entered_session_only_as_long_as_that_lasts():
    """The program may start anew under dkdbg, without that session's mark."""
    entered = json.dumps({"word": "entered", "pid": 7, "text": ""})
    agent = Entered(SimpleNamespace(run="mark"), ("sh", "-c", f"echo '{entered}'; cat"), lambda _: None, 1)
    agent.wait()
    target = SimpleNamespace(run="")
    agent.pin(target)
    assert target.run == "mark"
    agent.end()
    wait_for(lambda: target.run, lambda run: not run)
    agent.pin(target)
    assert not target.run
