"""Our entries in launch.json and tasks.json, merged into what the user has made of them."""

from __future__ import annotations

import copy
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg.errors import DkdbgError
from dkdbg.repository.transaction import read
from dkdbg.setup.plan import editor
from dkdbg.setup.render import jsonc, manifest
from dkdbg.setup.render.changes import FileWanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from dkdbg.core.plan import ProjectPlan

    #: Array of the file -> our objects in it.
    Entries = Mapping[str, Sequence[Mapping[str, Any]]]

LAUNCH = ".vscode/launch.json"
TASKS = ".vscode/tasks.json"
_NEW = {
    LAUNCH: '{\n  "version": "0.2.0",\n  "configurations": []\n}\n',
    TASKS: '{\n  "version": "2.0.0",\n  "tasks": []\n}\n',
}
_REASONS = {LAUNCH: "F5", TASKS: "what F5 runs first"}
#: Array -> the field by which its objects are told apart.
_NAMES = {"configurations": "name", "compounds": "name", "tasks": "label", "inputs": "id"}
#: Of this machine, for the first target; each further one has the next.
_FIRST_PLACE_PORT = 5677


def editor_files(root: Path, plan: ProjectPlan, local_port: int, project: str) -> dict[str, FileWanted]:
    """Both files; `local_port` on 127.0.0.1 is what the launch entry attaches to, `project` whom it expects there.

    Raises:
        DkdbgError: one of them cannot be read as JSON with comments, or is built in another way than VS Code's.
    """
    launch = {
        "configurations": [editor.launch_entry(plan, local_port, project), *_of_places(root, LAUNCH)],
        "compounds": _written(root, LAUNCH).get("compounds", ()),
        "inputs": editor.inputs(plan),
    }
    tasks = [*editor.tasks(plan), *_of_places(root, TASKS)]
    return {LAUNCH: _merged(root, LAUNCH, launch), TASKS: _merged(root, TASKS, {"tasks": tasks})}


def target_files(root: Path, entry: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, FileWanted]:
    """Both files with the entry and the task of a place more, or with new ones in the place of theirs.

    Raises:
        DkdbgError: as `editor_files`.
    """
    files = {}
    for name, array, new in ((LAUNCH, "configurations", entry), (TASKS, "tasks", task)):
        written, field = _written(root, name), _NAMES[array]
        named = {each[field]: each for each in written.get(array, ())} | {
            new[field]: new
        }  # each in its place
        files[name] = _merged(root, name, {**written, array: [*named.values()]})
    return files


def ranks_files(
    root: Path, entries: Sequence[Mapping[str, Any]], compound: Mapping[str, Any], task: Mapping[str, Any]
) -> dict[str, FileWanted]:
    """Both files with an entry a rank, their compound and its task, in the place of former ones.

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
    """The port of the entry of a target by its name; of a new one the next that no entry of a target has."""
    ports = {
        each["name"]: each["connect"]["port"]
        for each in _of_places(root, LAUNCH) if isinstance(each.get("connect"), dict)
    }  # fmt: skip
    return ports.get(name) or next(
        each for each in range(_FIRST_PLACE_PORT, 65536) if each not in ports.values()
    )


def _of_places(root: Path, name: str) -> list[dict[str, Any]]:
    """What `init TARGET` and `init --ranks` have written: another `init` leaves it."""
    array, begins = (
        ("configurations", (editor.TARGET_NAME, editor.RANK_NAME))
        if name == LAUNCH
        else ("tasks", (editor.TARGET_LABEL, editor.RANKS_NAME))
    )
    return [each for each in _written(root, name).get(array, ()) if each[_NAMES[array]].startswith(begins)]


def with_port(root: Path, local_port: int) -> FileWanted | None:
    """launch.json with our entry, as it was written last, on another local port; None when it is not known.

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


def launch_names(root: Path) -> set[str]:
    """Names of the entries and compounds that launch.json has now; none when it cannot be read."""
    return {name for name, _ in _entries(root)}


def launch_port(root: Path) -> int | None:
    """The port that our entry of launch.json attaches to now; None when there is none or it cannot be read."""
    port = _connect(entry for _, entry in _entries(root)).get("port")
    return port if isinstance(port, int) else None


def connects(root: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Where our launch entry attaches, as it was written last and as launch.json has it now; empty for nowhere."""
    written = _written(root, LAUNCH).get("configurations", ())
    return _connect(written), _connect(entry for _, entry in _entries(root))


def _connect(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    for entry in entries:
        connect = entry.get("connect")
        if entry.get("name") == editor.ATTACH_NAME and isinstance(connect, dict):
            return connect
    return {}


def _entries(root: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        content: Any = jsonc.loads(_read(root, LAUNCH) or "{}", file=LAUNCH)
    except DkdbgError:
        return []
    arrays = (
        [content.get(name) for name in ("configurations", "compounds")] if isinstance(content, dict) else []
    )
    entries = [
        entry for array in arrays if isinstance(array, list) for entry in array if isinstance(entry, dict)
    ]
    return [(entry["name"], entry) for entry in entries if isinstance(entry.get("name"), str)]


def _written(root: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """Our entries as they were written last, by this clone or a colleague's."""
    note = manifest.load(root).notes.get(PurePosixPath(name), {})
    entries = note.get("entries")
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
    note = {"entries": {array: list(entries) for array, entries in wanted.items() if entries}}
    return FileWanted(
        content=text.encode(), reason=_REASONS[name], owned=False, note=note, yours=tuple(yours)
    )


def _read(root: Path, name: str) -> str:
    data = read(root, PurePosixPath(name))
    return "" if data is None else jsonc.decode(data, file=name)
