"""Find exposed debuggers in command lines of shell scripts, images, services, pods and batch jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from dkdbg.audit import ports, secrets
from dkdbg.audit.rules import BUILD_SECRET, HOST_PORT, OPEN_PORT, PRIVILEGED, PTRACE, UNCONFINED, WAITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.audit.documents import Value
    from dkdbg.audit.rules import Found as FoundInFile

#: A shell word, which may contain `$(...)` and the brackets of an IPv6 address.
_WORD = r"[\"']?((?:\$\([^)\n]{0,80}\)|\[[0-9A-Fa-f:]{2,40}\]|[^\s\"';&|,\])])+)"
_STARTS = r"(?<![\w-])(?:debugpy|ptvsd)(?:-adapter)?[\"']?"
_DEBUGGER = re.compile(rf"{_STARTS}[\s,\"']{{1,8}}--?(?:listen|wait|connect|pid|host|configure|log)")
_LISTEN = re.compile(rf"{_STARTS}[^;&|\n]{{0,400}}?--(?:listen|host)[=\s,\"']{{1,8}}{_WORD}")
_PTVSD_PORT = re.compile(r"[\s,\"']{0,8}--port[=\s,\"']{1,8}(\d{1,5})(?!\d)")
_WAIT = re.compile(rf"{_STARTS}[^;&|\n]{{0,400}}?--wait(?:-for-client)?(?![\w-])")
_DKDBG_VARIABLE = re.compile(rf"\bDKDBG_(HOST|LISTEN|PDB)=[\"']?{_WORD}|\bDKDBG_(ALLOW)=[\"']?(any)\b")
_PDB = re.compile(rf"\bREMOTE_PDB_HOST=[\"']?{_WORD}|\bPYTHONBREAKPOINT=[\"']?web_pdb\b")
_RAY = re.compile(r"--ray-debugger-external\b|\bRAY_DEBUGGER_EXTERNAL=[\"']?1\b")
#: Commands that forward a port: ssh (group 1: the forwarding), kubectl, and socat (groups: the port with its options,
#: and the destination port).
_FORWARDS = (
    re.compile(rf"\bssh\b[^;&|\n]{{0,200}}?\s-\w{{0,8}}[LR]\s*{_WORD}"),
    re.compile(r"\bport-forward\b[^;&|\n]{0,300}"),
    re.compile(
        r"\bsocat\b[^;&|\n]{0,200}?TCP[46]?-LISTEN:([^\s\"']{1,100})"
        r"(?:[^;&|\n]{0,200}?\bTCP[46]?(?:-CONNECT)?:[^\s\"',;&|]{1,200}:(\d{1,5}))?",
        re.IGNORECASE,
    ),
)
_AGENT = re.compile(r"\bagent\.pyz[\"',\s]{1,8}(?:launch|supervise)\b|PYTHONPATH=\S{0,200}agent\.pyz")
_CONTAINER = re.compile(r"\b(?:docker|podman|nerdctl)\b[^;&|\n]{0,80}?\b(?:run|create)\b(.*)", re.DOTALL)
#: A `docker run` without the host's network: only its `-p` makes ports reachable from outside.
_CONTAINED = re.compile(
    r"\b(?:docker|podman|nerdctl)\b[^;&|\n]{0,80}?\b(?:run|create)\b"
    r"(?![^;&|\n]{0,2000}--net(?:work)?[=\s]{1,4}[\"']?host\b)[^;&|\n]{0,2000}"
)
_PUBLISH = re.compile(rf"(?<![\w-])(?:-[ditP]{{0,4}}p|--publish)[=\s]?\s*{_WORD}")
_PRIVILEGED = re.compile(r"(?<![\w-])--privileged(?:=true)?(?![\w=-])")
_CAPABILITY = re.compile(r"(?<![\w-])--cap-add[=\s]{1,4}[\"']?(?:CAP_)?(SYS_PTRACE|ALL)\b", re.IGNORECASE)
_SECCOMP = re.compile(r"(?<![\w-])--security-opt[=\s]{1,4}[\"']?seccomp[=:]unconfined")
_HOST_NETWORK = re.compile(r"(?<![\w-])--net(?:work)?[=\s]{1,4}[\"']?host\b")
_BUILD = re.compile(r"\b(?:docker|podman|nerdctl|buildx)\b[^;&|\n]{0,80}?\bbuild\b(.*)", re.DOTALL)
_BUILD_ARGUMENT = re.compile(rf"(?<![\w-])--build-arg[=\s]{{1,4}}{_WORD}")


#: A finding in a command line: rule id, message.
Found: TypeAlias = tuple[str, str]


def traces(capability: str) -> bool:
    """Return whether a Linux capability lets a process trace others."""
    return capability.upper().removeprefix("CAP_") in {"SYS_PTRACE", "ALL"}


def _unconfined(option: str) -> bool:
    """Return whether a security option turns off the seccomp filter."""
    return option.replace(":", "=") == "seccomp=unconfined"


def granted(container: Value, capabilities: str, security: str) -> Iterator[FoundInFile]:
    """Return the findings about a container's added capabilities and security options.

    Args:
        capabilities, security: their keys in `container`; compose and devcontainer.json spell them differently.
    """
    for key, is_found, rule in ((capabilities, traces, PTRACE), (security, _unconfined, UNCONFINED)):
        for value in container.get(key).each():
            if is_found(value.text):
                yield value.line, rule, f"{key}: {value.text}"


def starts_debugger(text: str) -> bool:
    """Return whether a command line starts debugpy, ptvsd or the agent."""
    return bool(_DEBUGGER.search(text) or _AGENT.search(text))


def debug_ports(text: str) -> Iterator[int]:
    """Return the ports on which the debuggers in a command line listen."""
    for found in _LISTEN.finditer(text):
        other = None
        if "ptvsd" in found[0]:  # a later --port belongs to the program, not to ptvsd
            other = _PTVSD_PORT.search(found[0]) or _PTVSD_PORT.match(text, found.end())
        port = other[1] if other else ports.split_address(found[1])[1]
        if re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536:
            yield int(port)


def listens(text: str) -> Iterator[Found]:
    """Return a finding for each debugger in a command line that listens beyond loopback."""
    for found in _LISTEN.finditer(text):
        host = ports.split_address(found[1])[0]
        if "ptvsd" in found[0] and "--host" in found[0]:
            host = ports.resolved(found[1])
        if host and not ports.is_loopback(host):
            yield OPEN_PORT, f"debugpy listens on {found[1]}"
    if _RAY.search(text):
        yield OPEN_PORT, "Ray's debugger listens on the node's address (--ray-debugger-external)"
    for found in _PDB.finditer(text):
        if not (found[1] and ports.is_loopback(ports.resolved(found[1]))):
            yield OPEN_PORT, f"a pdb listens on {found[1] or 'all addresses'} ({found[0].partition('=')[0]})"
    for found in _DKDBG_VARIABLE.finditer(text):
        if found[3]:
            yield OPEN_PORT, "DKDBG_ALLOW=any admits everybody to the debug port"
            continue
        host = ports.resolved(found[2]) if found[1] == "HOST" else ports.split_address(found[2])[0]
        if host and not ports.is_loopback(host):
            yield OPEN_PORT, f"dkdbg's agent listens on {found[2]}"


def outside_containers(text: str) -> str:
    """Return a command line without its `docker run` parts whose container has a network of its own."""
    return _CONTAINED.sub("", text)


def forwards(text: str, debug: frozenset[int]) -> Iterator[Found]:
    """Return a finding for each of the ports `debug` that ssh, kubectl or socat forwards from beyond loopback."""
    by_ssh, by_kubectl, by_socat = _FORWARDS
    for found in by_ssh.finditer(text):
        words = ports.resolved(found[1]).rsplit(":", 2)
        host, _, port = words[0].rpartition(":")
        opened = ports.covers(port, debug) or ports.covers(words[-1], debug)
        if opened and host and not ports.is_loopback(host) and "$" not in host:
            yield OPEN_PORT, f"ssh opens debug port {opened} on {host}"
    for found in by_kubectl.finditer(text):
        address = re.search(rf"--address[=\s]{_WORD}", found[0])
        opened = next((each for each in re.findall(r"\d{1,5}", found[0]) if ports.covers(each, debug)), None)
        if address and opened and not all(map(ports.is_loopback, address[1].split(","))):
            yield OPEN_PORT, f"kubectl opens debug port {opened} on {address[1]}"
    for found in by_socat.finditer(text):
        port, *flags = found[1].split(",")
        bound = next((each.partition("=")[2] for each in flags if each.startswith("bind=")), "")
        covered = ports.covers(port, debug) or ports.covers(found[2] or "", debug)
        if covered and not ports.is_loopback(bound):
            yield OPEN_PORT, f"socat opens debug port {covered} on {bound or 'all addresses'}"


def waits(text: str) -> Iterator[Found]:
    """Return the finding for a command line that makes the program wait for a debugger."""
    if _WAIT.search(text):
        yield WAITS, "the program waits until a debugger attaches (--wait-for-client)"


def containers(text: str, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings in a command line's options of `docker run` and `docker build`; `debug` as in `options`."""
    if (run := _CONTAINER.search(text)) is not None:
        yield from options(run[1], ports.of_program(run[1], debug))
    if (build := _BUILD.search(text)) is not None:
        for found in _BUILD_ARGUMENT.finditer(build[1]):
            name = found[1].partition("=")[0]
            if secrets.is_secret_name(name):
                yield BUILD_SECRET, f"the build argument {name} is a secret"


def options(text: str, debug: frozenset[int]) -> Iterator[Found]:
    """Return the findings in `docker run` options (also in `runArgs`); `debug` are the ports of debuggers."""
    for found in _PUBLISH.finditer(text):
        if (opened := ports.published(found[1], debug)) is not None:
            yield OPEN_PORT, f"debug port {opened[0]} is published on {opened[1]}"
    if _PRIVILEGED.search(text):
        yield PRIVILEGED, "--privileged"
    if (capability := _CAPABILITY.search(text)) is not None:
        yield PTRACE, f"--cap-add {capability[1].upper()}"
    if _SECCOMP.search(text):
        yield UNCONFINED, "--security-opt seccomp=unconfined"
    if _HOST_NETWORK.search(text) and starts_debugger(text):
        yield HOST_PORT, "a debugger in the host's network (--network host)"
