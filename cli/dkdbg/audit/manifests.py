"""Audit Kubernetes manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.audit import commands, ports
from dkdbg.audit.rules import (
    HOST_PORT,
    OPEN_PORT,
    PRIVILEGED,
    PTRACE,
    SHIPS,
    UNCONFINED,
    Found,
    is_for_debugging,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.audit.documents import Value

#: Usual names of debug ports in containers and Services.
_NAMES = frozenset({"debugpy", "ptvsd", "dkdbg"})


def is_manifest(document: Value) -> bool:
    """Return whether a YAML document is a Kubernetes object, or part of one (in an overlay)."""
    return bool(document.get("kind").text and document.get("apiVersion").text)


def debug_ports(document: Value) -> Iterator[int]:
    """Return the ports on which debuggers in the pods listen."""
    for pod in pods(document):
        for container in _containers(pod):
            yield from commands.debug_ports(_command(container))


def audit(path: str, document: Value, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings of an object, or of all objects in a List; `debug` are the ports of debuggers."""
    is_list = document.get("kind").text == "List"
    seen: set[int] = set()
    for each in dict.fromkeys(document.get("items").items) if is_list else (document,):
        name = each.get("metadata", "name").text
        ships = not is_for_debugging(path) and not is_for_debugging(name)
        if each.get("kind").text == "Service":
            yield from _service(each, ports.of_program(name, debug))
        for pod in pods(each, seen):
            yield from _pod(pod, debug, ships=ships)


def _service(document: Value, debug: frozenset[int]) -> Iterator[Found]:
    kind = document.get("spec", "type").text or "ClusterIP"
    whom = {"NodePort": "on every node", "LoadBalancer": "beyond the cluster"}.get(
        kind, "to the whole cluster"
    )
    for each in document.get("spec", "ports").items:
        port = ports.covers(each.get("targetPort").text, debug) or ports.covers(each.get("port").text, debug)
        if port is None and {each.get("targetPort").text, each.get("name").text} & _NAMES:
            port = next(iter(ports.USUAL))
        if port is not None:
            yield each.line, OPEN_PORT, f"the Service opens debug port {port} {whom}"


def pods(value: Value, seen: set[int] | None = None) -> Iterator[Value]:
    """Return the pod specifications in a value: all mappings with `containers`."""
    seen = set() if seen is None else seen
    content = id(value.members or value.items)  # each use of an alias is another `Value`
    if content in seen:
        return
    seen.add(content)
    if value.get("containers").items:
        yield value
    for below in (*(value.members or {}).values(), *value.items):
        yield from pods(below, seen)


def _containers(pod: Value) -> tuple[Value, ...]:
    return (*pod.get("initContainers").items, *pod.get("containers").items)


def _command(container: Value) -> str:
    return f"{container.get('command').command()} {container.get('args').command()}"


def _pod(pod: Value, debug: frozenset[int], *, ships: bool) -> Iterator[Found]:
    on_host = pod.get("hostNetwork").text.lower() == "true"
    yield from _security(pod.get("securityContext"))
    for container in _containers(pod):
        name, text = container.get("name").text, _command(container)
        line = (container.get("args") if container.get("args").each() else container.get("command")).line
        opens = list(commands.listens(text))
        for variable in container.get("env").items:
            opens += commands.listens(f"{variable.get('name').text}={variable.get('value').text}")
        if on_host and (opens or commands.starts_debugger(text)):
            yield (
                pod.get("hostNetwork").line,
                HOST_PORT,
                f"container {name} has a debugger in the network of its node",
            )
        if ships:
            for rule, message in (*opens, *commands.waits(text)):
                yield line, rule, f"container {name}: {message}"
            if commands.starts_debugger(text):
                yield line, SHIPS, f"container {name} starts under a debugger"
        for port in container.get("ports").items:
            wanted = port.get("hostPort").text and ports.covers(port.get("containerPort").text, debug)
            wanted = wanted or ports.covers(port.get("hostPort").text, debug)
            if wanted:
                yield (
                    port.get("hostPort").line,
                    HOST_PORT,
                    f"container {name} opens debug port {wanted} on its node",
                )
        yield from _security(container.get("securityContext"))


def _security(context: Value) -> Iterator[Found]:
    if context.get("privileged").text.lower() == "true":
        yield context.get("privileged").line, PRIVILEGED, "privileged: true"
    for each in context.get("capabilities", "add").each():
        if commands.traces(each.text):
            yield each.line, PTRACE, f"capabilities: {each.text}"
    kind = context.get("seccompProfile", "type")
    if kind.text == "Unconfined":
        yield kind.line, UNCONFINED, "seccompProfile: Unconfined"
