"""Create a client of the Docker SDK for the engine that the `docker` command uses.

`docker.from_env()` before 7.2 ignores contexts. 7.2 silently uses another engine if the named context does not exist,
or if there is no config.json beside the contexts. So dkdbg asks the command which engine it uses.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dkdbg import process
from dkdbg.targets.docker.engine_errors import check, explain

if TYPE_CHECKING:
    from docker.api.client import APIClient
    from docker.tls import TLSConfig


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Address of an engine.

    Attributes:
        host: such as `unix:///var/run/docker.sock`, `tcp://node:2376` or `ssh://me@node`.
        tls: folder of ca.pem, cert.pem and key.pem; empty without TLS.
        verify: whether to check the engine's certificate.
    """

    host: str
    tls: str = ""
    verify: bool = True

    @property
    def is_local(self) -> bool:
        """Return whether the engine runs on this machine's kernel, judging by its address."""
        return self.host.startswith("unix://")

    @property
    def has_own_networks(self) -> bool:
        """Return whether the engine's networks are not this machine's: it is rootless, or in a user's own VM."""
        try:
            return self.is_local and Path(self.host.removeprefix("unix://")).stat().st_uid != 0
        except OSError:
            return False

    @property
    def is_ssh(self) -> bool:
        """Return whether the docker command reaches the engine through ssh."""
        return self.host.startswith("ssh://")


def endpoint(timeout_s: float = 20.0) -> Endpoint:
    """Return the selected engine: by DOCKER_HOST, DOCKER_CONTEXT or `docker context use`, in this order.

    Raises:
        DkdbgError: there is no docker command, or the context does not exist.
    """
    if os.environ.get("DOCKER_HOST"):
        return _of_environment(os.environ["DOCKER_HOST"])
    asked = check(process.run(["docker", "context", "inspect", "--format", "{{json .}}"], timeout=timeout_s))
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
    """Return the endpoint at `host` with TLS settings from DOCKER_TLS_VERIFY, DOCKER_TLS and DOCKER_CERT_PATH."""
    verify = bool(os.environ.get("DOCKER_TLS_VERIFY"))
    folder = ""
    if host.startswith("tcp://") and (verify or os.environ.get("DOCKER_TLS")):
        folder = (
            os.environ.get("DOCKER_CERT_PATH")
            or os.environ.get("DOCKER_CONFIG")
            or str(Path.home() / ".docker")
        )
    return Endpoint(host=host, tls=folder, verify=verify)


def connect(where: Endpoint | None = None) -> APIClient:
    """Return a client of an engine, by default the selected one; the caller closes it.

    The first call loads the SDK, a third of a second.

    Raises:
        DkdbgError: no such context, no engine, no permission or unusable certificates.
    """
    from docker.api.client import APIClient
    from docker.errors import DockerException

    where = where or endpoint()
    try:
        if where.is_ssh:
            from dkdbg.targets.docker.ssh_client import SshClient

            return SshClient()
        return APIClient(base_url=where.host, version="auto", tls=_tls(where))
    except (DockerException, OSError) as error:
        raise explain(1, _as_command_error(where, error)) from error


def _tls(where: Endpoint) -> TLSConfig | Literal[False]:
    if not where.tls:
        return False
    from docker.tls import TLSConfig

    files = {name: Path(where.tls, f"{name}.pem") for name in ("ca", "cert", "key")}
    existing = {name: str(path) for name, path in files.items() if path.is_file()}
    pair = (existing["cert"], existing["key"]) if {"cert", "key"} <= existing.keys() else None
    return TLSConfig(client_cert=pair, ca_cert=existing.get("ca"), verify=where.verify)


def _as_command_error(where: Endpoint, error: Exception) -> str:
    """Reword an error of the SDK as the docker command would, so that `explain` recognizes it."""
    if "PermissionError" in str(error):
        return f"permission denied while trying to connect to the Docker daemon socket at {where.host}"
    return f"Cannot connect to the Docker daemon at {where.host}: {error}"
