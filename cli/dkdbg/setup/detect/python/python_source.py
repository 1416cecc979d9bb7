"""Classify a Python file by its syntax tree: program or module, imports, arguments, server or not."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from dataclasses import dataclass

_TRAIN = re.compile(
    r"\.backward\(|optimizer\.step\(|\.fit\(|Trainer\(|DataLoader\(|apply_gradients|GradientTape|train_step|\.train\(\)"
)
#: A statement with an effect at the first column, in a text that cannot be parsed.
_ACTS = re.compile(r"^(?:(?:for|while|with)\b|[A-Za-z_][\w.]*\()", re.MULTILINE)
#: Calls that serve until the program ends. With a default port: Flask, Gradio, uvicorn, aiohttp, waitress and the
#: standard library's servers; without one: gRPC and RunPod.
_SERVES = re.compile(
    r"(app|application)\.run|(?:demo|app|iface|interface|ui|blocks)\.(launch)|(?:uvicorn\.run|web\.run_app|waitress\.serve|.+\.serve_forever)"
    r"|(.+\.wait_for_termination|runpod\.serverless\.start)"
)
#: Default port of Flask's `app.run()`; library -> its default port, None if its `run()` starts no server.
_APP_PORT = 5000
_APP_PORTS = {"marimo": None, "modal": None, "dash": 8050, "sanic": 8000}
_PARSERS = {"ArgumentParser", "HfArgumentParser", "CLI", "Typer", "OptionParser"}


@dataclass(frozen=True, kw_only=True)
class SourceFact:
    """Facts about a Python file.

    Attributes:
        has_guard: whether it has an `if __name__ == "__main__"`.
        runs: whether its top level does more than define things, so that running the file has an effect.
        required: the options and positional arguments that its command line requires.
        parses_args: whether it parses a command line.
        trains: whether it calls functions that are typical of a training loop.
        listens: port of the server that it starts, 0 if unknown; None if it starts no server.
        on_loopback: whether that server accepts connections only from its own machine.
        imports: top-level names of all modules that it imports anywhere.
        error: `LINE: why` if the file cannot be parsed, otherwise empty.
    """

    has_guard: bool = False
    runs: bool = False
    required: tuple[str, ...] = ()
    parses_args: bool = False
    trains: bool = False
    listens: int | None = None
    on_loopback: bool = False
    imports: frozenset[str] = frozenset()
    error: str = ""


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of an untrusted file, without printing its warnings, such as those on invalid escapes.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the text is not Python, or is nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def read_source(text: str) -> SourceFact:
    """Return the facts of a Python file; judge a text that cannot be parsed (Python 2, a template) by patterns."""
    try:
        module = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        guard = "__main__" in text
        why = (
            f"{error.lineno}: {error.msg}, says Python {sys.version_info[0]}.{sys.version_info[1]}"
            if isinstance(error, SyntaxError)
            else f"1: {error}"
        )
        runs = guard or bool(_ACTS.search(text))
        return SourceFact(has_guard=guard, runs=runs, trains=bool(_TRAIN.search(text)), error=why)
    required: list[str] = []
    imports: set[str] = set()
    parses = False
    serving: ast.Call | None = None
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            imports.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            parses = parses or called in _PARSERS or called in {"command", "parse_args"}
            if serving is None and _served(node):
                serving = node
            if called in {"add_argument", "option", "argument"}:
                required.extend(_required(node, called))
    listens = _port(serving, imports) if serving is not None else None
    return SourceFact(
        has_guard=any(isinstance(node, ast.If) and _is_guard(node.test) for node in module.body),
        runs=any(_acts(node) for node in module.body),
        required=tuple(dict.fromkeys(required)),
        parses_args=parses,
        trains=bool(_TRAIN.search(text)),
        listens=listens,
        on_loopback=serving is not None and listens is not None and _is_on_loopback(serving),
        imports=frozenset(imports),
    )


def _served(node: ast.Call) -> re.Match[str] | None:
    """Return the match for a call that serves until the program ends, such as `app.run(port=8000)`; otherwise None."""
    match = _SERVES.fullmatch(ast.unparse(node.func)) if isinstance(node.func, ast.Attribute) else None
    # absl's `app.run(main)` is not a server.
    is_absl = match and match[1] and node.args and not isinstance(node.args[0], ast.Constant)
    return None if is_absl else match


def _port(node: ast.Call, imports: set[str]) -> int | None:
    """Return the port of a call that serves, 0 if unknown; None if the library behind `run()` starts no server."""
    match = _served(node)
    given = next((word.value for word in node.keywords if word.arg in {"port", "server_port"}), None)
    if isinstance(given, ast.Constant) and isinstance(given.value, int):
        return given.value
    if match is None or given or match[3]:
        return 0
    if match[1]:
        return next((port for name, port in _APP_PORTS.items() if name in imports), _APP_PORT)
    return 7860 if match[2] else 8000


def _is_on_loopback(node: ast.Call) -> bool:
    """Return whether a call that serves listens only on loopback, by its address or by default."""
    named = next((word.value for word in node.keywords if word.arg in {"host", "server_name"}), None)
    if named is None and node.args and isinstance(node.args[0], ast.Constant):  # `app.run("0.0.0.0")`
        named = node.args[0]
    if named is None:
        return re.fullmatch(r"(?:app|application)\.run|uvicorn\.run", ast.unparse(node.func)) is not None
    return isinstance(named, ast.Constant) and named.value in {"127.0.0.1", "localhost"}


def _is_guard(test: ast.expr) -> bool:
    parts = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in parts) and any(
        isinstance(part, ast.Constant) and part.value == "__main__" for part in parts
    )


def _acts(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return _is_guard(node.test) or any(_acts(inner) for inner in node.body)
    if isinstance(node, (ast.For, ast.While, ast.With)):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        # Not the mark of a program: modules, too, set up logging, paths or warnings by such calls.
        dotted = ast.unparse(called)
        return not re.match(
            r"(?:logging|warnings|sys\.path|os\.environ|logger|load_dotenv|torch\.(?:set|backends)|\w+\.register)",
            dotted,
        )
    return False


def _required(node: ast.Call, called: str) -> list[str]:
    names = [
        part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    keywords = {word.arg: word.value for word in node.keywords}
    flag = keywords.get("required")
    is_required = isinstance(flag, ast.Constant) and flag.value is True
    if called == "argument":
        optional = (
            "default" in keywords
            or (isinstance(flag, ast.Constant) and flag.value is False)
            or "nargs" in keywords
        )
        return [] if optional else names[:1]
    if names and not names[0].startswith("-"):
        nargs = keywords.get("nargs")
        optional = (
            called == "option"
            or (isinstance(nargs, ast.Constant) and nargs.value in {"?", "*"})
            or "default" in keywords
        )
        optional = optional or (isinstance(nargs, ast.Attribute) and nargs.attr == "REMAINDER")
        return [] if optional else names[:1]
    return [max(names, key=len)] if is_required and names else []
