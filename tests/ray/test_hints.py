"""A worker of Ray that waits no more is refused; one that will wait is attached to as the hint says."""

from __future__ import annotations

import pytest

from dkdbg import hints
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import Client
from tests.engine.host_doors import host_door, typed_door
from tests.hints import hinted
from tests.ray.cluster import wait_until
from tests.ray.test_paused import LIMIT, PAUSED, by_name, dkdbg

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]


def test_who_comes_too_late_for_a_worker_is_refused(ray, tmp_path):
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
        assert "dkdbg ps" in str(said)


def test_a_cluster_in_which_nobody_waits_is_waited_for_by_what_is_said(ray, tmp_path):
    [line] = hinted(dkdbg("pdb", f"ray://{ray.address}:8265").stderr, hints.RAY_WAITS)
    with typed_door(tmp_path, line) as door, Debugger(AttachOptions(port=door.port)) as debugger:
        debugger.attach(timeout=LIMIT)
        ray.write("paused.py", PAUSED)
        ray.drive("paused.py")
        assert debugger.stack(debugger.wait_stopped(LIMIT), timeout=LIMIT)[0].path == "/job/paused.py"
