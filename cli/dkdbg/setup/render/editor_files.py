"""Merge the entries of setup/plan/editor.py into the user's launch.json and tasks.json."""

from __future__ import annotations

import copy
import posixpath
import re
import secrets
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap.messages import PROJECT, as_dict, as_list
from dkdbg.errors import DkdbgError
from dkdbg.repository.transaction import read
from dkdbg.setup.plan import editor
from dkdbg.setup.render import jsonc, manifest
from dkdbg.setup.render.changes import FileWanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dkdbg.core.plan import ProjectPlan

    Entries = Mapping[str, Sequence[Mapping[str, Any]]]

LAUNCH = ".vscode/launch.json"
TASKS = ".vscode/tasks.json"
_NEW = {
    LAUNCH: '{\n  "version": "0.2.0",\n  "configurations": []\n}\n',
    TASKS: '{\n  "version": "2.0.0",\n  "tasks": []\n}\n',
}
_REASONS = {LAUNCH: "F5", TASKS: "what F5 runs first"}
#: Array in launch.json or tasks.json -> the field that identifies its objects.
_NAMES = {"configurations": "name", "compounds": "name", "tasks": "label", "inputs": "id"}
#: Local port for the first target; further targets get the following ports.
_FIRST_TARGET_PORT = 5677


def editor_files(root: Path, plan: ProjectPlan, local_port: int, project: str) -> dict[str, FileWanted]:
    """Return launch.json and tasks.json with a launch entry that attaches to `project` on 127.0.0.1:`local_port`.

    Raises:
        DkdbgError: a file is not JSON with comments, or has another structure than VS Code's.
    """
    launch = {
        "configurations": [editor.launch_entry(plan, local_port, project), *_of_targets(root, LAUNCH)],
        "compounds": _written(root, LAUNCH).get("compounds", ()),
        "inputs": editor.inputs(plan),
    }
    tasks = [*editor.tasks(plan), *_of_targets(root, TASKS)]
    return {LAUNCH: _merged(root, LAUNCH, launch), TASKS: _merged(root, TASKS, {"tasks": tasks})}


def target_files(root: Path, entry: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, FileWanted]:
    """Return launch.json and tasks.json with a target's entry and task added or replaced.

    Raises:
        DkdbgError: as `editor_files`.
    """
    files = {}
    for name, array, new in ((LAUNCH, "configurations", entry), (TASKS, "tasks", task)):
        written, field = _written(root, name), _NAMES[array]
        named = {each[field]: each for each in written.get(array, ())} | {
            new[field]: new
        }  # keep the order of the keys
        files[name] = _merged(root, name, {**written, array: [*named.values()]})
    return files


def ranks_files(
    root: Path, entries: Sequence[Mapping[str, Any]], compound: Mapping[str, Any], task: Mapping[str, Any]
) -> dict[str, FileWanted]:
    """Return launch.json and tasks.json with the entries, compound and task of the ranks added or replaced.

    Raises:
        DkdbgError: as `editor_files`.
    """
    launch, tasks = _written(root, LAUNCH), _written(root, TASKS)
    others = [
        each for each in launch.get("configurations", ()) if not each["name"].startswith(editor.RANK_NAME)
    ]
    other_tasks = [each for each in tasks.get("tasks", ()) if each["label"] != task["label"]]
    return {
        LAUNCH: _merged(
            root, LAUNCH, {**launch, "configurations": [*others, *entries], "compounds": [compound]}
        ),
        TASKS: _merged(root, TASKS, {**tasks, "tasks": [*other_tasks, task]}),
    }


def target_port(root: Path, name: str) -> int:
    """Return the port in a target's entry; for a new target the next unused port."""
    ports = {
        each["name"]: each["connect"]["port"]
        for each in _of_targets(root, LAUNCH) if isinstance(each.get("connect"), dict)
    }  # fmt: skip
    return ports.get(name) or next(
        each for each in range(_FIRST_TARGET_PORT, 65536) if each not in ports.values()
    )


def _of_targets(root: Path, name: str) -> list[dict[str, Any]]:
    """Return the entries for targets and ranks (`init --on`, `init --ranks`), which a plain `init` keeps."""
    array, begins = (
        ("configurations", (editor.TARGET_NAME, editor.RANK_NAME))
        if name == LAUNCH
        else ("tasks", (editor.TARGET_LABEL, editor.RANKS_NAME))
    )
    return [each for each in _written(root, name).get(array, ()) if each[_NAMES[array]].startswith(begins)]


def with_port(root: Path, local_port: int) -> FileWanted | None:
    """Return launch.json with dkdbg's last written entry on another local port; None if that entry is unknown.

    Raises:
        DkdbgError: as `editor_files`.
    """
    wanted = copy.deepcopy(_written(root, LAUNCH))
    for entry in wanted.get("configurations", []):
        if entry["name"].startswith((editor.TARGET_NAME, editor.RANK_NAME)):
            continue
        if not isinstance(entry.get("connect"), dict):
            return None
        entry["connect"]["port"] = local_port
    return _merged(root, LAUNCH, wanted) if wanted else None


def with_mappings(root: Path, plan: ProjectPlan) -> FileWanted:
    """Return launch.json with the plan's path mappings in dkdbg's entry.

    A mapping replaces the entry's first mapping for the same local folder; if it has none, it is appended.

    Raises:
        DkdbgError: as `editor_files`.
    """
    array, field, key = "configurations", _NAMES["configurations"], "pathMappings"
    present = attach_entry(root)
    every: list[object] = list(as_list(present.get(key)))
    for each in editor.path_mappings(plan.mappings):
        same = (at for at, other in enumerate(every) if _local_root(other) == _local_root(each))
        at = next(same, len(every))
        every[at : at + 1] = [each]
    entry: dict[str, object] = {field: editor.ATTACH_NAME}
    last = {**entry, key: present[key]} if key in present else entry
    text = jsonc.upsert(_read(root, LAUNCH), [array], field, {**entry, key: every}, last=last, file=LAUNCH)
    metadata = manifest.load(root).metadata.get(PurePosixPath(LAUNCH))
    return FileWanted(content=text.encode(), reason=_REASONS[LAUNCH], owned=False, metadata=metadata)


def _local_root(mapping: object) -> str:
    return posixpath.normpath(str(as_dict(mapping).get("localRoot")))


def launch_names(root: Path) -> set[str]:
    """Return the names of the entries and compounds in launch.json; empty if it cannot be read."""
    return {name for name, _ in _entries(root)}


def launch_port(root: Path) -> int | None:
    """Return the port in dkdbg's entry in launch.json; None if the entry is missing or unreadable."""
    port = as_dict(attach_entry(root).get("connect")).get("port")
    return port if isinstance(port, int) else None


def attach_entry(root: Path) -> Mapping[str, Any]:
    """Return dkdbg's entry as it is in launch.json now; empty if it is missing or unreadable."""
    return next((entry for name, entry in _entries(root) if name == editor.ATTACH_NAME), {})


def attach_entries(root: Path) -> list[Mapping[str, Any]]:
    """Return all attach entries in launch.json, also those for `dkdbg attach`; empty if it is unreadable."""
    return [entry for _, entry in _entries(root) if entry.get("request") == "attach"]


def _entries(root: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        content = as_dict(jsonc.loads(_read(root, LAUNCH), file=LAUNCH))
    except DkdbgError:
        return []
    arrays = (as_list(content.get(name)) for name in ("configurations", "compounds"))
    entries = (as_dict(entry) for array in arrays for entry in array)
    return [(entry["name"], entry) for entry in entries if isinstance(entry.get("name"), str)]


def _written(root: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """Return dkdbg's entries by array, as this clone or a colleague's last wrote them."""
    metadata = manifest.load(root).metadata.get(PurePosixPath(name), {})
    entries = metadata.get("entries")
    if not isinstance(entries, dict):
        return {}
    return {
        array: [
            each for each in entries[array] if isinstance(each, dict) and isinstance(each.get(field), str)
        ]
        for array, field in _NAMES.items()
        if isinstance(entries.get(array), list)
    }


def _merged(root: Path, name: str, wanted: Entries) -> FileWanted:
    text, written = _read(root, name) or _NEW[name], _written(root, name)
    yours: list[str] = []
    for array, entries in wanted.items():
        field = _NAMES[array]
        before = {entry[field]: entry for entry in written.get(array, ())}
        for entry in entries:
            key = entry[field]
            text = jsonc.upsert(text, [array], field, entry, last=before.pop(key, None), file=name)
            yours += (
                f'in "{key}" {phrase}' for phrase in jsonc.overruled(text, [array], field, entry, file=name)
            )
        for entry in before.values():
            text = jsonc.drop(text, [array], field, entry, file=name)
    metadata = {"entries": {array: list(entries) for array, entries in wanted.items() if entries}}
    return FileWanted(
        content=text.encode(), reason=_REASONS[name], owned=False, metadata=metadata, yours=tuple(yours)
    )


def _read(root: Path, name: str) -> str:
    data = read(root, PurePosixPath(name))
    return "" if data is None else jsonc.decode(data, file=name)


_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,60}")


def project_id(root: Path) -> str:
    """Return the project's id in the manifest or launch.json, or a new one that begins with the folder's name."""
    written = _written(root, LAUNCH).get("configurations", ())
    own_entries = (each for each in written if each["name"] == editor.ATTACH_NAME)
    for entry in (*own_entries, attach_entry(root)):
        found = as_dict(entry.get("connect")).get(PROJECT)
        if isinstance(found, str) and _ID.fullmatch(found):
            return found
    name = re.sub(r"[^a-z0-9_.-]+", "-", root.name.lower()).strip("-._")[:40] or "project"
    return f"{name}-{secrets.token_hex(4)}"
