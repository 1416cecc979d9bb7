"""Addresses of targets, and which container one names now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets import address
from dkdbg.targets.sessions import LabelledContainer, container_of

ROOT = Path("/home/me/repo")


def container(name: str, **more: Any) -> LabelledContainer:
    values: dict[str, Any] = {
        "id": "abc" * 20, "name": name, "label": "web-debug", "running": True, "host_network": False, "published": {},
        "service": "web-debug", "project_dir": str(ROOT), "created": "2026-01-01",
    }  # fmt: skip
    return LabelledContainer(**{**values, **more})


@pytest.mark.parametrize(
    ("text", "kind", "label"),
    [
        ("compose://trainer", "compose", "trainer"),
        ("docker://web-1", "docker", "web-1"),
        ("local:", "local", "local"),
        ("local:job", "local", "job"),
        ("127.0.0.1:5678", "endpoint", "127.0.0.1:5678"),
        ("[::1]:5678", "endpoint", "::1:5678"),
        ("node4:5678", "endpoint", "node4:5678"),
    ],
)
def test_what_a_person_types_is_an_address(text: str, kind: str, label: str) -> None:
    found = address.parse(text)
    assert (found.kind, found.label) == (kind, label)


@pytest.mark.parametrize(
    "text", ["", "trainer", "docker://", "ssh://x", "compose://a/b", "host:0", "host:99999", ":5678"]
)
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(DkdbgError) as caught:
        address.parse(text)
    assert caught.value.exit_code == EXIT_USAGE
    assert "docker://CONTAINER" in caught.value.hint


def test_a_service_of_the_users_stands_for_its_debug_service_in_this_project_only() -> None:
    mine, foreign = container("mine"), container("foreign", project_dir="/home/me/other")
    wanted = address.parse("compose://web")
    assert address.container_for(wanted, [foreign, mine], ROOT) is mine
    assert address.container_for(wanted, [foreign], ROOT) is None


def test_a_running_container_goes_before_one_that_has_ended_and_the_newest_first() -> None:
    ended = container("ended", running=False, created="2026-03-01")
    old, new = container("old"), container("new", created="2026-02-01")
    wanted = address.parse("compose://web-debug")
    assert address.container_for(wanted, [ended, old, new], ROOT) is new
    assert address.container_for(wanted, [ended], ROOT) is ended


def test_a_container_is_named_by_its_name_or_the_beginning_of_its_id() -> None:
    one = container("web-1", project_dir="", service="")
    for name in ("web-1", "abcabcabc"):
        assert address.container_for(address.parse(f"docker://{name}"), [one], ROOT) is one
    assert address.container_for(address.parse("docker://abc"), [one], ROOT) is None


@pytest.mark.parametrize(
    ("more", "endpoint"),
    [
        ({"published": {5678: "0.0.0.0:6000"}}, ("127.0.0.1", 6000)),
        ({"published": {5678: ":::6000"}}, ("::1", 6000)),
        ({"published": {80: "127.0.0.1:80"}, "address": "172.17.0.2"}, ("172.17.0.2", 5678)),
        ({"host_network": True, "port": 5680}, ("127.0.0.1", 5680)),
        ({"published": {5678: "127.0.0.1:6000"}, "running": False}, None),
        ({}, None),
    ],
)
def test_the_endpoint_is_the_published_port_else_the_containers_own(
    more: dict[str, Any], endpoint: Any
) -> None:
    assert address.endpoint_of(container("web-1", **more)) == endpoint


def test_inspect_says_service_project_port_and_address() -> None:
    labels = {
        "dev.dkdbg.session": "web-debug", "com.docker.compose.service": "web-debug",
        "com.docker.compose.project.working_dir": "/home/me/repo",
    }  # fmt: skip
    found = container_of(
        {
            "Id": "a", "Name": "/x", "Created": "2026", "Config": {"Labels": labels, "Env": ["A=1", "DKDBG_PORT=5690"]},
            "State": {"Running": True}, "HostConfig": {"NetworkMode": "n"},
            "NetworkSettings": {"Ports": {}, "Networks": {"n": {"IPAddress": "172.18.0.3"}}},
        }
    )  # fmt: skip
    assert (found.service, found.project_dir, found.port, found.address) == (
        "web-debug", "/home/me/repo", 5690, "172.18.0.3",
    )  # fmt: skip
