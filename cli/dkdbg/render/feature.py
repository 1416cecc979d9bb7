"""The dev container Feature that puts the agent into an image: for dev containers that run no compose service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.render.artefacts import artefact

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Folder below `.devcontainer/`; a local Feature's folder must be called as its id.
FOLDER = "dkdbg"
#: What devcontainer.json says under `features` to use it.
REFERENCE = f"./{FOLDER}"
_FILES = ("devcontainer-feature.json", "install.sh")


def feature_files(agent_files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the Feature with the agent inside: path below `.devcontainer/dkdbg/` -> bytes.

    `install.sh` needs no x bit: whatever builds a dev container gives it one.

    Args:
        agent_files: path -> bytes as the agent is laid out (`agent.sh`, `dkdbg/...`, `debugpy-VERSION.zip`).

    Raises:
        DkdbgError: the installation is incomplete.
    """
    feature = artefact("devcontainer", "feature/src/dkdbg")
    return {**{name: feature.joinpath(name).read_bytes() for name in _FILES}, **agent_files}
