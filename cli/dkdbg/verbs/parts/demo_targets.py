"""The targets of the demo: a compose service, or a plain process on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.state import records
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.targets.docker import compose_cli as engine
from dkdbg.targets.docker.compose import ComposeService
from dkdbg.targets.docker.engine_errors import check
from dkdbg.targets.docker.ports import on_free_port

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from dkdbg.core.plan import ProjectPlan
    from dkdbg.targets.docker.host import HostFacts

LOCAL = "local:"
#: Timeout in seconds for the agent of a plain process to open its port.
START_LIMIT = 30.0


def compose(folder: Path, plan: ProjectPlan, host: HostFacts) -> ComposeRun:
    """Return a run of the example in a container of this machine's engine, not yet started."""
    root = str(folder)
    mappings = tuple((root if m.local == "." else f"{root}/{m.local}", str(m.remote)) for m in plan.mappings)
    return ComposeRun(folder=folder, plan=plan, host=host, path_mappings=mappings)


def local(folder: Path, plan: ProjectPlan) -> LocalRun:
    """Return a run of the example as a plain process on this machine, not yet started."""
    return LocalRun(folder=folder, command=_for_this_machine(plan.service.command))


def _for_this_machine(command: tuple[str, ...]) -> tuple[str, ...]:
    """Replace `python` by this interpreter, because this machine may have no `python`."""
    return (sys.executable, *command[1:]) if command[:1] in {("python",), ("python3",)} else command


@dataclass(kw_only=True)
class ComposeRun:
    """The demo as a compose service."""

    folder: Path
    plan: ProjectPlan
    host: HostFacts
    path_mappings: tuple[tuple[str, str], ...]
    port: int = 0

    @property
    def name(self) -> str:
        """Address of the service, and version of the engine."""
        return f"compose://{self.plan.service.name} (engine {self.host.version})"

    @property
    def _target(self) -> ComposeService:
        return ComposeService(service=self.plan.service.name)

    def start(self) -> int:
        """Build the image and start the service on a free local port; return that port."""
        return on_free_port(self.plan.service.port, own_port=None, start=self._up)

    def restart(self) -> int:
        """Start a new container from the same image, with the changed file mounted; return the port."""
        check(process.run(self._target.down(), cwd=self.folder, env=self._environment()))
        self._up(self.port)
        return self.port

    def stop(self) -> None:
        """Remove the example's container, network, image and volumes."""
        argv = (*self._target.down_project(), "--rmi", "local", "--volumes")
        process.run(argv, cwd=self.folder, env=self._environment())

    def _up(self, port: int) -> None:
        self.port = port
        lines: list[str] = []
        try:
            argv = self._target.up(build=True, wait_timeout=120)
            engine.up(self._target, argv, self.folder, env=self._environment(), report=lines.append)
        except DkdbgError as error:
            tail = "\n  ".join(line for line in lines[-12:] if line.strip())
            raise DkdbgError(
                f"{error.message}\n  {tail}", hint=error.hint, exit_code=error.exit_code
            ) from error

    def _environment(self) -> dict[str, str]:
        return engine.environment(port=self.port or self.plan.service.port, gpu="none")


@dataclass(kw_only=True)
class LocalRun:
    """The demo as a plain process."""

    folder: Path
    command: tuple[str, ...]
    name: str = LOCAL
    path_mappings: tuple[tuple[str, str], ...] = ()
    _child: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> int:
        """Start the process under the agent; return the free port that the agent chose."""
        runtime = str(self.folder / ".dkdbg-run")
        argv = (
            sys.executable, "-m", "dkdbg.agent", "launch", "--host", LOOPBACK, "--port", "0",
            "--wait", "60", "--runtime", runtime, "--", *self.command,
        )  # fmt: skip
        with (self.folder / "output.log").open("w") as log:
            self._child = process.start(argv, cwd=self.folder, stdout=log, stderr=log, new_session=True)
        return self._wait(runtime)

    def restart(self) -> int:
        """Stop the process, and start it again."""
        self.stop()
        return self.start()

    def stop(self) -> None:
        """Stop the agent, which stops the program; kill both after five seconds."""
        child, self._child = self._child, None
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(5.0)
        except process.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _wait(self, runtime: str) -> int:
        """Return the port once the session record says that an attach works; never connect to the port."""
        assert self._child is not None  # noqa: S101 - the only caller has started it
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            for record in records.list_records(runtime):
                if record["state"] in {"waiting", "running"} and records.is_live(record):
                    return int(record["port"])
            if self._child.poll() is not None:
                output = (self.folder / "output.log").read_text("utf-8", errors="replace")
                raise DkdbgError(
                    f"the program ended with exit code {self._child.returncode} before a debugger could attach:\n{output[-800:]}"
                )
            time.sleep(0.05)
        raise DkdbgError(f"the agent did not open its port within {START_LIMIT:g} s", exit_code=EXIT_TIMEOUT)
