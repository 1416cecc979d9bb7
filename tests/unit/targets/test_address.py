"""Addresses of targets: their grammar, without a word about which of them are served."""

from __future__ import annotations

import pytest

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets import address


@pytest.mark.parametrize(
    ("text", "scheme", "label"),
    [
        ("compose://trainer", "compose", "trainer"),
        ("docker://web-1", "docker", "web-1"),
        ("local:", "local", "local"),
        ("local:job", "local", "job"),
        ("local:/home/me/my -repo", "local", "/home/me/my -repo"),
        ("127.0.0.1:5678", "endpoint", "127.0.0.1:5678"),
        ("[::1]:5678", "endpoint", "[::1]:5678"),
        ("node4:5678", "endpoint", "node4:5678"),
        ("k8s://ns/pod/main", "k8s", "ns/pod/main"),
        ("ray://HEAD:8265", "ray", "HEAD:8265"),
        ("pbs://login/12.server", "pbs", "login/12.server"),
    ],
)
def test_what_a_person_types_is_an_address_and_is_written_the_same(
    text: str, scheme: str, label: str
) -> None:
    found = address.parse(text)
    assert (found.scheme, found.label, str(found)) == (scheme, label, text)


@pytest.mark.parametrize(
    ("text", "parts", "hops"),
    [
        ("k8s://ns/pod/main", ("ns", "pod", "main"), ("ns",)),
        ("k8s://ns/pod", ("ns", "pod"), ("ns",)),
        ("ssh://me@login,node4", ("me@login,node4",), ("me@login", "node4")),
        ("slurm://me@login,node4/4711", ("me@login,node4", "4711"), ("me@login", "node4")),
    ],
)
def test_parts_stand_between_slashes_and_hops_between_commas(
    text: str, parts: tuple[str, ...], hops: tuple[str, ...]
) -> None:
    found = address.parse(text)
    assert (found.parts, found.hops) == (parts, hops)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("node4:5678", "node4", 5678),
        ("[::1]:80", "::1", 80),
        ("ray://HEAD:8265", "HEAD", 8265),
        ("ssh://node", "", 0),
    ],
)
def test_host_and_port_are_known(text: str, host: str, port: int) -> None:
    found = address.parse(text)
    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "", "trainer", "docker://", "ssh:///x", "k8s://ns//pod", "ssh://a,,b", "host:0", "host:99999", ":5678",
        "endpoint://x", "A b://x", "docker://a b", "docker://a\nb", "local://x",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(DkdbgError) as caught:
        address.parse(text, forms="docker://CONTAINER or nothing")
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint == "a target is docker://CONTAINER or nothing"


@pytest.mark.parametrize(
    "text", ["docker://-it", "ssh://-oProxyCommand=x", "ssh://login,-oProxyCommand=x", "ssh://me@-x", "k8s://ns/-x", "-x:22"]
)  # fmt: skip
def test_a_name_that_a_program_would_read_as_an_option_is_refused(text: str) -> None:
    with pytest.raises(DkdbgError, match="names no target"):
        address.parse(text)


@pytest.mark.parametrize(("text", "is_name"), [("trainer", True), ("shop-web-1", True), ("", False), ("a/b", False), ("x:1", False), ("-x", False), ("a b", False)])  # fmt: skip
def test_a_name_has_no_scheme(text: str, is_name: bool) -> None:
    assert address.is_name(text) is is_name
