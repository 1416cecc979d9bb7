"""Decisions of `init`, each with its reason. A plan is a value: it can be printed, compared and rendered."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from dkdbg.agent import settings
from dkdbg.agent.contract import LOOPBACK
from dkdbg.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dkdbg.core.facts import EntryPoint, RepoFacts, ServiceFact

#: How a debug service gets a GPU; the service extends `dkdbg-gpu-KIND` of its compose file.
GpuKind = Literal["none", "nvidia", "cdi", "amd"]
GPU_KINDS: tuple[GpuKind, ...] = ("none", "nvidia", "cdi", "amd")
#: Source of the token that the debug port requires, for the launch entry: none, the editor's environment, or a prompt
#: at each start.
TokenKind = Literal["none", "env", "prompt"]
FROM_NOWHERE: TokenKind = "none"
FROM_ENVIRONMENT: TokenKind = "env"
FROM_PERSON: TokenKind = "prompt"
TOKEN_KINDS = (FROM_NOWHERE, FROM_ENVIRONMENT, FROM_PERSON)
#: Values of the key `agent`: git has the agent itself, or only its digest.
CHECKED_IN, FETCHED = AGENTS = ("checked-in", "fetched")
#: Host address on which a debug service's port is published.
PUBLISHED_ON = LOOPBACK
#: Path of the agent in a debug service's container.
AGENT_FILE = "/opt/dkdbg/agent.pyz"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One line of the plan: a decision and its reason."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Option:
    """A possible value of a choice.

    Attributes:
        value: the value in its flag's syntax.
        source: its evidence.
        program: the entry point behind a value of `command`; None if unknown.
    """

    value: str
    source: str
    program: EntryPoint | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A decision and its alternatives.

    Attributes:
        topic: the flag of `init` and the key of dkdbg.toml that sets it, such as `command`.
        options: the chosen value, then the alternatives, the best first.
        close: number of options, the chosen one included, that are about as likely; below 2, `init` does not ask.
    """

    topic: str
    options: tuple[Option, ...]
    close: int = 1


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """One pair of debugpy's pathMappings.

    Attributes:
        local: on the developer's side, relative to the repository root, POSIX separators, `.` for the root.
        remote: in the container, absolute.
    """

    local: str
    remote: PurePosixPath


@dataclass(frozen=True, kw_only=True)
class Install:
    """One RUN line of dkdbg's Dockerfile; `copy` lists the repository's files to COPY before it."""

    run: str
    copy: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImagePlan:
    """The image of the debug service.

    Attributes:
        dockerfile: path relative to the root; None when the service runs a plain image or extends another service.
        is_generated: whether dkdbg writes that Dockerfile.
        base: image that the generated Dockerfile starts from.
        apt: Debian packages to install.
        optional_apt: Debian packages to install if the base image's release has them.
        installs: RUN lines in order.
        context: files of the build context beyond what the installs copy; `*` for all of the repository.
        installs_project: whether the repository itself is installed, for its console scripts.
    """

    dockerfile: str | None = None
    is_generated: bool = False
    base: str = ""
    apt: tuple[str, ...] = ()
    optional_apt: tuple[str, ...] = ()
    installs: tuple[Install, ...] = ()
    context: tuple[str, ...] = ()
    installs_project: bool = False
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class ServicePlan:
    """The debug service that dkdbg writes.

    Attributes:
        name: the compose service that runs under debugpy.
        extends: the user's service that it extends; None if it extends none.
        compose_file: file that dkdbg writes it into, relative to the root; without a YAML suffix, because linters
            reject the tags `!override` and `!reset`.
        included_by: compose file that dkdbg writes to include `compose_file`, relative to the root.
        merge: how plain `docker compose` finds `included_by`: as compose.yaml, as an override file, or by COMPOSE_FILE.
        includes: compose files to include for the service's dependencies.
        dependencies: services of the user that it depends on and that `compose_file` extends, because compose does not
            read their file.
        profiled: services of the user that get dkdbg's profiles too; see setup/plan/other_file.py.
        parts: top-level entries that `compose_file` needs for it; see ServiceFact.parts.
        resets: keys of the extended service to reset, because they name services that cannot exist in the project.
        entrypoint: words of the entrypoint of the image or the user's service, which the agent runs unchanged.
        agent_python: interpreter that runs the agent in an image without a shell; empty where agent.sh finds one.
        command: words after `entrypoint`; `inherits_command` if the extended service has them already.
        pythonpath: PYTHONPATH that makes Python import the mounted sources instead of an installed copy; empty for
            none.
        shm, ipc: values that users give to `docker run`; None if they give none.
        env, env_files: as users give them to `docker run`; see DockerRun.
        from_entry: whether the command comes from documents or sources, not from a user, an image or a service.
        from_env: (index in `argv`, the word as written for compose) of each word with a value from a .env file. Compose
            expands the word, so that dkdbg writes the value into no file.
        working_dir: in the container; None leaves the image's own.
        mounts: (local, remote) bind mounts that dkdbg adds; local relative to the root.
        masks: remote paths that must keep the image's content although a mount covers their parent.
        port: port of the listener, container side and default on 127.0.0.1.
        app_ports: the program's own container ports.
        wait: seconds that the program waits for an editor; 0 starts at once.
        reload: whether a changed source file restarts the program by default.
        settings: (variable, default in the debug service) of each setting that has a key in dkdbg.toml.
        as_owner: whether the program becomes the owner of the workspace; otherwise it runs as its image's or service's
            user.
        home_of: the user that plain compose runs the program as, whose home the program gets (DKDBG_HOME_OF); empty for
            an image from dkdbg's Dockerfile.
        image_files: folders of the image that mounts of dkdbg hide, as in DKDBG_IMAGE_FILES; empty for none. Links in
            the checkout show the files that only the image has.
        gpu: whether GPU variants are written.
        processes: documented number of processes that the launcher starts, 0 if unknown. A start limits it to the
            number that the machine allows, which a committed file cannot contain.
        needs_gpu: whether the program stops without a GPU.
        terminal: whether it gets a terminal, because the program needs one.
        host_network: the service shares the host's network, so nothing is published.
        inputs: files that the image is built from, relative to the root. A folder ends in a slash and stands for its
            files that name dependencies. A start builds the image only if they have changed; if None, always.
        no_bytecode: whether its Pythons write no `__pycache__`, which would cause a new build of the image.
    """

    name: str
    compose_file: str
    included_by: str
    merge: Literal["compose.yaml", "override", "COMPOSE_FILE"]
    command: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    agent_python: str = ""
    inherits_command: bool = False
    from_env: tuple[tuple[int, str], ...] = ()
    pythonpath: str = ""
    shm: str | None = None
    ipc: str | None = None
    env: tuple[tuple[str, str | None], ...] = ()
    env_files: tuple[str, ...] = ()
    from_entry: bool = False
    extends: ServiceFact | None = None
    includes: tuple[str, ...] = ()
    parts: tuple[tuple[str, str, str], ...] = ()
    dependencies: tuple[ServiceFact, ...] = ()
    profiled: tuple[str, ...] = ()
    resets: tuple[str, ...] = ()
    working_dir: str | None = None
    mounts: tuple[tuple[str, str], ...] = ()
    masks: tuple[str, ...] = ()
    port: int = 5678
    app_ports: tuple[int, ...] = ()
    wait: int = 600
    reload: bool = False
    settings: tuple[tuple[str, object], ...] = ()
    as_owner: bool = True
    home_of: str = ""
    image_files: str = ""
    gpu: bool = False
    processes: int = 0
    needs_gpu: bool = False
    terminal: bool = False
    host_network: bool = False
    idle: bool = False
    inputs: tuple[str, ...] | None = None
    no_bytecode: bool = False

    @property
    def agent(self) -> tuple[str, str]:
        """Command line of the agent in the container, without a verb."""
        return self.agent_python or "sh", AGENT_FILE

    @property
    def argv(self) -> tuple[str, ...]:
        """Command line that the agent runs: entrypoint and command, as the container engine would join them."""
        return (*self.entrypoint, *self.command)


@dataclass(frozen=True, kw_only=True)
class DebugService:
    """The part of a plan that is needed to start and stop the service; for the attributes see ServicePlan.

    `init` stores it in the manifest.
    """

    name: str
    compose_file: str
    port: int
    gpu: bool
    host_network: bool
    token: TokenKind
    inputs: tuple[str, ...] | None = None
    masks: tuple[str, ...] = ()
    processes: int = 0
    needs_gpu: bool = False
    image_files: str = ""
    as_owner: bool = True

    @property
    def image_volumes(self) -> tuple[str, ...]:
        """Mount points of the service's volumes that contain only files of the image."""
        return (*self.masks, *([settings.IMAGE_FILES] if self.image_files else []))


@dataclass(frozen=True, kw_only=True)
class ProjectPlan:
    """Everything that `init` is going to write, before it is rendered.

    Attributes:
        compose_file_value: value of COMPOSE_FILE that the root's `.env` must carry; None if not needed.
        devcontainer: path of the devcontainer.json that dkdbg writes.
        python: minor version that the debug service runs, which the agent's debugpy has to fit.
        compose_chain: the project's compose files in merge order, relative to the root.
        workspace: folder that "Reopen in Container" opens, container side.
        remote_user: user of the dev container.
        token: source from which the launch entry takes the token.
        notes: remarks for the user, such as about a guess.
        choices: decisions that have alternatives, in the order in which they are asked.
    """

    facts: RepoFacts
    image: ImagePlan
    service: ServicePlan
    mappings: tuple[Mapping, ...]
    compose_chain: tuple[str, ...]
    devcontainer: str
    workspace: str
    python: str = "3.11"
    remote_user: str = "dev"
    token: TokenKind = FROM_NOWHERE
    compose_file_value: str | None = None
    extensions: tuple[str, ...] = ("ms-python.python", "ms-python.debugpy")
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = field(default=())
    choices: tuple[Choice, ...] = ()

    @property
    def debug_service(self) -> DebugService:
        """The part of the plan that is needed to start and stop the service."""
        service = self.service
        return DebugService(
            name=service.name, compose_file=service.compose_file, port=service.port, gpu=service.gpu,
            host_network=service.host_network, token=self.token, inputs=service.inputs, masks=service.masks,
            processes=service.processes, needs_gpu=service.needs_gpu, image_files=service.image_files,
            as_owner=service.as_owner,
        )  # fmt: skip

    def describe(self, columns: int | None = None) -> str:
        """Return the plan as text: one line per decision, with its reason; notes last.

        Args:
            columns: width of the terminal, to wrap lines below their reasons; None wraps no line.
        """
        room = 44 if columns is None else max(12, min(44, columns // 2 - 10))
        # A line end in a command or a path of the repository would look like another decision.
        shown = [(printable(decision.what), printable(decision.why)) for decision in self.decisions]
        width = min(max((len(what) for what, _ in shown), default=0), room)
        lines: list[str] = []
        for what, why in shown:
            if len(what) > width:
                lines += _wrapped(what, columns, 2)
                what = ""  # noqa: PLW2901
            lines += _wrapped(f"{what:<{width}}  because {why}", columns, width + 10)
        for note in map(printable, self.notes):
            lines += _wrapped(f"note: {note}", columns, 6)
        return "\n".join(lines)


def mount_points(
    masks: Iterable[str], mounts: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the mount point of each mask that a mount covers: the mounted local folder, and the path in it.

    The engine would create missing mount points as root.

    Args:
        masks: folders of the image, as in ServicePlan.
        mounts: folders of this machine with their paths in the container; the innermost mount counts.
    """
    sources = {remote: local for local, remote in mounts}
    for mask in map(PurePosixPath, masks):
        above = next((each for each in map(str, mask.parents) if each in sources), None)
        if above is not None:
            yield sources[above], mask.relative_to(above)


def _wrapped(line: str, columns: int | None, indent: int) -> list[str]:
    """Split a line into pieces of at most `columns` characters, the later ones indented; keep a longer word whole."""
    if columns is None or len(line) < columns:
        return [line]
    return textwrap.wrap(
        line[indent:], max(1, columns - 1), initial_indent=line[:indent], subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
