"""What is said about Ray and tells somebody to type something, typed here or on the cluster's head."""

from __future__ import annotations

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from dkdbg.places import registry
from tests.agent.dap_probe import Client
from tests.engine.host_doors import docker, host_door, typed_door
from tests.engine.projects import must
from tests.hints import in_shell, to_type
from tests.ray.cluster import wait_until
from tests.ray.test_paused import LIMIT, PAUSED, by_name, dkdbg

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]

#: What pip makes of Ray's entry point.
RAY = '#!/bin/sh\nexec python3 -m ray.scripts.scripts "$@"\n'


@pytest.fixture
def head(ray):
    """The head's container, where `ray` can be typed."""
    docker(
        "exec",
        ray.nodes[0],
        "sh",
        "-c",
        f"printf '%s' '{RAY}' >/usr/local/bin/ray; chmod 755 /usr/local/bin/ray",
    )
    return ray.nodes[0]


def test_who_comes_too_late_for_a_worker_sees_who_waits_now(ray, tmp_path):
    ray.write("paused.py", PAUSED)
    ray.drive("paused.py")
    target = f"ray://{ray.address}:8265"
    with host_door(tmp_path, target) as door, Client(door.port) as editor:
        editor.attach()
        body = {k: v for k, v in editor.event("debugpyAttach").items() if k not in {"request", "connect"}}
        ray.end_drivers()
        wait_until(lambda: not by_name(target), "nobody waits")
        with Client(door.port) as late:
            said = late.refusal("attach", connect={"host": "127.0.0.1", "port": door.port}, **body)
        [line] = to_type(
            str(said),
            "no such worker waits any more, or another debugger has it; dkdbg ps TARGET shows those that wait now, TARGET as for dkdbg attach",
        )
        assert must(in_shell(tmp_path, line.replace("TARGET", target))).stdout == "no session is running\n"


def test_where_no_dashboard_answers_ray_itself_is_asked(head, tmp_path):
    said = dkdbg("ps", f"ray+docker://{head}::8264").stderr
    [line] = to_type(
        said,
        "is Ray running, and is this its dashboard's port? Ask there: ray status. A dashboard that listens on the node's own "
        "address is reached from outside as ray://LOGIN,NODE:8265, from inside as ray+ssh://NODE",
    )
    assert "Active:" in docker("exec", head, "sh", "-c", line)
    must(dkdbg("ps", f"ray+docker://{head}"))
    assert tmp_path


def test_an_answer_that_makes_no_sense_is_looked_into_by_ray_itself(head, tmp_path):
    """Of a head that stands still after it was asked for the first time: there the engine answers."""
    place = registry.place_of(f"ray+docker://{head}", tmp_path)
    try:
        place.sessions()
        docker("pause", head)
        with pytest.raises(DkdbgError) as caught:
            place.sessions()
        docker("unpause", head)
        [line] = to_type(caught.value.hint, "look there by hand: ray status")
        assert "Active:" in docker("exec", head, "sh", "-c", line)
        wait_until(lambda: not dkdbg("ps", f"ray+docker://{head}").returncode, "it answers", LIMIT)
    finally:
        place.close()


def test_a_cluster_in_which_nobody_waits_is_waited_for_by_what_is_said(ray, tmp_path):
    [line] = to_type(
        dkdbg("pdb", f"ray://{ray.address}:8265").stderr, "dkdbg attach {} waits for workers that stop"
    )
    with typed_door(tmp_path, line) as door, Debugger(AttachOptions(port=door.port)) as debugger:
        debugger.attach(timeout=LIMIT)
        ray.write("paused.py", PAUSED)
        ray.drive("paused.py")
        assert debugger.stack(debugger.wait_stopped(LIMIT), timeout=LIMIT)[0].path == "/job/paused.py"
