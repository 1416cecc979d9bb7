"""A container by its name, with a stand-in for the docker command."""

import json
import os
import sys

from tests.commands import command, executable

INSPECTED = {
    "Id": "0123456789abcdef", "Name": "/job", "Created": "2026-01-01T00:00:00Z", "ExecIDs": ["feed"],
    "State": {"Running": True}, "HostConfig": {"NetworkMode": "bridge"},
    "NetworkSettings": {"Ports": {}, "Networks": {}},
    "Config": {"Labels": {}, "Env": [], "WorkingDir": "/ws"},
}  # fmt: skip
LOOKS = """
import sys
from pathlib import Path
from dkdbg.targets import registry
place = registry.target_of("docker://job", Path("/"))
print(place.find().label, place.workspace().remote, *place.wrap(["true"]), "docker.api" in sys.modules)
"""


def test_a_container_in_which_somebody_has_a_shell_is_found_without_the_sdk(tmp_path):
    """It takes a third of a second to load, and who syncs does not want to know whose session is in there."""
    executable(tmp_path / "docker", f"cat <<'END'\n{json.dumps([INSPECTED])}\nEND")
    found = command([sys.executable, "-c", LOOKS], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert found.stdout.split() == [
        "docker://job", "/ws", "docker", "exec", "-i", "0123456789abcdef", "true", "False",
    ]  # fmt: skip
