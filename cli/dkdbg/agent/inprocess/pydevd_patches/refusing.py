"""Answers the requests that pydevd leaves unanswered with an error.

pydevd (debugpy 1.8.22) does not answer a request of the protocol that it does not implement, such as `loadedSources` or
`restartFrame`, and debugpy's adapter handles no further request before the answer. Where pydevd's code for a request
raises, as for `setBreakpoints` without a path, the session ends.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def watch() -> None:
    """Make pydevd answer each request."""
    from _pydevd_bundle import pydevd_process_net_command_json as commands

    processor = commands.PyDevJsonCommandProcessor
    process = processor.process_net_command_json

    def process_net_command_json(self: Any, debugger: Any, body: bytes, *args: Any, **kwargs: Any) -> None:
        try:
            process(self, debugger, body, *args, **kwargs)
        except Exception as error:
            if type(error) is not NotImplementedError:
                commands.pydev_log.exception("request: %r", body)
            request = commands.json.loads(body)
            answer = {
                "type": "response",
                "request_seq": request["seq"],
                "command": request["command"],
                "success": False,
                "message": "%s: %s" % (type(error).__name__, error),
            }
            debugger.writer.add_command(commands.NetCommand(commands.CMD_RETURN, 0, answer, is_json=True))

    processor.process_net_command_json = process_net_command_json
    processor.__getattr__ = _handler


def _handler(_: Any, name: str) -> Callable[[Any, Any], None]:
    """Return the handler of a request that pydevd has none for."""
    if not (name.startswith("on_") and name.endswith("_request")):
        raise AttributeError(name)
    return _refuse


def _refuse(_: Any, request: Any) -> None:
    raise NotImplementedError("debugpy does not implement " + request.command)
