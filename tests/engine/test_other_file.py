"""A service of a compose file that plain `docker compose` does not read: what it needs of that file comes with it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.projects import dkdbg, must, repo

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

FILES = {
    "Dockerfile": "FROM python:3.11\nWORKDIR /code\nCOPY . .\n",
    "train.py": "print(1)\n",
    "key": "k",
    "docker/key": "k",
}
APP = """\
services:
  app:
    build: {context}
    command: python train.py
    volumes: ["cache:/cache", "./key:/plain", {{type: volume, source: scratch, target: /scratch}}, "/anonymous"]
    networks: {{inner: {{aliases: [trainer]}}}}
    secrets: [key]
    configs: [{{source: conf, target: /conf}}]
"""
PARTS = """\
volumes: {cache: {labels: {of: "${OWNER:-nobody}"}}, scratch: , unused: , kept: {labels: {of: db}}}
networks: {inner: {internal: true}, unused: }
secrets: {key: {file: key}, unused: {file: nowhere}}
configs: {conf: {file: ./key}}
"""
DEPENDS = "    depends_on: [db]\n"
DB = "  db: {image: postgres, volumes: ['kept:/data'], depends_on: [key-server], env_file: not-there.env}\n  key-server: {image: vault}\n"


def config(root: Path, *flags: str) -> Any:
    """What compose makes of the repository."""
    words = ["docker", "compose", *flags, "config", "--format", "json"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def made(tmp_path):
    def make(files: dict[str, str]) -> tuple[Path, str]:
        root = repo(tmp_path / "repo", {**FILES, **files})
        before = config(root) if "compose.yaml" in files else None
        said = must(dkdbg(root, "init", "--yes")).stdout
        if before is not None:
            assert config(root) == before
        return root, said

    return make


def test_networks_volumes_configs_and_secrets_of_a_file_in_a_subfolder_come_with_it(made):
    root, _ = made({"docker/compose.yaml": APP.format(context="..") + PARTS})
    found = config(root, "--profile", "debug")
    service = found["services"]["app-debug"]
    assert service["networks"] == {"inner": {"aliases": ["trainer"]}}
    assert {"cache", "scratch"} <= {each.get("source") for each in service["volumes"]}
    assert found["networks"]["inner"]["internal"] is True
    assert found["volumes"]["cache"]["labels"] == {"of": "nobody"}
    assert [found[section][name]["file"] for section, name in (("secrets", "key"), ("configs", "conf"))] == [
        str(root / "docker/key")
    ] * 2
    assert not [section for section in ("networks", "volumes", "secrets") if "unused" in found[section]]
    written = (root / "compose.yaml").read_text()
    assert '"${OWNER:-nobody}"' in written


def test_what_the_compose_file_in_the_root_has_under_the_same_name_stays_as_it_is(made):
    main = (
        "services: {db: {image: postgres, volumes: ['cache:/c']}}\nvolumes: {cache: {labels: {of: root}}}\n"
    )
    root, _ = made({"compose.yaml": main, "compose-train.yaml": APP.format(context=".") + PARTS})
    found = config(root, "--profile", "debug")
    assert found["volumes"]["cache"]["labels"] == {"of": "root"}
    assert "scratch" in found["volumes"]


@pytest.mark.parametrize("file", ["docker/compose.yaml", "compose-train.yaml"])
@pytest.mark.parametrize(
    "main", [{}, {"compose.yaml": "services: {web: {image: nginx, ports: ['8080:80']}}\n"}]
)
def test_what_it_depends_on_comes_with_it_and_starts_with_the_debug_service_alone(made, file, main):
    context = ".." if "/" in file else "."
    root, _ = made({**main, file: APP.format(context=context) + DEPENDS + DB + PARTS})
    if main:
        assert list(config(root)["services"]) == ["web"]
    found = config(root, "--profile", "debug")
    assert list(found["services"]["app-debug"]["depends_on"]) == ["db"]
    assert found["services"]["db"]["image"] == "postgres"
    assert found["services"]["key-server"]["image"] == "vault"
    assert found["volumes"]["kept"]["labels"] == {"of": "db"}


def test_a_file_that_itself_includes_what_is_depended_on_is_included(made):
    app = APP.format(context="..") + DEPENDS + PARTS + "include: [db.yaml]\n"
    root, _ = made({"docker/compose.yaml": app, "docker/db.yaml": "services: {db: {image: postgres}}\n"})
    found = config(root, "--profile", "debug")
    assert found["services"]["db"]["image"] == "postgres"


@pytest.mark.parametrize("gpu", ["", "    gpus: all\n"])
def test_it_runs_without_what_cannot_be_read_beside_the_compose_file_in_the_root_and_that_is_said(made, gpu):
    main = "services: {db: {image: mariadb}}\n"
    root, said = made(
        {"compose.yaml": main, "compose-train.yaml": APP.format(context=".") + gpu + DEPENDS + DB + PARTS}
    )
    found = config(root, "--profile", "debug")
    assert "depends_on" not in found["services"]["app-debug"]
    assert "runs without db: " in said
