"""The `pathMappings` of an attach request: where a file of the editor's lies on the program's side. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Tuple


def pairs(entries: object) -> List[Tuple[str, str]]:
    """Return the pairs (local root, remote root) of a `pathMappings`, in order; what is no mapping is left out."""
    return [
        (str(entry["localRoot"]), str(entry["remoteRoot"]))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("localRoot") and entry.get("remoteRoot")
    ]


def remote(path: str, mappings: Iterable[Tuple[str, str]]) -> str:
    """Return where a file of the editor's lies on this side: itself where no mapping has it.

    Args:
        path: the editor's; of Windows too, where case and the kind of slash do not count.
        mappings: local root, remote root, in order.
    """
    is_windows = path[1:3] in (":\\", ":/")

    def comparable(text: str) -> str:
        return text.replace("\\", "/").lower() if is_windows else text

    for local, there in mappings:
        root = comparable(local).rstrip("/")
        if (comparable(path) + "/").startswith(root + "/"):
            rest = path[len(root) :]
            return there.rstrip("/") + (rest.replace("\\", "/") if is_windows else rest)
    return path
