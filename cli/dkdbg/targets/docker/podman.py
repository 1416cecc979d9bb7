"""Build and start services with Podman behind its Docker API: its command lines, and the agent's health checked directly."""

from __future__ import annotations

import copy
import posixpath
import time
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.errors import EXIT_ENGINE, EXIT_TIMEOUT, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.docker import client, compose_cli, containers
from dkdbg.targets.docker.compose import started
from dkdbg.targets.docker.container import PROJECT_NAME, SERVICE
from dkdbg.targets.docker.engine_errors import check, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from dkdbg.targets.docker.compose import ComposeService

#: Compose's build keys that map to `podman build` options, and keys that change nothing for it.
_KNOWN = {
    "context", "dockerfile", "args", "secrets", "target", "labels", "network", "additional_contexts", "extra_hosts",
    "shm_size", "no_cache", "pull",
}  # fmt: skip
_IDLE = {"cache_from", "cache_to", "provenance", "sbom", "tags"}
#: Timeout for one health check by the agent, which itself waits 20 s for an agent to start, and later 2 s.
_HEALTH_TIMEOUT_S = 40.0
#: Seconds between two checks of a container that cannot run a command yet.
_POLL_S = 0.3


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
    """Return `KEY=VALUE`, or `KEY` alone without a value: Podman then takes the value from the environment."""
    return key if value is None else f"{key}={_plain(value)}"


def _plain(value: object) -> str:
    """Return the value with single `$`, which `docker compose config` doubles."""
    return str(value).replace("$$", "$")


def build(
    model: Mapping[str, Any],
    service: str,
    root: Path,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
) -> None:
    """Build the images of a service and of the services started with it, using `podman build`.

    Raises:
        DkdbgError: a build failed.
    """
    if not process.is_installed("podman"):
        raise DkdbgError(
            "the engine is Podman, but the podman command, which dkdbg needs to build images, is not installed",
            hint="install podman on this machine (Debian: apt install podman)",
            exit_code=127,
        )
    for argv in builds(model, service, client.endpoint().host):
        check(process.stream(argv, cwd=root, env=env, report=report))


def up(
    target: ComposeService,
    root: Path,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
    wait_timeout: int,
) -> None:
    """Start the service and return when attaching will work.

    Podman checks a container's health with systemd timers, and not at all without systemd. So the agent is
    queried directly.

    Args:
        wait_timeout: seconds.

    Raises:
        DkdbgError: the start failed; the last lines of the program's output have been reported.
    """
    compose_cli.up(target, target.up_unseen(), root, env=env, report=report)
    deadline = time.monotonic() + wait_timeout
    while True:
        seen = containers.of_service(target, root)
        if seen is None or seen.status not in {"running", "created", "initialized", "starting"}:
            compose_cli.report_last_lines(target, root, env=env, report=report)
            code = seen.code if seen else 1
            raise explain(1, f"container {seen.name if seen else target.service} exited ({code})")
        if time.monotonic() > deadline:
            compose_cli.report_last_lines(target, root, env=env, report=report)
            raise DkdbgError(
                f"the debugger did not start to listen within {wait_timeout} s",
                hint="the program's last lines are above; dkdbg doctor looks for a cause on this machine, dkdbg verify for one in the service",
                exit_code=EXIT_TIMEOUT,
            )
        argv = ("docker", "exec", seen.id, *seen.agent, "health", "--wait")
        health = process.run(argv, timeout=_HEALTH_TIMEOUT_S)
        if not health.code:
            return
        time.sleep(_POLL_S)
