"""The `pathMappings` of an attach request: where a file of the editor's lies on the program's side. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Optional, Tuple


def pairs(entries: object) -> List[Tuple[str, str]]:
    """Return the pairs (local root, remote root) of a `pathMappings`, in order; what is no mapping is left out."""
    return [
        (str(entry["localRoot"]), str(entry["remoteRoot"]))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("localRoot") and entry.get("remoteRoot")
    ]


def mapped(path: str, mappings: Iterable[Tuple[str, str]]) -> Optional[Tuple[Tuple[str, str], str]]:
    """Return the first mapping that has a file of the editor's, and the file's path on the program's side; None without one.

    Args:
        path: the editor's; of Windows too, where case and the kind of slash do not count.
        mappings: local root, remote root, in order.
    """
    is_windows = path[1:3] in (":\\", ":/")

    def comparable(text: str) -> str:
        return text.replace("\\", "/").lower() if is_windows else text

    for mapping in mappings:
        root = comparable(mapping[0]).rstrip("/")
        if (comparable(path) + "/").startswith(root + "/"):
            rest = path[len(root) :]
            return mapping, mapping[1].rstrip("/") + (rest.replace("\\", "/") if is_windows else rest)
    return None
