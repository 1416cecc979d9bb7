"""Build a shell line that recreates a container with its program under the agent. No I/O.

This is the fallback where dkdbg cannot attach to a running Python. The new container gets what `docker inspect`
shows of the original: image, user, working directory, network, ports, devices and limits. It gets the mounts by
`--volumes-from`. A pipe passes the environment from one docker command to the next: a value may be a secret, and
must not show in a command line or process list. A variable without a value, which an image may have, is left out:
docker would take its value from the user's shell.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from dkdbg.launchers.lines.command_lines import idles
from dkdbg.printable import is_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Go template that prints the environment, one variable per line, without variables that have no value or a multi-line
#: value.
ENVIRONMENT = r"""{{range .Config.Env}}{{if and (eq (len (split . "\n")) 1) (gt (len (split . "=")) 1)}}{{println .}}{{end}}{{end}}"""
_DEFAULT_SHM = 64 << 20
#: Names that engines use for the default runtime and the default namespaces of a container.
_USUAL_RUNTIMES = frozenset({"", "runc", "crun", "oci", "io.containerd.runc.v2"})
_USUAL_NAMESPACES = frozenset({"", "private", "shareable"})
_USUAL_NETWORKS = frozenset({"", "default", "bridge"})
#: (key of HostConfig, flag) of lists that are passed on unchanged.
_LISTS = (
    ("CapAdd", "--cap-add"), ("CapDrop", "--cap-drop"), ("GroupAdd", "--group-add"), ("ExtraHosts", "--add-host"),
    ("Dns", "--dns"), ("DnsSearch", "--dns-search"), ("DnsOptions", "--dns-option"),
)  # fmt: skip
#: (key of HostConfig, flag) of limits; 0 or empty means unlimited. Memory in bytes.
_LIMITS = (
    ("Memory", "--memory"), ("CpusetCpus", "--cpuset-cpus"), ("CpuShares", "--cpu-shares"), ("PidsLimit", "--pids-limit"),
)  # fmt: skip
#: (key of HostConfig, flag) of switches.
_SWITCHES = (
    ("Init", "--init"), ("Privileged", "--privileged"), ("ReadonlyRootfs", "--read-only"), ("PublishAllPorts", "--publish-all"),
)  # fmt: skip


def again(inspected: Mapping[str, Any], argv: Sequence[str], *, image: str) -> str:
    """Return the shell line that recreates a container; empty if it contains unprintable characters.

    The line stops the original container once the new one exists, but does not remove it.

    Args:
        inspected: output of `docker container inspect` for the original.
        argv: command line of the container's Python, used if the container's own command only idles.
        image: name or id of the original's image.
    """
    name = str(inspected["Name"]).lstrip("/")
    new = f"{name}-dkdbg"
    own = (str(inspected.get("Path") or ""), *map(str, inspected.get("Args") or ()))
    program = tuple(argv) if not own[0] or idles(own) else own
    create = ("docker", "create", "--name", new, *_options(inspected, name), image, "infinity")
    steps = (
        f"{shlex.join(('docker', 'inspect', '--format', ENVIRONMENT, name))} | {shlex.join(create)}",
        *(shlex.join(each) for each in _connections(inspected, new)),
        shlex.join(("docker", "stop", name)),
        shlex.join(("docker", "start", new)),
    )
    run = shlex.join(("dkdbg", "run", "--on", f"docker://{new}", "--wait", "--attach", "--", *program))
    line = f"{' && '.join(steps)} && {{ {run}; docker rm --force {shlex.quote(new)}; }}"
    return line if all(map(is_text, line)) else ""


def of_several_lines(inspected: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the variables with multi-line values, which the new container lacks.

    An env file cannot hold such a value.

    `--env NAME` is not used, because it takes the value from the user's shell: an image could name a variable that
    holds a secret there.
    """
    entries = (str(each).partition("=") for each in inspected["Config"].get("Env") or ())
    return tuple(name for name, _, value in entries if "\n" in value and re.fullmatch(r"\w+", name, re.ASCII))


def _options(inspected: Mapping[str, Any], name: str) -> Iterator[str]:
    config, host = inspected["Config"], inspected["HostConfig"]
    yield from ("--env-file", "/dev/stdin", "--volumes-from", name, "--entrypoint", "sleep")
    if config.get("Healthcheck"):
        yield "--no-healthcheck"  # it would run before the program has started, and fail
    for key, flag in (("User", "--user"), ("WorkingDir", "--workdir")):
        if config.get(key):
            yield from (flag, str(config[key]))
    yield from _network(inspected)
    yield from _hardware(host)
    yield from _isolation(host)
    for key, flag in _SWITCHES:
        if host.get(key):
            yield flag
    for key, flag in _LISTS:
        for each in host.get(key) or ():
            yield from (flag, str(each))
    for key, flag in _LIMITS:
        if host.get(key):
            yield from (flag, str(host[key]))


def _network(inspected: Mapping[str, Any]) -> Iterator[str]:
    config, host = inspected["Config"], inspected["HostConfig"]
    mode, hostname = str(host.get("NetworkMode") or ""), str(config.get("Hostname") or "")
    is_shared = mode == "host" or mode.startswith("container:")
    if hostname and not is_shared and not str(inspected["Id"]).startswith(hostname):
        yield from ("--hostname", hostname)
    if mode not in _USUAL_NETWORKS:
        yield from ("--network", mode)
        for alias in _aliases(inspected, mode):
            yield from ("--network-alias", alias)
    for inside, outside in (host.get("PortBindings") or {}).items():
        for each in outside or ():
            ip, port = str(each.get("HostIp") or ""), str(each.get("HostPort") or "")
            ip = f"[{ip}]" if ":" in ip else ip
            before = f"{ip}:{port}:" if ip else f"{port}:" if port else ""
            yield from ("--publish", f"{before}{inside}")


def _connections(inspected: Mapping[str, Any], new: str) -> Iterator[tuple[str, ...]]:
    """Yield the command lines that connect the new container to all networks of the original but the first."""
    mode = str(inspected["HostConfig"].get("NetworkMode") or "")
    first = "bridge" if mode in _USUAL_NETWORKS else mode
    for network in inspected["NetworkSettings"].get("Networks") or {}:
        if network != first and ":" not in mode:
            aliases = [word for alias in _aliases(inspected, network) for word in ("--alias", alias)]
            yield ("docker", "network", "connect", *aliases, network, new)


def _aliases(inspected: Mapping[str, Any], network: str) -> list[str]:
    """Return the aliases of a container in a network, without its id, which docker adds as an alias."""
    found = (inspected["NetworkSettings"].get("Networks") or {}).get(network) or {}
    return [
        str(each) for each in found.get("Aliases") or () if not str(inspected["Id"]).startswith(str(each))
    ]


def _hardware(host: Mapping[str, Any]) -> Iterator[str]:
    for asked in host.get("DeviceRequests") or ():
        ids = [str(each) for each in asked.get("DeviceIDs") or ()]
        if asked.get("Driver") == "cdi":
            for each in ids:
                yield from ("--device", each)
            continue
        count = asked.get("Count") or 0
        which = f'"device={",".join(ids)}"' if ids else "all" if count < 0 else str(count)
        wanted = [str(each) for each in (asked.get("Capabilities") or [[]])[0]]
        yield from (
            "--gpus",
            which if wanted in ([], ["gpu"]) else f'{which},"capabilities={",".join(wanted)}"',
        )
    for each in host.get("Devices") or ():
        yield from (
            "--device",
            f"{each['PathOnHost']}:{each['PathInContainer']}:{each.get('CgroupPermissions') or 'rwm'}",
        )
    if str(host.get("Runtime") or "") not in _USUAL_RUNTIMES:
        yield from ("--runtime", str(host["Runtime"]))
    if host.get("NanoCpus"):
        yield from ("--cpus", f"{host['NanoCpus'] / 1e9:g}")
    if (host.get("ShmSize") or _DEFAULT_SHM) != _DEFAULT_SHM:
        yield from ("--shm-size", str(host["ShmSize"]))
    for each in host.get("Ulimits") or ():
        yield from ("--ulimit", f"{each['Name']}={each['Soft']}:{each['Hard']}")


def _isolation(host: Mapping[str, Any]) -> Iterator[str]:
    for key, flag in (
        ("IpcMode", "--ipc"),
        ("PidMode", "--pid"),
        ("UTSMode", "--uts"),
        ("UsernsMode", "--userns"),
    ):
        if str(host.get(key) or "") not in _USUAL_NAMESPACES:
            yield from (flag, str(host[key]))
    for each in map(str, host.get("SecurityOpt") or ()):
        if "{" not in each:  # a seccomp profile: the engine reports its text, but the option needs a file
            yield from ("--security-opt", each)
    for key, value in (host.get("Sysctls") or {}).items():
        yield from ("--sysctl", f"{key}={value}")
    temporary = {str(path): str(options) for path, options in (host.get("Tmpfs") or {}).items()}
    for each in host.get("Mounts") or ():
        if each.get("Type") == "tmpfs":
            temporary.setdefault(str(each["Target"]), "")
    for path, options in temporary.items():
        yield from ("--tmpfs", f"{path}:{options}" if options else path)
