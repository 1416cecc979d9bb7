"""Audit compose files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.audit import commands, ports, secrets
from dkdbg.audit.rules import BUILD_SECRET, HOST_PORT, OPEN_PORT, PRIVILEGED, SHIPS, Found, is_for_debugging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.audit.documents import Value

_SERVICE_KEYS = frozenset({"image", "build", "extends", "command", "entrypoint", "ports", "profiles"})
#: Maximum number of services that extend each other in a chain.
_MAX_EXTENDS = 8


def is_compose(document: Value) -> bool:
    """Return whether a YAML document is a compose file, by its content."""
    return any(
        not _SERVICE_KEYS.isdisjoint(body.members or {}) for _, body in document.get("services").pairs()
    )


def debug_ports(document: Value) -> Iterator[int]:
    """Return the ports on which the services' debuggers listen."""
    for _, service in document.get("services").pairs():
        argv = (service.get(key).command() for key in ("entrypoint", "command"))
        yield from commands.debug_ports(" ".join(argv))


def audit(path: str, document: Value, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings of a compose file; `debug` are the ports of debuggers."""
    for name, service in document.get("services").pairs():
        opens = ports.of_program(f"{name} {service.get('image').text}", debug)
        for line, rule, message in _service(service, opens, ships=_ships(path, document, service)):
            yield line, rule, f"service {name}: {message}"


def inline_dockerfiles(path: str, document: Value) -> Iterator[tuple[Value, bool]]:
    """Yield each `dockerfile_inline` of a compose file, and whether its service is for production."""
    for _, service in document.get("services").pairs():
        if (inline := service.get("build", "dockerfile_inline")).text:
            yield inline, _ships(path, document, service)


def _ships(path: str, document: Value, service: Value) -> bool:
    profiles = _profiles(document, service)
    return not is_for_debugging(path) and not (profiles and all(map(is_for_debugging, profiles)))


def _profiles(document: Value, service: Value) -> list[str]:
    """Return the profiles of a service, and those of the services in this file that it extends."""
    found: list[str] = []
    for _ in range(_MAX_EXTENDS):
        found += [each.text for each in service.get("profiles").each()]
        base = service.get("extends", "service").text
        if not base or service.get("extends", "file").text:
            break
        service = document.get("services", base)
    return found


def _service(service: Value, debug: frozenset[int], *, ships: bool) -> Iterator[Found]:
    on_host = service.get("network_mode").text == "host"
    for port in service.get("ports").items:
        opened = _opened(port, debug)
        if opened is not None:
            yield port.line, OPEN_PORT, f"debug port {opened[0]} is published on {opened[1]}"
    entrypoint, command = service.get("entrypoint"), service.get("command")
    line = (entrypoint if commands.starts_debugger(entrypoint.command()) else command).line
    text = f"{entrypoint.command()} {command.command()}"
    if on_host and any(True for _ in commands.listens(text)):
        yield line, HOST_PORT, "a debugger listens in the host's network (network_mode: host)"
    if ships:
        for rule, message in (*commands.listens(text), *commands.waits(text)):
            yield line, rule, message
        if commands.starts_debugger(text):
            yield (
                line,
                SHIPS,
                "the service starts under a debugger and has no profile, so `docker compose up` starts it",
            )
    environment = service.get("environment")
    assigned = [(each.line, each.text) for each in environment.items]
    assigned += [(value.line, f"{key}={value.text}") for key, value in environment.pairs()]
    for line, text in assigned if ships else ():
        for rule, message in commands.listens(text):
            yield line, rule, message
    yield from commands.granted(service, "cap_add", "security_opt") if ships else ()
    if service.get("privileged").text.lower() in {"true", "yes", "on"}:
        yield service.get("privileged").line, PRIVILEGED, "privileged: true"
    arguments = service.get("build", "args")
    names = [(each.line, each.text.partition("=")[0]) for each in arguments.items]
    names += [(value.line, key) for key, value in arguments.pairs()]
    for line, name in names:
        if secrets.is_secret_name(name):
            yield line, BUILD_SECRET, f"the build argument {name} is a secret"


def _opened(port: Value, debug: frozenset[int]) -> tuple[int, str] | None:
    """Return the debug port and host that an entry of `ports` opens beyond loopback; None if it opens none."""
    if port.text:
        return ports.published(port.text, debug)
    inside, host = (
        ports.covers(ports.resolved(port.get("target").text), debug),
        ports.resolved(port.get("host_ip").text),
    )
    if inside is None or ports.is_loopback(host) or "$" in host:
        return None
    return inside, host or "all addresses"
