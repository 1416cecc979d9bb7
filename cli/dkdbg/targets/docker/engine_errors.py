"""Explain error messages of docker and compose, and suggest what to type next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dkdbg import hints
from dkdbg.core.known_errors import NO_SHELL, Known, bounded, first, line_at
from dkdbg.errors import EXIT_CONFLICT, EXIT_ENGINE, EXIT_ERROR, EXIT_TIMEOUT, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.ssh import errors
from dkdbg.targets.ssh.command import SshHosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.process import Result
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
_TAKEN = re.compile(r":(\d{1,5})(?:: bind\b| failed\b|(?::\S+)?/\w+: address\b)|\bbind port (\d{1,5})\b")
_LAST_PORT = 65535
_WORDS = re.compile(r"(?:-l (?P<user>\S+) )?(?:-p (?P<port>\S+) )?-- (?P<host>\S+)$")
#: Messages of Docker Engine 26 to 28 and compose 2.26; a test quotes each real text. The first match wins.
_KNOWN = (
    Known(r"Cannot connect to the Docker daemon at http://docker\.example\.com",
          "ssh reaches the machine, but no Docker engine answers there",
          "docker info on that machine says why: the engine is not running (sudo systemctl start docker), "
          "or this user may not use it (sudo usermod -aG docker $USER, then log in again)"),
    Known(r"Cannot connect to the Docker daemon at unix://\S*podman\S*\.sock",
          "no Podman answers at this socket",
          "systemctl --user start podman.socket (as root: systemctl start podman.socket), or podman system service -t 0 &"),
    Known(r"container-init binary not found on the host",
          "Podman has no init process for containers, but the debug service requests one",
          "install catatonit (Debian: apt install catatonit)"),
    Known(r"unrecognized command `podman context|unknown flag: --format.*podman|Emulate Docker CLI using podman",
          "the docker command here is podman's own, which supports neither contexts nor compose's output formats",
          "install docker's (Debian: docker-cli docker-compose), and "
          "export DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock"),
    Known(r"HTTP request to an HTTPS server",
          "this engine requires TLS, and docker is not configured for it",
          "export DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=FOLDER, where FOLDER has ca.pem, cert.pem and key.pem from its administrator; "
          "or docker context create NAME --docker host=tcp://HOST:2376,ca=...,cert=...,key=..."),
    Known(r"server gave HTTP response to HTTPS client|first record does not look like a TLS handshake",
          "this engine does not use TLS: anyone who can reach its port is root there",
          "unset DOCKER_TLS_VERIFY if that is intended; DOCKER_HOST=ssh://HOST needs no open port"),
    Known(r"(?m:^|resolve docker endpoint: )open [^\n]*\b(?:ca|cert|key)\.pem: |could not read (?:CA certificate|X509 key pair|TLS)",
          "the certificates for this engine cannot be read",
          "without TLS: unset DOCKER_TLS_VERIFY; with TLS: set DOCKER_CERT_PATH to the folder with ca.pem, cert.pem and key.pem from the engine's administrator"),
    Known(r"tls: certificate required|tls: bad certificate|tls: unknown certificate|tlsv1[^\n]* alert (?:certificate required|unknown ca)",
          "the engine requires a client certificate, and rejected the one it was sent",
          "cert.pem and key.pem in DOCKER_CERT_PATH must be signed by the engine's authority; ask the administrator"),
    Known(r"(?:Get|Post|Head|Put|Delete) \"https://[^\n]*tls: failed to verify certificate",
          "the server's certificate was not issued by the authority in ca.pem",
          "check the address; then ask the administrator for the engine's ca.pem, or for a certificate that names this address"),
    Known(r"client version \S+ is too new\. Maximum supported API version is",
          "this engine is older than the API version that docker is set to use",
          "unset DOCKER_API_VERSION: docker and the engine then negotiate one"),
    Known(r"client version \S+ is too old\. Minimum supported API version is",
          "this docker command is older than the engine supports",
          "unset DOCKER_API_VERSION, or install a newer docker command and compose (docker-ce-cli, docker-compose-plugin)"),
    Known(r"requires API version \S+, but the Docker daemon API version is|requires? Docker Engine v?[\d.]+ or later",
          "this engine is too old for an option in your compose file",
          "upgrade the engine, or reset the option in an override file (unset DOCKER_API_VERSION, if it is set)"),
    Known(r"bind source path does not exist",
          "a folder that the service mounts is not on the engine's machine",
          "create it on that machine, or mount another folder in an override file", EXIT_CONFLICT),
    Known(r"permission denied while trying to connect to the Docker daemon socket|dial unix [^:\n]+: connect: permission denied",
          "the Docker engine runs, but this user may not use its socket",
          "add yourself to its group (sudo usermod -aG docker $USER), log in again, or use a rootless engine"),
    Known(r"Cannot connect to the Docker daemon|error during connect|connection refused.*docker|docker daemon is not running",
          "no Docker engine answers",
          hints.ENGINE_DOWN()),
    Known(r"context not found|unable to parse docker host|unable to resolve docker endpoint",
          "the docker command does not know which engine to ask",
          "docker context ls shows the engines it knows; DOCKER_CONTEXT and DOCKER_HOST choose one"),
    Known(r"unknown (shorthand )?flag: .*'?p'? in -profile|'compose' is not a docker command|unknown command: docker compose",
          "this docker has no compose plugin",
          "install docker-compose-plugin (Debian: docker-compose, 2.24.4 or newer)"),
    Known(r"(?m:(?:daemon|networking): address already in use\s*$)",
          "an address of the service is taken, such as its ipv4_address",
          "docker network inspect NETWORK shows which container has it; give the service another one", EXIT_CONFLICT),
    Known(r"address already in use|port is already allocated|ports are not available",
          "a port of the service is taken on this machine",
          "`dkdbg up` picks a free debug port automatically; another one may be in .env, as DKDBG_APP_PORT_ and the container's port; "
          "ss -ltnp shows which program has it", EXIT_CONFLICT),
    Known(r"could not select device driver \"?\w*\"? with capabilities",
          "the service asks for a GPU, and this engine has no driver for one",
          "run without: DKDBG_GPU=none; or install the NVIDIA Container Toolkit and restart the engine"),
    Known(r"unknown or invalid runtime name: nvidia",
          "the service asks for the nvidia runtime, which this engine does not have",
          "install the NVIDIA Container Toolkit (nvidia-ctk runtime configure), or set DKDBG_GPU=none"),
    Known(r"CDI device injection failed|unresolvable CDI devices",
          "no CDI specification on this machine has the device that the service requests",
          "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, then `nvidia-ctk cdi list`; or DKDBG_GPU=none"),
    Known(r"error gathering device information while adding custom device",
          "a device that the service requests does not exist on this machine",
          "set DKDBG_GPU=none, or load the driver that makes the device"),
    Known(r"could not find an available, non-overlapping IPv4 address pool|all predefined address pools have been fully subnetted",
          "the engine has no free address range for one more network",
          "remove the networks that no container uses: docker network prune", EXIT_CONFLICT),
    Known(r"invalid volume specification: '(?![A-Za-z]:[\\/])(?:[^:'\n]*:){3}",
          "compose's short volume syntax cannot mount a folder whose path contains a colon",
          "rename the folder in the engine's line, without the colon", EXIT_ERROR),
    Known(r"error setting rlimit",
          "this engine has no permission to raise the ulimits in the compose file (rootless or nested engine)",
          "reset the service's ulimits for this machine, in an override file"),
    Known(r"service \"?dkdbg-gpu-[^\n]* not found",
          "the debug service has no GPU variant for this value of DKDBG_GPU",
          "set DKDBG_GPU to none, nvidia, cdi or amd"),
    Known(r"cannot extend service \"[^\"\n]*-(?:debug|dkdbg)(?:-\d+)?\" in [^\n]*: service [^\n]* not found",
          "the debug service extends a service that your compose file no longer has",
          "dkdbg init rewrites the debug service for one that exists", EXIT_ERROR),
    Known(r"failed to resolve source metadata for [^\s]*docker/dockerfile\b",
          "the frontend of the Dockerfile's `# syntax=` line is not on this machine and cannot be pulled",
          "remove that line: BuildKit has a frontend of its own; or make its registry reachable: docker pull docker/dockerfile:1"),
    Known(r"Error response from daemon: No such image: ",
          "the service's image is not on this machine, and its pull_policy forbids to pull it",
          "docker compose build makes it, if another service of the project builds it; then the same command again", EXIT_ERROR),
    Known(r"failed to resolve source metadata|pull access denied|manifest unknown|failed to do request: Head"
          r"|Error response from daemon: (?:Get|Head) \"https?://[^\"\n]*/v2/|initializing source docker://|short-name [^\n]* did not resolve to an alias",
          "the base image is not on this machine and cannot be pulled",
          "log in (docker login), or use an image that you have: DKDBG_BASE=registry.example/python:3.11 if dkdbg init wrote the Dockerfile, else its FROM line"),
    # A line of pip's search for a newer pip does not count: pip searches after a failure, and an index that
    # is unreachable then does no harm.
    Known(r"(?m:^(?![^\n]*Could not fetch URL [^\s:]+:[^\s:]+/pip/: )[^\n]*(?:CERTIFICATE_VERIFY_FAILED|certificate signed by unknown authority|unable to get local issuer certificate|invalid peer certificate))",
          "the build does not trust the certificate of your network's proxy or index",
          "DKDBG_CA=/etc/ssl/certs/ca-certificates.crt passes your CA bundle to a Dockerfile that dkdbg init wrote; in your own, "
          "before pip: COPY company.pem /etc/ssl/company.pem and ENV PIP_CERT=/etc/ssl/company.pem"),
    Known(r"no space left on device",
          "the disk of the Docker engine is full",
          "docker system df shows what fills it; docker builder prune frees the build cache"),
    Known(r"mkdir: (?:cannot|can't) create directory [^\n]*File exists",
          "the Dockerfile makes a folder that the checkout has already, perhaps since a debugged program wrote into it",
          "move the folder out of the checkout, or write mkdir -p into the Dockerfile", EXIT_ERROR),
    Known(r"mounts denied|path .* is not shared from the host",
          "Docker Desktop does not share this folder with its virtual machine",
          "share it: Settings, Resources, File sharing"),
    Known(r"(Couldn't find env file|env file [^\n]* not found)",
          "an env_file of your compose file does not exist",
          "create it (often from a .env.example beside it)", EXIT_ERROR),
    Known(r"rootfs at \"/opt/dkdbg[^\n]*read-only file system|exec: \"/sbin/docker-init\"",
          "a read-only mount of the service covers dkdbg's mount point (/opt/dkdbg) or docker's (/sbin/docker-init)",
          "in your compose file, mount only the subfolders that the program needs: /opt/conda:/opt/conda:ro instead of /opt:/opt:ro", EXIT_CONFLICT),
    Known(r"exec: \"sh\": (?:executable file not found|stat |no such file)",
          *NO_SHELL, EXIT_ERROR),
    Known(r"container rootfs is marked read-only",
          "the service's file system is read-only, so compose cannot put the token of the debug port into it",
          "set read_only: false for the debug service in an override file, or DKDBG_TOKEN= to start without a token", EXIT_CONFLICT),
    Known(r"no such service",
          "the project has no such service; the debug files may be older than your compose file",
          "dkdbg init rewrites them; it keeps a generated file that you changed: remove it first", EXIT_ERROR),
    Known(r"application not healthy after",
          "the debugger did not start to listen in time",
          "the program's last lines are above; dkdbg doctor looks for a cause on this machine, dkdbg verify for one in the service", EXIT_TIMEOUT),
    Known(r"dependency failed to start: |service \"[^\"\n]+\" didn't complete successfully: exit",
          "a service that yours depends on is unhealthy, or has ended with an error",
          "docker compose up NAME shows why; NAME is in the line of the engine", EXIT_ERROR),
    Known(r"network (?![0-9a-f]{64}\b)\S+ (?:declared as external, but could not be found|not found)",
          "a network that your compose file calls external does not exist",
          "docker network create NAME; NAME is in the line of the engine", EXIT_ERROR),
    Known(r"external volume \S+ not found",
          "a volume that your compose file calls external does not exist",
          "docker volume create NAME; NAME is in the line of the engine", EXIT_ERROR),
    Known(r"container \S+ exited \((\d+)\)",
          "the program ended before an editor could attach",
          "its last lines are above; dkdbg verify names the cause", EXIT_ERROR),
    Known(r"container \S+ is unhealthy",
          "the debugger does not listen in the container",
          "the program's last lines are above", EXIT_ERROR),
    Known(r"project name must not be empty|invalid project name",
          "compose cannot make a project name from the name of this folder",
          "give it one in .env: COMPOSE_PROJECT_NAME=name (lowercase letters, digits, - and _)", EXIT_ERROR),
    Known(r"required variable \S+ is missing a value",
          "your compose file needs a variable that is not set",
          "set it in the environment or in .env", EXIT_ERROR),
    Known(r"yaml: |invalid compose|additional propert|validating [^\n]*: |undefined service|error while interpolating|invalid interpolation|"
          r"invalid hostport|invalid containerport|refers to undefined",
          "compose does not accept the project's files",
          "docker compose --profile debug config shows where", EXIT_ERROR),
)  # fmt: skip


def explain(code: int, output: str) -> DkdbgError:
    """Return the error for a failed docker or compose command: the cause in dkdbg's words, then the engine's line."""
    by_ssh = _by_ssh(output)
    if by_ssh is not None:
        return by_ssh
    unset, empty = ", ".join(dict.fromkeys(_UNSET.findall(output))), _EMPTY.search(output)
    if unset and empty:
        return DkdbgError(
            f"your compose file uses variables that are not set: {unset}\n  engine: {line_at(output, empty.start())}",
            hint=f"give {unset} a value in .env or in the environment",
            exit_code=EXIT_ERROR,
        )
    shown = bounded(output)
    if found := first(_KNOWN, shown, re.IGNORECASE):
        known, match = found
        cause = f"{known.cause}\n  engine: {line_at(shown, match.start())}"
        return DkdbgError(cause, hint=known.hint, exit_code=known.exit_code)
    is_build = "failed to solve: process" in output
    last = [line for line in output.strip().splitlines() if line.strip()][-6:]
    return DkdbgError(
        f"docker failed with exit code {code}"
        + (":\n  " + "\n  ".join(last) if last else ", and printed no error"),
        hint="dkdbg verify names what the image cannot install"
        if is_build
        else "without dkdbg: docker compose --profile debug up --build --wait SERVICE (plain dkdbg names it)",
        exit_code=EXIT_ENGINE,
    )


def check(result: Result) -> Result:
    """Return the result of a docker or compose command. Raises DkdbgError: the command has failed."""
    if result.code:
        raise explain(result.code, result.stderr or result.stdout)
    return result


def with_port(error: DkdbgError, model: Mapping[str, Any], service: str) -> DkdbgError:
    """Return the error with a hint on changing the port that is in use, unless it is the debug port.

    Args:
        error: an error from `explain`.
        model: the project as `docker compose config --format json` merges it.
    """
    match = _TAKEN.search(error.message) if error.exit_code == EXIT_CONFLICT else None
    if match is None:
        return error
    taken = int(match[1] or match[2])
    for name, body in model.get("services", {}).items():
        for each in body.get("ports") or ():
            if str(each.get("published")) != str(taken):
                continue
            variable = f"DKDBG_APP_PORT_{each.get('target')}={taken + 1 if taken < _LAST_PORT else taken - 1}"
            return DkdbgError(
                error.message,
                hint=f"to publish port {each.get('target')} of the program, write a free port into .env, such as {variable}"
                if name == service
                else f"the service {name} publishes port {taken}: stop the program that uses it, or publish another port",
                exit_code=error.exit_code,
            )
    return error


def _by_ssh(output: str) -> DkdbgError | None:
    """Return the error of the ssh connection to an engine; None if ssh did not fail."""
    ended = _BY_SSH.search(output)
    named = ended and _WORDS.search(ended["words"])
    if not ended or not named:
        return None
    user, port = named["user"], named["port"]
    hop = (f"{user}@" if user else "") + named["host"] + (f":{port}" if port else "")
    if ended["code"] == "255":
        error = errors.explain(SshHosts(hops=(hop,), folder=""), ended["said"])
        return DkdbgError(error.message, hint=error.hint, exit_code=EXIT_ENGINE)
    return DkdbgError(
        f"docker cannot be run on {printable(hop)}: {printable(ended['said'].strip()[-300:])}",
        hint="Docker 18.09 or newer must be installed on that host, in the PATH of commands that ssh runs",
        exit_code=EXIT_ENGINE,
    )
