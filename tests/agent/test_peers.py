"""Who may connect: neighbours on a container network may not."""

import ipaddress

import pytest

from dkdbg.agent.proxy.listener.peers import AllowList, Routes, read_routes, refusal

# `docker run -it debian cat /proc/net/route` on the default bridge.
ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t000013AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
IPV6_ROUTE = """\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000003 00000000 00000001     eth0
"""


@pytest.fixture
def routes(tmp_path):
    (tmp_path / "route").write_text(ROUTE)
    (tmp_path / "ipv6_route").write_text(IPV6_ROUTE)
    return read_routes(str(tmp_path))


def test_the_tables_of_a_container_are_understood(routes):
    subnets = ["172.17.0.0/16", "172.19.0.0/16", "fd00::/64", "fe80::/64"]
    assert [str(network) for network in routes.subnets] == subnets
    assert [str(address) for address in routes.gateways] == ["172.17.0.1", "fd00::1"]


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("172.17.0.1", True),  # a port that Docker publishes arrives from here
        ("172.17.0.5", True),  # ourselves
        ("192.168.65.1", True),  # Docker Desktop
        ("203.0.113.9", True),  # published on purpose
        ("172.17.0.6", False),
        ("172.19.0.1", False),  # the gateway of a second network, which is not the default one
        ("172.19.0.3", False),
        ("::ffff:172.17.0.6", False),
        ("::ffff:172.17.0.1", True),
        ("fd00::1", True),
        ("fd00::7", False),
        ("fe80::1%eth0", False),
        ("2001:db8::1", True),
    ],
)
def test_neighbours_are_refused_and_the_gateway_is_not(routes, peer, allowed):
    assert (refusal(peer, "172.17.0.5", AllowList(), routes) == "") is allowed


def test_the_reason_names_the_network_and_the_user_can_let_networks_in(routes):
    reason = refusal("172.17.0.6", "172.17.0.5", AllowList(), routes)
    assert reason == "it is a neighbour in 172.17.0.0/16, not the gateway"
    assert refusal("172.17.0.6", "172.17.0.5", AllowList("10.0.0.0/8, 172.17.0.6"), routes) == ""
    assert refusal("172.17.0.7", "172.17.0.5", AllowList("10.0.0.0/8, 172.17.0.6"), routes) != ""
    assert refusal("fd00::7", "fd00::2", AllowList("any"), routes) == ""
    with pytest.raises(ValueError, match="neighbours"):
        AllowList("neighbours")


def test_without_tables_only_loopback_is_let_in_and_without_a_default_route_no_neighbour():
    unknown = Routes([], [], known=False)
    assert (
        refusal("192.0.2.1", "192.0.2.2", AllowList(), unknown) == "cannot read this machine's routing table"
    )
    assert refusal("127.0.0.1", "127.0.0.1", AllowList(), unknown) == ""
    internal = Routes([ipaddress.ip_network("172.30.0.0/24")], [])
    assert refusal("172.30.0.1", "172.30.0.9", AllowList(), internal) != ""
