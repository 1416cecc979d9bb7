"""Maps paths for a worker whose code Ray has unpacked from a `working_dir`. Pure.

Imported modules have paths in the unpacked folder. Functions of the driver's script do not: Ray sends them to workers
by value (pickled), with the script's path on the driver's machine.
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
#: Suffix that makes an alias of the checkout's path for the driver's script; a folder of that name does not exist.
_ALIAS = ".dkdbg-driver"
#: Folder of Ray's sessions, unless the head was started with --temp-dir.
_FOLDER = "/tmp/ray/%s/runtime_resources/working_dir_files/%s"  # noqa: S108


def folder(session: str, runtime_env: str) -> str:
    """Return the folder on a node into which Ray unpacks the `working_dir` of a runtime environment; empty without one.

    Args:
        session: name of the cluster's session folder. runtime_env: the runtime environment as JSON.
    """
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
        mappings: `pathMappings` of the editor's attach request.
        unpacked: see `folder`. main: the driver's script on the driver's machine, absolute or relative to the checkout;
            empty if the driver runs in an unpacked folder too.
        source: folder on the driver's machine that Ray has packed; by default the remote root of the first mapping.
        modules: for each of the `py_modules`, where Ray has unpacked it, and its folder on the driver's machine.

    Attributes:
        mappings: the mapping of the unpacked folder, then the editor's; empty if the editor's own suffice.
        script, alias: the editor's path of the driver's script, and an alias of it in another folder. debugpy uses the
            first matching mapping, which would lead this one file into the unpacked folder; the alias has a mapping of
            its own. Both empty if not needed.
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
            # Last, so that for paths below `source` that come from the worker the checkout's mapping matches first.
            self.mappings.append({"localRoot": local + _ALIAS, "remoteRoot": source})

    def to_worker(self, path: Any) -> Any:  # noqa: ANN401 - as an editor says it
        """Return the path to send to the worker for a source path of the editor: the alias for the driver's script."""
        return self.alias if self.script and path == self.script else path

    def to_editor(self, body: bytes) -> bytes:
        """Replace the alias by the path of the driver's script in a message to the editor."""
        if not self.script:
            return body
        alias, script = (json.dumps(each)[1:-1].encode() for each in (self.alias, self.script))
        return body.replace(alias, script)


def _is_one(mapping: Any) -> bool:  # noqa: ANN401
    return isinstance(mapping, dict) and all(
        isinstance(mapping.get(each), str) and mapping[each] for each in ("localRoot", "remoteRoot")
    )
