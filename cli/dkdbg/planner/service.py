"""The debug service: which command, which mounts, which port, and in which file compose finds it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.launchers import registry
from dkdbg.launchers.launcher import NOTEBOOK
from dkdbg.launchers.lines.command_lines import one_process, serves
from dkdbg.model import twin
from dkdbg.model.config import Config, shell_argv
from dkdbg.model.plan import Decision, Mapping, ServicePlan
from dkdbg.planner import image_inputs

if TYPE_CHECKING:
    from dkdbg.model.facts import DockerfileFact, EntryPoint, RepoFacts, ServiceFact
    from dkdbg.model.plan import ImagePlan

#: Where a repository without an image of its own is mounted.
WORKSPACE = "/workspace"
#: Seconds that a script waits for an editor before it gives its GPU back.
SCRIPT_WAIT = 600
IDLE = ("sleep", "infinity")
OVERRIDES = (
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
)
MAINS = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


def plan_service(
    facts: RepoFacts, image: ImagePlan, config: Config
) -> tuple[ServicePlan, tuple[Mapping, ...], tuple[Decision, ...], tuple[str, ...]]:
    """The debug service, the path mappings, decisions and notes.

    Raises:
        DkdbgError: `config.service` names a service that no compose file has.
    """
    base = choose_service(facts, config)
    dockerfile = _dockerfile_of(facts, base, image)
    chosen = choose_command(facts, config, base, dockerfile)
    mappings, mounts, masks = plan_mounts(facts, base, dockerfile, ours=image.ours and base is None)
    compose_file, merge = choose_file(facts)
    name = _name(base.name if base else "app", {service.name for service in facts.services})
    idle = chosen.argv == IDLE
    app_ports = tuple(port for port in (base.ports if base else facts.ports) if port != config.port)
    seen = facts.entrypoint if config.command is None else None
    wait = config.wait if config.wait is not None else _wait(seen, chosen.argv, app_ports, idle=idle)
    plan = ServicePlan(
        name=name,
        extends=base,
        compose_file=compose_file,
        merge=merge,
        includes=(base.file,) if base and base.depends_on and "/" in base.file else (),
        command=chosen.command,
        entrypoint=chosen.entrypoint,
        inherits_command=chosen.inherited,
        from_env=chosen.from_env,
        working_dir=WORKSPACE if image.ours and base is None else None,
        mounts=mounts,
        masks=masks,
        port=config.port,
        app_ports=app_ports,
        wait=wait,
        reload=config.reload and not idle,
        restart=config.restart,
        gpu=facts.gpu != "none" or bool(base and base.gpu),
        host_network=bool(base and base.host_network),
        idle=idle,
        inputs=_inputs(image, base, dockerfile, (*mounts, *(base.binds if base else ()))),
    )
    where = f"{base.name} of {base.file}" if base else "the image above"
    waits = f"waits {wait} s for an editor" if wait else "does not wait for an editor"
    return (
        plan,
        mappings,
        (
            Decision(what=f"service {name} in {compose_file}", why=f"it runs {where} under debugpy; {_why_file(merge)}"),
            Decision(what=f"command {_shown(chosen)}", why=chosen.why),
            Decision(what=f"it {waits}", why="dkdbg.toml or --wait says so" if config.wait is not None else _why_wait(wait, idle=idle)),
            *(Decision(what=f"mapping {m.local} -> {m.remote}", why=_why_mapping(m, base)) for m in mappings),
        ),
        (*chosen.notes, *_unreadable(facts, chosen.argv)),
    )  # fmt: skip


def _unreadable(facts: RepoFacts, argv: tuple[str, ...]) -> tuple[str, ...]:
    """What Python will refuse to start, or would have been chosen."""
    broken = [entry for entry in facts.candidates if entry.error and entry.file]
    if argv == IDLE:
        return tuple(
            f"{entry.file}:{entry.error}; so the container idles (sleep infinity): mend that line and run dkdbg init again"
            for entry in broken[:3]
        )
    return tuple(
        f"{entry.file}:{entry.error}; the command stays {shlex.join(argv)}, and F5 fails until that line is mended"
        for entry in broken
        if any(
            str(entry.file) in word or PurePosixPath(word).name == PurePosixPath(str(entry.file)).name
            for word in argv
        )
    )[:3]


def _inputs(
    image: ImagePlan,
    base: ServiceFact | None,
    dockerfile: DockerfileFact | None,
    mounted: tuple[tuple[str, str], ...],
) -> tuple[str, ...] | None:
    if base is None and image.ours:
        return image_inputs.of_our_image(image)
    return image_inputs.of_your_image(dockerfile, base, mounted) if dockerfile else None


def _shown(command: Command) -> str:
    """The command for a person, and for who looks over a shoulder: a value of .env by its name."""
    written = dict(command.from_env)
    return " ".join(written.get(index, shlex.quote(word)) for index, word in enumerate(command.argv))


def _name(of: str, taken: set[str]) -> str:
    """Name of the debug service; one that the user has already would be merged with ours."""
    return next(name for name in twin.names(of) if name not in taken)


def choose_service(facts: RepoFacts, config: Config) -> ServiceFact | None:
    """The user's service to extend: the configured one, else the one that the facts found."""
    if config.service is None:
        return facts.service
    wanted = [service for service in facts.services if service.name == config.service]
    if wanted:
        return wanted[0]
    names = ", ".join(sorted({service.name for service in facts.services})) or "none"
    raise DkdbgError(
        f"no compose service is named {config.service!r}; services seen: {names}",
        hint="give one of them with --service, or none to debug a service of its own",
        exit_code=EXIT_USAGE,
    )


def _dockerfile_of(facts: RepoFacts, base: ServiceFact | None, image: ImagePlan) -> DockerfileFact | None:
    path = base.dockerfile if base else (None if image.ours else image.dockerfile)
    return next((d for d in facts.dockerfiles if d.path == path), None)


@dataclass(frozen=True, kw_only=True)
class Command:
    """What the agent runs: `entrypoint` and `command` as ServicePlan has them, and why."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    inherited: bool = False
    from_env: tuple[tuple[int, str], ...] = ()
    why: str
    notes: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """Both, as the engine puts them together."""
        return (*self.entrypoint, *self.command)


def choose_command(
    facts: RepoFacts, config: Config, base: ServiceFact | None, dockerfile: DockerfileFact | None
) -> Command:
    """What runs under the agent: what the person says, else what the service or image runs, else the best entry point."""
    if config.command is not None:
        return Command(command=shell_argv(config.command), why="you said so")
    existing = image_command(base, dockerfile)
    if existing.argv and not idles(existing.argv):
        return existing
    entry = facts.entrypoint
    if entry is None or registry.role_of(entry.launcher) == NOTEBOOK:
        what = (
            f"{facts.notebooks} notebooks and no script" if facts.notebooks else "nothing that can be started"
        )
        note = (
            f"{what}: the container idles; open it with Reopen in Container, or name a command with --command"
        )
        return Command(command=IDLE, why=f"the repository has {what}", notes=(note,))
    argv, one_rank = _one_rank(shell_argv(entry.command))
    if entry.cwd not in {".", ""} and base is None and not entry.cwd.startswith("/"):
        argv = ("sh", "-c", f"cd {shlex.quote(entry.cwd)} && {shlex.join(argv)}")
    return Command(
        command=argv, why=f"seen in {entry.source}" if entry.source else "it is the best candidate",
        notes=(*one_rank, *_entry_notes(facts)),
    )  # fmt: skip


def idles(argv: tuple[str, ...]) -> bool:
    """Whether a command only keeps a container open for a person: a bare shell, an endless sleep or tail."""
    name = PurePosixPath(argv[0]).name
    if name in {"sh", "bash", "zsh", "fish"}:
        rest = " ".join(argv[1:])
        return all(word.startswith("-") and "c" not in word for word in argv[1:]) or bool(
            re.search(r"(sleep\s+(infinity|inf)|tail\s+-f\s+/dev/null|while\s+(true|:|sleep))", rest)
        )
    return (name == "sleep" and argv[-1] in {"infinity", "inf"}) or (
        name == "tail" and argv[-1] == "/dev/null"
    )


def image_command(base: ServiceFact | None, dockerfile: DockerfileFact | None) -> Command:
    """ENTRYPOINT and CMD as compose would combine them: an `entrypoint:` drops the image's CMD.

    Source: compose specification, service `entrypoint`.
    """
    said = base.command if base else None
    if base and base.entrypoint is not None:
        return Command(
            entrypoint=base.entrypoint,
            command=said or (),
            inherited=said is not None,
            from_env=(*base.entrypoint_from_env, *_later(base.command_from_env, base.entrypoint)),
            why=f"{base.file} runs it",
        )
    entrypoint = (dockerfile.entrypoint if dockerfile else None) or ()
    if base and said is not None:
        return Command(
            entrypoint=entrypoint,
            command=said,
            inherited=True,
            from_env=_later(base.command_from_env, entrypoint),
            why=f"{base.file} runs it",
        )
    path = dockerfile.path if dockerfile else ""
    return Command(
        entrypoint=entrypoint, command=(dockerfile.cmd if dockerfile else None) or (), why=f"{path} runs it"
    )


def _later(words: tuple[tuple[int, str], ...], before: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((len(before) + index, word) for index, word in words)


def _one_rank(argv: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A documented launch on eight GPUs, or on `N`, as one rank: what a debugger starts on a developer's machine."""
    found = one_process(argv)
    if found is None:
        return argv, ()
    changed, count = found
    return changed, (
        f"started with 1 process where the documentation has {count}; give another line with --command",
    )


def _entry_notes(facts: RepoFacts) -> tuple[str, ...]:
    notes = []
    others = [entry.command for entry in facts.candidates if entry != facts.entrypoint][:4]
    if others:
        notes.append("other candidates for the command: " + "; ".join(others) + " (choose with --command)")
    if facts.entrypoint and facts.entrypoint.needs_args:
        notes.append(
            f"{facts.entrypoint.command!r} needs arguments of yours: give the whole line with --command"
        )
    return tuple(notes)


def plan_mounts(
    facts: RepoFacts, base: ServiceFact | None, dockerfile: DockerfileFact | None, *, ours: bool
) -> tuple[tuple[Mapping, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Mappings, bind mounts to add, and image paths below them that must stay visible."""
    if ours:
        return (Mapping(local=".", remote=PurePosixPath(WORKSPACE)),), ((".", WORKSPACE),), ()
    present = tuple(base.binds) if base else ()
    pairs = facts.mappings or (dockerfile.copies if dockerfile else ())
    if not pairs and dockerfile is None and base is None:
        pairs = ((".", WORKSPACE),)
    added = tuple(pair for pair in pairs if not _covered(pair, present))
    masks = tuple(
        venv for venv in (dockerfile.venvs if dockerfile else ())
        if any(_below(venv, remote) for _, remote in added)
    )  # fmt: skip
    mappings = tuple(
        Mapping(local=local, remote=PurePosixPath(remote)) for local, remote in _longest_first((*pairs,))
    )
    return mappings, added, masks


def _covered(pair: tuple[str, str], binds: tuple[tuple[str, str], ...]) -> bool:
    return any(pair == bind or (_below(pair[1], bind[1]) and _below(pair[0], bind[0])) for bind in binds)


def _below(path: str, parent: str) -> bool:
    return parent == "." or PurePosixPath(path).is_relative_to(parent)


def _longest_first(pairs: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """pydevd takes the first mapping that matches: the narrower one has to come first (debugpy #1911)."""
    return sorted(pairs, key=lambda pair: (-len(PurePosixPath(pair[0]).parts), pair))


def choose_file(facts: RepoFacts) -> tuple[str, Literal["compose.yaml", "override", "COMPOSE_FILE"]]:
    """The file that plain `docker compose` reads without further flags (decision 4 of the design)."""
    names = {name for name in facts.compose_files if "/" not in name}
    if facts.compose_env is not None:
        return "compose.dkdbg.yaml", "COMPOSE_FILE"
    if not names & set(MAINS):
        return "compose.yaml", "compose.yaml"
    if not names & set(OVERRIDES):
        return "compose.override.yaml", "override"
    return "compose.dkdbg.yaml", "COMPOSE_FILE"


def _wait(entry: EntryPoint | None, argv: tuple[str, ...], ports: tuple[int, ...], *, idle: bool) -> int:
    """Seconds; a server comes up by itself and an editor comes later, so it does not wait for one.

    Args:
        entry: what was found behind a command such as `/entry.sh`, None when the person gave another one.
        argv: the command.
        ports: published by the service.
        idle: whether nothing runs.
    """
    by = registry.named(entry.launcher) if entry else None
    is_server = serves(argv) or (by is not None and by.serves())
    return 0 if idle or is_server or set(ports) - registry.side_ports() else SCRIPT_WAIT


def _why_wait(wait: int, *, idle: bool) -> str:
    if wait:
        return "a breakpoint on the first line should hit, and a GPU should not be held for ever (exit 124)"
    return (
        "nothing runs in it yet" if idle else "a server comes up by itself; an editor may attach at any time"
    )


def _why_file(merge: str) -> str:
    return {
        "compose.yaml": "there is no compose file yet",
        "override": "compose merges this file by itself and yours stays as it is",
        "COMPOSE_FILE": "an override file exists already, so COMPOSE_FILE in .env names one more",
    }[merge]


def _why_mapping(mapping: Mapping, base: ServiceFact | None) -> str:
    if base and (mapping.local, str(mapping.remote)) in base.binds:
        return f"{base.file} mounts it there"
    if str(mapping.remote) == WORKSPACE:
        return "the repository is mounted there"
    return "the image has its code there, and the local files are mounted over it"
