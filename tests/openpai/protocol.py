"""OpenPAI's job protocol as its platform sees it: its schema, and how its server and its runtime make a script of a job.

A stand-in for rest-server's middlewares/v2/protocol.js (checks and rendering) and openpai-runtime's framework_parser.py (the
environment) and user.sh (the shell's options); the schema is theirs.
"""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
from ruamel.yaml import YAML

SCHEMA = jsonschema.Draft7Validator(json.loads((Path(__file__).parent / "schema.json").read_text()))
OPTIONS = "set -o errexit\nset -o nounset\nset -o pipefail\n"


def load(text: str) -> dict[str, Any]:
    """What a job protocol says; AssertionError where the platform would refuse it."""
    job = YAML(typ="safe", pure=True).load(text)
    wrong = [each.message for each in SCHEMA.iter_errors(job)]
    assert not wrong, wrong
    names = [each["name"] for each in job.get("deployments", ())]
    assert len(names) == len(set(names))
    chosen = job.get("defaults", {}).get("deployment")
    assert chosen is None or chosen in names
    return job


def script(text: str, role: str) -> str:
    """What a task of a role runs, as rest-server renders it; secrets are filled in by the runtime."""
    job = load(text)
    commands = job["taskRoles"][role]["commands"]
    chosen = job.get("defaults", {}).get("deployment")
    around = next(
        (each["taskRoles"] for each in job.get("deployments", ()) if each["name"] == chosen), {}
    ).get(role, {})
    whole = [*around.get("preCommands", ()), *commands, *around.get("postCommands", ())]
    rendered = "\n".join(each.strip() for each in whole)
    known = {"$parameters": job.get("parameters", {}), "$secrets": job.get("secrets", {})}

    def value(found: re.Match[str]) -> str:
        return str(known[found[1]][found[2]])

    return OPTIONS + re.sub(r"<% (\$\w+)\.(\w+) %>", value, rendered)


def environment(
    port: int, *, role: str = "worker", host: str = "127.0.0.2", label: str = "debug"
) -> dict[str, str]:
    """What the runtime exports for task 0 of a role that has asked for one port, as far as debugging is concerned."""
    return {
        "PAI_CURRENT_TASK_ROLE_NAME": role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "PAI_TASK_INDEX": "0",
        f"PAI_HOST_IP_{role}_0": host,
        f"PAI_PORT_LIST_{role}_0_ssh": "1",
        f"PAI_PORT_LIST_{role}_0_http": "2",
        f"PAI_PORT_LIST_{role}_0_{label}": str(port),
        "PAI_CONTAINER_HOST_IP": host,
        f"PAI_CONTAINER_HOST_{label}_PORT_LIST": str(port),
    }
