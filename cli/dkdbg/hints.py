"""Hints of the everyday commands, by name. All other hints are written where their errors are raised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hint:
    """Hint template with named fields. Backticks mark its command lines and are not printed."""

    template: str

    def __call__(self, **values: object) -> str:
        """Return the text with `values` in its fields."""
        return self.template.replace("`", "").format(**values)


# fmt: off
# --- setting up
GO_TO_REPOSITORY = Hint("go to your repository and type: `dkdbg init`")
TRY_DEMO = Hint("or try it on an example: `dkdbg demo`")
INIT_PLAN = Hint("`dkdbg init` shows a plan and asks before it writes anything")
INIT_CHOICE = Hint("`dkdbg init --yes` writes, `dkdbg init --diff` only shows")
INIT_FIRST = Hint("`dkdbg init`")
INIT_DONE = Hint("next: `dkdbg up`, or plain Docker: `docker compose --profile debug up --build --wait {service}`")
INIT_VERIFY = Hint("to prove it: `dkdbg verify` runs the program once and stops in it")
INIT_BESIDE = Hint(
    "only one service at a time is the debug service, and this replaces {former}; to stop in {service} too: "
    "`docker compose up --detach {service}`, then `dkdbg attach compose://{service} --pid 1`"
)
UNDO_ANYWAY = Hint("To undo anyway and keep your versions as <file>.dkdbg-saved: `dkdbg init --undo --force`")
# --- the debug service
SERVICE_UP = Hint("`dkdbg up` starts the debug service")
UP_DONE = Hint("next: set a breakpoint and press F5; `dkdbg logs -f` shows the output, `dkdbg down` stops it")
PRESS_F5 = Hint("press F5 to attach to {service}; `dkdbg logs -f` shows what it prints, `dkdbg down` stops it")
ATTACHED = Hint("your editor is attached; `dkdbg where` shows where each process is, `dkdbg logs -f` what it prints")
REMOTE_ATTACH = Hint("  `dkdbg attach --port {port}`")
REMOTE_SYNC = Hint("to sync saved files while this runs: `dkdbg sync`")
ENGINE_DOWN = Hint(
    "start it (sudo systemctl start docker, or Docker Desktop), then `docker info` must answer; `docker context show` and DOCKER_HOST show which engine is used"
)
TOKEN_ANEW = Hint("`rm {file}`, then `dkdbg up` makes a new one")
TOKEN_SHOW = Hint("  F5 asks for it: `cat {file}`")
TOKEN_EXPORT = Hint('  your editor needs it: add  `export {variable}="$(cat {file})"`  to the profile of your shell, once')
PORT_TAKEN = Hint("port {wished} is taken; attach with: `dkdbg attach 127.0.0.1:{port}`")
PORT_HELD = Hint("another `dkdbg run --attach` or `dkdbg attach` may have it: stop that, or name another port, in launch.json too")
# --- containers and processes
ATTACH_WITH = Hint("attach with: `dkdbg attach {target}`")
CONTAINERS = Hint("`docker ps --all`")
HOW_TO_ENTER = Hint("`dkdbg attach {target}` shows how to attach to it")
ENTER = Hint("  to attach to it: `dkdbg attach {target} --pid {pid}`")
RUN_BESIDE = Hint("  `dkdbg run --on docker://{name} --wait --attach -- {command}`")
RUN_AGAIN = Hint("start it again, under dkdbg: `dkdbg run --on {target} --wait --attach -- {command}`")
INIT_SERVICE = Hint("to start it under dkdbg, with F5: `dkdbg init --service {service}`")
JOIN_SESSION = Hint("join that session: `dkdbg attach {target}`")
RUN_THERE = Hint("`dkdbg run --on {target} -- python train.py` starts one")
# --- remote hosts, clusters and jobs
HOST_KEY = Hint("ask its administrator; if the new key is right: `ssh-keygen -f {file} -R {host}`, then connect once with ssh")
PODS = Hint("`kubectl get pods --namespace={namespace}`")
POD_PERMISSION = Hint("ask the cluster's administrator for a Role with this permission; `kubectl auth can-i {verb} {what} --namespace={namespace}` then prints yes")
COPY_READY = Hint("ready: `dkdbg attach {target}`")
COPY_DOWN = Hint("at the end: `dkdbg down {target}`")
SUBMIT = Hint("`dkdbg submit --on {target} -- python train.py`; --interactive needs no command")
JOB_GOES_ON = Hint("job {job} keeps running; `dkdbg attach {target}` reattaches")
JOB_ANOTHER = Hint("start another: `dkdbg submit --on {target} -- python train.py`")
RAY_WAITS = Hint("`dkdbg attach {target}` waits for workers that stop")
# --- sync
SYNC_VERIFY = Hint("`dkdbg sync {target} --verify` lists what differs")
SYNC_TO = Hint("nothing was read. `dkdbg sync TARGET --to PATH` syncs this repository to PATH there")
