"""One job's ranks on two hosts behind ssh, one of them two hops away, each with an agent of its own."""

from contextlib import ExitStack

import pytest

from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import started
from tests.one_job import FILES, stop_and_go_together

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]
CODE = "/home/me/code"
HOSTS = {"login": "ssh://login", "node1": "ssh://login,node1"}
NAMES = ("login", "login,node1")


def test_ranks_on_two_hosts_attached_to_late_stop_at_one_iteration_and_go_on_by_one_key(laptop, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
        for host in HOSTS:
            laptop.put(host, f"{CODE}/{name}", text)
    with ExitStack() as stack:
        for number, address in enumerate(HOSTS.values()):
            words = ("run", "--on", f"{address}/~/code", "--", "python3", "launcher.py", str(number), "login")
            stack.enter_context(started(tmp_path, *words))
        stack.callback(laptop.put, "login", f"{CODE}/stop", "")
        for host in HOSTS:
            laptop.sh(host, f"cd {CODE}; until [ $(ls | grep -c ^up) = 2 ]; do sleep 0.05; done")
        proxy = stack.enter_context(attach_proxy(tmp_path, *HOSTS.values()))
        names = [f"rank {rank} (local {rank % 2}) on {NAMES[rank // 2]}" for rank in range(4)]
        stop_and_go_together(proxy.port, tmp_path, CODE, names)
        assert proxy.end() == 0
