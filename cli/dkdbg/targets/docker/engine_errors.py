"""Explain error messages of docker and compose, and suggest what to type next."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg import hints
from dkdbg.errors import EXIT_CONFLICT, EXIT_ENGINE, EXIT_ERROR, EXIT_TIMEOUT, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.ssh import errors
from dkdbg.targets.ssh.command import SshHosts

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class _Known:
    fragment: str
    cause: str
    hint: str
    exit_code: int = EXIT_ENGINE


#: Docker's message about a failure of the ssh by which it reaches an engine; contains ssh's own messages.
_BY_SSH = re.compile(
    r"command \[ssh (?P<words>[^\]]*) docker system dial-stdio\] has exited with exit status (?P<code>\d+), [^\n]*?stderr=(?P<said>.*)",
    re.DOTALL,
)
#: A warning of compose, in which quotes may be escaped.
_UNSET = re.compile(r'The \\?"(\w+)\\?" variable is not set')
#: Messages of docker and compose about an empty value, possibly from an unset variable.
_EMPTY = re.compile(
    r"invalid reference format|neither an image nor a build context|no port specified: |empty section between colons"
    r"|invalid size: ''|missing IP: *$|env file  not found|undefined service \"\"|invalid (?:boolean|integer|number|float): *$"
    r"|custom device \"\"|the working directory '[^'\n]*' is invalid",
    re.IGNORECASE | re.MULTILINE,
)
#: The port that is in use, in messages of Docker and Podman.
_TAKEN = re.compile(r":(\d{1,5})(?:: bind\b| failed\b)")
_LAST_PORT = 65535
_WORDS = re.compile(r"(?:-l (?P<user>\S+) )?(?:-p (?P<port>\S+) )?-- (?P<host>\S+)$")
#: Messages of Docker Engine 26 to 28 and compose 2.26; a test quotes each real text. The first match wins.
_KNOWN = (
    _Known(
        fragment=r"Cannot connect to the Docker daemon at http://docker\.example\.com",
        cause="ssh gets to the machine, but no Docker engine answers there",
        hint="go there with ssh, and docker info says why: it does not run (sudo systemctl start docker), "
        "or this user may not use it (sudo usermod -aG docker $USER, then log in again)",
    ),
    _Known(
        fragment=r"Cannot connect to the Docker daemon at unix://\S*podman\S*\.sock",
        cause="no Podman answers at this socket",
        hint="systemctl --user start podman.socket (as root: systemctl start podman.socket), or podman system service -t 0 &",
    ),
    _Known(
        fragment=r"container-init binary not found on the host",
        cause="Podman has no init for containers, which the debug service asks for",
        hint="install catatonit (Debian: apt install catatonit)",
    ),
    _Known(
        fragment=r"unrecognized command `podman context|unknown flag: --format.*podman|Emulate Docker CLI using podman",
        cause="the docker command here is podman's own, which knows neither contexts nor compose's answers",
        hint="install docker's (Debian: docker-cli docker-compose), and "
        "export DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock",
    ),
    _Known(
        fragment=r"HTTP request to an HTTPS server",
        cause="this engine speaks TLS, and docker was not told to",
        hint="export DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=FOLDER, where FOLDER has ca.pem, cert.pem and key.pem from whoever runs it; "
        "or docker context create NAME --docker host=tcp://HOST:2376,ca=...,cert=...,key=...",
    ),
    _Known(
        fragment=r"server gave HTTP response to HTTPS client|first record does not look like a TLS handshake",
        cause="this engine does not speak TLS, and anybody who reaches its port is root there",
        hint="unset DOCKER_TLS_VERIFY if that is meant; DOCKER_HOST=ssh://HOST needs no open port",
    ),
    _Known(
        fragment=r"(?m:^|resolve docker endpoint: )open [^\n]*\b(?:ca|cert|key)\.pem: |could not read (?:CA certificate|X509 key pair|TLS)",
        cause="the certificates for this engine cannot be read",
        hint="without TLS: unset DOCKER_TLS_VERIFY; with it, DOCKER_CERT_PATH names the folder of ca.pem, cert.pem and key.pem, which whoever runs the engine made for you",
    ),
    _Known(
        fragment=r"tls: certificate required|tls: bad certificate|tls: unknown certificate|tlsv1[^\n]* alert (?:certificate required|unknown ca)",
        cause="the engine wants a certificate of yours, and takes none that it was shown",
        hint="cert.pem and key.pem in DOCKER_CERT_PATH must be signed by the engine's authority; ask the administrator",
    ),
    _Known(
        fragment=r"(?:Get|Post|Head|Put|Delete) \"https://[^\n]*tls: failed to verify certificate",
        cause="what answers there is not the engine that ca.pem vouches for",
        hint="is the address right? then ask whoever runs the engine for its ca.pem, or for a certificate that names the address",
    ),
    _Known(
        fragment=r"client version \S+ is too new\. Maximum supported API version is",
        cause="this engine is older than the API that docker was told to speak",
        hint="unset DOCKER_API_VERSION: docker and the engine agree on one by themselves",
    ),
    _Known(
        fragment=r"client version \S+ is too old\. Minimum supported API version is",
        cause="this docker is older than what the engine still speaks",
        hint="unset DOCKER_API_VERSION, or install a newer docker command and compose (docker-ce-cli, docker-compose-plugin)",
    ),
    _Known(
        fragment=r"requires API version \S+, but the Docker daemon API version is|requires? Docker Engine v?[\d.]+ or later",
        cause="this engine is too old for something that your compose file asks for",
        hint="upgrade the engine, or take that out in an override file (unset DOCKER_API_VERSION, if it is set)",
    ),
    _Known(
        fragment=r"bind source path does not exist",
        cause="a folder that the service mounts is not on the engine's machine",
        hint="make it there, or mount another one in an override file",
        exit_code=EXIT_CONFLICT,
    ),
    _Known(
        fragment=r"permission denied while trying to connect to the Docker daemon socket|dial unix [^:]+: connect: permission denied",
        cause="the Docker engine runs, but this user may not use its socket",
        hint="add yourself to its group (sudo usermod -aG docker $USER), log in again, or use a rootless engine",
    ),
    _Known(
        fragment=r"Cannot connect to the Docker daemon|error during connect|connection refused.*docker|docker daemon is not running",
        cause="no Docker engine answers",
        hint=hints.ENGINE_DOWN(),
    ),
    _Known(
        fragment=r"context not found|unable to parse docker host|unable to resolve docker endpoint",
        cause="the docker command does not know which engine to ask",
        hint="docker context ls shows the engines it knows; DOCKER_CONTEXT and DOCKER_HOST choose one",
    ),
    _Known(
        fragment=r"unknown (shorthand )?flag: .*'?p'? in -profile|'compose' is not a docker command|unknown command: docker compose",
        cause="this docker has no compose plugin",
        hint="install docker-compose-plugin (Debian: docker-compose, 2.24.4 or newer)",
    ),
    _Known(
        fragment=r"address already in use|port is already allocated|ports are not available",
        cause="a port of the service is taken on this machine",
        hint="`dkdbg up` takes a free debug port by itself; for port 8000 of the program write DKDBG_APP_PORT_8000=18001 into .env",
        exit_code=EXIT_CONFLICT,
    ),
    _Known(
        fragment=r"could not select device driver \"?\w*\"? with capabilities",
        cause="the service asks for a GPU, and this engine has no driver for one",
        hint="run without: DKDBG_GPU=none; or install the NVIDIA Container Toolkit and restart the engine",
    ),
    _Known(
        fragment=r"unknown or invalid runtime name: nvidia",
        cause="the service asks for the nvidia runtime, which this engine does not have",
        hint="install the NVIDIA Container Toolkit (nvidia-ctk runtime configure), or set DKDBG_GPU=none",
    ),
    _Known(
        fragment=r"CDI device injection failed|unresolvable CDI devices",
        cause="the CDI device that the service asks for is not described on this machine",
        hint="nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, then `nvidia-ctk cdi list`; or DKDBG_GPU=none",
    ),
    _Known(
        fragment=r"error gathering device information while adding custom device",
        cause="a device that the service asks for does not exist on this machine",
        hint="set DKDBG_GPU=none, or load the driver that makes the device",
    ),
    _Known(
        fragment=r"could not find an available, non-overlapping IPv4 address pool|all predefined address pools have been fully subnetted",
        cause="the engine has no address range left for the network of another project",
        hint="take away the networks that no container uses: docker network prune",
        exit_code=EXIT_CONFLICT,
    ),
    _Known(
        fragment=r"error setting rlimit",
        cause="this engine may not raise the ulimits that the compose file asks for (rootless or nested engine)",
        hint="take the ulimits out of the service for this machine, in an override file",
    ),
    _Known(
        fragment=r"service \"?dkdbg-gpu-[^\n]* not found",
        cause="DKDBG_GPU names no kind of GPU that the debug service knows",
        hint="DKDBG_GPU is one of none, nvidia, cdi, amd",
    ),
    _Known(
        fragment=r"cannot extend service \"[^\"\n]*-(?:debug|dkdbg)(?:-\d+)?\" in [^\n]*: service [^\n]* not found",
        cause="the debug service extends a service that your compose file does not have any more",
        hint="dkdbg init writes the debug service anew, for a service that is there",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"failed to resolve source metadata|pull access denied|manifest unknown|failed to do request: Head"
        r"|Error response from daemon: (?:Get|Head) \"https?://[^\"\n]*/v2/|initializing source docker://|short-name [^\n]* did not resolve to an alias",
        cause="the base image is not on this machine and cannot be pulled",
        hint="log in (docker login), or name one that you have: DKDBG_BASE=registry.example/python:3.11 where dkdbg init wrote the Dockerfile, its FROM line in one of yours",
    ),
    _Known(
        fragment=r"CERTIFICATE_VERIFY_FAILED|certificate signed by unknown authority|unable to get local issuer certificate",
        cause="the build does not trust the certificate of your network's proxy or index",
        hint="DKDBG_CA=/etc/ssl/certs/ca-certificates.crt hands it your CA bundle as a build secret",
    ),
    _Known(
        fragment=r"no space left on device",
        cause="the disk of the Docker engine is full",
        hint="docker system df shows what fills it; docker builder prune frees the build cache",
    ),
    _Known(
        fragment=r"mounts denied|path .* is not shared from the host",
        cause="Docker Desktop does not share this folder with its machine",
        hint="share it: Settings, Resources, File sharing",
    ),
    _Known(
        fragment=r"(Couldn't find env file|env file [^\n]* not found)",
        cause="an env_file of your compose file does not exist",
        hint="create it (often from a .env.example beside it)",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"container rootfs is marked read-only",
        cause="the service's file system is read-only, so compose cannot put the token of the debug port into it",
        hint="read_only: false for the debug service in an override file, or DKDBG_TOKEN= for a start without a token",
        exit_code=EXIT_CONFLICT,
    ),
    _Known(
        fragment=r"no such service",
        cause="the project has no such service; the debug files may be older than your compose file",
        hint="dkdbg init writes them again; a file of ours that you changed is kept: remove it first",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"application not healthy after",
        cause="the debugger did not start to listen in time",
        hint="the program's last lines are above; DKDBG_DEBUG=1 makes the agent say more",
        exit_code=EXIT_TIMEOUT,
    ),
    _Known(
        fragment=r"container \S+ exited \((\d+)\)",
        cause="the program ended before an editor could attach",
        hint="its last lines are above",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"container \S+ is unhealthy",
        cause="the debugger does not listen in the container",
        hint="the program's last lines are above",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"project name must not be empty|invalid project name",
        cause="compose cannot make a project name from the name of this folder",
        hint="give it one in .env: COMPOSE_PROJECT_NAME=name (small letters, digits, - and _)",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"required variable \S+ is missing a value",
        cause="your compose file needs a variable that is not set",
        hint="set it in the environment or in .env",
        exit_code=EXIT_ERROR,
    ),
    _Known(
        fragment=r"yaml: |invalid compose|additional propert|validating [^\n]*: |undefined service|error while interpolating|invalid interpolation|"
        r"invalid hostport|invalid containerport|refers to undefined",
        cause="compose does not accept the project's files",
        hint="docker compose --profile debug config shows where",
        exit_code=EXIT_ERROR,
    ),
)  # fmt: skip


def explain(code: int, output: str) -> DkdbgError:
    """Return the error for a failed docker or compose command: the cause in our terms, then the engine's own line."""
    by_ssh = _by_ssh(output)
    if by_ssh is not None:
        return by_ssh
    unset, empty = ", ".join(dict.fromkeys(_UNSET.findall(output))), _EMPTY.search(output)
    if unset and empty:
        return DkdbgError(
            f"your compose file uses variables that are not set: {unset}\n  engine: {_line_of(output, empty.start())}",
            hint=f"give {unset} a value in .env or in the environment",
            exit_code=EXIT_ERROR,
        )
    for known in _KNOWN:
        found = re.search(known.fragment, output, re.IGNORECASE)
        if found:
            return DkdbgError(
                f"{known.cause}\n  engine: {_line_of(output, found.start())}",
                hint=known.hint,
                exit_code=known.exit_code,
            )
    last = [line for line in output.strip().splitlines() if line.strip()][-6:]
    return DkdbgError(
        f"docker failed with exit code {code}:\n  " + "\n  ".join(last or ["(it said nothing)"]),
        hint="the same by hand: docker compose --profile debug up --build --wait SERVICE (plain dkdbg names it)",
        exit_code=EXIT_ENGINE,
    )


def with_port(error: DkdbgError, model: Mapping[str, Any], service: str) -> DkdbgError:
    """Return the error with a hint how to change the port that is in use, unless it is the debug port.

    Args:
        error: an error from `explain`.
        model: the project as `docker compose config --format json` merges it.
        service: the debug service.
    """
    said = _TAKEN.search(error.message) if error.exit_code == EXIT_CONFLICT else None
    if said is None:
        return error
    taken = int(said[1])
    for name, body in model.get("services", {}).items():
        for each in body.get("ports") or ():
            if str(each.get("published")) != str(taken):
                continue
            variable = f"DKDBG_APP_PORT_{each.get('target')}={taken + 1 if taken < _LAST_PORT else taken - 1}"
            return DkdbgError(
                error.message,
                hint=f"for port {each.get('target')} of the program, write a free one into .env, such as {variable}"
                if name == service
                else f"{name} of your compose file publishes port {taken}: stop what has it, or publish another one",
                exit_code=error.exit_code,
            )
    return error


def _by_ssh(output: str) -> DkdbgError | None:
    """Return the error of the ssh by which an engine is reached; None if ssh did not fail."""
    ended = _BY_SSH.search(output)
    words = ended and _WORDS.search(ended["words"])
    if not ended or not words:
        return None
    user, port = words["user"], words["port"]
    hop = (f"{user}@" if user else "") + words["host"] + (f":{port}" if port else "")
    if ended["code"] == "255":
        error = errors.explain(SshHosts(hops=(hop,), folder=""), ended["said"])
        return DkdbgError(error.message, hint=error.hint, exit_code=EXIT_ENGINE)
    return DkdbgError(
        f"docker cannot be run on {printable(hop)}: {printable(ended['said'].strip()[-300:])}",
        hint="Docker 18.09 or newer must be installed there, in the PATH of commands that ssh runs",
        exit_code=EXIT_ENGINE,
    )


def _line_of(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:400]
