"""Makes pydevd answer each request: with an error if it would not answer, with a shortened answer if that is too long.

pydevd (debugpy 1.8.22) does not answer DAP requests that it does not implement, such as `loadedSources` or
`restartFrame`, and debugpy's adapter handles no further request before the answer. If pydevd's code for a request
raises, as for `setBreakpoints` without a path, the session ends. A message of more than MAX_BODY_BYTES ends the
adapter's thread that reads from the process, after which no request is answered, and a stopped program stays stopped.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: debugpy's `JsonIOStream.MAX_BODY_SIZE`.
MAX_BODY_BYTES = 0xFFFFFF
#: Maximum characters of each text in a message that would exceed MAX_BODY_BYTES.
MAX_TEXT = 256 * 1024


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
    command_class = commands.NetCommand
    initialize = command_class.__init__

    def fit(self: Any, cmd_id: int, seq: int, text: Any, is_json: bool = False) -> None:
        initialize(self, cmd_id, seq, text, is_json)
        if is_json and len(self._as_bytes) > MAX_BODY_BYTES:
            message = _cut(self.as_dict)
            initialize(self, cmd_id, self.seq, message, is_json)
            if len(self._as_bytes) > MAX_BODY_BYTES and message["type"] == "response":
                text = "The answer has %d bytes; debugpy reads at most %d" % (
                    len(self._as_bytes),
                    MAX_BODY_BYTES,
                )
                message.update(body={}, success=False, message=text)
                initialize(self, cmd_id, self.seq, message, is_json)

    command_class.__init__ = fit


def _cut(value: Any) -> Any:
    """Return a copy in which each text is cut after MAX_TEXT characters and its full length is added."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return "%s... (%d characters)" % (value[:MAX_TEXT], len(value))
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    return [_cut(each) for each in value] if isinstance(value, list) else value


def _handler(_: Any, name: str) -> Callable[[Any, Any], None]:
    """Return `_refuse` as handler of a request that pydevd does not implement. Raises AttributeError: another name."""
    if not (name.startswith("on_") and name.endswith("_request")):
        raise AttributeError(name)
    return _refuse


def _refuse(_: Any, request: Any) -> None:
    raise NotImplementedError("debugpy does not implement " + request.command)
