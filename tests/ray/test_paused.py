"""Workers of a real Ray that wait at `breakpoint()` or after an error, on two nodes, behind one port."""

import json
from pathlib import Path

import pytest

from dkdbg import hints
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import Client
from tests.engine.attach_proxies import attach_proxy, typed_proxy
from tests.engine.projects import dkdbg, must
from tests.hints import hinted
from tests.ray.cluster import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]

LIMIT = 300.0
PAUSED = """\
    import time

    import ray

    ray.init(address="auto", namespace="paused")


    @ray.remote
    def crunch(n):
        total = n * 2
        breakpoint()
        return total


    @ray.remote
    class Policy:
        def __init__(self):
            self.weight = 7

        def step(self, batch):
            loss = batch + self.weight
            open("/job/paused-at", "w").write(repr(time.time()))
            breakpoint()
            return loss


    @ray.remote(runtime_env={"env_vars": {"RAY_DEBUG_POST_MORTEM": "1"}}, max_retries=0)
    def divide(n):
        return 1 / n


    policy = Policy.options(resources={"node1": 1}, name="actor-7").remote()
    waiting = [crunch.options(resources={"node0": 1}).remote(1), policy.step.remote(5)]
    broken = divide.options(resources={"node1": 1}).remote(0)
    print(ray.get(waiting))
    try:
        ray.get(broken)
    except ray.exceptions.RayTaskError as error:
        print("broken", type(error.cause).__name__)
    """


def listed(target):
    return json.loads(must(dkdbg(Path.cwd(), "ps", target, "--json")).stdout)["sessions"]


def by_name(target):
    return {each["name"]: each for each in listed(target)}


def test_three_paused_workers_of_two_nodes_are_listed_and_stand_behind_one_port(ray, tmp_path):
    ray.write("paused.py", PAUSED)
    driver = ray.drive("paused.py")
    target = f"ray://{ray.address}:8265"
    names = {
        "crunch",
        "divide",
        "Policy.step (actor-7)",
    }  # what runs, Ray tells a second or so after it began
    shown = wait_until(lambda: (found := by_name(target)).keys() == names and found, "three are listed")
    rows = shown.values()
    assert {each["state"] for each in rows} == {"paused"}
    assert len({each["target"] for each in rows}) == 2, "two nodes"
    assert shown["Policy.step (actor-7)"]["processes"][0].startswith("task Policy.step, actor actor-7, pid ")

    with attach_proxy(tmp_path, target) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach(timeout=LIMIT)
        stops = {}
        for _ in range(3):
            stop = debugger.wait_stopped(LIMIT)
            stops[stop.session.name.partition(", pid")[0]] = stop
        assert set(stops) == set(shown)
        seen = {}
        for name, stop in stops.items():
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            seen[name] = (frame.path, frame.name, debugger.local_values(frame, timeout=LIMIT))
        path, function, values = seen["crunch"]
        assert (path, function, values) == ("/job/paused.py", "crunch", {"n": "1", "total": "2"})
        assert seen["Policy.step (actor-7)"][2]["loss"] == "12"
        assert stops["divide"].reason == "exception"
        assert seen["divide"][1] == "divide"
        assert seen["divide"][2]["n"] == "0"
    # Who has had a look and leaves lets them run on.
    out, _ = driver.communicate(timeout=LIMIT)
    assert "[2, 12]" in out
    assert "broken ZeroDivisionError" in out


def test_a_pause_is_announced_to_an_editor_that_waits_as_the_hint_says(ray, tmp_path, record_property):
    ray.write("paused.py", PAUSED)
    [line] = hinted(dkdbg(tmp_path, "pdb", f"ray+docker://{ray.nodes[0]}").stderr, hints.RAY_WAITS)
    with typed_proxy(tmp_path, line) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach(timeout=LIMIT)
        driver = ray.drive("paused.py")
        announced = 0.0
        for _ in range(3):
            stop = debugger.wait_stopped(LIMIT)
            if "Policy" in stop.session.name:
                announced = proxy.wait_for(
                    lambda each: each["event"] == "process" and "Policy" in each["text"]
                )["time"]
        paused = float((ray.folder / "paused-at").read_text())
        record_property(
            "Ray: from breakpoint() in an actor to its session behind the proxy", f"{announced - paused:.2f}"
        )
    driver.wait(LIMIT)


def test_who_comes_too_late_for_a_worker_is_refused(ray, tmp_path):
    ray.write("paused.py", PAUSED)
    ray.drive("paused.py")
    target = f"ray://{ray.address}:8265"
    with attach_proxy(tmp_path, target) as proxy, Client(proxy.port) as editor:
        editor.attach()
        body = {k: v for k, v in editor.event("debugpyAttach").items() if k not in {"request", "connect"}}
        ray.end_drivers()
        wait_until(lambda: not by_name(target), "nobody waits")
        with Client(proxy.port) as late:
            said = late.refusal("attach", connect={"host": "127.0.0.1", "port": proxy.port}, **body)
        assert "dkdbg ps" in str(said)
