"""`dkdbg up`: the debug service started, healthy, and reachable on a free port."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import console, engine
from dkdbg.agent.contract import ENV_TOKEN
from dkdbg.commands.init import check_root, check_written, debug_service, local_port, make_plan
from dkdbg.detect.people import others
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.model.plan import FROM_ENVIRONMENT, FROM_NOWHERE, FROM_PERSON, GPU_KINDS
from dkdbg.render import changes, dotenv, token_file
from dkdbg.render.changes import FileWanted
from dkdbg.render.transaction import read
from dkdbg.targets.compose import ComposeService, open_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dkdbg.model.plan import DebugService, GpuKind, ProjectPlan


def up(root: Path, *, as_json: bool, wait_timeout: int) -> int:
    """Start the debug service and return when an attach will work; the exit code.

    Raises:
        DkdbgError: no engine, not initialised, or compose failed, with cause and next step.
    """
    check_root(root)
    service = debug_service(root)
    report = (lambda _: None) if as_json else console.say
    host = engine.host_facts()
    gpu, why = choose_gpu(root, service, host)
    report(f"engine {host.version}; GPU: {gpu} ({why})")
    token = choose_token(service, report=console.warn if as_json else console.say)
    target = ComposeService(service=service.name)
    model = engine.check_project(target, root, env=environment(port=service.port, gpu=gpu, token=token))
    check_published(model, service, token)
    port = choose_port(root, service, target, report=report)
    if token and engine.take_away_other_token(target, root, token):
        report(f"{service.name} ran with another token; it starts anew")
    engine.up(
        target,
        root,
        env=environment(port=port, gpu=gpu, token=token),
        report=report,
        wait_timeout=wait_timeout,
    )
    container = engine.running(target, root, service.port)
    if container and gpu in {"nvidia", "cdi"} and not engine.device_requests(container.id):
        raise DkdbgError(
            f"{service.name} runs, but this compose dropped its GPU request",
            hint="docker compose version must be 2.24.4 or newer; dkdbg down takes the service away",
        )
    published = container.port if container and container.port else port
    if as_json:
        state = {
            "service": service.name,
            "host": "127.0.0.1",
            "port": published,
            "gpu": gpu,
            "token": bool(token),
        }
        console.emit({**state, "container": container.name if container else None})
    else:
        console.say(f'ready: attach to 127.0.0.1:{published} (F5, configuration "dkdbg: attach")')
    return 0


def check_initialised(root: Path, plan: ProjectPlan) -> None:
    """Raise DkdbgError unless `init` has written the debug service and the agent."""
    check_written(root, plan.service.compose_file)


def environment(*, port: int, gpu: GpuKind, token: str) -> dict[str, str]:
    """What compose's files are interpolated with; the token is in no file and on no command line."""
    return {**engine.compose_environment(port=port, gpu=gpu), ENV_TOKEN: token}


def choose_token(service: DebugService, *, report: engine.Report) -> str:
    """The token that the service asks for, made where it is wanted and absent; empty for none.

    Raises:
        DkdbgError: the token's file cannot be used.
    """
    if service.token == FROM_NOWHERE:
        people = others()
        if people:
            report(
                f"note: {_named(people)} can reach this port too, which runs code as you; a token keeps them out: "
                'token = "env" under [debug] in dkdbg.toml, then dkdbg init and dkdbg up'
            )
        return ""
    token, file = token_file.read(os.environ), token_file.path(os.environ)
    if token is None:
        token = token_file.make(os.environ)
        report(f"made a token for your debug ports: {file}")
        if service.token == FROM_PERSON:
            report(f"  F5 asks for it: cat {file}")
    elif not token:
        report("note: DKDBG_TOKEN is set and empty: whoever can reach the port may attach")
    if token and service.token == FROM_ENVIRONMENT and not os.environ.get(ENV_TOKEN):
        report(
            f'  your editor needs it, once: put  export {ENV_TOKEN}="$(cat {file})"  into the profile of your shell'
        )
        report("  and start the editor (or its remote server) anew; until then its attach is refused")
    return token


def _named(people: tuple[str, ...]) -> str:
    shown = ", ".join(people[:3])
    return shown + (
        f" and {len(people) - 3} more users of this machine" if people[3:] else " on this machine"
    )


def check_published(model: Mapping[str, object], service: DebugService, token: str) -> None:
    """Raise DkdbgError when the port will be reachable from other machines and asks for no token."""
    found = open_addresses(model, service.name, service.port)
    if found and not token:
        raise DkdbgError(
            f"{service.name} publishes its debug port on {', '.join(found)}, where other machines reach it, and asks for no token:"
            " whoever connects would run code as you",
            hint=f'publish it on 127.0.0.1 in {service.compose_file}, or set token = "env" under [debug] in dkdbg.toml, '
            "then dkdbg init and dkdbg up",
            exit_code=EXIT_CONFLICT,
        )


def choose_gpu(root: Path, service: DebugService, host: engine.HostFacts) -> tuple[GpuKind, str]:
    """How the service gets a GPU: what DKDBG_GPU says in the environment or in .env, else what this machine has.

    Raises:
        DkdbgError: DKDBG_GPU names no variant.
    """
    if not service.gpu:
        return "none", "nothing in the repository asks for one"
    env = read(root, PurePosixPath(".env"))
    written = dotenv.value_of(env.decode("utf-8", errors="replace"), "DKDBG_GPU") if env else None
    said = os.environ.get("DKDBG_GPU") or written
    for kind in GPU_KINDS:
        if said == kind:
            return kind, "DKDBG_GPU says so"
    if said:
        raise DkdbgError(
            f"DKDBG_GPU is {said!r}", hint="it is one of none, nvidia, cdi, amd", exit_code=EXIT_USAGE
        )
    return host.gpu, host.gpu_source


def choose_port(root: Path, service: DebugService, target: ComposeService, *, report: engine.Report) -> int:
    """A free port on 127.0.0.1; when it is another than before, launch.json and .env learn of it.

    .env, because plain `docker compose` and F5 have to publish the same port that launch.json attaches to.
    """
    before = local_port(root, service.port)
    if service.host_network:
        return before
    container = engine.running(target, root, service.port)
    port = engine.free_port(before, ours=container.port if container else None)
    if port != before:
        from dkdbg.render.editor_files import LAUNCH, editor_files, with_port

        # An init that left no record of the entry: the plan knows it as well.
        launch = with_port(root, port) or editor_files(root, make_plan(root)[0], port)[LAUNCH]
        env = read(root, PurePosixPath(".env"))
        text = dotenv.with_value(dotenv.decode(env), "DKDBG_PORT", str(port))
        wanted = {
            ".env": FileWanted(content=dotenv.encode(text), reason="the port that is free here", owned=False),
            LAUNCH: launch,
        }
        changes.apply(root, changes.between(root, wanted), changes.Journal(root=root))
        report(f"port {before} is taken; using {port}, written to {LAUNCH} and .env")
        for phrase in launch.yours:
            report(f"  {LAUNCH}: yours stays {phrase}")
    return port
