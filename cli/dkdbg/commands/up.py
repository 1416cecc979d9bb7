"""`dkdbg up`: the debug service started, healthy, and reachable on a free port."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import console, engine
from dkdbg.commands.init import check_root, local_port, make_plan
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.model.plan import GPU_KINDS
from dkdbg.render import changes, dotenv
from dkdbg.render.changes import FileWanted
from dkdbg.render.transaction import read
from dkdbg.targets.compose import ComposeService

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.model.plan import GpuKind, ProjectPlan


def up(root: Path, *, as_json: bool, wait_timeout: int) -> int:
    """Start the debug service and return when an attach will work; the exit code.

    Raises:
        DkdbgError: no engine, not initialised, or compose failed, with cause and next step.
    """
    check_root(root)
    plan, _ = make_plan(root)
    check_initialised(root, plan)
    report = (lambda _: None) if as_json else console.say
    host = engine.host_facts()
    gpu, why = choose_gpu(root, plan, host)
    report(f"engine {host.version}; GPU: {gpu} ({why})")
    target = ComposeService(service=plan.service.name)
    engine.check_project(target, root, env=engine.compose_environment(port=plan.service.port, gpu=gpu))
    port = choose_port(root, plan, target, report=report)
    env = engine.compose_environment(port=port, gpu=gpu)
    engine.up(target, root, env=env, report=report, wait_timeout=wait_timeout)
    container = engine.running(target, root, plan.service.port)
    if container and gpu in {"nvidia", "cdi"} and not engine.device_requests(container.id):
        raise DkdbgError(
            f"{plan.service.name} runs, but this compose dropped its GPU request",
            hint="docker compose version must be 2.24.4 or newer; dkdbg down takes the service away",
        )
    published = container.port if container and container.port else port
    if as_json:
        state = {"service": plan.service.name, "host": "127.0.0.1", "port": published, "gpu": gpu}
        console.emit({**state, "container": container.name if container else None})
    else:
        console.say(f'ready: attach to 127.0.0.1:{published} (F5, configuration "dkdbg: attach")')
    return 0


def check_initialised(root: Path, plan: ProjectPlan) -> None:
    """Raise DkdbgError unless `init` has written the debug service and the agent."""
    if (
        read(root, PurePosixPath(plan.service.compose_file)) is None
        or not (root / ".dkdbg" / "agent.sh").is_file()
    ):
        raise DkdbgError(
            f"{root} is not set up for dkdbg yet: {plan.service.compose_file} or .dkdbg/ is missing",
            hint="dkdbg init",
            exit_code=EXIT_USAGE,
        )


def choose_gpu(root: Path, plan: ProjectPlan, host: engine.HostFacts) -> tuple[GpuKind, str]:
    """How the service gets a GPU: what DKDBG_GPU says in the environment or in .env, else what this machine has.

    Raises:
        DkdbgError: DKDBG_GPU names no variant.
    """
    if not plan.service.gpu:
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


def choose_port(root: Path, plan: ProjectPlan, target: ComposeService, *, report: engine.Report) -> int:
    """A free port on 127.0.0.1; when it is another than before, launch.json and .env learn of it.

    .env, because plain `docker compose` and F5 have to publish the same port that launch.json attaches to.
    """
    before = local_port(root, plan)
    if plan.service.host_network:
        return before
    container = engine.running(target, root, plan.service.port)
    port = engine.free_port(before, ours=container.port if container else None)
    if port != before:
        from dkdbg.render.project import LAUNCH, with_port

        env = read(root, PurePosixPath(".env"))
        text = dotenv.with_value(dotenv.decode(env), "DKDBG_PORT", str(port))
        wanted = {
            ".env": FileWanted(content=dotenv.encode(text), reason="the port that is free here", owned=False),
            LAUNCH: with_port(root, plan, port),
        }
        changes.apply(root, changes.between(root, wanted), changes.Journal(root=root))
        report(f"port {before} is taken; using {port}, written to {LAUNCH} and .env")
    return port
