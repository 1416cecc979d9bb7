"""The recipe of docs/recipes/pod.md in a real cluster: four ranks of a pod, stopped and looked at from this machine."""

import signal
import subprocess
import time

import pytest

from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import dkdbg, must, start, unique
from tests.kubernetes.ranks import COMMAND, RANKS, TRAIN, all_stopped, cut_again_and_again, editor
from tests.kubernetes.real.cluster import pod
from tests.kubernetes.runs import wait_until_no_relay_is_left

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("kubernetes")]


def run_waiting(root, target: str) -> subprocess.Popen[str]:
    nowhere = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    return start(root, "run", "--wait", "300", "--on", target, "--", *COMMAND, **nowhere)


@pytest.mark.parametrize("restricted", [False, True], ids=["as root", "as OpenShift runs it"])
def test_four_ranks_stop_through_tunnels_that_are_killed_and_again_in_the_pod_made_anew(
    restricted, root, developer, record_property
):
    name = unique("ranks")
    target, labels = f"k8s://ml/app={name}", {"app": name}
    developer.apply(pod(f"{name}-a", restricted=restricted, labels=labels))
    developer.running(f"{name}-a")
    (root / "train.py").write_text(TRAIN)
    must(dkdbg(root, "sync", "--once", target))
    started = [run_waiting(root, target)]
    try:
        with attach_proxy(root, target) as proxy, editor(proxy.port, root, "/workspace") as debugger:
            stops = all_stopped(debugger)
            assert {each.session.name for each in stops.values()} == {f"rank {rank}" for rank in range(RANKS)}
            top = debugger.stack(stops[3])[0]
            assert debugger.evaluate("batch.shape", top) == "torch.Size([4, 8])"
            assert debugger.evaluate("batch[0, :2].tolist()", top) == "[3.0, 3.0]"
            record_property(
                "until usable again, median of 20", f"{cut_again_and_again(debugger, stops[3], 20):.2f}"
            )
            debugger.continue_(stops[0])  # all go on; another one later would continue a rank's next stop
            all_stopped(debugger)
            began = time.monotonic()
            developer.delete(f"pod/{name}-a")
            developer.apply(pod(f"{name}-b", restricted=restricted, labels=labels))
            developer.running(f"{name}-b")
            must(dkdbg(root, "sync", "--once", target))
            started.append(run_waiting(root, target))
            stops = all_stopped(debugger)
            record_property(
                "from the end of a pod to four ranks stopped in the next", f"{time.monotonic() - began:.1f}"
            )
            debugger.continue_(stops[0])
    finally:
        for each in started:
            each.send_signal(signal.SIGTERM)
            each.communicate(timeout=300)
        developer.delete(f"pod/{name}-a")
        developer.delete(f"pod/{name}-b")
    wait_until_no_relay_is_left()
