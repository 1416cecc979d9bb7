"""Build command lines for Podman behind its Docker API, and adapt projects to it. Pure."""

from __future__ import annotations

import copy
import posixpath
from typing import TYPE_CHECKING, Any

from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.docker.compose import started
from dkdbg.targets.docker.container import PROJECT_NAME, SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Compose's build keys that map to `podman build` options, and keys that change nothing for it.
_KNOWN = {
    "context", "dockerfile", "args", "secrets", "target", "labels", "network", "additional_contexts", "extra_hosts",
    "shm_size", "no_cache", "pull",
}  # fmt: skip
_IDLE = {"cache_from", "cache_to", "provenance", "sbom", "tags"}


def is_podman(components: object) -> bool:
    """Return whether an engine with these components is Podman.

    Args:
        components: `.Server.Components` of `docker version`.
    """
    found = components if isinstance(components, list) else ()
    return any(isinstance(each, dict) and each.get("Name") == "Podman Engine" for each in found)


def has_selinux(info: Mapping[str, object]) -> bool:
    """Return whether SELinux separates this engine's containers from the machine's files, from `docker info`."""
    options = info.get("SecurityOptions")
    return any("selinux" in str(each) for each in (options if isinstance(options, list) else ()))


def unlabelled(model: Mapping[str, Any], service: str) -> dict[str, Any]:
    """Return the project with the debug service exempt from SELinux's labels.

    Otherwise mounts would be denied, or all of the user's files would have to be relabelled (`:z`).
    """
    made = copy.deepcopy(dict(model))
    debug = made["services"][service]
    debug["security_opt"] = [*(debug.get("security_opt") or ()), "label=disable"]
    return made


def builds(model: Mapping[str, Any], service: str, host: str) -> list[tuple[str, ...]]:
    """Return the command lines that build, under compose's names, the images of a service and of those it starts.

    BuildKit runs in its own image, which Podman would have to pull; the older builder does not support secrets.

    Args:
        model: the project as `docker compose config --format json` merges it.
        host: address of the engine, as in DOCKER_HOST.

    Raises:
        DkdbgError: the project requires something that `podman build` cannot do.
    """
    return [
        _build(model, name, host) for name in started(model, service) if model["services"][name].get("build")
    ]


def _build(model: Mapping[str, Any], name: str, host: str) -> tuple[str, ...]:
    service, project = model["services"][name], str(model.get("name", ""))
    build: dict[str, Any] = service["build"]
    unknown = sorted(set(build) - _KNOWN - _IDLE)
    image = str(service.get("image") or f"{project}-{name}")
    if unknown:
        raise DkdbgError(
            f"{name} is built with {printable(', '.join(unknown))}, which podman build does not support",
            hint=f"build it yourself, with the name {printable(image)}, and remove the build section of the service",
            exit_code=EXIT_ENGINE,
        )
    context = _plain(build["context"])
    argv = ["podman", "--url", host, "build", "--format", "docker", "--tag", image]
    argv += ["--file", posixpath.join(context, _plain(build.get("dockerfile") or "Dockerfile"))]
    argv += [
        word for key, value in _pairs(build.get("args")) for word in ("--build-arg", _assigned(key, value))
    ]
    labels = {**(build.get("labels") or {}), PROJECT_NAME: project, SERVICE: name}
    argv += [word for key, value in _pairs(labels) for word in ("--label", _assigned(key, value))]
    for each in build.get("secrets") or ():
        argv += ["--secret", _secret(model, each)]
    for key, flag in (("target", "--target"), ("network", "--network"), ("shm_size", "--shm-size")):
        argv += [flag, _plain(build[key])] if build.get(key) else []
    for key, value in _pairs(build.get("additional_contexts")):
        argv += ["--build-context", _assigned(key, value)]
    for host_entry in build.get("extra_hosts") or ():
        argv += ["--add-host", _plain(host_entry).replace("=", ":", 1)]
    argv += ["--no-cache"] if build.get("no_cache") else []
    return (*argv, "--pull-always" if build.get("pull") else "--pull=missing", context)


def _secret(model: Mapping[str, Any], used: Mapping[str, Any]) -> str:
    source = str(used["source"])
    of = (model.get("secrets") or {}).get(source, {})
    name = used.get("target") or source
    if of.get("environment"):
        return f"id={name},env={of['environment']}"
    return f"id={name},src={_plain(of.get('file', ''))}"


def _pairs(found: Mapping[str, Any] | None) -> Iterable[tuple[str, Any]]:
    return (found or {}).items()


def _assigned(key: str, value: object) -> str:
    """Return `KEY=VALUE`; without a value, `KEY` alone takes it from the environment."""
    return key if value is None else f"{key}={_plain(value)}"


def _plain(value: object) -> str:
    """Return the value with single `$`, which `docker compose config` doubles."""
    return str(value).replace("$$", "$")
