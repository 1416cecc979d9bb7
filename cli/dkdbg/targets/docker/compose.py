"""Build the command lines of a compose service, and inspect the project's model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.settings import ENV_STANDS_FOR, ENV_TOKEN_FILE
from dkdbg.core.address import is_loopback
from dkdbg.core.compose_names import DEVCONTAINER_PROFILE, PROFILE
from dkdbg.launchers.lines.command_lines import idles, launchers_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class ComposeService:
    """The docker command lines of one debug service. Each method returns the command line for its task.

    Run the command lines in the repository's root, where compose finds its files.

    Attributes:
        model: the project as JSON, which `up`, `create`, `build` and `once` read from standard input; empty to read
            the compose files.
        folder: with a model: the repository's root, absolute.
    """

    service: str
    model: str = ""
    folder: str = ""

    def _compose(self, *arguments: str, options: Sequence[str] = ()) -> tuple[str, ...]:
        return ("docker", "compose", *options, "--profile", PROFILE, *arguments)

    def _start(self, *arguments: str) -> tuple[str, ...]:
        return self._compose(*arguments, options=(*self._given(), "--progress", "plain"))

    def _given(self) -> tuple[str, ...]:
        return ("--file", "-", "--project-directory", self.folder) if self.model else ()

    def wrap(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the local command line that runs `argv` in the running service."""
        return self._compose("exec", "-T", self.service, *argv)

    def up(self, *, build: bool, wait_timeout: int) -> tuple[str, ...]:
        """Start the service, and wait up to `wait_timeout` seconds until it is healthy."""
        flags = ("--build",) if build else ()
        return self._start(
            "up", *flags, "--detach", "--wait", "--wait-timeout", str(wait_timeout), self.service
        )

    def up_unseen(self) -> tuple[str, ...]:
        """Start the service with the existing images, without waiting for its health."""
        return self._start("up", "--no-build", "--detach", self.service)

    def up_needs(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Start services that this service depends on; keep containers with an earlier configuration."""
        return self._start("up", "--no-recreate", "--detach", *needs)

    def once(
        self,
        command: Sequence[str],
        *,
        entrypoint: str,
        publish: str,
        all_ports: bool,
        variables: Mapping[str, str],
        tty: bool,
        name: str,
        stays: bool,
        detached: bool = False,
    ) -> tuple[str, ...]:
        """Run another command in a new container, which is removed at its end unless it `stays`.

        Args:
            entrypoint: replaces the service's, in shell syntax; empty to keep it.
            publish: the debug port, `HOST:PORT:PORT`; empty for none. `all_ports`: the service's own list instead.
            variables: additional variables of the container.
            name: name of the container.
            stays: keep the container, because Podman forgets the exit code of a container that it removes.
            detached: return once the command is started, and do not start the services that this service depends on.
        """
        name_options = ("--name", name, *(() if stays else ("--rm",)))
        ports = ("--service-ports",) if all_ports else ("--publish", publish) if publish else ()
        flags = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        options = ("--entrypoint", entrypoint) if entrypoint else ()
        return self._compose(
            "run",
            *name_options,
            *(("--detach", "--no-deps") if detached else ()),
            *(() if tty else ("--no-TTY",)),
            *ports,
            *flags,
            *options,
            self.service,
            *command,
            options=self._given(),
        )

    def create(self) -> tuple[str, ...]:
        """Create the service's container without starting it; an up-to-date running one is left alone."""
        return self._start("up", "--no-start", self.service)

    def build(self) -> tuple[str, ...]:
        """Build the service's image."""
        return self._start("build", self.service)

    def down(self) -> tuple[str, ...]:
        """Stop and remove only the service: other services of the project are the user's."""
        return self._compose("rm", "--stop", "--force", self.service)

    def down_project(self) -> tuple[str, ...]:
        """Stop and remove the whole project, including profiled services, which a plain `down` leaves running."""
        profiles = ("--profile", PROFILE, "--profile", DEVCONTAINER_PROFILE)
        return ("docker", "compose", *profiles, "down", "--timeout", "5")

    def restart(self) -> tuple[str, ...]:
        """Restart the service's container without changes."""
        return self._compose("restart", "--timeout", "5", self.service)

    def stop(self) -> tuple[str, ...]:
        """Stop the service's containers without removing them."""
        return self._compose("stop", self.service)

    def running(self) -> tuple[str, ...]:
        """List the ids of the service's running containers."""
        return self._compose("ps", "--quiet", "--status", "running", self.service)

    def ps(self) -> tuple[str, ...]:
        """List the ids of the service's containers, including stopped ones."""
        return self._compose("ps", "--all", "--quiet", self.service)

    def logs(self) -> tuple[str, ...]:
        """Show the last lines of the program's output."""
        return self._compose("logs", "--no-color", "--no-log-prefix", "--tail", "15", self.service)

    def config(self) -> tuple[str, ...]:
        """Show the merged model as JSON."""
        return self._compose("config", "--format", "json")


def started(model: Mapping[str, Any], service: str) -> Iterator[str]:
    """Yield the service and, recursively, the services that it depends on."""
    services = model.get("services", {})
    seen: set[str] = set()
    todo = [service]
    while todo:
        name = todo.pop()
        if name in seen or name not in services:
            continue
        seen.add(name)
        todo += services[name].get("depends_on") or ()
        yield name


def open_addresses(model: Mapping[str, Any], service: str, port: int) -> tuple[str, ...]:
    """Return the host's non-loopback addresses on which `port` of a service's container is reachable.

    Args:
        model: the project as `docker compose config --format json` merges it.
    """
    found = model.get("services", {}).get(service, {})
    if found.get("network_mode") == "host":
        hosts = [(found.get("environment") or {}).get("DKDBG_HOST", LOOPBACK)]
    else:
        ports = [each for each in found.get("ports", ()) if each.get("target") == port]
        hosts = [each.get("host_ip") or "0.0.0.0" for each in ports]  # noqa: S104 - compose's default
    return tuple(dict.fromkeys(host for host in hosts if not is_loopback(host)))


def asks_for_token(model: Mapping[str, Any], service: str) -> bool:
    """Return whether the agent in a service's container will find a token to require.

    Args:
        model: the project as `docker compose config --format json` merges it, with a token in the environment.
    """
    found = model.get("services", {}).get(service, {})
    named = str((found.get("environment") or {}).get(ENV_TOKEN_FILE) or "")
    targets = {str(each.get("target") or each.get("source")) for each in found.get("secrets") or ()}
    return any(named in {target, f"/run/secrets/{target}"} for target in targets)


def stands_for(model: Mapping[str, Any], service: str) -> str:
    """Return the user's service that a debug service replaces; empty if it replaces none.

    Args:
        model: the project as compose merges it.
    """
    given = model.get("services", {}).get(service, {}).get("environment") or {}
    return str(given.get(ENV_STANDS_FOR) or "")


def runs_nothing(model: Mapping[str, Any], service: str) -> bool:
    """Return whether a debug service idles: it only serves Reopen in Container and `dkdbg run`."""
    body = model.get("services", {}).get(service, {})
    whole = [str(word) for word in (*(body.get("entrypoint") or ()), *(body.get("command") or ()))]
    argv = whole[whole.index("--") + 1 :] if "--" in whole else []
    return idles(tuple(argv)) and not launchers_in(argv)


def replaced_volumes(model: Mapping[str, Any], service: str) -> tuple[tuple[str, str], ...]:
    """Return (name, mount point) of the user's named volumes that mounts of the debug service replace."""
    own, original = (
        model.get("services", {}).get(name, {}).get("volumes") or ()
        for name in (service, stands_for(model, service))
    )
    binds = {each.get("target") for each in own if each.get("type") == "bind"}
    return tuple(
        (each["source"], each["target"])
        for each in original
        if each.get("type") == "volume" and each.get("source") and each.get("target") in binds
    )


def callers(model: Mapping[str, Any], service: str) -> tuple[str, ...]:
    """Return the services that depend on `service`."""
    found = model.get("services", {})
    return tuple(sorted(name for name, body in found.items() if service in (body.get("depends_on") or {})))


def joined(model: Mapping[str, Any], name: str, service: str) -> tuple[str, ...]:
    """Return the settings by which a service runs inside the container of another, such as `network_mode: service:api`."""
    body = model.get("services", {}).get(name, {})
    keys = ("network_mode", "pid", "ipc")
    return tuple(f"{key}: {body[key]}" for key in keys if body.get(key) == f"service:{service}")
