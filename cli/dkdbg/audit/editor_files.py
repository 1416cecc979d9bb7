"""Audit devcontainer.json and launch.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.audit import commands, ports, secrets
from dkdbg.audit.rules import BUILD_SECRET, OPEN_PORT, PRIVILEGED, PTRACE, UNCONFINED, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.audit.documents import Value


def is_devcontainer(path: str) -> bool:
    """Return whether a file is a dev container's, by its path."""
    return path.rsplit("/", 1)[-1] in {"devcontainer.json", ".devcontainer.json"}


def is_launch(path: str) -> bool:
    """Return whether a file has launch entries of VS Code, by its path."""
    return path.endswith((".vscode/launch.json", ".code-workspace"))


def audit_devcontainer(path: str, document: Value, debug: frozenset[int]) -> Iterator[Finding]:
    """Return the findings of a devcontainer.json.

    Args:
        debug: ports of debuggers.
    """

    def finding(line: int, rule: str, message: str) -> Finding:
        return Finding(path=path, line=line, rule=rule, message=message)

    # A number there is published on 127.0.0.1, a text as `docker run -p` reads it.
    for port in document.get("appPort").each():
        opened = ports.published(port.text, debug) if ":" in port.text else None
        if opened is not None:
            yield finding(port.line, OPEN_PORT, f"debug port {opened[0]} is published on {opened[1]}")
    words = document.get("runArgs").items
    for at, word in enumerate(words):
        text = word.text if "=" in word.text or at + 1 == len(words) else f"{word.text} {words[at + 1].text}"
        for each in commands.options(text, debug) if word.text.startswith("-") else ():
            yield finding(word.line, each.rule, each.message)
    if document.get("privileged").text == "true":
        yield finding(document.get("privileged").line, PRIVILEGED, "privileged: true")
    for value in document.get("capAdd").each():
        if commands.traces(value.text):
            yield finding(value.line, PTRACE, f"capAdd: {value.text}")
    for value in document.get("securityOpt").each():
        if commands.unconfined(value.text):
            yield finding(value.line, UNCONFINED, f"securityOpt: {value.text}")
    for name, value in document.get("build", "args").pairs():
        if secrets.is_secret_name(name):
            yield finding(value.line, BUILD_SECRET, f"the build argument {name} is a secret")


def audit_launch(path: str, document: Value) -> Iterator[Finding]:
    """Return the findings of the launch entries: an editor that listens for debuggers beyond loopback."""
    for entry in (*document.get("configurations").items, *document.get("launch", "configurations").items):
        host = entry.get("listen", "host")
        if host.text and not ports.is_loopback(host.text) and "$" not in host.text:
            name = entry.get("name").text
            yield Finding(path=path, line=host.line, rule=OPEN_PORT, message=f"entry {name!r}: the editor listens on {host.text}")  # fmt: skip
