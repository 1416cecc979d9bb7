"""Read a service of a compose file: its build, mounts, ports, and whether it requests a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.facts import ServiceFact
from dkdbg.launchers.words import split, whole_number
from dkdbg.setup.detect.docker.dockerfile import absolute
from dkdbg.setup.detect.files import is_address, is_fixed, join, parent
from dkdbg.setup.detect.values import Value, elements, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dkdbg.setup.detect.files import Tree


#: A container name that contains no variable.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, kw_only=True)
class ComposeBuild:
    """The parts of a `build` section that change what a Dockerfile builds."""

    args: dict[str, str]
    target: str | None


def read_body(
    tree: Tree, path: str, name: str, body: Value, devices: Mapping[str, str]
) -> tuple[ServiceFact, ComposeBuild]:
    """Return the facts of a service.

    Args:
        body: the service's definition, with variables replaced and extended services merged in.
        devices: name of a volume that binds a folder -> that folder.
    """
    folder = parent(path)
    context, dockerfile, build = read_build(tree, folder, body.get("build"))
    inline = table(body.get("build")).get("dockerfile_inline")
    if context is not None and isinstance(inline, str):
        dockerfile = f"{path}:{name}"
        tree.hold(dockerfile, inline)
    networks = body.get("networks")
    refers, environment = dict(_refers(body)), _environment(body.get("environment"))
    mounts = tuple(_mounts(elements(body.get("volumes")), devices))
    fact = ServiceFact(
        name=name,
        file=path,
        dockerfile=dockerfile,
        context=context,
        image=_text(body.get("image")),
        profiles=tuple(str(item) for item in elements(body.get("profiles"))),
        command=argv(body.get("command")),
        entrypoint=argv(body.get("entrypoint")),
        working_dir=_text(body.get("working_dir")),
        user=_text(body.get("user")),
        binds=_binds(tree, folder, mounts),
        volumes=tuple((source, remote) for kind, source, remote in mounts if kind == "volume"),
        ports=_ports(elements(body.get("ports"))),
        gpu=wants_gpu(body),
        depends_on=tuple(dict.fromkeys(each for named in refers.values() for each in named)),
        optional=tuple(
            str(each)
            for each, how in table(body.get("depends_on")).items()
            if table(how).get("required") is False
        ),
        refers=tuple(refers),
        host_network=body.get("network_mode") == "host",
        fixes_user=_drops_setuid(body),
        joins_network=str(body.get("network_mode")).startswith(("service:", "container:")),
        env_files=_env_files(tree, folder, body.get("env_file")),
        pythonpath=environment.get("PYTHONPATH"),
        variables=frozenset(environment),
        networks=tuple(map(str, table(networks) or elements(networks))),
        called=tuple(
            filter(_NAME.fullmatch, (_text(body.get(key)) or "" for key in ("container_name", "hostname")))
        ),
        says=frozenset(str(key) for key, value in body.items() if value is not None),
    )
    return fact, build


def _drops_setuid(body: Value) -> bool:
    dropped, added = (
        {str(each).upper().removeprefix("CAP_") for each in elements(body.get(key))}
        for key in ("cap_drop", "cap_add")
    )
    return bool(dropped & {"ALL", "SETUID"}) and not added & {"ALL", "SETUID"}


def _refers(body: Value) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (key, services) for each key by which a service refers to others, such as `depends_on`."""
    depends = body.get("depends_on")
    named = {
        "depends_on": [str(item) for item in (depends if isinstance(depends, (dict, list)) else ())],
        "links": [str(item).partition(":")[0] for item in elements(body.get("links"))],
        "volumes_from": [
            str(item).partition(":")[0]
            for item in elements(body.get("volumes_from"))
            if not str(item).startswith("container:")
        ],
    }
    for key in ("network_mode", "pid", "ipc"):
        value = str(body.get(key))
        named[key] = [value.removeprefix("service:")] if value.startswith("service:") else []
    for key, found in named.items():
        if found:
            yield key, tuple(found)


def read_build(tree: Tree, folder: str, build: Value) -> tuple[str | None, str | None, ComposeBuild]:
    """Return context and Dockerfile relative to the root (None if outside), and the rest of a `build` section."""
    if isinstance(build, str):
        build = {"context": build}
    if not isinstance(build, dict):
        return None, None, ComposeBuild(args={}, target=None)
    raw = build.get("args")
    pairs = (
        raw.items() if isinstance(raw, dict) else (str(item).partition("=")[::2] for item in elements(raw))
    )
    args = {str(key): str(value) for key, value in pairs if value is not None and value != ""}
    parts = ComposeBuild(args=args, target=_text(build.get("target")))
    context = str(build.get("context") or ".")
    if is_address(context):
        return None, None, parts
    directory = join(folder, context) if not context.startswith("/") else None
    if directory is None:
        return None, None, parts
    dockerfile = None
    if "dockerfile_inline" not in build:
        candidate = join(directory, str(build.get("dockerfile") or "Dockerfile"))
        dockerfile = candidate if candidate and tree.has(candidate) else None
    return directory, dockerfile, parts


def argv(value: Value) -> tuple[str, ...] | None:
    """Return a compose `command` or `entrypoint` as argv. Compose splits a string like a shell, but runs no shell."""
    if isinstance(value, list):
        return tuple(str(item) for item in value)
    return tuple(split(value)) if isinstance(value, str) else None


def _mounts(volumes: list[Value], devices: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, source and absolute remote path of each mount; a volume that binds a folder is a bind mount."""
    for volume in volumes:
        if isinstance(volume, dict):
            kind, source, remote = volume.get("type", "volume"), volume.get("source"), volume.get("target")
        else:
            source, remote = (*str(volume).split(":"), "")[:2]
            kind = "bind" if source.startswith((".", "/", "~")) else "volume"
        if source and isinstance(source, str) and isinstance(remote, str) and remote.startswith("/"):
            is_device = kind == "volume" and source in devices
            yield (
                "bind" if is_device else str(kind),
                devices[source] if is_device else source,
                absolute("/", remote),
            )


def _binds(tree: Tree, folder: str, mounts: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for kind, source, remote in mounts:
        local = join(folder, source) if kind == "bind" and source.startswith(".") else None
        real = tree.real_dir(local) if local is not None else None
        if local is not None and real is not None:
            # A file in a linked folder has two local names, and an editor may use either.
            found += [(each, remote) for each in (real, local)]
    return tuple(dict.fromkeys(found))


def _ports(ports: list[Value]) -> tuple[int, ...]:
    found: list[int] = []
    for port in ports:
        target = str(port.get("target", "") if isinstance(port, dict) else port)
        match = re.search(r"(\d+)(?:-\d+)?(?:/\w+)?$", target)
        if match and (inside := whole_number(match[1], 65535)):
            found.append(inside)
    return tuple(dict.fromkeys(found))


def _env_files(tree: Tree, folder: str, value: Value) -> tuple[str, ...]:
    """Return all environment files if a required one is missing (compose then rejects every command), otherwise ()."""
    found = read_env_files(folder, value)
    if any(path is None for path, _ in found) or not absent_files(tree, folder, value):
        return ()
    return tuple(path for path, _ in found if path is not None)


def absent_files(tree: Tree, folder: str, value: Value) -> tuple[str, ...]:
    """Return the environment files that are required but missing, relative to the root."""
    return tuple(
        path
        for path, is_required in read_env_files(folder, value)
        if path is not None and is_required and not tree.has(path)
    )


def read_env_files(folder: str, value: Value) -> list[tuple[str | None, bool]]:
    """Return (path relative to the root or None if outside, whether it is required) of each file of an `env_file`."""
    found: list[tuple[str | None, bool]] = []
    for each in [value] if isinstance(value, dict) else elements(value):
        named = each.get("path") if isinstance(each, dict) else each
        path = join(folder, str(named)) if isinstance(named, str) and not is_fixed(named) else None
        found.append((path, not isinstance(each, dict) or each.get("required", True) is not False))
    return found


def _environment(value: Value) -> dict[str, str | None]:
    """Return a service's variables and values; a variable without a value has None."""
    if isinstance(value, dict):
        return {str(name): _text(each) for name, each in value.items()}
    pairs = (str(each).partition("=") for each in elements(value))
    return {name: text if equals else None for name, equals, text in pairs}


def wants_gpu(body: Value) -> bool:
    """Return whether a service requests a GPU: by reservation, `gpus`, NVIDIA's runtime, device node or CDI name."""
    reserved = table(table(table(body.get("deploy")).get("resources")).get("reservations"))
    for device in map(table, elements(reserved.get("devices"))):
        capabilities = {str(word) for word in elements(device.get("capabilities"))}
        if str(device.get("driver")) in {"nvidia", "cdi", "amd"} or capabilities & {
            "gpu",
            "nvidia",
            "compute",
        }:
            return True
    if body.get("gpus") or body.get("runtime") == "nvidia":
        return True
    nodes = " ".join(str(device) for device in elements(body.get("devices")))
    return bool(re.search(r"/dev/(?:nvidia|kfd|dri|dxg)|\w+\.com/gpu", nodes))


def _text(value: Value) -> str | None:
    return None if value is None or isinstance(value, (dict, list)) else str(value)
