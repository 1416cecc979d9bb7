"""Build manifests with kubectl's kustomize, without querying a cluster."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dkdbg import process
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.kubernetes import kubectl
from dkdbg.targets.kubernetes.kubectl_errors import not_built
from dkdbg.targets.kubernetes.kustomization import NAMES
from dkdbg.targets.kubernetes.overlay import AGENT_FOLDER
from dkdbg.targets.kubernetes.pod import BadPod, object_of
from dkdbg.targets.kubernetes.pod_copy import AGENT_FILE
from dkdbg.targets.kubernetes.workload import TITLE

#: Timeout for one build, and maximum bytes of its result.
_BUILD_TIMEOUT_S, _MAX_RESULT_BYTES = 60.0, 64 << 20
#: Maximum characters of one object's YAML: its parser needs a minute for them.
_MAX_YAML_CHARS = 500_000
_BETWEEN = re.compile(r"^---$", re.MULTILINE)
_KIND = re.compile(rf"^kind: (?:{'|'.join(TITLE.values())})$", re.MULTILINE)


def render(folder: Path, shown: str, *, is_file: bool = False) -> list[dict[str, Any]]:
    """Return the objects with pods that kustomize builds from a folder.

    Args:
        shown: the folder, as the user names it.
        is_file: `shown` is a file, the only one in a temporary folder.

    Raises:
        DkdbgError: kubectl is not installed, or kustomize cannot build the folder.
    """
    done = process.read(
        (kubectl.program(), "kustomize", str(folder)), most=_MAX_RESULT_BYTES, timeout=_BUILD_TIMEOUT_S
    )
    if done.code:
        raise not_built(shown, done.stderr.replace(str(folder), shown), is_file=is_file)
    texts = [each for each in _BETWEEN.split(done.stdout) if _KIND.search(each)]
    try:
        if any(len(each) > _MAX_YAML_CHARS for each in texts):
            raise BadPod(f"an object of more than {_MAX_YAML_CHARS} characters")
        return [object_of(YAML(typ="safe", pure=True).load(each)) for each in texts]
    except (YAMLError, BadPod, RecursionError, ValueError) as error:
        raise not_built(shown, str(error), is_file=is_file) from error


def render_file(content: bytes, shown: str) -> list[dict[str, Any]]:
    """Build a single manifest; see `render`. Raises DkdbgError: as `render`."""
    with tempfile.TemporaryDirectory(prefix="dkdbg-") as made:  # private: it may contain secrets
        folder = Path(made)
        name = "manifest.json" if shown.endswith(".json") else "manifest.yaml"
        (folder / name).write_bytes(content)
        (folder / NAMES[0]).write_text(f"resources: [{name}]\n", "utf-8")
        return render(folder, shown, is_file=True)


def namespace() -> str:
    """Return the namespace that kubectl uses by default."""
    words = ("config", "view", "--minify", "--output=jsonpath={..namespace}")
    done = process.read((kubectl.program(), *words), most=1 << 16, timeout=_BUILD_TIMEOUT_S)
    return (done.stdout.strip() if done.code == 0 else "") or "default"


def agent_of(folder: Path, *, hint: str) -> bytes:
    """Return the single file of an overlay.

    Args:
        hint: how to create a missing file.

    Raises:
        DkdbgError: it is missing.
    """
    agent = folder.parent / PurePosixPath(AGENT_FOLDER).name / AGENT_FILE
    try:
        return agent.read_bytes()
    except OSError as error:
        raise DkdbgError(
            f"cannot read {agent}: {error.strerror}",
            hint=hint,
            exit_code=EXIT_USAGE,
        ) from error
