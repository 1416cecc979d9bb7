"""Read existing dev containers: their path, and their image, build or service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dkdbg.core.facts import DevcontainerFact
from dkdbg.errors import DkdbgError
from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.values import elements, table
from dkdbg.setup.render import jsonc

if TYPE_CHECKING:
    from dkdbg.setup.detect.files import Tree

_NAME = re.compile(r"\.?devcontainer\.json")
#: Commands that run once when a container is created, before the user can work in it.
_CREATE = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
_INSTALLS = re.compile(r"\b(?:pip3?|uv|poetry|pdm|pipenv|pixi|conda|mamba|make|requirements)\b|\.sh\b")


def read_devcontainers(tree: Tree) -> tuple[DevcontainerFact, ...]:
    """Return the repository's dev containers, the root's first; places as in the specification of devcontainer.json."""
    found: list[DevcontainerFact] = []
    for path in tree.matching(_NAME):
        in_folder = ".devcontainer" in path.split("/")[:-1]
        if is_vendored(path) or not (in_folder or path.endswith(".devcontainer.json")):
            continue
        try:
            document = jsonc.loads(tree.text(path), file=path)
        except DkdbgError as error:
            tree.add_problem(error.message)
            document = {}
        found.append(_read(tree, path, table(document)))
    return tuple(found)


def _read(tree: Tree, path: str, document: dict[str, Any]) -> DevcontainerFact:
    folder = parent(path)
    build = table(document.get("build"))
    dockerfile = build.get("dockerfile") or document.get("dockerFile")
    local = join(folder, str(dockerfile)) if dockerfile else None
    context = join(folder, str(build.get("context") or document.get("context") or "."))
    compose_files = (join(folder, str(name)) for name in elements(document.get("dockerComposeFile")))
    run_args = " ".join(map(str, elements(document.get("runArgs"))))
    wants = bool(re.search(r"--gpus|--runtime[= ]nvidia|nvidia\.com/gpu|/dev/kfd", run_args))
    asked = table(document.get("hostRequirements")).get("gpu")
    return DevcontainerFact(
        path=path,
        dockerfile=local if local is not None and tree.has(local) else None,
        context=context if local is not None else None,
        image=str(document["image"]) if document.get("image") else None,
        compose_files=tuple(name for name in compose_files if name is not None),
        service=str(document["service"]) if document.get("service") else None,
        workspace_folder=str(document["workspaceFolder"]) if document.get("workspaceFolder") else None,
        gpu=wants or asked is True or isinstance(asked, dict),
        installs=any(_INSTALLS.search(str(document.get(key))) for key in _CREATE),
    )
