"""Map paths for a worker whose code Ray has unpacked from a `working_dir`. Pure.

Code of the driver's own script is sent to workers by value and keeps the driver's path. Imported modules are in the
unpacked folder.
"""

from __future__ import annotations

import json
import re

from dkdbg.agent.dap.messages import as_dict, as_list, as_text
from dkdbg.agent.inprocess.pydevd_patches import file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Tuple

_SESSION = re.compile(r"session_[0-9A-Za-z_.-]{1,80}")
_PACKAGE = re.compile(r"gcs://(_ray_pkg_[0-9a-f]{1,64})\.zip")
#: Suffix of the checkout's path in aliases of the driver's script; no such folder exists.
_ALIAS = ".dkdbg-driver"
#: Folder of Ray's sessions, unless the head was started with --temp-dir.
_FOLDER = "/tmp/ray/%s/runtime_resources/working_dir_files/%s"  # noqa: S108


def folder(session: str, runtime_env: str) -> str:
    """Return the folder into which Ray unpacks the `working_dir` of a serialized runtime environment; empty for none."""
    try:
        settings: Any = json.loads(runtime_env) if runtime_env else {}
    except (ValueError, RecursionError):
        settings = {}
    package = _PACKAGE.fullmatch(as_text(as_dict(settings).get("working_dir")))
    return _FOLDER % (session, package[1]) if package and _SESSION.fullmatch(session) else ""


def script(entrypoint: str) -> str:
    """Return the driver's script from its command line, empty if it has none."""
    return next((each for each in entrypoint.split() if each.endswith(".py")), "")


class Code:
    """Path mapping for one worker.

    Args:
        mappings: `pathMappings` of an attach.
        unpacked: see `folder`. main: the driver's script on its own machine, absolute or relative to the checkout; empty
            if the driver runs in an unpacked folder too.
        source: folder that Ray has packed; by default the remote folder of the first mapping.
        modules: `py_modules`: where Ray has unpacked each, and its folder on the driver's machine.

    Attributes:
        mappings: the editor's, preceded by that of the unpacked folder; empty if the editor's own are right.
        script, alias: the editor's path of the driver's script, and its alias in breakpoints. debugpy would use the
            first matching mapping, but this one file is not in the unpacked folder. Empty if not needed.
    """

    def __init__(
        self, mappings: Any, unpacked: str, main: str, source: str = "", modules: Iterable[Tuple[str, str]] = ()  # noqa: ANN401 - as an editor says it
    ) -> None:  # fmt: skip
        known = [each for each in as_list(mappings) if _is_one(each)]
        pairs = [(each["localRoot"], each["remoteRoot"]) for each in known]
        of_modules = [(file_names.of_editor(source_file, pairs), remote) for remote, source_file in modules]
        own = [{"localRoot": local, "remoteRoot": remote} for local, remote in of_modules if local]
        self.mappings: List[Dict[str, str]] = [*own, *known] if own else []
        self.script = self.alias = ""
        checkout = known[0]["remoteRoot"].rstrip("/\\") if known else ""
        source = source or checkout
        local = file_names.of_editor(source, pairs)
        if not unpacked or not source or not local:
            return
        self.mappings = [*own, {"localRoot": local, "remoteRoot": unpacked}, *known]
        path = main if main.startswith("/") else "%s/%s" % (checkout, main)
        if main and path.startswith(source + "/"):
            below = path[len(source) :].replace("/", "\\") if "\\" in local else path[len(source) :]
            self.script, self.alias = local + below, local + _ALIAS + below
            # Placed last, so that the checkout's mapping translates paths below `source` that come from the worker.
            self.mappings.append({"localRoot": local + _ALIAS, "remoteRoot": source})

    def to_worker(self, path: Any) -> Any:  # noqa: ANN401 - as an editor says it
        """Translate the path of a source for the worker."""
        return self.alias if self.script and path == self.script else path

    def to_editor(self, body: bytes) -> bytes:
        """Translate the script's path in a message for the editor."""
        if not self.script:
            return body
        alias, script = (json.dumps(each)[1:-1].encode() for each in (self.alias, self.script))
        return body.replace(alias, script)


def _is_one(mapping: Any) -> bool:  # noqa: ANN401
    return isinstance(mapping, dict) and all(
        isinstance(mapping.get(each), str) and mapping[each] for each in ("localRoot", "remoteRoot")
    )
