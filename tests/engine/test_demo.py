"""`dkdbg demo` in a container leaves the engine and the disk as they were."""

import re

import pytest

from tests.checkout import run_dkdbg, snapshot
from tests.engine.attach_proxies import docker

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("port-5678")]


def left_by(done):
    """Containers, images, networks and volumes of the engine that are called after the folder of this demo."""
    said = re.search(r"dkdbg-demo-[0-9a-f]{8}", done.stdout + done.stderr)
    assert said, done.stdout + done.stderr
    name = said.group()
    found = []
    for kind in (["ps", "-a", "--format", "{{.Names}}"], ["images", "--format", "{{.Repository}}"],
                 ["network", "ls", "--format", "{{.Name}}"], ["volume", "ls", "--format", "{{.Name}}"]):  # fmt: skip
        listed = docker(*kind)
        found += [line for line in listed.splitlines() if name in line]
    return found


def test_it_passes_and_leaves_nothing(tmp_path, base_image):
    place = tmp_path / "tmp"
    place.mkdir()
    env = {"TMPDIR": str(place), "DKDBG_BASE": base_image}
    done = run_dkdbg(tmp_path, "demo", "--on", "compose", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rate = 0.05\n" in done.stdout
    assert "demo passed on compose://" in done.stdout
    assert left_by(done) == []
    assert snapshot(place) == {}


def test_a_base_image_that_cannot_be_had_is_an_error_that_leaves_nothing(tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    env = {"TMPDIR": str(place), "DKDBG_BASE": "localhost:1/no/such:image"}
    done = run_dkdbg(tmp_path, "demo", "--on", "compose", env=env)
    assert done.returncode != 0
    assert "base image" in done.stderr
    assert "DKDBG_BASE" in done.stderr
    assert left_by(done) == []
    assert snapshot(place) == {}
