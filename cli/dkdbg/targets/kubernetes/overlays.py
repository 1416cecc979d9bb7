"""Build manifests with kubectl's kustomize, without querying a cluster."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dkdbg import process
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.kubernetes import kubectl
from dkdbg.targets.kubernetes.kubectl_errors import not_built
from dkdbg.targets.kubernetes.kustomization import NAMES, Kustomization
from dkdbg.targets.kubernetes.overlay import AGENT_FOLDER
from dkdbg.targets.kubernetes.pod import BadPod, object_of
from dkdbg.targets.kubernetes.pod_copy import AGENT_FILE
from dkdbg.targets.kubernetes.workload import TITLE

#: Timeout for one build, and maximum bytes of its result.
_BUILD_TIMEOUT_S, _MAX_RESULT_BYTES = 60.0, 64 << 20
#: Maximum characters of one object's YAML, and of a build's kustomizations: their parser needs a minute for them.
_MAX_YAML_CHARS = 500_000
#: Maximum values of a kustomization, with its aliases expanded.
_MAX_VALUES = 100_000
_BETWEEN = re.compile(r"^---$", re.MULTILINE)
#: Environment that keeps a build offline: Git rejects every protocol, and Go sends HTTP to a port that nothing
#: can listen on.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_OFFLINE = {
    "GIT_ALLOW_PROTOCOL": "none",
    "NO_PROXY": "",
    "no_proxy": "",
    **dict.fromkeys(_PROXIES, "http://127.0.0.1:0"),
}
_KIND = re.compile(rf"^kind: (?:{'|'.join(TITLE.values())})$", re.MULTILINE)


def render(folder: Path, shown: str, *, is_file: bool = False) -> list[dict[str, Any]]:
    """Return the objects with pods that kustomize builds from a folder.

    Args:
        shown: the folder, as the user names it.
        is_file: `shown` is a file, the only one in a temporary folder.

    Raises:
        DkdbgError: kubectl is not installed, or kustomize cannot build the folder, or would fetch or run something.
    """
    _check(folder, shown)
    done = process.read(
        (kubectl.program(), "kustomize", str(folder)), max_bytes=_MAX_RESULT_BYTES, timeout=_BUILD_TIMEOUT_S,
        env={**os.environ, **_OFFLINE},
    )  # fmt: skip
    if done.code:
        raise not_built(shown, done.stderr.replace(str(folder), shown), is_file=is_file)
    texts = [each for each in _BETWEEN.split(done.stdout) if _KIND.search(each)]
    try:
        if any(len(each) > _MAX_YAML_CHARS for each in texts):
            raise BadPod(f"an object of more than {_MAX_YAML_CHARS} characters")
        return [object_of(YAML(typ="safe", pure=True).load(each)) for each in texts]
    except (YAMLError, BadPod, RecursionError, ValueError) as error:
        raise not_built(shown, str(error), is_file=is_file) from error


def _check(folder: Path, shown: str) -> None:
    """Raise DkdbgError unless a build reads only local files: kustomize can fetch URLs and clone repositories."""
    first = folder.resolve()
    waiting, seen, left = [first], {first}, _MAX_YAML_CHARS
    while waiting:
        inside = waiting.pop()
        named = os.path.normpath(Path(shown, os.path.relpath(inside, first)))
        found = [inside / each for each in NAMES if (inside / each).is_file()]
        if not found:
            raise not_built(shown, f"{named} has no {NAMES[0]}", is_file=False)
        for path in found:
            about = f"{named}/{path.name}"
            try:
                raw = _read(path, left)
                document = object_of(YAML(typ="safe", pure=True).load(raw.decode()))
                _check_size(document, _MAX_VALUES)
                kustomization = Kustomization.of(document)
            except (OSError, YAMLError, BadPod, RecursionError, ValueError) as error:
                raise _refused(
                    f"{about} cannot be read: {printable(' '.join(str(error).split()))}", shown
                ) from error
            left -= len(raw)
            _check_offline(kustomization, about, shown)
            for each in (*kustomization.refers_to, *kustomization.files):
                real = _existing(inside / each)
                if real is None or (real.is_dir() and each not in kustomization.refers_to):
                    raise not_built(shown, f"{about} refers to {each}, which does not exist", is_file=False)
                if real.is_dir() and real not in seen:
                    seen.add(real)
                    waiting.append(real)


def _existing(path: Path) -> Path | None:
    """Return the file or folder that a path leads to; None if it does not exist."""
    try:
        found = Path(os.path.normpath(path)).resolve()  # kustomize removes `..` before it follows links
        return found if found.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long a name, a link to itself, or a NUL
        return None


def _read(path: Path, max_bytes: int) -> bytes:
    """Read a kustomization. Raises BadPod: more than `max_bytes` bytes, or ambiguous; OSError, ValueError."""
    with path.open("rb") as file:
        raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise BadPod(f"more than {_MAX_YAML_CHARS} bytes")
    if re.search("[\x85\u2028\u2029]", raw.decode()):  # a line break for Go's parser only
        raise BadPod("a line break that YAML parsers read differently")
    return raw


def _check_size(value: object, left: int) -> int:
    """Return `left` minus the number of values nested in `value`. Raises BadPod: there are more."""
    if left < 0:
        raise BadPod(f"more than {_MAX_VALUES} values")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        left = _check_size(each, left - 1)
    return left


def _check_offline(found: Kustomization, about: str, shown: str) -> None:
    """Raise DkdbgError if a kustomization fetches something, or runs a program."""
    if found.remote:
        raise _refused(f"{about} fetches {printable(found.remote[0])}, which dkdbg never does", shown)
    if found.runs:
        flag = "--enable-helm " if found.runs.startswith("helm") else ""
        raise _refused(f"{about} has {printable(found.runs)}, which dkdbg never runs", shown, flag)


def _refused(what: str, shown: str, flag: str = "") -> DkdbgError:
    """Return the error for a folder that dkdbg does not let kustomize build."""
    hint = f"kubectl kustomize {flag}{shlex.quote(shown)} > k8s.yaml, then dkdbg init --k8s --from k8s.yaml"
    return DkdbgError(what, hint=hint, exit_code=EXIT_USAGE)


def render_file(content: bytes, shown: str) -> list[dict[str, Any]]:
    """Return the objects with pods in a single manifest; see `render`. Raises DkdbgError: as `render`."""
    with tempfile.TemporaryDirectory(prefix="dkdbg-") as made:  # private: it may contain secrets
        folder = Path(made)
        name = "manifest.json" if shown.endswith(".json") else "manifest.yaml"
        (folder / name).write_bytes(content)
        (folder / NAMES[0]).write_text(f"resources: [{name}]\n", "utf-8")
        return render(folder, shown, is_file=True)


def namespace() -> str:
    """Return the namespace that kubectl uses by default."""
    arguments = ("config", "view", "--minify", "--output=jsonpath={..namespace}")
    done = process.read((kubectl.program(), *arguments), max_bytes=1 << 16, timeout=_BUILD_TIMEOUT_S)
    return (done.stdout.strip() if done.code == 0 else "") or "default"


def agent_of(folder: Path, *, hint: str) -> bytes:
    """Return the agent (`agent.pyz`) of an overlay.

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
