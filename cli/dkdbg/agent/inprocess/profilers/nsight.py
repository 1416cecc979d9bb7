"""The command line of nsys before a program. It travels to Ray's workers as text: it imports nothing of dkdbg."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

#: Usual paths of nsys outside of PATH.
PLACES = (
    "/usr/local/cuda/bin/nsys",
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems*/bin/nsys",
)
#: Suffix of nsys's raw file without its importer, as in Debian's package of 2022.4; nsys-ui or QdstrmImporter
#: reads it.
RAW = ".qdstrm"
#: Defaults unless the user sets them: option, value, the option's other name.
_USUAL = (("-t", "cuda,nvtx", "--trace"), ("-s", "none", "--sample"))


def options(tool: Dict[str, Any]) -> List[str]:
    """Return the arguments after `nsys profile`, up to the name of the file."""
    given = [each.partition("=")[0] for each in tool["options"]]
    usual = [word for words in _USUAL if not {words[0], words[2]} & set(given) for word in words[:2]]
    return [*usual, *tool["options"]]


def line(tool: Dict[str, Any], base: str) -> List[str]:
    """Return the command line of nsys, up to the program's; its file is `base`, the program's pid and a suffix."""
    return [tool["path"], "profile", *options(tool), "-o", base.replace("%", "%%") + "_%p"]
