"""What the editor gets: the attach entry of launch.json and the task that makes the attach work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap.messages import PROJECT
from dkdbg.core import debug_names
from dkdbg.core.plan import FROM_ENVIRONMENT, FROM_NOWHERE, FROM_PERSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dkdbg.core.plan import Mapping as Mapped
    from dkdbg.core.plan import ProjectPlan

ATTACH_NAME = "dkdbg: attach"
UP_LABEL = "dkdbg: up"
RESTART_LABEL = "dkdbg: restart"
STOP_LABEL = "dkdbg: stop"
DOWN_LABEL = "dkdbg: down"
#: What the program prints, also before an editor is attached and past Python's own streams.
LOGS_LABEL = "dkdbg: logs"
#: What the entry and the task of a target begin with.
TARGET_NAME, TARGET_LABEL = "dkdbg: on ", "dkdbg: run on "
#: The compound of the entries a rank and the task that opens their ports; the entries begin with RANK_NAME.
RANKS_NAME, RANK_NAME = "dkdbg: ranks", "dkdbg: rank "
#: Of rank 0, where it is free.
FIRST_RANK_PORT = 5678
#: Of several entries VS Code lists those with a `group` first, by its name, and F5 takes the first until one is chosen.
FIRST = {"group": "0_dkdbg", "order": 1}
#: The property of the attach request that carries the token (agent/proxy/listener/tokens.py), and the input that asks for it.
TOKEN_PROPERTY = "dkdbgToken"  # noqa: S105
#: What the editor puts into that property; both are references, never the token.
TOKEN_REFERENCES = {FROM_ENVIRONMENT: "${env:DKDBG_TOKEN}", FROM_PERSON: f"${{input:{TOKEN_PROPERTY}}}"}


def launch_entry(plan: ProjectPlan, port: int, project: str = "") -> dict[str, object]:
    """The attach configuration of launch.json.

    `connect` is in it because debugpy copies the attach arguments into the announcement of each child process,
    so children come back through the same port; `redirectOutput` is stated because entries of earlier versions have it
    off, and a new `init` turns it on there. `internalConsoleOptions` brings the Debug Console back in front each time,
    where the task's terminal was; VS Code's default does so only the first time.

    Args:
        plan: whose mappings are written out.
        port: on the local side.
        project: the id of setup/render/identity.py; empty for an entry that attaches to whatever runs there.
    """
    connect: dict[str, object] = {"host": LOOPBACK, "port": port}
    if project:
        connect[PROJECT] = project  # within `connect`, where editors underline nothing
    entry: dict[str, object] = {
        "name": ATTACH_NAME,
        "type": "debugpy",
        "request": "attach",
        "connect": connect,
        "pathMappings": path_mappings(plan.mappings),
        "justMyCode": True,
        "subProcess": True,
        "redirectOutput": True,
        "internalConsoleOptions": "openOnSessionStart",
        "preLaunchTask": UP_LABEL,
        "presentation": dict(FIRST),
    }
    # VS Code underlines a property that debugpy does not know, so only where it is wanted.
    if plan.token != FROM_NOWHERE:
        entry[TOKEN_PROPERTY] = TOKEN_REFERENCES[plan.token]
    return entry


def inputs(plan: ProjectPlan) -> tuple[dict[str, object], ...]:
    """What the editor asks a person at each start."""
    if plan.token != FROM_PERSON:
        return ()
    question = "Token of the debug port (~/.config/dkdbg/token where it runs; empty when it asks for none)"
    return ({"id": TOKEN_PROPERTY, "type": "promptString", "description": question, "password": True},)


def target_entry(name: str, port: int, mappings: Sequence[Mapping[str, str]]) -> dict[str, object]:
    """The launch entry for a target: F5 runs the program there and attaches to it.

    Args:
        name: the target, as a person types it.
        port: of this machine, where `dkdbg run --attach` leads there.
        mappings: debugpy's pathMappings.
    """
    return {
        "name": TARGET_NAME + name,
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": LOOPBACK, "port": port},
        "pathMappings": [dict(each) for each in mappings],
        "justMyCode": True,
        "subProcess": True,
        "redirectOutput": False,
        "preLaunchTask": TARGET_LABEL + name,
        "presentation": {**FIRST, "order": 2},
    }


def target_task(name: str, port: int, argv: Sequence[str]) -> dict[str, object]:
    """The task that F5 on a target runs first; its terminal is the program's, with its Ctrl-C.

    It goes on in the background, and counts as ended when an attach will work: the agent there says it listens.

    Args:
        argv: the program's command line there.
    """
    return _background(name, ["run", "--reload", "--wait", "--attach", str(port), "--on", name, "--", *argv])


def first_rank_port(service: int, count: int) -> int:
    """The port of rank 0: debugpy's usual one, unless the debug service is on one of them."""
    return service + 1 if FIRST_RANK_PORT <= service < FIRST_RANK_PORT + count else FIRST_RANK_PORT


def rank_entries(plan: ProjectPlan, base: int, count: int) -> tuple[dict[str, object], ...]:
    """A launch entry a rank, for editors that open no child sessions: rank r is on the port `base` + r."""
    return tuple(_rank_entry(plan, base, rank) for rank in range(count))


def _rank_entry(plan: ProjectPlan, base: int, rank: int) -> dict[str, object]:
    entry = launch_entry(plan, base + rank)
    del entry["preLaunchTask"]  # the compound's task is for all of them
    entry["subProcess"] = False
    entry["presentation"] = {"hidden": True}
    return {**entry, "name": f"{RANK_NAME}{rank}"}


def ranks_compound(entries: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """One F5 for all ranks, and one Stop."""
    return {
        "name": RANKS_NAME,
        "configurations": [each["name"] for each in entries],
        "stopAll": True,
        "preLaunchTask": RANKS_NAME,
        "presentation": {**FIRST, "order": 3},
    }


def ranks_task(base: int) -> dict[str, object]:
    """The task that the compound runs first: the service is up, and each rank gets its port, also before it runs."""
    return {
        **_background("", ["attach", "--ports", str(base)]),
        "label": RANKS_NAME,
        "dependsOn": [UP_LABEL],
        "problemMatcher": {
            "owner": "dkdbg",
            "pattern": {"regexp": "^dkdbg: never: (.*)$", "message": 1},
            "background": {
                "activeOnStart": True,
                "beginsPattern": "attach your editor to ",
                "endsPattern": "rank r: attach to ",
            },
        },
    }


def copy_task(name: str, port: int, overlay: str) -> dict[str, object]:
    """The task that F5 on a workload's debug copy runs first: it starts the copy, leads there, and takes it away at its end.

    Args:
        overlay: the folder of its manifests.
    """
    return _background(name, ["up", "--on", name, "--overlay", overlay, "--attach", str(port), "--yes"])


def _background(name: str, words: Sequence[str]) -> dict[str, object]:
    """A task that stays as long as somebody debugs there."""
    return {
        "label": TARGET_LABEL + name,
        "type": "process",
        "command": "dkdbg",
        "args": [*words],
        "options": {"cwd": "${workspaceFolder}"},
        "isBackground": True,
        "presentation": {"reveal": "always", "panel": "dedicated", "showReuseMessage": False, "clear": True},
        "problemMatcher": {
            "owner": "dkdbg",
            # VS Code asks for one; nothing that the program prints is a problem of a file.
            "pattern": {"regexp": "^dkdbg: never: (.*)$", "message": 1},
            "background": {
                "activeOnStart": True,
                "beginsPattern": "^dkdbg: attach an editor to ",
                "endsPattern": "^dkdbg: (waiting for a debugger|a debugger can attach) on ",
            },
        },
    }


def path_mappings(mappings: tuple[Mapped, ...], root: str = "${workspaceFolder}") -> list[dict[str, str]]:
    """debugpy's pathMappings; `root` is the local root as the editor writes it."""
    return [
        {"localRoot": root if m.local == "." else f"{root}/{m.local}", "remoteRoot": str(m.remote)}
        for m in mappings
    ]


def tasks(plan: ProjectPlan) -> tuple[dict[str, object], ...]:
    """The tasks: `up` ends exactly when an attach will work, and fails with the reason when it never will.

    A process task without a background matcher: VS Code starts the debugger when it has ended with 0, and asks when
    it has not. Its terminal is shown from the start: a first build takes minutes, and with a hidden terminal VS Code
    shows nothing for 10 s and then offers Debug Anyway.
    """
    quiet = {"reveal": "silent", "panel": "dedicated", "showReuseMessage": False, "clear": True}
    shown = {**quiet, "reveal": "always"}
    compose = ["compose", "--progress", "plain", "--profile", debug_names.PROFILE]
    volumes = ["--volumes"] if plan.service.masks else []
    up = [*compose, "up", "--build", "--detach", "--wait", "--wait-timeout", "300", plan.service.name]
    restart = [*compose, "exec", "-T", plan.service.name, "sh", "/opt/dkdbg/agent.pyz", "restart"]
    ours = {
        "type": "process",
        "command": "sh",
        "options": {"cwd": "${workspaceFolder}"},
        "problemMatcher": [],
    }
    return (
        {
            "label": UP_LABEL,
            "type": "process",
            "command": "sh",
            "args": [".dkdbg/up.sh"],
            "windows": {"command": "docker", "args": up},
            "options": {"cwd": "${workspaceFolder}"},
            "presentation": shown,
            "problemMatcher": [],
        },
        {
            "label": RESTART_LABEL,
            **ours,
            "args": [".dkdbg/up.sh", "restart"],
            "windows": {"command": "docker", "args": restart},
            "presentation": shown,
        },
        {
            "label": STOP_LABEL,
            **ours,
            "args": [".dkdbg/up.sh", "stop"],
            "windows": {"command": "docker", "args": [*compose, "stop", plan.service.name]},
            "presentation": quiet,
        },
        {
            "label": LOGS_LABEL,
            "type": "process",
            "command": "docker",
            "args": [*compose, "logs", "--follow", "--tail", "200", plan.service.name],
            "options": {"cwd": "${workspaceFolder}"},
            "presentation": shown,
            "problemMatcher": [],
        },
        {
            "label": DOWN_LABEL,
            "type": "process",
            "command": "docker",
            "args": [*compose, "rm", "--stop", "--force", *volumes, plan.service.name],
            "options": {"cwd": "${workspaceFolder}"},
            "presentation": quiet,
            "problemMatcher": [],
        },
    )
