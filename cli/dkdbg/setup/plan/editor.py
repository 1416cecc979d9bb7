"""Build the entries for launch.json and tasks.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap.messages import PROJECT
from dkdbg.core import compose_names
from dkdbg.core.plan import FROM_ENVIRONMENT, FROM_NOWHERE, FROM_PERSON, PUBLISHED_ON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dkdbg.core.plan import Mapping as Mapped
    from dkdbg.core.plan import ProjectPlan

ATTACH_NAME = "dkdbg: attach"
UP_LABEL = "dkdbg: up"
RESTART_LABEL = "dkdbg: restart"
STOP_LABEL = "dkdbg: stop"
DOWN_LABEL = "dkdbg: down"
#: Task that shows the program's whole output, even before an editor is attached.
LOGS_LABEL = "dkdbg: logs"
#: Prefixes: name of the launch entry, and label of the task, for a target.
TARGET_NAME, TARGET_LABEL = "dkdbg: on ", "dkdbg: run on "
#: Name of the compound for all ranks and of its task; prefix of its entries' names.
RANKS_NAME, RANK_NAME = "dkdbg: ranks", "dkdbg: rank "
#: Port of rank 0, unless the debug service uses that port.
FIRST_RANK_PORT = 5678
#: VS Code lists entries with a `group` first, in the groups' order. F5 starts the first entry, until the user chooses
#: another.
FIRST = {"group": "0_dkdbg", "order": 1}
#: Attach argument with the token (agent/proxy/listener/tokens.py), and id of the VS Code input that asks for it.
TOKEN_PROPERTY = "dkdbgToken"  # noqa: S105
#: Values of TOKEN_PROPERTY: references that VS Code resolves, never the token itself.
TOKEN_REFERENCES = {FROM_ENVIRONMENT: "${env:DKDBG_TOKEN}", FROM_PERSON: f"${{input:{TOKEN_PROPERTY}}}"}


def launch_entry(plan: ProjectPlan, port: int, project: str = "") -> dict[str, object]:
    """Return the attach entry for launch.json.

    debugpy copies the attach arguments into the announcement of each child process, so that with `connect` the children
    attach through the same port. `redirectOutput` is explicit, to replace the `false` that earlier versions of dkdbg
    wrote. `internalConsoleOptions` shows the Debug Console at every start, in place of the task's terminal; by default
    VS Code does so only at the first.

    Args:
        plan: has the path mappings and how to get the token.
        port: local port to attach to.
        project: id from `project_id` in setup/render/editor_files.py; empty to attach to any project.
    """
    connect: dict[str, object] = {"host": PUBLISHED_ON, "port": port}
    if project:
        connect[PROJECT] = project  # inside `connect`, where VS Code does not underline it
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
    # Only where needed, because VS Code underlines properties that debugpy does not declare.
    if plan.token != FROM_NOWHERE:
        entry[TOKEN_PROPERTY] = TOKEN_REFERENCES[plan.token]
    return entry


def inputs(plan: ProjectPlan) -> tuple[dict[str, object], ...]:
    """Return the VS Code inputs for which the user is asked at each start."""
    if plan.token != FROM_PERSON:
        return ()
    question = (
        "Token of the debug port (~/.config/dkdbg/token where the program runs; leave empty if it needs none)"
    )
    return ({"id": TOKEN_PROPERTY, "type": "promptString", "description": question, "password": True},)


def target_entry(name: str, port: int, mappings: Sequence[Mapping[str, str]]) -> dict[str, object]:
    """Return the launch entry for a target, with which F5 runs the program there and attaches to it.

    Args:
        name: the target, as the user types it.
        port: local port from which `dkdbg run --attach` forwards to the target.
        mappings: pathMappings, as debugpy reads them.
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
    """Return the task that F5 on a target runs first; its terminal belongs to the program, so Ctrl-C reaches that.

    The task stays in the background, and VS Code attaches once the remote agent reports that it listens.
    """
    return _background(name, ["run", "--reload", "--wait", "--attach", str(port), "--on", name, "--", *argv])


def first_rank_port(service: int, count: int) -> int:
    """Return rank 0's port: debugpy's default, or the debug service's plus one if that is in the ranks' range."""
    return service + 1 if FIRST_RANK_PORT <= service < FIRST_RANK_PORT + count else FIRST_RANK_PORT


def rank_entries(plan: ProjectPlan, base: int, count: int) -> tuple[dict[str, object], ...]:
    """Return a launch entry for each rank, for editors without child sessions: rank r uses the port `base` + r."""
    return tuple(_rank_entry(plan, base, rank) for rank in range(count))


def _rank_entry(plan: ProjectPlan, base: int, rank: int) -> dict[str, object]:
    entry = launch_entry(plan, base + rank)
    del entry["preLaunchTask"]  # the compound has a task for all of them
    entry["subProcess"] = False
    entry["presentation"] = {"hidden": True}
    return {**entry, "name": f"{RANK_NAME}{rank}"}


def ranks_compound(entries: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the compound that starts and stops all ranks together."""
    return {
        "name": RANKS_NAME,
        "configurations": [each["name"] for each in entries],
        "stopAll": True,
        "preLaunchTask": RANKS_NAME,
        "presentation": {**FIRST, "order": 3},
    }


def ranks_task(base: int) -> dict[str, object]:
    """Return the compound's task, which starts the service and opens each rank's port before the rank runs."""
    argv = ["attach", "--ports", str(base)]
    task = _background("", argv, begins="attach your editor to ", ends="rank r: attach to ")
    return {**task, "label": RANKS_NAME, "dependsOn": [UP_LABEL]}


def copy_task(name: str, port: int, overlay: str) -> dict[str, object]:
    """Return the task that F5 on a debug copy runs first: create the copy, forward its port, at the end remove it."""
    return _background(name, ["up", "--on", name, "--overlay", overlay, "--attach", str(port), "--yes"])


def _background(
    name: str,
    argv: Sequence[str],
    *,
    begins: str = "^dkdbg: attach an editor to ",
    ends: str = "^dkdbg: (waiting for a debugger|a debugger can attach) on ",
) -> dict[str, object]:
    """Return a background task that runs while the user debugs on a target.

    VS Code attaches once a line of the task's output matches `ends`.
    """
    return {
        "label": TARGET_LABEL + name,
        "type": "process",
        "command": "dkdbg",
        "args": [*argv],
        "options": {"cwd": "${workspaceFolder}"},
        "isBackground": True,
        "presentation": {"reveal": "always", "panel": "dedicated", "showReuseMessage": False, "clear": True},
        "problemMatcher": {
            "owner": "dkdbg",
            # VS Code requires a pattern. This one never matches, because the task reports no problems in files.
            "pattern": {"regexp": "^dkdbg: never: (.*)$", "message": 1},
            "background": {"activeOnStart": True, "beginsPattern": begins, "endsPattern": ends},
        },
    }


def path_mappings(mappings: tuple[Mapped, ...]) -> list[dict[str, str]]:
    """Return the mappings as pathMappings of a launch entry."""
    root = "${workspaceFolder}"
    return [
        {"localRoot": root if m.local == "." else f"{root}/{m.local}", "remoteRoot": str(m.remote)}
        for m in mappings
    ]


def tasks(plan: ProjectPlan) -> tuple[dict[str, object], ...]:
    """Return the entries for tasks.json.

    The task `up` ends as soon as an attach works, or fails with the reason. It has no background matcher: VS Code
    starts the debugger when the task exits with 0, and otherwise asks the user. Its terminal is shown from the start,
    because a first build takes minutes; with a hidden terminal VS Code shows nothing for 10 s, and then offers Debug
    Anyway.
    """
    quiet = {"reveal": "silent", "panel": "dedicated", "showReuseMessage": False, "clear": True}
    shown = {**quiet, "reveal": "always"}
    compose = ["compose", "--progress", "plain", "--profile", compose_names.PROFILE]
    volumes = ["--volumes"] if plan.service.masks else []
    up = [*compose, "up", "--build", "--detach", "--wait", "--wait-timeout", "300", plan.service.name]
    down = [*compose, "rm", "--stop", "--force", *volumes, plan.service.name]
    stop = [*compose, "stop", plan.service.name]
    restart = [*compose, "exec", "-T", plan.service.name, *plan.service.agent, "restart"]
    common = {
        "type": "process",
        "command": "sh",
        "options": {"cwd": "${workspaceFolder}"},
        "problemMatcher": [],
    }
    script = ".dkdbg/up.sh"
    logs = {"command": "docker", "args": [*compose, "logs", "--follow", "--tail", "200", plan.service.name]}
    each = (
        (UP_LABEL, {"args": [script], "windows": {"command": "docker", "args": up}}, shown),
        (
            RESTART_LABEL,
            {"args": [script, "restart"], "windows": {"command": "docker", "args": restart}},
            shown,
        ),
        (STOP_LABEL, {"args": [script, "stop"], "windows": {"command": "docker", "args": stop}}, quiet),
        (LOGS_LABEL, logs, shown),
        (DOWN_LABEL, {"args": [script, "down"], "windows": {"command": "docker", "args": down}}, quiet),
    )
    return tuple(
        {"label": label, **common, **runs, "presentation": presentation} for label, runs, presentation in each
    )
