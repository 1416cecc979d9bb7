"""Add a debug deployment to an OpenPAI job protocol (version 2), changing nothing else in its text. No I/O.

Protocol: microsoft/openpai-protocol, schemas/v2/schema.yaml. Further checks of the server: microsoft/pai,
src/rest-server/src/config/v2/protocol.js and src/middlewares/v2/protocol.js. The text is edited at positions that a
YAML parser reports, so that comments, order, quotes and line ends stay. The result is parsed again, and must differ
from the original only in the additions.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Names, as in the recipe, of the port and of the deployment for debugging.
PORT, DEPLOYMENT = "debug", "debug"
#: Beginning of dkdbg's command in a deployment, by which a later edit recognizes it.
MARKER = "# dkdbg"
#: Commands of the manual recipe that download paipdb.
_MANUAL_STEPS = re.compile(r"/pai_data/debug\b|^apt-get install (-\S+ )*wget$|/paipdb\.py\b")
#: Maximum characters of a job: the server limits its requests, and no real job is larger.
_MAX_CHARS = 1 << 20


class BadJob(ValueError):  # noqa: N818 - a value that is no job
    """The text is not a job protocol, or cannot be edited; the message is the reason, and `hint` the solution."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Role:
    """A task role of a job: the commands and number of its tasks."""

    name: str
    commands: tuple[str, ...]
    instances: int


class Edited(NamedTuple):
    """The edited text of a job, and the decisions: pairs of a change and its reason."""

    text: str
    decisions: tuple[tuple[str, str], ...]


class PaiJob:
    """A job protocol. Raises BadJob: the text is not a job protocol."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_CHARS:
            raise BadJob("it is larger than any job protocol")
        self.text = text
        self.value = _load(text)
        self.roles = _roles(self.value)
        defaults = self.value.get("defaults")
        self.deployment = str(_mapping(defaults, "defaults").get("deployment") or "")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of its secrets."""
        return tuple(str(each) for each in _mapping(self.value.get("secrets"), "secrets"))

    def with_debugging(self, role: Role, command: str) -> Edited:
        """Return the text with a port and a deployment for debugging one role.

        Args:
            command: shell code that runs before the role's commands; it begins with MARKER.

        Raises:
            BadJob: as the file is written, the edit is impossible or would change something else too.
        """
        edit = _Edit(self.text, self.value)
        edit.ask_for_port(role.name)
        edit.deploy(role.name, command, self.deployment)
        edit.activate()
        return Edited(edit.done(), tuple(edit.decisions))


def _load(text: str) -> dict[str, Any]:
    try:
        value = _yaml().load(text)
    except MarkedYAMLError as error:
        position = error.problem_mark
        where = f"line {position.line + 1}: " if position is not None else ""
        raise BadJob(
            f"it is not YAML: {where}{error.problem}", "correct that line: OpenPAI would refuse it too"
        ) from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise BadJob(f"it is not YAML: {str(error).splitlines()[0]}") from error
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind != "job" or "taskRoles" not in value:
        seen = (
            f"a Kubernetes manifest ({value['kind']})" if isinstance(value, dict) and "apiVersion" in value and "kind" in value
            else "a compose file" if isinstance(value, dict) and "services" in value
            else f"a component of the type {kind}" if kind else ""
        )  # fmt: skip
        raise BadJob(
            "it is not an OpenPAI job protocol, which has `type: job` and `taskRoles`"
            + (f": it is {seen}" if seen else ""),
            "dkdbg init --k8s is for manifests" if "Kubernetes" in seen else "name the job's file: dkdbg init --pai job.yaml",
        )  # fmt: skip
    if value.get("protocolVersion") not in (2, "2"):
        raise BadJob(
            f"its protocolVersion is {value.get('protocolVersion')}, and dkdbg supports version 2",
            "export the job again from the portal of OpenPAI 0.13 or later",
        )
    return value


def _yaml() -> YAML:
    return YAML(typ="safe", pure=True)


def _mapping(value: object, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadJob(f"its {what} are not a mapping")
    return value


def _roles(value: dict[str, Any]) -> dict[str, Role]:
    found = {}
    for name, role in _mapping(value["taskRoles"], "taskRoles").items():
        if not isinstance(role, dict) or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", str(name)):
            raise BadJob(f"its task role {str(name)[:60]!r} is malformed")
        commands, instances = role.get("commands"), role.get("instances", 1)
        if not isinstance(commands, list) or not all(isinstance(each, str) for each in commands):
            raise BadJob(f"the commands of its task role {name} are not a list of texts")
        if not isinstance(role.get("resourcePerInstance"), dict):
            raise BadJob(f"its task role {name} has no resourcePerInstance")
        _mapping(role["resourcePerInstance"].get("ports"), "ports")
        found[str(name)] = Role(
            name=str(name), commands=tuple(commands), instances=instances if isinstance(instances, int) else 1
        )  # fmt: skip
    if not found:
        raise BadJob("it has no task role")
    return found


class _Edit:
    """Pending edits of a text, and its parsed value with the same edits, which the result must equal."""

    def __init__(self, text: str, value: dict[str, Any]) -> None:
        self.text = text
        self.wanted = copy.deepcopy(value)
        self.decisions: list[tuple[str, str]] = []
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._root = _yaml().compose(text)
        self._changes: list[tuple[int, int, str]] = []
        if self._root.flow_style:
            raise BadJob("it is written in braces, like JSON", "write it as OpenPAI's portal exports it")

    def ask_for_port(self, role: str) -> None:
        resources = _value(_value(_value(self._root, "taskRoles"), role), "resourcePerInstance")
        wanted = self.wanted["taskRoles"][role]["resourcePerInstance"]
        if PORT in (wanted.get("ports") or {}):
            self.decisions.append((f"{role} has the port {PORT}", "the job already requests it"))
            return
        self.decisions.append((f"{role} requests one more port, {PORT}", "the platform chooses its number"))
        ports = _value(resources, "ports")
        if ports is None:
            self._add(resources, "ports", {PORT: 1})
        elif isinstance(ports, MappingNode):
            self._add(ports, PORT, 1)
        else:
            self._replace(ports, json.dumps({PORT: 1}))
        wanted["ports"] = {**(wanted.get("ports") or {}), PORT: 1}

    def deploy(self, role: str, command: str, active: str) -> None:
        node, found = _value(self._root, "deployments"), self.wanted.get("deployments") or []
        number = next((n for n, each in enumerate(found) if each.get("name") == DEPLOYMENT), None)
        if number is not None and isinstance(node, SequenceNode):
            self._before(node.value[number], found[number], role, command)
            return
        former: dict[str, Any] = next((each for each in found if each.get("name") == active), {})
        roles = {key: dict(each) for key, each in (former.get("taskRoles") or {}).items()}
        mine = {**roles.get(role, {})}
        mine["preCommands"] = [command, *mine.get("preCommands", [])]
        entry = {"name": DEPLOYMENT, "taskRoles": {**roles, role: mine}}
        why = (
            f"it starts the debugger, then does what the job's own deployment {active} does"
            if former
            else "it brings the debugger"
        )
        self.decisions.append((f"the deployment {DEPLOYMENT}", why))
        if isinstance(node, SequenceNode):
            self._insert_item(node, entry)
        elif node is None:
            self._append("deployments", [entry])
        else:
            self._replace(node, self._block([entry], 2))
        self.wanted["deployments"] = [entry, *found]

    def activate(self) -> None:
        node, defaults = _value(self._root, "defaults"), self.wanted.get("defaults") or {}
        if defaults.get("deployment") == DEPLOYMENT:
            return
        former = defaults.get("deployment")
        self.decisions.append(
            (f"defaults.deployment is {DEPLOYMENT}", f"it was {former}; set it back to run without a debugger" if former
             else "without it the job runs as before")
        )  # fmt: skip
        if isinstance(node, MappingNode):
            deployment = _value(node, "deployment")
            if deployment is None:
                self._add(node, "deployment", DEPLOYMENT)
            else:
                self._replace(deployment, DEPLOYMENT)
        elif node is None:
            self._append("defaults", {"deployment": DEPLOYMENT})
        else:
            self._replace(node, json.dumps({"deployment": DEPLOYMENT}))
        self.wanted["defaults"] = {**defaults, "deployment": DEPLOYMENT}

    def done(self) -> str:
        """Return the edited text. Raises BadJob: something else would change too."""
        text = self.text
        for start, end, new in sorted(self._changes, key=lambda each: each[:2], reverse=True):
            text = text[:start] + new + text[end:]
        try:
            same = _load(text) == self.wanted
        except BadJob:
            same = False
        if not same:
            raise BadJob(
                "changing it here would change something else too (anchors, merges or tabs?)",
                "write the port and the deployment yourself, as docs/recipes/openpai.md shows them",
            )
        return text

    def _before(self, node: MappingNode, value: dict[str, Any], role: str, command: str) -> None:
        """Put dkdbg's command first in an existing deployment; remove the commands of the manual recipe."""
        name, roles = value["name"], _value(node, "taskRoles")
        if not isinstance(roles, MappingNode):
            raise BadJob(f"its deployment {name} has no taskRoles")
        role_value = value["taskRoles"].get(role)
        if role_value is None:
            self.decisions.append((f"{role} in the deployment {name}", "it brings the debugger"))
            self._add(roles, role, {"preCommands": [command]}, first=True)
            value["taskRoles"][role] = {"preCommands": [command]}
            return
        commands = _value(_value(roles, role), "preCommands")
        if commands is None:
            self._add(_value(roles, role), "preCommands", [command], first=True)
            role_value["preCommands"] = [command]
            self.decisions.append(
                (f"preCommands of {role} in the deployment {name}", "they bring the debugger")
            )
            return
        former = role_value["preCommands"]
        is_own = [each.startswith(MARKER) or bool(_MANUAL_STEPS.search(each)) for each in former]
        if former[:1] == [command]:
            return
        kept = [each for each, gone in zip(former, is_own, strict=True) if not gone]
        if any(is_own):
            has_manual_steps = any(
                gone and not each.startswith(MARKER) for each, gone in zip(former, is_own, strict=True)
            )
            why = (
                "it came from the manual recipe, which downloads paipdb at each start"
                if has_manual_steps
                else "it came from another version of dkdbg"
            )
            self.decisions.append((f"dkdbg takes over the deployment {name}", why))
            self._exchange(commands, [n for n, gone in enumerate(is_own) if gone], command)
        else:
            self.decisions.append((f"one more command in the deployment {name}", "it brings the debugger"))
            self._insert_item(commands, command)
        role_value["preCommands"] = [command, *kept]

    # -- text ------------------------------------------------------------------------------------------------------

    def _add(self, node: MappingNode, key: str, value: object, *, first: bool = False) -> None:
        """Add an entry to a mapping: as the last one if the last value is a scalar on one line, else as the first."""
        if node.flow_style or not node.value:
            end = node.start_mark.index + 1
            separator = ", " if node.value else ""
            self._change(end, end, f"{key}: {json.dumps(value, ensure_ascii=False)}{separator}")
            return
        column = node.value[0][0].start_mark.column
        lines = self._block({key: value}, column)
        last = node.value[-1][1]
        if (
            first
            or not isinstance(last, ScalarNode)
            or last.style in {"|", ">"}
            or last.end_mark.line != last.start_mark.line
        ):
            start = node.value[0][0].start_mark.index
            self._change(start, start, lines.lstrip() + self._newline + " " * column)
        else:
            self._after_line(last.end_mark.index, lines)

    def _insert_item(self, node: SequenceNode, item: object) -> None:
        """Insert an item at the beginning of a list."""
        if node.flow_style:
            start = node.start_mark.index + 1
            self._change(start, start, json.dumps(item, ensure_ascii=False) + (", " if node.value else ""))
            return
        column = node.start_mark.column
        start = node.start_mark.index
        self._change(start, start, self._block([item], column).lstrip() + self._newline + " " * column)

    def _exchange(self, node: SequenceNode, gone: Sequence[int], item: object) -> None:
        """Replace the items `gone` of a list by `item` at its beginning; comments between the items stay."""
        if node.flow_style:
            raise BadJob(
                "its preCommands are written in brackets",
                "write one per line, as OpenPAI's portal exports them",
            )
        column, starts = node.start_mark.column, [self._dash(node, each) for each in node.value]
        ends = [self._end(each, column) for each in node.value]
        kept = [self._block([item], column).lstrip()]
        for number, end in enumerate(ends):
            if number not in gone:
                kept.append(self.text[starts[number] : end])
            if starts[number + 1 :] and (between := self.text[end : starts[number + 1]].strip()):
                kept.append(between)
        self._change(starts[0], ends[-1], (self._newline + " " * column).join(kept))

    def _dash(self, node: SequenceNode, item: Any) -> int:  # noqa: ANN401 - a node of ruamel.yaml
        """Return the position of an item's dash."""
        found = self.text.rfind("-", node.start_mark.index, item.start_mark.index)
        if found < 0 or self.text[found + 1 : item.start_mark.index].strip():
            raise BadJob("its preCommands have a YAML layout that dkdbg cannot edit")
        return found

    def _end(self, node: Any, column: int) -> int:  # noqa: ANN401 - as above
        """Return the end of the last line of an item with its dash at `column`."""
        if not isinstance(node, ScalarNode):
            raise BadJob("its preCommands are not text")
        end = self._line_end(node.end_mark.index if node.style not in {"|", ">"} else node.start_mark.index)
        if node.style in {"|", ">"}:
            stop = end
            while stop < len(self.text):
                stop = self._line_end(start := self.text.index("\n", stop) + 1)
                line = self.text[start:stop]
                if line.strip() and len(line) - len(line.lstrip(" ")) <= column:
                    break
                end = stop if line.strip() else end
        return end

    def _line_end(self, index: int) -> int:
        """Return the end of the line that contains an index, without its line break."""
        found = self.text.find("\n", index)
        found = len(self.text) if found < 0 else found
        return found - 1 if self.text[found - 1 : found] == "\r" else found

    def _append(self, key: str, value: object) -> None:
        """Add an entry at the end of the file."""
        end_marker = re.search(
            r"^(\.\.\.|---)[ \t]*\r?$", self.text[self._root.value[-1][0].start_mark.index :], re.MULTILINE
        )
        end = self._root.value[-1][0].start_mark.index + end_marker.start() if end_marker else len(self.text)
        gap = "" if self.text[:end].endswith("\n") else self._newline
        self._change(end, end, gap + self._newline + self._block({key: value}, 0) + self._newline)

    def _after_line(self, index: int, lines: str) -> None:
        end = self.text.find("\n", index)
        if end < 0:
            self._change(len(self.text), len(self.text), self._newline + lines)
        else:
            self._change(end + 1, end + 1, lines + self._newline)

    def _replace(self, node: Any, new: str) -> None:  # noqa: ANN401 - as above
        start, end = node.start_mark.index, node.end_mark.index
        if start == end:  # nothing after the colon
            start = end = self.text.rindex(":", 0, start + 1) + 1
            new = (self._newline if new.startswith(" ") else " ") + new
        self._change(start, end, new)

    def _change(self, start: int, end: int, new: str) -> None:
        self._changes.append((start, end, new))

    def _block(self, value: object, column: int) -> str:
        """Return a value as lines of YAML at a column, without the last line break."""
        return self._newline.join(" " * column + line if line else "" for line in _lines(value))


def _lines(value: object) -> list[str]:
    if isinstance(value, dict):
        return [line for key, each in value.items() for line in _entry(f"{key}:", each, "  ")]
    if isinstance(value, list):
        return [line for each in value for line in _entry("-", each, "  ")]
    return [_scalar(value)]


def _entry(head: str, value: object, indent: str) -> list[str]:
    if isinstance(value, str) and value.startswith(
        MARKER
    ):  # dkdbg's own command; a block scalar fits, as its lines have no outer blanks
        return [f"{head} |-", *(indent + line for line in value.split("\n"))]
    if isinstance(value, (dict, list)) and value:
        lines = _lines(value)
        if head == "-":
            return [f"- {lines[0]}", *(indent + line for line in lines[1:])]
        return [head, *(indent + line for line in lines)]
    return [f"{head} {_scalar(value)}"]


def _scalar(value: object) -> str:
    """Return a plain word as it is, and any other value as JSON, a subset of YAML."""
    if isinstance(value, str) and re.fullmatch(r"[a-zA-Z_][\w-]*", value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


#: Plain words that some version of YAML does not read as text.
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def _value(node: Any, key: str) -> Any:  # noqa: ANN401 - as above
    """Return the node of a key; None if it is missing."""
    if not isinstance(node, MappingNode):
        raise BadJob(f"the parent of {key} is not a mapping")
    return next((each for name, each in node.value if name.value == key), None)
