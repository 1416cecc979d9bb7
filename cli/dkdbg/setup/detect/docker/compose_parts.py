"""Collect a service's networks, named volumes, configs and secrets from the top level of its compose file."""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING

from dkdbg.setup.detect.files import parent
from dkdbg.setup.detect.values import elements, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.setup.detect.values import Value

SECTIONS = ("networks", "volumes", "configs", "secrets")
#: A valid name there; another volume is a folder (compose-spec, "Volumes").
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def names_of(document: Value) -> frozenset[tuple[str, str]]:
    """Return (section, name) of all definitions at the top level of a compose file."""
    return frozenset((section, str(name)) for section in SECTIONS for name in _section(document, section))


def used_parts(path: str, document: Value, body: Value) -> tuple[tuple[str, str, str], ...]:
    """Return (section, name, definition as JSON) of the definitions that a service uses.

    Args:
        path: path of the compose file, relative to the root; paths in the definitions are relative to the root, too.
        document: the unreplaced file: compose replaces the variables, and their values are not written down.
        body: the service with its variables replaced.
    """
    return tuple(
        (
            section,
            name,
            json.dumps(_plain(_moved(_section(document, section)[name], parent(path))), default=str),
        )
        for section, name in dict.fromkeys(_uses(body))
        if _NAME.fullmatch(name) and name in _section(document, section)
    )


def _section(document: Value, section: str) -> dict[str, Value]:
    return table(table(document).get(section))


def _uses(body: Value) -> Iterator[tuple[str, str]]:
    networks = body.get("networks")
    for name in networks if isinstance(networks, dict) else elements(networks):
        yield "networks", str(name)
    for each in elements(body.get("volumes")):
        if isinstance(each, dict) and each.get("type", "volume") == "volume":
            yield "volumes", str(each.get("source"))
        elif isinstance(each, str) and ":" in each:
            yield "volumes", each.split(":")[0]
    for section, value in (
        ("configs", body.get("configs")),
        ("secrets", body.get("secrets")),
        ("secrets", table(body.get("build")).get("secrets")),
    ):
        for each in elements(value):
            yield section, str(each.get("source") if isinstance(each, dict) else each)


def _plain(value: Value) -> Value:
    """Return the value with string keys, as JSON requires; YAML also has dates and numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _moved(definition: Value, here: str) -> Value:
    """Rewrite the file path of a config or secret, which compose resolves from the file that contains it."""
    file = table(definition).get("file")
    if not isinstance(file, str) or file.startswith(("/", "~", "$")):
        return definition
    return {**definition, "file": "./" + posixpath.normpath(f"{here.replace('$', '$$')}/{file}")}
