"""Addresses of targets: their grammar, without a word about which of them are served."""

import pytest

from dkdbg.core import address
from dkdbg.errors import EXIT_USAGE, DkdbgError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("compose://trainer", {"scheme": "compose", "label": "trainer"}),
        ("docker://web-1", {"scheme": "docker", "label": "web-1"}),
        ("local:", {"scheme": "local", "label": "local"}),
        ("local:job", {"scheme": "local", "label": "job"}),
        ("local:/home/me/my -repo", {"scheme": "local", "label": "/home/me/my -repo"}),
        ("127.0.0.1:5678", {"scheme": "endpoint", "label": "127.0.0.1:5678"}),
        ("[::1]:80", {"scheme": "endpoint", "label": "[::1]:80", "host": "::1", "port": 80}),
        ("node4:5678", {"scheme": "endpoint", "label": "node4:5678", "host": "node4", "port": 5678}),
        ("k8s://ns/pod/main", {"label": "ns/pod/main", "parts": ("ns", "pod", "main"), "hops": ("ns",)}),
        ("k8s://ns/pod", {"scheme": "k8s", "parts": ("ns", "pod"), "hops": ("ns",)}),
        ("ray://HEAD:8265", {"scheme": "ray", "label": "HEAD:8265", "host": "HEAD", "port": 8265}),
        ("pbs://login/12.server", {"scheme": "pbs", "label": "login/12.server"}),
        ("ssh://node", {"host": "", "port": 0}),
        ("ssh://me@login,node4", {"parts": ("me@login,node4",), "hops": ("me@login", "node4")}),
        ("slurm://me@a,n4/7", {"parts": ("me@a,n4", "7"), "hops": ("me@a", "n4")}),
    ],
)
def test_an_address_is_written_as_it_is_typed_and_its_parts_hops_host_and_port_are_known(text, expected):
    found = address.parse(text)
    assert str(found) == text
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "trainer", "docker://", "ssh:///x", "k8s://ns//pod", "ssh://a,,b", "host:0", "host:99999", ":5678",
        "endpoint://x", "A b://x", "docker://a b", "docker://a\nb", "local://x",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_forms_there_are(text):
    with pytest.raises(DkdbgError) as caught:
        address.parse(text, forms="docker://CONTAINER or nothing")
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint == "a target is docker://CONTAINER or nothing"


@pytest.mark.parametrize(
    "text", ["docker://-it", "ssh://-oProxyCommand=x", "ssh://login,-oProxyCommand=x", "ssh://me@-x", "k8s://ns/-x", "-x:22"]
)  # fmt: skip
def test_a_name_that_a_program_would_read_as_an_option_is_refused(text):
    with pytest.raises(DkdbgError, match="names no target"):
        address.parse(text)


@pytest.mark.parametrize(("text", "is_name"), [("trainer", True), ("shop-web-1", True), ("", False), ("a/b", False), ("x:1", False), ("-x", False), ("a b", False)])  # fmt: skip
def test_a_name_has_no_scheme(text, is_name):
    assert address.is_name(text) is is_name
