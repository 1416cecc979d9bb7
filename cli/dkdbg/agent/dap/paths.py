"""Apply the `pathMappings` of an attach request: translate an editor's path to the program's. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Optional, Tuple


def pairs(entries: object) -> List[Tuple[str, str]]:
    """Return the pairs (local root, remote root) of a `pathMappings`, in order, without invalid entries."""
    return [
        (str(entry["localRoot"]), str(entry["remoteRoot"]))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("localRoot") and entry.get("remoteRoot")
    ]


def mapped(path: str, mappings: Iterable[Tuple[str, str]]) -> Optional[Tuple[Tuple[str, str], str]]:
    """Return the first mapping that contains an editor's file, and the file's remote path; None without a match.

    Args:
        path: the file's path in the editor; for a Windows path, case and the kind of slash are ignored.
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
