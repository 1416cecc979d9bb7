"""Record what dkdbg has written, in `.dkdbg/manifest.json`, which is committed with the files.

Digests tell generated files from edited ones. dkdbg's entries in the user's own files are stored as last written, so
that a merge can tell them from the user's changes. The debug service is stored, so that `up` and `down` need not
inspect the repository again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.agent.dap.messages import as_dict
from dkdbg.core import config as configuration
from dkdbg.core.compose_names import is_name
from dkdbg.core.plan import DebugService
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository import folders
from dkdbg.repository.transaction import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: dkdbg's own folder in the user's repository.
FOLDER = PurePosixPath(".dkdbg")
MANIFEST = FOLDER / "manifest.json"
CONFIG = PurePosixPath(configuration.FILE_NAME)
GITIGNORE = FOLDER / ".gitignore"
GITIGNORE_TEXT = (
    b"# What `dkdbg init --undo` needs concerns this checkout alone.\n/undo.json\n/.undo.json.*\n"
)

_VERSION = 1


def digest(data: bytes) -> str:
    """Return the sha256 of a generated file, the same for LF and CRLF, which git converts (core.autocrlf)."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of the manifest.

    Attributes:
        files: generated file -> digest of its last written version.
        metadata: file -> JSON object with further data, for files that have any.
    """

    files: Mapping[PurePosixPath, str]
    metadata: Mapping[PurePosixPath, Mapping[str, object]]


def load(root: Path) -> Manifest:
    """Return the manifest; an empty one if the file is missing.

    Raises:
        DkdbgError: the manifest cannot be read.
    """
    data = read(root, MANIFEST)
    if data is None:
        return Manifest(files={}, metadata={})
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        return Manifest(
            files={folders.checked(path): str(sha256) for path, sha256 in content["files"].items()},
            metadata={folders.checked(path): dict(note) for path, note in content.get("notes", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DkdbgError) as error:
        raise DkdbgError(
            f"{MANIFEST} cannot be read: {error}",
            hint="Restore it from git, or remove it: dkdbg then treats all files as yours and overwrites none.",
            exit_code=EXIT_CONFLICT,
        ) from error


def dump(manifest: Manifest) -> bytes:
    """Return the manifest as bytes: a line for each file, sorted, so that git can merge it."""
    files = {str(path): manifest.files[path] for path in sorted(manifest.files)}
    metadata = {str(path): manifest.metadata[path] for path in sorted(manifest.metadata)}
    return json.dumps({"version": _VERSION, "files": files, "notes": metadata}, indent=2).encode() + b"\n"


def service_metadata(
    service: DebugService,
    config: bytes,
    *,
    included_by: str,
    reads: Mapping[str, str],
    inherited: Mapping[str, tuple[str, ...]],
) -> dict[str, object]:
    """Return the metadata to store for the debug service's compose file.

    Args:
        config: bytes of the dkdbg.toml by which the service was planned.
        included_by: file through which compose reads the compose file, relative to the root.
        reads: file that defines the service's image -> its sha256.
        inherited: base image -> Dockerfile lines that a build inherits from it, for machines without the image.
    """
    return {
        "service": asdict(service),
        "config": _choices(config),
        "included_by": included_by,
        "reads": dict(reads),
        **({"inherited": dict(inherited)} if inherited else {}),
    }


def inherited(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Return base image -> Dockerfile lines that a build inherits from it, as recorded."""
    known = [as_dict(note.get("inherited")) for note in manifest.metadata.values()]
    return {image: _texts(lines) or () for each in known for image, lines in each.items()}


def _choices(config: bytes) -> dict[str, object]:
    """Return the settings in a dkdbg.toml that determine the debug service; tuples become lists, as in JSON."""
    choices = asdict(configuration.parse(configuration.decode(config)))
    del choices["sync"], choices["targets"]
    return as_dict(json.loads(json.dumps(choices)))


def debug_service(root: Path, *, changed: bool = False) -> DebugService | None:
    """Return the debug service that `init` wrote; None if its compose file or dkdbg.toml has changed since.

    Args:
        changed: whether to return it even if one of these files has changed.

    Raises:
        DkdbgError: the manifest or one of these files cannot be read, or dkdbg.toml is invalid.
    """
    manifest = load(root)
    for path, metadata in manifest.metadata.items():
        match metadata:
            case {
                "service": {
                    "name": str() as name, "compose_file": str() as compose_file, "port": int() as port,
                    "gpu": bool() as gpu, "host_network": bool() as host_network,
                    "token": "none" | "env" | "prompt" as token,
                },
                "config": dict() as config,
            } if compose_file == str(path) and is_name(name) and 0 < port < 65536:  # fmt: skip
                service = as_dict(metadata["service"])
                # Manifests of earlier versions have fewer keys.
                if {**_choices(b""), **config} != _choices(read(root, CONFIG) or b"") and not changed:
                    return None
                # Earlier versions wrote only one compose file.
                for each in (path, folders.checked(str(metadata.get("included_by") or path))):
                    present = read(root, each)
                    if (present is None or manifest.files.get(each) != digest(present)) and not changed:
                        return None
                return DebugService(
                    name=name,
                    compose_file=compose_file,
                    port=port,
                    gpu=gpu,
                    host_network=host_network,
                    token=token,
                    inputs=_inputs(root, _texts(service.get("inputs")), metadata.get("reads")),
                    masks=_texts(service.get("masks")) or (),
                    processes=_count(service.get("processes")),
                    needs_gpu=service.get("needs_gpu") is True,
                    image_files=str(service.get("image_files") or ""),
                    as_owner=service.get("as_owner") is not False,
                )
    return None


def _inputs(root: Path, inputs: tuple[str, ...] | None, reads: object) -> tuple[str, ...] | None:
    """Return the image's input files; None if they are unknown, or a file that determines them has changed."""
    if inputs is None or not isinstance(reads, dict):
        return None
    for name, sha256 in reads.items():
        present = read(root, folders.checked(name))
        if present is None or hashlib.sha256(present).hexdigest() != sha256:
            return None
    return tuple(
        name if name == "./" else f"{folders.checked(name)}{'/' * name.endswith('/')}" for name in inputs
    )


def _count(value: object) -> int:
    """Return a number of processes; 0 if it is invalid (the manifest is untrusted) or missing (in earlier versions)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1024 else 0


def _texts(value: object) -> tuple[str, ...] | None:
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(value) if is_list and isinstance(value, list) else None
