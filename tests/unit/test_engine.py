"""What this machine's engine offers, and ports; without an engine."""

import socket

import pytest

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.targets.docker.host import cdi_vendors, choose_gpu, has_kfd
from dkdbg.targets.docker.ports import free_port, on_free_port

NOTHING = frozenset()
CDI = frozenset({"nvidia.com/gpu"})


@pytest.mark.parametrize(
    ("info", "has_kfd", "vendors", "kind"),
    [
        ({}, False, NOTHING, "none"),
        ({"Runtimes": {"runc": {}}}, False, NOTHING, "none"),
        ({"Runtimes": None}, False, NOTHING, "none"),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, False, NOTHING, "nvidia"),
        ({"Runtimes": {"nvidia": {}}}, True, CDI, "nvidia"),
        ({"Runtimes": {"runc": {}}}, True, CDI, "cdi"),
        ({"Runtimes": {"runc": {}}}, True, frozenset({"amd.com/gpu"}), "amd"),
        ({"Runtimes": {"runc": {}}}, True, NOTHING, "amd"),
    ],
)
def test_the_way_to_a_gpu_is_what_was_seen(info, has_kfd, vendors, kind):
    chosen, source = choose_gpu(info, has_kfd=has_kfd, cdi_vendors=vendors)
    assert chosen == kind
    assert source


def test_what_lies_on_this_machine_says_nothing_about_an_engine_elsewhere_which_is_believed(tmp_path):
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    info = {"CDISpecDirs": [str(tmp_path)]}
    assert cdi_vendors(info, is_local=True) == CDI
    assert cdi_vendors(info, is_local=False) == NOTHING
    assert not has_kfd(is_local=False)
    devices = [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]
    info = {"CDISpecDirs": [str(tmp_path)], "DiscoveredDevices": devices}
    assert cdi_vendors(info, is_local=False) == CDI
    assert cdi_vendors({"DiscoveredDevices": None, "CDISpecDirs": None}, is_local=True) == NOTHING


@pytest.fixture
def taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_port_is_kept_that_is_free_or_ours_and_a_taken_one_is_passed_over(taken):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert free_port(port, own_port=None) == port
    assert free_port(taken, own_port=None) > taken
    assert free_port(taken, own_port=taken) == taken
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        assert free_port(port, own_port=None) != port


def test_a_port_that_another_takes_meanwhile_is_passed_over(taken):
    """Two that start at once see the same free port, and the engine gives it to one of them."""
    with socket.socket() as other:
        first = free_port(taken, own_port=None)
        tried = []

        def start(port):
            tried.append(port)
            if len(tried) == 1:
                other.bind(("127.0.0.1", port))
                other.listen()
                raise DkdbgError("a port of the service is taken on this machine", exit_code=EXIT_CONFLICT)

        assert on_free_port(taken, own_port=None, start=start) == tried[-1] > first == tried[0]


def test_a_conflict_that_is_not_about_our_port_is_said(taken):
    def start(_):
        raise DkdbgError("a port of the service is taken on this machine", exit_code=EXIT_CONFLICT)

    with pytest.raises(DkdbgError, match="is taken"):
        on_free_port(taken, own_port=None, start=start)


def test_no_free_port_is_an_error_with_the_range_which_ends_at_the_last_port(taken):
    with pytest.raises(DkdbgError, match=str(taken)) as caught:
        free_port(taken, own_port=None, tries=1)
    assert caught.value.exit_code == EXIT_CONFLICT
    assert caught.value.hint
    with socket.socket() as last:
        last.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        last.bind(("127.0.0.1", 65535))
        last.listen()
        with pytest.raises(DkdbgError, match="65535"):
            free_port(65535, own_port=None)
