"""Profiles of the user's services: `--profile debug` takes the place of those that he names, and his files stay as they are.

A start of such services: test_breakpoints.py.
"""

import json

import pytest

from tests.engine.projects import command, dkdbg, must, repo

pytestmark = pytest.mark.engine

WEB = "  web: {image: IMAGE, working_dir: /w, volumes: ['.:/w'], command: [python3, train.py], depends_on: DEPENDS}\n"
STORE = "  store: {image: IMAGE, command: [sleep, infinity], profiles: [local]}\n"
QUEUE = "  queue: {image: IMAGE, command: [sleep, infinity], profiles: [more], depends_on: [store]}\n"


def compose(depends, *more):
    return "services:\n" + WEB.replace("DEPENDS", depends) + "".join(more)


def config(root, *flags, profiles=""):
    """The services that compose would know; empty where it refuses them."""
    words = ["docker", "compose", *flags, "config", "--format", "json"]
    done = command(words, root, env={"COMPOSE_PROFILES": profiles}, check=False)
    return json.loads(done.stdout)["services"] if done.returncode == 0 else {}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"compose.yaml": compose("[queue]", QUEUE, STORE)}, {"queue", "store"}),
        ({"compose.yaml": compose("{store: {condition: service_started, required: false}}", STORE)}, set()),
        ({"compose.yaml": compose("[store]", STORE.replace("local", "debug"))}, {"store"}),
        ({"compose.yaml": compose("[]", STORE), "compose.override.yaml": "services: {web: {depends_on: [store]}}\n"}, {"store"}),
        ({"compose.yaml": compose("[store]", STORE.replace(", profiles: [local]", "")), "compose.override.yaml": "services: {store: {profiles: [local]}}\n"}, {"store"}),
    ],
)  # fmt: skip
def test_what_others_cannot_be_without_is_in_our_profiles_too_and_the_users_own_stays(tmp_path, files, found):
    root = repo(tmp_path / "repo", {"train.py": "print(1)\n", **files})
    profiles = ("", "local,more") if "more" in files["compose.yaml"] else ("", "local")
    before = [config(root, profiles=each) for each in profiles]
    must(dkdbg(root, "init", "--yes"))
    for flag, name in (("debug", "web-debug"), ("devcontainer", "web-debug-devcontainer")):
        assert config(root, "--profile", flag).keys() - {"web"} == {name, *found}
    after = [config(root, profiles=each) for each in profiles]
    assert [each.keys() for each in after] == [each.keys() for each in before]
    assert [each.get("web") for each in after] == [each.get("web") for each in before]
    must(dkdbg(root, "init", "--check"))


def test_a_service_of_a_file_in_a_subfolder_starts_though_one_of_the_root_needs_a_profile(tmp_path):
    other = "services:\n  job: {image: IMAGE, working_dir: /w, volumes: ['..:/w'], command: [python3, train.py]}\n"
    files = {
        "train.py": "print(1)\n",
        "compose.yaml": compose("[store]", STORE),
        "docker/compose.yaml": other,
    }
    root = repo(tmp_path / "repo", files)
    must(dkdbg(root, "init", "--yes", "--service", "job"))
    assert config(root, "--profile", "debug").keys() == {"job-debug", "web", "store"}
