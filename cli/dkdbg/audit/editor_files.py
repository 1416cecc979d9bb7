"""Audit devcontainer.json and launch.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.audit import commands, ports, secrets
from dkdbg.audit.rules import BUILD_SECRET, OPEN_PORT, PRIVILEGED, Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.audit.documents import Value


def is_devcontainer(path: str) -> bool:
    """Return whether a file is a devcontainer.json, by its path."""
    return path.rsplit("/", 1)[-1] in {"devcontainer.json", ".devcontainer.json"}


def is_launch(path: str) -> bool:
    """Return whether a file holds VS Code launch entries, by its path."""
    return path.endswith((".vscode/launch.json", ".code-workspace"))


def audit_devcontainer(document: Value, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings of a devcontainer.json; `debug` are the ports of debuggers."""
    # appPort: a number is published on 127.0.0.1; a string has the syntax of `docker run -p`.
    for port in document.get("appPort").each():
        opened = ports.published(port.text, debug) if ":" in port.text else None
        if opened is not None:
            yield port.line, OPEN_PORT, f"debug port {opened[0]} is published on {opened[1]}"
    run_args = document.get("runArgs").items
    for at, word in enumerate(run_args):
        text = (
            word.text
            if "=" in word.text or at + 1 == len(run_args)
            else f"{word.text} {run_args[at + 1].text}"
        )
        for rule, message in commands.options(text, debug) if word.text.startswith("-") else ():
            yield word.line, rule, message
    if document.get("privileged").text == "true":
        yield document.get("privileged").line, PRIVILEGED, "privileged: true"
    yield from commands.granted(document, "capAdd", "securityOpt")
    for name, value in document.get("build", "args").pairs():
        if secrets.is_secret_name(name):
            yield value.line, BUILD_SECRET, f"the build argument {name} is a secret"


def audit_launch(document: Value) -> Iterator[Found]:
    """Return the findings of launch entries: editors that listen for debuggers beyond loopback."""
    for entry in (*document.get("configurations").items, *document.get("launch", "configurations").items):
        host = entry.get("listen", "host")
        if host.text and not ports.is_loopback(host.text) and "$" not in host.text:
            name = entry.get("name").text
            yield host.line, OPEN_PORT, f"entry {name!r}: the editor listens on {host.text}"
