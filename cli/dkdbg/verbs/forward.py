"""`dkdbg forward`: forward local ports to ports of a target until Ctrl-C, and reconnect after a lost connection."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

from dkdbg import console, signals
from dkdbg.core.target import Capability
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.relay.relay import Relay
from dkdbg.targets import registry
from dkdbg.targets.docker.ports import free_port
from dkdbg.verbs import values

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.target import Target
    from dkdbg.delivery.bring import Brought
    from dkdbg.verbs.parser import Parser

#: Seconds between two polls of the relay.
_POLL_S = 0.2


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg forward`."""
    parser.add_argument("target", metavar="TARGET", help="where")
    parser.add_argument(
        "ports",
        nargs="+",
        type=values.forwarded,
        metavar="[LOCAL:]PORT",
        help="the port on the target's loopback; LOCAL is the port on this machine",
    )
    parser.add_argument("--for", type=values.duration, metavar="TIME", dest="limit", help=values.FOR)
    parser.add_argument("--json", action="store_true", help="one JSON object per line for each event")


def call(options: argparse.Namespace, root: Path) -> int:
    """Forward ports of 127.0.0.1 here to ports of 127.0.0.1 on the target until Ctrl-C; return the exit code.

    Raises:
        DkdbgError: the target cannot be reached, or a local port is taken.
    """
    as_json, is_over = options.json, values.has_passed(options.limit)
    signals.handle(signal.default_int_handler)
    with contextlib.closing(registry.target_of(options.target, root)) as target:
        if Capability.REMOTE not in target.capabilities:
            raise DkdbgError(
                f"{target.address} is neither behind ssh nor a pod, so its ports cannot be forwarded",
                hint="dkdbg forward ssh://HOST PORT, or dkdbg forward k8s://NAMESPACE/POD PORT; a container publishes its ports: docker run -p",
                exit_code=EXIT_USAGE,
            )
        target.find()
        agent = _Agent(target)
        with contextlib.closing(agent), contextlib.closing(Relay(agent.command)) as relay:
            for local, remote_port in sorted(
                options.ports, key=lambda each: each[0] is None
            ):  # named local ports first, so that no free port is one of them
                chosen = _listen(relay, local, remote_port)
                text = f"127.0.0.1:{chosen} is port {remote_port} of {target.label}"
                _say(as_json, "port", text, local=chosen, remote=remote_port)
            with contextlib.suppress(KeyboardInterrupt):
                _watch(relay, as_json, is_over)
    _say(as_json, "end", "ended")
    return 0


class _Agent:
    """The agent on the target; its command `relay` is the remote end of the relay."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._brought: Brought | None = None

    def command(self, word: str, silent: bool, limit: float) -> tuple[str, ...]:
        """Return the command line of the remote end. Raises DkdbgError: the agent cannot be copied to the target."""
        executor = self._target.again(silent=silent, limit=limit)
        if self._brought is None or silent:  # the agent's file was removed when the connection was lost
            self.close()
            self._brought = bring(executor)
        return executor.wrap((*self._brought.argv, "relay", word))

    def close(self) -> None:
        """Remove the agent's file from the target, unless another session needs it."""
        if self._brought is not None:
            self._brought.close()
            self._brought = None


def _listen(relay: Relay, local: int | None, remote_port: int) -> int:
    try:
        return relay.listen(remote_port, local=local or free_port(remote_port, own_port=None))
    except OSError as error:
        raise DkdbgError(
            f"cannot listen on 127.0.0.1:{local or remote_port}: {error.strerror}",
            hint=f"name another local port: LOCAL:{remote_port}",
            exit_code=EXIT_CONFLICT,
        ) from error


def _watch(relay: Relay, as_json: bool, is_over: Callable[[], bool]) -> None:
    """Report each lost connection and each reconnection, until Ctrl-C or the end of --for."""
    why = relay.why
    reported: tuple[str, int] | None = (why, 0) if why else None
    while not is_over():
        # If the connection is lost and restored between two polls, only the count of connections shows it.
        now = (why, 0 if why else relay.connections)
        if now != reported:
            text = "connected" if not why else f"not connected: {why}"
            _say(as_json, "state", text, connected=not why)
            reported = now
        time.sleep(_POLL_S)
        why = relay.why


def _say(as_json: bool, kind: str, text: str, **more: object) -> None:
    if as_json:
        console.say(console.event_line(kind, text, **more))
    else:
        console.say(f"{time.strftime('%H:%M:%S')}  {text}")
