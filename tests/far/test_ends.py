"""What kept a session two hops away is gone for good: the editor hears it, and what runs next there is attached to."""

import time
from contextlib import ExitStack

import pytest

from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import attach_proxy, docker
from tests.far.test_attach import CODE, NODE, running
from tests.kubernetes.ranks import editor

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

#: Seconds in which an editor hears it; much more than it takes, as other tests run meanwhile.
HEARD_LIMIT = 60.0


def kill(laptop) -> None:
    """End the keepers, the agent and the program, as the kernel does where memory is short; /tmp is emptied."""
    laptop.sh("node1", "pkill -KILL -u me python3; rm -rf /tmp/dkdbg-1000 /tmp/dkdbg-relay-1000", check=False)


def reboot(laptop) -> None:
    """Cut the power of node1, and start it again, which empties its /tmp."""
    docker("kill", laptop.containers["node1"])
    docker("start", laptop.containers["node1"])
    laptop.wait_until_up()


@pytest.mark.parametrize("end", [kill, reboot])
def test_an_editor_hears_that_all_is_gone_and_is_attached_to_what_runs_next(
    laptop, tmp_path, record_property, end
):
    with attach_proxy(tmp_path, NODE) as proxy, ExitStack() as stack:
        with running(laptop, tmp_path) as first:
            debugger = stack.enter_context(editor(proxy.port, tmp_path, CODE))
            stopped = debugger.wait_stopped(300)
            end(laptop)
            began = time.monotonic()
            debugger.wait_ended(HEARD_LIMIT, session=stopped.session)
            record_property("heard", f"{time.monotonic() - began:.1f}")
            debugger.wait_output("connection to the process lost")
            debugger.wait_output("waiting for login,node1: no session runs on login,node1")
            assert first.wait(HEARD_LIMIT) == 255
            record_property("run ended", f"{time.monotonic() - began:.1f}")
            if end is kill:
                said = first.stderr.read()
                assert "the process that kept the program on login,node1 is gone" in said
                assert "dkdbg ps ssh://login,node1" in said
        with running(laptop, tmp_path):
            assert debugger.wait_stopped(300).session is not stopped.session


def test_a_name_that_leads_to_another_host_meanwhile_ends_no_session(laptop, tmp_path):
    """A cluster has one name for its login nodes: the next connection may lead to another one (found/far.md)."""
    which, tried, config = tmp_path / "which", tmp_path / "tried", laptop.folder / "config"
    which.write_text("node1")
    pair = (
        f"Host pair\n  ProxyCommand /usr/bin/ssh -F {config} -W $(tee -a {tried} <{which}):22 login\n"
        "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
    )
    former = config.read_text()
    config.write_text(pair + former)
    try:
        with (
            running(laptop, tmp_path),
            attach_proxy(tmp_path, "ssh://pair") as proxy,
            editor(proxy.port, tmp_path, CODE) as debugger,
        ):
            stopped = debugger.wait_stopped(300)
            which.write_text("127.0.0.1")  # as `login` calls itself
            laptop.kill_local_ssh()
            wait_for(tried.read_text, lambda text: "127.0.0.1" in text)
            which.write_text("node1")
            assert debugger.evaluate("6 * 7", debugger.stack(stopped, timeout=300)[0], timeout=300) == "42"
            assert not stopped.session.is_ended
    finally:
        config.write_text(former)
