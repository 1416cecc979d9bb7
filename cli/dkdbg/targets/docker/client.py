"""A client of the Docker SDK for the engine that the `docker` command asks.

`docker.from_env()` before 7.2 ignores contexts, and 7.2 asks another engine without a word when the named context does
not exist, or when there is no config.json beside the contexts. So the command itself is asked which one it means.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dkdbg import process
from dkdbg.targets.docker.engine_errors import explain

if TYPE_CHECKING:
    from docker.api.client import APIClient
    from docker.tls import TLSConfig


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where an engine listens.

    Attributes:
        host: such as `unix:///var/run/docker.sock`, `tcp://node:2376` or `ssh://me@node`.
        tls: folder of ca.pem, cert.pem and key.pem; empty without TLS.
        verify: whether the engine's certificate is checked.
    """

    host: str
    tls: str = ""
    verify: bool = True

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this machine's kernel, as far as its address says."""
        return self.host.startswith("unix://")

    @property
    def is_a_persons(self) -> bool:
        """Whether a user runs it, rootless or in a virtual machine: its networks are not this machine's."""
        try:
            return self.is_local and Path(self.host.removeprefix("unix://")).stat().st_uid != 0
        except OSError:
            return False

    @property
    def is_ssh(self) -> bool:
        """Whether the docker command reaches it through ssh."""
        return self.host.startswith("ssh://")


def endpoint() -> Endpoint:
    """The engine that was chosen: by DOCKER_HOST, DOCKER_CONTEXT or `docker context use`, in this order.

    Raises:
        DkdbgError: there is no docker command, or no such context.
    """
    if os.environ.get("DOCKER_HOST"):
        return _of_environment(os.environ["DOCKER_HOST"])
    asked = process.run(["docker", "context", "inspect", "--format", "{{json .}}"], timeout=20.0)
    if asked.code:
        raise explain(asked.code, asked.stderr)
    context: dict[str, Any] = json.loads(asked.stdout) if asked.stdout.startswith("{") else {}
    if "Endpoints" not in context:
        raise explain(1, "Emulate Docker CLI using podman: " + asked.stdout + asked.stderr)
    chosen = context["Endpoints"]["docker"]
    if context["Name"] == "default":
        return _of_environment(chosen["Host"])
    material = context.get("TLSMaterial") or {}
    return Endpoint(
        host=chosen["Host"],
        tls=str(Path(context["Storage"]["TLSPath"], "docker")) if material.get("docker") else "",
        verify=not chosen.get("SkipTLSVerify"),
    )


def _of_environment(host: str) -> Endpoint:
    """As the docker command reads DOCKER_TLS_VERIFY, DOCKER_TLS and DOCKER_CERT_PATH."""
    verify = bool(os.environ.get("DOCKER_TLS_VERIFY"))
    folder = ""
    if host.startswith("tcp://") and (verify or os.environ.get("DOCKER_TLS")):
        folder = (
            os.environ.get("DOCKER_CERT_PATH")
            or os.environ.get("DOCKER_CONFIG")
            or str(Path.home() / ".docker")
        )
    return Endpoint(host=host, tls=folder, verify=verify)


def connect() -> APIClient:
    """A client of the chosen engine; the caller closes it. The first call in a process loads the SDK, a third of a second.

    Raises:
        DkdbgError: no such context, no engine, no permission, certificates that cannot be used, or an engine behind ssh.
    """
    return connect_to(endpoint())


def connect_to(where: Endpoint) -> APIClient:
    """As `connect`, to this engine."""
    from docker.api.client import APIClient
    from docker.errors import DockerException

    try:
        return APIClient(base_url=where.host, version="auto", tls=_tls(where))
    except (DockerException, OSError) as error:
        raise explain(1, _in_the_words_of_the_command(where, error)) from error


def _tls(where: Endpoint) -> TLSConfig | Literal[False]:
    if not where.tls:
        return False
    from docker.tls import TLSConfig

    files = {name: Path(where.tls, f"{name}.pem") for name in ("ca", "cert", "key")}
    there = {name: str(path) for name, path in files.items() if path.is_file()}
    pair = (there["cert"], there["key"]) if {"cert", "key"} <= there.keys() else None
    return TLSConfig(client_cert=pair, ca_cert=there.get("ca"), verify=where.verify)


def _in_the_words_of_the_command(where: Endpoint, error: Exception) -> str:
    """The SDK's error, so that what is known of the command's errors fits."""
    if "PermissionError" in str(error):
        return f"permission denied while trying to connect to the Docker daemon socket at {where.host}"
    return f"Cannot connect to the Docker daemon at {where.host}: {error}"
