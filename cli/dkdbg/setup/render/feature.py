"""Build the dev container Feature with the agent, for dev containers without a compose service."""

from __future__ import annotations

from dkdbg.delivery.single_file import NAME
from dkdbg.repository.artefacts import artefact

#: Folder below `.devcontainer/`; a local Feature's folder must be named after its id.
FOLDER = "dkdbg"
_FILES = ("devcontainer-feature.json", "install.sh")


def feature_files(single_file: bytes) -> dict[str, bytes]:
    """Return the Feature with the agent inside: path below `.devcontainer/dkdbg/` -> bytes.

    `install.sh` needs no x bit: the tools that build a dev container set it.

    Args:
        single_file: the agent, from `delivery.single_file.build`.

    Raises:
        DkdbgError: the installation is incomplete.
    """
    feature = artefact("devcontainer", "feature/src/dkdbg")
    return {**{name: feature.joinpath(name).read_bytes() for name in _FILES}, NAME: single_file}
