"""Plan the debug service: its command, mounts, port, and the compose file that defines it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from dkdbg.core import compose_names
from dkdbg.core.compose_names import main_files
from dkdbg.core.config import Config, shell_argv
from dkdbg.core.facts import DockerRun
from dkdbg.core.plan import Decision, Mapping, ServicePlan
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.launchers import registry
from dkdbg.launchers.launcher import NOTEBOOK
from dkdbg.launchers.lines.blanks import as_words, without_blanks
from dkdbg.launchers.lines.command_lines import idles, launchers_in, one_process, runs_python_alone, serves
from dkdbg.launchers.python import PYTHON
from dkdbg.launchers.words import whole_number
from dkdbg.setup.plan.image import inputs_of_generated, inputs_of_users, takes_bytecode
from dkdbg.setup.plan.other_file import brought, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.core.facts import DockerfileFact, EntryPoint, RepoFacts, ServiceFact
    from dkdbg.core.plan import ImagePlan
    from dkdbg.setup.plan.other_file import Brought

#: Mount point of the repository in a generated image.
WORKSPACE = "/workspace"
#: File with the debug service, included by a compose file in the root.
COMPOSE_FILE = ".dkdbg/service.compose"
#: Seconds for which a script waits for an editor; then it gives its GPU back.
SCRIPT_WAIT_S = 600
IDLE = ("sleep", "infinity")
#: Variable (environment or .env) with the number of processes of torchrun and similar, which a committed file cannot
#: know for every machine.
PROCESSES = "DKDBG_PROCESSES"
_MAX_PROCESSES = 1024
#: Option by which a server gets the address to listen on.
_HOST_OPTION = re.compile(r"(?:--host|-h|-H)(?:=|$)")


def plan_service(
    facts: RepoFacts, image: ImagePlan, config: Config
) -> tuple[ServicePlan, tuple[Mapping, ...], tuple[Decision, ...], tuple[str, ...]]:
    """Plan the debug service; return it with its path mappings, decisions and notes.

    Raises:
        DkdbgError: no compose file has the service `config.service`.
    """
    base = choose_service(facts, config)
    dockerfile = dockerfile_of(facts, base, image)
    chosen = choose_command(facts, config, base, dockerfile)
    mappings, mounts, masks = plan_mounts(
        facts, base, dockerfile, is_generated=image.is_generated and base is None
    )
    run = facts.docker_run if base is None and not image.is_generated and dockerfile else None
    if run is None or dockerfile is None or not run.starts(dockerfile.path):
        run = DockerRun(source="", mounts=())
    bare = base is None and not image.is_generated and dockerfile is not None and not mappings
    workdir = workspace_of(facts) if image.is_generated and base is None else None
    if run.mounts:
        added = tuple(each for each in run.mounts if each[1] not in {remote for _, remote in mounts})
        mounts = (*mounts, *added)
        mappings = (
            *(Mapping(local=local, remote=PurePosixPath(remote)) for local, remote in added),
            *mappings,
        )
        workdir = run.workdir
    elif bare:
        mounts, workdir = ((".", WORKSPACE),), WORKSPACE
        mappings = (Mapping(local=".", remote=PurePosixPath(WORKSPACE)),)
    included_by, merge = choose_file(facts)
    others = brought(facts, base)
    name = _name(base.name if base else "app", {service.name for service in facts.services})
    idle = chosen.argv == IDLE
    published = base.ports if base else run.ports or facts.ports
    app_ports = tuple(port for port in published if port != config.port)
    seen = facts.entrypoint if config.command is None else None
    runs_it = chosen.from_entry or stands_in(seen, base, dockerfile)
    wait = (
        config.wait
        if config.wait is not None
        else _wait(seen, chosen.argv, () if seen and seen.trains and runs_it else app_ports, idle=idle)
    )
    given = frozenset(variable for variable, _ in run.env)
    has_own = "PYTHONPATH" in (given | (base.variables if base else frozenset()))
    env = (("PYTHONPATH", chosen.pythonpath),) if chosen.pythonpath and not has_own else ()
    agent_python = ""
    if dockerfile is not None and not dockerfile.has_shell and PYTHON.starts(chosen.argv[0]):
        agent_python = chosen.argv[0]
    own = given.union(variable for variable, _ in dockerfile.env) if dockerfile is not None else given
    opened = tuple(_opened(facts, chosen.argv, app_ports, own)) if base is None else ()
    plan = ServicePlan(
        name=name,
        extends=base,
        compose_file=COMPOSE_FILE,
        included_by=included_by,
        merge=merge,
        includes=others.includes,
        dependencies=others.dependencies,
        profiled=left_out(facts, base),
        parts=others.parts,
        resets=others.resets,
        command=chosen.command,
        entrypoint=chosen.entrypoint,
        agent_python=agent_python,
        inherits_command=chosen.inherited,
        from_env=chosen.from_env,
        from_entry=chosen.from_entry,
        working_dir=workdir,
        shm=run.shm,
        ipc=run.ipc,
        env=(*run.env, *env, *opened),
        env_files=run.env_files,
        mounts=mounts,
        masks=masks,
        port=config.port,
        app_ports=app_ports,
        wait=wait,
        reload=config.reload and not idle,
        settings=config.service_settings,
        image_files="" if bare or agent_python else _hidden(mounts, dockerfile),
        as_owner=idle or _is_for_owner(facts, image, base, dockerfile, chosen.argv),
        home_of="" if base is None and image.is_generated else user_of(base, dockerfile),
        gpu=facts.gpu != "none" or bool(base and base.gpu),
        processes=chosen.processes,
        needs_gpu=facts.gpu == "required",
        terminal=bool(facts.terminal and not idle),
        host_network=bool(base and base.host_network),
        idle=idle,
        inputs=_inputs(image, base, dockerfile, (*mounts, *(base.binds if base else ()))),
        no_bytecode=dockerfile is not None and takes_bytecode(facts, dockerfile, base, given),
    )
    where = f"{base.name} of {base.file}" if base else "the image above"
    waits = f"waits {wait} s for an editor" if wait else "does not wait for an editor"
    return (
        plan,
        mappings,
        (
            Decision(what=f"service {name} in {included_by}", why=f"it runs {where} under debugpy; {_why_file(merge)}"),
            Decision(what=f"command {_shown(chosen)}", why=chosen.why),
            *_settings(plan, base, dockerfile, run),
            *(Decision(what=f"environment {name}={value}", why="the documented command line sets it") for name, value in env),
            *(Decision(what=f"environment {name}={value}", why="otherwise nothing outside the container reaches the server, which listens on loopback there") for name, value in opened),
            Decision(what=f"it {waits}", why="dkdbg.toml says so" if config.wait is not None else _why_wait(wait, idle=idle, gpu=plan.gpu)),
        ),
        (*chosen.notes, *_of_address(seen if runs_it else None, app_ports, plan), *_of_command(facts, dockerfile, chosen.argv), *_of_service(facts, base, dockerfile, others, config)),
    )  # fmt: skip


def _opened(
    facts: RepoFacts, argv: tuple[str, ...], ports: tuple[int, ...], given: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield variables that make a server with published ports listen beyond the container's loopback.

    A command line that sets the address needs no variable.
    """
    found = launchers_in(argv) if ports else []
    servers = [launcher for launcher, line in found if not any(map(_HOST_OPTION.match, line.rest))]
    gradio = registry.named("gradio") if ports and "gradio" in facts.frameworks else None
    if gradio is not None:  # Gradio, started by `python app.py`
        servers.append(gradio)
    for variable in dict.fromkeys(each.opened_by for each in servers if each.opened_by):
        name, _, value = variable.partition("=")
        if name not in given:
            yield name, value


def _of_address(entry: EntryPoint | None, ports: tuple[int, ...], plan: ServicePlan) -> Iterator[str]:
    """Yield a note if a program with published ports listens on loopback, where no published port reaches it."""
    if entry is not None and entry.on_loopback and ports and not plan.host_network:
        yield f'{entry.file} listens only on 127.0.0.1 inside the container: to reach port {ports[0]} from outside, set host="0.0.0.0" in the code'


def _is_for_owner(
    facts: RepoFacts,
    image: ImagePlan,
    base: ServiceFact | None,
    dockerfile: DockerfileFact | None,
    argv: tuple[str, ...],
) -> bool:
    """Return whether the program can run as the workspace's owner from the start.

    An entrypoint that starts as root may need root, or change the user itself (gosu, su, supervisord).
    """
    if base is None and image.is_generated:
        return True
    if base is not None and base.fixes_user:
        return False
    return user_of(base, dockerfile) not in {"0", "root"} or runs_python_alone(argv, facts.harmless_scripts)


def user_of(base: ServiceFact | None, dockerfile: DockerfileFact | None) -> str:
    """Return the user as whom plain compose runs the program."""
    of_image = dockerfile.user if dockerfile else base.image_user if base else None
    return ((base.user if base else None) or of_image or "0").partition(":")[0]


def _hidden(mounts: tuple[tuple[str, str], ...], dockerfile: DockerfileFact | None) -> str:
    """Return the image's folders that mounts of the checkout hide, in the format of DKDBG_IMAGE_FILES."""
    found = [(local.removeprefix("./").strip("/"), remote) for local, remote in mounts]
    folders = [pair for pair in found if not pair[0].endswith(".py")]
    named = [remote if local == "." else f"{local}={remote}" for local, remote in folders]
    return ":".join(named) if dockerfile is not None else ""


def _settings(
    plan: ServicePlan, base: ServiceFact | None, dockerfile: DockerfileFact | None, run: DockerRun
) -> Iterator[Decision]:
    """Yield the decisions that only some services need: about user, profile, image, environment and bytecode."""
    if not plan.as_owner:
        needs = f"{plan.argv[0]} may need it"
        if base is not None and base.fixes_user:
            needs = (
                f"{base.file} drops SETUID, without which the agent cannot become the owner of the files here"
            )
        why = f"{needs}; files that the program writes here belong to that user"
        whose = "its image" if base is None or base.user is None else f"{base.name} in {base.file}"
        yield Decision(what=f"it runs as the user of {whose}", why=why)
    if plan.profiled:
        it = "them" if plan.profiled[1:] else "it"
        why = f"other services depend on {it}, and compose starts nothing if a dependency is missing"
        yield Decision(what=f"profile debug for {_first_ten(plan.profiled)} too", why=why)
    if base is not None and base.release is not None:
        why = (
            f"{base.release} lacks what the dev container installs when it is created (postCreateCommand)"
            if base.is_bare
            else f"{base.file} runs {base.release}, a release; breakpoints stop only if these sources run"
        )
        yield Decision(what=f"image from {base.dockerfile}", why=why)
    if run.env or run.env_files:
        names = [name for name, value in run.env if value is not None]
        yours = [f"{name} (from your environment or .env)" for name, value in run.env if value is None]
        what = f"environment {', '.join((*run.env_files, *names, *yours))}"
        yield Decision(what=what, why=f"{run.source} passes it to docker run")
    if plan.no_bytecode and dockerfile is not None:
        why = f"{dockerfile.path} copies code before it installs packages, so that new __pycache__ files would make the next start install again"
        yield Decision(what="environment PYTHONDONTWRITEBYTECODE=1", why=why)


#: Init systems that must be PID 1: s6-overlay and systemd.
_INIT_SYSTEMS = ("/init", "/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd")


def _of_command(facts: RepoFacts, dockerfile: DockerfileFact | None, argv: tuple[str, ...]) -> Iterator[str]:
    """Yield notes about what would stop the command, each with a remedy."""
    if argv[:1] and argv[0] in _INIT_SYSTEMS:
        program = shlex.join(argv[1:]) or "python train.py"
        yield f"{argv[0]} has to be process 1 of its container, but in the debug service the agent is process 1; name the program itself: dkdbg init --command {shlex.quote(program)}"
    if dockerfile is not None and not dockerfile.has_shell:
        none = f"{dockerfile.path} is FROM {dockerfile.base}, which has no /bin/sh"
        if PYTHON.starts(argv[0]):
            yield f"{none}: {argv[0]} runs the agent. Files that only the image has below the mounted code are hidden, and Reopen in Container needs a variant with a shell (distroless: the tag debug)"
        else:
            yield f"{none} to find a Python for the agent: for debugging use a variant with a shell (distroless: the tag debug)"
    broken = [entry for entry in facts.candidates if entry.error and entry.file]
    if argv == IDLE:
        for entry in broken[:3]:
            yield f"{entry.file}:{entry.error}; so the container idles (sleep infinity): fix that line and run dkdbg init again"
    else:
        for entry in [entry for entry in broken if _is_run(PurePosixPath(str(entry.file)), argv)][:3]:
            yield f"{entry.file}:{entry.error}; the command stays {shlex.join(argv)}, and F5 fails until that line is fixed"
    if facts.missing:
        yield f"{facts.missing} is not in the repository; the command fails unless something creates it"


def _is_run(file: PurePosixPath, argv: tuple[str, ...]) -> bool:
    return any(str(file) in word or PurePosixPath(word).name == file.name for word in argv)


def _of_service(
    facts: RepoFacts,
    base: ServiceFact | None,
    dockerfile: DockerfileFact | None,
    others: Brought,
    config: Config,
) -> Iterator[str]:
    """Yield notes about settings of the user's service that the debug service lacks, or that may prevent its start."""
    whole = base or facts.strictest
    path = dockerfile.path if base is None and dockerfile is not None else ""
    for each in facts.services:
        if path and each.dockerfile == path and not each.is_python and each.command is None:
            yield (
                f"{each.name} of {each.file} runs this image too, but its mounts and environment are left out: nothing shows where the image has"
                f" the code of this repository. Add a mount of that code to the volumes of {each.name}; then dkdbg init debugs {each.name}"
            )
    if whole is None:
        return
    # Compose rejects a file that it reads whole if an env file is missing. If the debug service only extends a service
    # of that file, compose reads the env files that exist.
    is_refused = whole.needs_files and whole.file in {*facts.compose_read, *others.includes}
    if is_refused:
        shown = ", ".join(name for name, _ in whole.needs_files)
        copies = [
            f"cp {shlex.quote(example)} {shlex.quote(name)}" for name, example in whole.needs_files if example
        ]
        how = f"; first: {' && '.join(copies)}" if len(copies) == len(whole.needs_files) else ""
        are = "is" if len(whole.needs_files) == 1 else "are"
        yield f"compose refuses {whole.file} until {shown} {are} there{how}"
    if whole.needs:
        yield f"compose refuses {whole.file} until these have a value in .env or your environment: {_first_ten(whole.needs)}"
    if base is None:
        return
    if base.env_files and not is_refused:
        missing, rest = (
            ("some of which are missing", "the debug service reads the others")
            if base.env_files[1:]
            else ("which is missing", "the debug service starts without it")
        )
        yield f"{base.file} makes {base.name} read {', '.join(base.env_files)}, {missing}: {base.name} cannot start; {rest}"
    if others.without:
        yield f"the debug service runs without {', '.join(others.without)}, which {base.file} starts for {base.name}: {base.file} cannot be combined with {', '.join(facts.compose_read)}"
    if config.service == base.name and base.file not in facts.compose_read:
        named = [
            f"{each.file}:{each.name}"
            for each in facts.services
            if each.name == base.name and each.file != base.file
        ]
        if named:
            yield f"--service {base.name} selects the service of {base.file}; there are others with that name: {', '.join(named[:5])}"
    if base.without:
        yield f"{', '.join(base.without)} adds settings to {base.name}, with paths relative to another folder: the debug service takes over only command and mounts from there; if the program needs other settings from there, add them to the debug service"
    if base.retags:
        yield f"a service that extends {base.name} does not keep !reset and !override of {', '.join(base.retags)}: check the debug service with docker compose --profile debug config"


def _first_ten(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if names[10:] else "")


def _inputs(
    image: ImagePlan,
    base: ServiceFact | None,
    dockerfile: DockerfileFact | None,
    mounted: tuple[tuple[str, str], ...],
) -> tuple[str, ...] | None:
    if image.is_generated:
        return inputs_of_generated(image)
    return inputs_of_users(dockerfile, base, mounted) if dockerfile else None


def _shown(command: Command) -> str:
    """Return the command for display, with the names instead of the values from .env, which may be secret."""
    written = dict(command.from_env)
    return " ".join(written.get(index, shlex.quote(word)) for index, word in enumerate(command.argv))


def _name(of: str, taken: set[str]) -> str:
    """Return a name for the debug service that none of the user's services has, because compose would merge the two."""
    return next(name for name in compose_names.names(of) if name not in taken)


def choose_service(facts: RepoFacts, config: Config) -> ServiceFact | None:
    """Return the user's service to extend: the configured one, otherwise the detected one.

    Raises:
        DkdbgError: no compose file has the configured service, or compose would reject that service.
    """
    if config.service is None:
        return facts.service
    wanted = [service for service in facts.services if service.is_called(config.service)]
    if wanted:
        _check_startable(facts, wanted[0])
        return wanted[0]
    names = ", ".join(sorted({service.name for service in facts.services})) or "none"
    broken = {
        file: problem
        for problem in facts.problems
        for file in facts.compose_files
        if problem.startswith(f"{file}:")
    }
    raise DkdbgError(
        "\n  left out: ".join(
            [f"there is no compose service {config.service!r} here; there are: {names}", *broken.values()]
        ),
        hint=f"Correct {' and '.join(broken)} if it defines that service, then try again"
        if broken
        else "pass one of them with --service, or leave it out to debug a separate service",
        exit_code=EXIT_USAGE,
    )


def _check_startable(facts: RepoFacts, service: ServiceFact) -> None:
    """Raise DkdbgError if compose would reject the user's files once a debug service extends this service."""
    if service.says and not service.says & {"image", "build"}:
        raise DkdbgError(
            f"{service.name} of {service.file} has neither an image nor a build section: it only extends another file's service",
            hint="leave --service out: dkdbg init selects a complete service",
            exit_code=EXIT_USAGE,
        )
    if service.needs and facts.compose_read and service.file not in facts.compose_read:
        raise DkdbgError(
            f"compose refuses {service.file} until these have a value: {', '.join(service.needs[:10])}; with a debug service"
            f" that extends {service.name} it would refuse {facts.compose_read[0]} too",
            hint=f"write a value into .env (printf '\\n{service.needs[0]}=...\\n' >> .env), then run dkdbg init again",
            exit_code=EXIT_USAGE,
        )


def dockerfile_of(facts: RepoFacts, base: ServiceFact | None, image: ImagePlan) -> DockerfileFact | None:
    """Return the user's Dockerfile from which the debug service is built; None if there is no such one."""
    path = base.dockerfile if base else (None if image.is_generated else image.dockerfile)
    return next((d for d in facts.dockerfiles if d.path == path), None)


@dataclass(frozen=True, kw_only=True)
class Command:
    """The command that the agent runs, and the reason for it. The attributes are described in ServicePlan."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    inherited: bool = False
    from_env: tuple[tuple[int, str], ...] = ()
    from_entry: bool = False
    pythonpath: str = ""
    processes: int = 0
    why: str
    notes: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """Return entrypoint and command, joined as the engine does."""
        return (*self.entrypoint, *self.command)


def choose_command(
    facts: RepoFacts, config: Config, base: ServiceFact | None, dockerfile: DockerfileFact | None
) -> Command:
    """Choose the command to run: the user's, else the service's or the image's, else the best entry point."""
    # A dev container's `sleep infinity` says nothing of the Dockerfile that replaces its image.
    is_replaced = base and base.is_bare and idles(base.command or ()) and dockerfile and dockerfile.cmd
    existing = image_command(None if is_replaced else base, dockerfile)
    passes_on = any(PurePosixPath(word).name in facts.passing_scripts for word in existing.entrypoint)
    if config.command is not None:
        argv, script = shell_argv(config.command), existing.entrypoint if passes_on else ()
        is_whole = argv[: len(script)] == script
        return Command(entrypoint=() if is_whole else script, command=argv, why="you set it")
    windows = next(
        (
            item.command
            for item in facts.candidates
            if item.shows_windows and stands_in(item, base, dockerfile)
        ),
        None,
    )
    entry = facts.entrypoint
    # An inherited ENTRYPOINT has an unknown CMD, so the program is one of the repository's.
    is_known = bool(existing.command) or dockerfile is None or not dockerfile.inherits_entrypoint
    before = () if is_known or (base and base.entrypoint is not None) else existing.entrypoint
    if existing.argv and not before and not idles(existing.argv) and windows is None:
        is_without = passes_on and not existing.command
        if stands_in(entry, base, dockerfile) or not (is_without or (entry and idles(existing.command))):
            return existing
        before = existing.entrypoint  # a script that runs its arguments
    if entry is None or registry.role_of(entry.launcher) == NOTEBOOK:
        what = (
            "no program that stands out"
            if any(registry.role_of(each.launcher) != NOTEBOOK for each in facts.candidates)
            else f"{facts.notebooks} notebooks and no script"
            if facts.notebooks
            else "nothing that can be started"
        )
        note = (
            f"{what}: the container idles; open it with Reopen in Container, or name a command with --command"
        )
        above = "/".join(".." for _ in PurePosixPath(facts.below).parts)
        around = f"this folder is {facts.below} of a git repository; dkdbg -C {above} init searches all of it"
        notes = (note, around) if above else (note,)
        return Command(command=IDLE, why=f"the repository has {what}", notes=notes)
    whole, left = without_blanks(as_words(entry.command))
    if not left:
        whole = _typed(entry.command)
    argv, processes, one_rank, documented = _one_rank(whole)
    if entry.cwd not in {".", ""} and base is None and not entry.cwd.startswith("/"):
        argv, processes = ("sh", "-c", f"cd {shlex.quote(entry.cwd)} && {shlex.join(argv)}"), ()
        documented = 0
    instead = (f"the image's {windows!r} opens windows, but a container has no display",) if windows else ()
    if argv[: len(before)] == before:
        before = ()
    return Command(
        entrypoint=before, command=argv, why=f"seen in {entry.where}" if entry.source else "it is the best candidate", from_entry=True, pythonpath=_relative_path(entry),
        from_env=_later(processes, before), processes=documented,
        notes=(*instead, *one_rank, *_left_notes(entry, left), *_entry_notes(facts)),
    )  # fmt: skip


def _typed(line: str) -> tuple[str, ...]:
    """Split a documented command line into argv, through a shell if necessary; an unclosed quote is accepted."""
    try:
        return shell_argv(line)
    except DkdbgError:
        return as_words(line)


def stands_in(entry: EntryPoint | None, base: ServiceFact | None, dockerfile: DockerfileFact | None) -> bool:
    """Return whether a program was found as the start command of this service or image."""
    places = {f"{base.file}: service {base.name}"} if base else {dockerfile.path} if dockerfile else set()
    return entry is not None and entry.source in places


def image_command(base: ServiceFact | None, dockerfile: DockerfileFact | None) -> Command:
    """Return ENTRYPOINT and CMD, combined as compose does: an `entrypoint:` drops the image's CMD.

    Source: compose specification, service `entrypoint`.
    """
    own = base.entrypoint if base else None
    entrypoint = own if own is not None else (dockerfile.entrypoint if dockerfile else None) or ()
    if base and (own is not None or base.command is not None):
        return Command(
            entrypoint=entrypoint,
            command=base.command or (),
            inherited=base.command is not None and not base.without,
            from_env=(*base.entrypoint_from_env, *_later(base.command_from_env, entrypoint)),
            why=f"{base.file} runs it",
        )
    path = dockerfile.path if dockerfile else ""
    return Command(
        entrypoint=entrypoint, command=(dockerfile.cmd if dockerfile else None) or (), why=f"{path} runs it"
    )


def _later(words: tuple[tuple[int, str], ...], before: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((len(before) + index, word) for index, word in words)


def _one_rank(
    argv: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...], tuple[str, ...], int]:
    """Return argv with a variable in place of the number of processes.

    Also return (index, text) of the word with the variable, notes, and the documented number (0 if unknown).
    """
    found = one_process(argv)
    if found is None:
        return argv, (), (), 0
    changed, at, count = found
    many = whole_number(count)
    if many is None:
        note = f"started with 1 process where the documentation starts {count}; {PROCESSES}=2 in .env or the environment starts 2"
    else:
        note = (
            f"the documentation starts {count} processes: dkdbg up and F5 start that many, or as many as this machine "
            f"has GPUs (without a GPU: cores); plain docker compose starts 1; {PROCESSES} in .env or the environment sets the number"
        )
    documented = min(many or 0, _MAX_PROCESSES)
    return changed, ((at, changed[at][:-1] + f"${{{PROCESSES}:-1}}"),), (note,), documented


def _entry_notes(facts: RepoFacts) -> Iterator[str]:
    if facts.projects:
        shown = ", ".join(
            f"{each.folder} ({PurePosixPath(each.program).name})" for each in facts.projects[:30]
        )
        more = f", and {len(facts.projects) - 30} more" if facts.projects[30:] else ""
        yield f"{len(facts.projects)} projects are here: {shown}{more}; set up one of them with dkdbg -C {shlex.quote(_first_project(facts))} init"


def _first_project(facts: RepoFacts) -> str:
    file = PurePosixPath(facts.entrypoint.file or "") if facts.entrypoint else PurePosixPath()
    own = (each.folder for each in facts.projects if PurePosixPath(each.folder) in file.parents)
    return next(own, facts.projects[0].folder)


def _relative_path(entry: EntryPoint) -> str:
    """Return the PYTHONPATH that the documented command sets, if all its folders are relative; otherwise empty."""
    path = dict(each.split("=", 1) for each in entry.assigned).get("PYTHONPATH", "")
    return path if re.fullmatch(r"[\w.-][\w./-]*(?::[\w.-][\w./-]*)*", path) else ""


def _left_notes(entry: EntryPoint, left: tuple[str, ...]) -> Iterator[str]:
    """Yield notes about omitted parts of the documented command: variables and placeholders.

    The user must fill in placeholders such as `<port>`, because a shell or the program would interpret them.
    """
    # CUDA_VISIBLE_DEVICES refers to another machine's GPUs.
    kept = [each for each in entry.assigned if not each.startswith("CUDA_VISIBLE_DEVICES=")]
    own = f"PYTHONPATH={_relative_path(entry)}"
    if dropped := [each for each in kept if each != own]:
        shown = shlex.join(("env", *kept, *as_words(entry.command)))
        yield f"{entry.source} sets {', '.join(dropped)} before the command; dkdbg leaves that out. To keep it: dkdbg init --command {shlex.quote(shown)}"
    if left:
        shown = "; ".join(left)
        yield f"left out of {entry.source or 'the command'}, for you to fill in with --command: {shown}"
    elif entry.needs_args:
        yield f"{entry.command!r} needs arguments: pass the whole line with --command"


def plan_mounts(
    facts: RepoFacts, base: ServiceFact | None, dockerfile: DockerfileFact | None, *, is_generated: bool
) -> tuple[tuple[Mapping, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return path mappings, bind mounts to add, and paths of the image that must stay visible below these mounts."""
    if is_generated:
        above = "/".join(".." for _ in PurePosixPath(facts.below).parts) or "."
        return (Mapping(local=".", remote=PurePosixPath(workspace_of(facts))),), ((above, WORKSPACE),), ()
    present = (base.binds if base.mounted is None else base.mounted) if base else ()
    # Mount folders: a single mounted file would keep its old content when an editor saves by rename.
    pairs = facts.mappings or (dockerfile.code if dockerfile else ())
    pairs = tuple(pair for pair in pairs if pair[1] != "/")  # nothing can be mounted over `/`
    if not pairs and dockerfile is None and base is None:
        pairs = ((".", WORKSPACE),)
    added = tuple(pair for pair in pairs if not _covered(pair, present))
    masks = tuple(
        venv for venv in (dockerfile.venvs if dockerfile else ())
        if any(_below(venv, remote) for _, remote in added)
    )  # fmt: skip
    mappings = tuple(
        Mapping(local=local, remote=PurePosixPath(remote))
        # The longest path first, because pydevd uses the first match (debugpy #1911).
        for local, remote in sorted(pairs, key=lambda pair: (-len(PurePosixPath(pair[0]).parts), pair))
    )
    return mappings, added, masks


def workspace_of(facts: RepoFacts) -> str:
    """Return the repository's folder in the generated image: in the mounted git repository, so that `../data` works."""
    return str(PurePosixPath(WORKSPACE, facts.below))


def _covered(pair: tuple[str, str], binds: tuple[tuple[str, str], ...]) -> bool:
    return any(pair == bind or (_below(pair[1], bind[1]) and _below(pair[0], bind[0])) for bind in binds)


def _below(path: str, parent: str) -> bool:
    return parent == "." or PurePosixPath(path).is_relative_to(parent)


def choose_file(facts: RepoFacts) -> tuple[str, Literal["compose.yaml", "override", "COMPOSE_FILE"]]:
    """Return the compose file to write, and how plain `docker compose` comes to read it."""
    merged = main_files(facts.compose_files, facts.compose_env)
    if not merged:
        return "compose.yaml", "compose.yaml"
    if len(merged) == 1 and facts.compose_env is None:
        return "compose.override.yaml", "override"
    return "compose.dkdbg.yaml", "COMPOSE_FILE"


def _wait(entry: EntryPoint | None, argv: tuple[str, ...], ports: tuple[int, ...], *, idle: bool) -> int:
    """Return the seconds to wait for an editor; 0 for a server, to which an editor may attach later.

    `entry` is the program that a command such as `/entry.sh` starts; None if the user chose the command.
    """
    by = registry.named(entry.launcher) if entry else None
    is_server = (
        serves(argv) or (by is not None and by.serves()) or (entry is not None and entry.listens is not None)
    )
    return 0 if idle or is_server or set(ports) - registry.side_ports() else SCRIPT_WAIT_S


def _why_wait(wait: int, *, idle: bool, gpu: bool) -> str:
    if wait:
        held = "a GPU" if gpu else "the container"
        return f"a breakpoint on the first line should hit, and {held} should not be held forever (exit 124)"
    return "nothing runs in it yet" if idle else "an editor can attach to a server at any time"


def _why_file(merge: str) -> str:
    return {
        "compose.yaml": "this folder has no compose file yet",
        "override": "compose merges this file automatically, and yours stays unchanged",
        "COMPOSE_FILE": "an override file exists already, so COMPOSE_FILE in .env lists one more",
    }[merge]


def why_mapping(mapping: Mapping, base: ServiceFact | None, run: DockerRun | None) -> str:
    """Return the reason for a mapping, as text for the user."""
    if base and (mapping.local, str(mapping.remote)) in base.binds:
        return f"{base.file} mounts it there"
    if base is None and run and (mapping.local, str(mapping.remote)) in run.mounts:
        return f"{run.source} mounts it there"
    if mapping.local != "." and PurePosixPath(WORKSPACE) in mapping.remote.parents:
        return f"the repository around it is mounted at {WORKSPACE}"
    if str(mapping.remote) == WORKSPACE:
        return "the repository is mounted there"
    return "the image has its code there, and the local files are mounted over it"
