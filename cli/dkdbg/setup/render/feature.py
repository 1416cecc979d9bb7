"""The dev container Feature that puts the agent into an image: for dev containers that run no compose service."""

from __future__ import annotations

from dkdbg.delivery.single_file import NAME
from dkdbg.repository.artefacts import artefact

#: Folder below `.devcontainer/`; a local Feature's folder must be called as its id.
FOLDER = "dkdbg"
#: What devcontainer.json says under `features` to use it.
REFERENCE = f"./{FOLDER}"
_FILES = ("devcontainer-feature.json", "install.sh")


def feature_files(single_file: bytes) -> dict[str, bytes]:
    """Return the Feature with the agent inside: path below `.devcontainer/dkdbg/` -> bytes.

    `install.sh` needs no x bit: whatever builds a dev container gives it one.

    Args:
        single_file: the agent, as `delivery.single_file.build` makes it.

    Raises:
        DkdbgError: the installation is incomplete.
    """
    feature = artefact("devcontainer", "feature/src/dkdbg")
    return {**{name: feature.joinpath(name).read_bytes() for name in _FILES}, NAME: single_file}
