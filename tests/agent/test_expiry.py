"""A debug port that closes after its time: nothing listens then, editors are detached, and the program keeps running."""

import argparse

import pytest

from dkdbg.agent.inprocess import duration
from dkdbg.agent.state import procfs
from dkdbg.agent.supervisor import options
from dkdbg.verbs import values
from tests.agent.dap_probe import wait_for
from tests.engine.projects import dkdbg
from tests.ports import free_port


def test_the_port_closes_under_an_editor_and_the_program_goes_on(loop, tmp_path):
    running = loop(DKDBG_FOR="15s")
    port = running.port
    assert port in procfs.listening_ports()
    with running.debugged(4) as debugger:  # inside the loop
        debugger.wait_stopped()
        wait_for(procfs.listening_ports, lambda ports: port not in ports)
    assert running.process.poll() is None
    assert running.record()["detail"] == "the debug port was closed (DKDBG_FOR)"
    (tmp_path / "stop").touch()
    err = running.ends()
    assert "the debug port closes now (DKDBG_FOR); the program keeps running" in err


def test_a_program_that_waits_for_an_editor_does_not_wait_for_a_closed_port(launch):
    err = launch("true", wait="forever", env={"DKDBG_FOR": "1s"}).ends(124)
    assert "the program was not started" in err
    launch("true", wait="forever", env={"DKDBG_FOR": "1s", "DKDBG_THEN": "run"}).ends()


@pytest.mark.core
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("1.5m", 90),
        ("90s", 90),
        ("90", 90),
        ("", None),
        ("h", None),
        ("-1s", None),
        ("1d", None),
        ("90s\n", None),
        ("0.3", 0.3),
        ("8760h", 365 * 86400),
        ("8761h", None),
        ("999999999h", None),
    ],
)
def test_times_are_read(text, seconds):
    assert duration.seconds_of(text) == seconds


@pytest.mark.core
def test_a_port_is_open_for_a_second_at_least():
    """Less was rounded to 0, which is no limit."""
    assert values.duration("1s") == 1
    for text in ("0", "0s", "0.0004s", "0.999s", "8761h"):
        with pytest.raises(argparse.ArgumentTypeError, match="1s to 8760h"):
            values.duration(text)
        with pytest.raises(ValueError, match="1s to 8760h"):
            options._limit(text)
    assert options._limit("") == 0


def test_an_attach_proxy_ends_at_its_time(tmp_path, runtime):
    port = free_port()
    env = {"DKDBG_RUNTIME_DIR": str(runtime)}
    done = dkdbg(tmp_path, "attach", "local:", "--port", str(port), "--for", "2s", env=env)
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:{port}" in done.stdout
    assert port not in procfs.listening_ports()
    refused = dkdbg(tmp_path, "attach", "local:", "--for", "soon")
    assert refused.returncode == 2
    assert "'soon' is not a time such as 2h" in refused.stderr
