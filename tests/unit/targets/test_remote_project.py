"""What compose is given for an engine that sees no file of this machine."""

import json

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets.docker.remote_project import FROM, remote_project

ROOT = "/home/me/repo"


def model(*volumes, secrets=(), **more):
    """A project as `docker compose config` writes one, with these binds `(source, target)` at its debug service."""
    mappings = json.dumps([{"localRoot": "$${workspaceFolder}", "remoteRoot": "/workspace"}])
    debug = {
        "environment": {"DKDBG_MAPPINGS": mappings},
        "ports": [{"target": 5678, "published": "5678"}, {"target": 8000, "published": "8000"}],
        "volumes": [
            bind(f"{ROOT}/.dkdbg", "/opt/dkdbg"),
            bind(ROOT, "/workspace"),
            bind(f"{ROOT}/.dkdbg", "/workspace/.dkdbg"),
            *volumes,
        ],
        "secrets": [{"source": each} for each in secrets],
        "depends_on": {"db": {"condition": "service_started"}},
    }
    known = {"dkdbg-token": {"file": f"{ROOT}/compose.yaml"}, "key": {"file": f"{ROOT}/key.pem"}, "dkdbg-token-set": {"environment": "DKDBG_TOKEN"}}  # fmt: skip
    return {"name": "repo", "secrets": known, "services": {"debug": debug, "db": {"volumes": []}, **more}}


def bind(source, target):
    return {"type": "bind", "source": source, "target": target, "bind": {"create_host_path": True}}


def far(given):
    return remote_project(given, "debug", 5678, root=ROOT, owner="me@laptop:/home/me/repo")


def test_the_workspace_is_a_volume_of_one_person_and_the_agent_no_mount():
    found = far(model())
    (mount,) = found.model["services"]["debug"]["volumes"]
    (filled,) = found.filled
    assert (mount["type"], mount["target"], mount["volume"]) == ("volume", "/workspace", {"nocopy": True})
    assert found.model["volumes"][mount["source"]] == {"name": filled.volume}
    assert (filled.local, filled.remote) == (".", "/workspace")
    other = remote_project(model(), "debug", 5678, root=ROOT, owner="anna@laptop:/home/me/repo")
    assert other.filled[0].volume != far(model()).filled[0].volume


def test_the_debug_port_is_published_nowhere_all_says_whose_it_is_and_a_folder_there_has_to_be_there():
    assert [each["target"] for each in far(model()).model["services"]["debug"]["ports"]] == [8000]
    found = far(model(other={"volumes": []})).model["services"]
    assert [FROM in found[each].get("labels", {}) for each in ("debug", "db", "other")] == [True, True, False]
    mount = far(model(bind("/data", "/data"))).model["services"]["debug"]["volumes"][1]
    assert (mount["source"], mount["bind"]["create_host_path"]) == ("/data", False)
    assert far(model(other={"volumes": [bind(f"{ROOT}/data", "/data")]})).filled


@pytest.mark.parametrize(
    "given",
    [
        model(bind(f"{ROOT}/data", "/data")),
        model(db={"volumes": [bind(f"{ROOT}/init.sql", "/init.sql")]}),
        model(secrets=["key"]),
    ],
    ids=["of the debug service", "of what it depends on", "as a secret"],
)
def test_what_would_be_empty_there_is_refused(given):
    with pytest.raises(DkdbgError, match=r"lacks these local files that are mounted: (debug|db) "):
        far(given)


def test_a_service_that_the_project_lacks_is_named():
    with pytest.raises(DkdbgError, match="no service app-debug"):
        remote_project(model(), "app-debug", 5678, root=ROOT, owner="me")


def test_a_token_travels_without_what_stands_in_for_none_and_the_given_project_is_not_changed():
    found = far(model(secrets=["dkdbg-token", "dkdbg-token-set"])).model["services"]["debug"]
    assert found["secrets"] == [{"source": "dkdbg-token-set"}]
    given = model()
    before = json.dumps(given)
    far(given)
    assert json.dumps(given) == before
