"""Audit Python sources: debuggers that they start, and calls that wait for a debugger."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.audit import commands, ports
from dkdbg.audit.rules import OPEN_PORT, WAITS, Found, is_for_debugging
from dkdbg.setup.detect.python.python_source import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MODULES = frozenset({"debugpy", "ptvsd", "remote_pdb", "rpdb", "web_pdb"})
_LISTENS = frozenset({"listen", "enable_attach", "RemotePdb", "Rpdb", "set_trace"})
#: Debuggers that listen on all addresses by default.
_OPEN = frozenset({"ptvsd", "web_pdb"})
_HOST_NAME = frozenset({"gethostname", "getfqdn", "gethostbyname"})
_WAITS = frozenset({"wait_for_client", "wait_for_attach"})
#: Maximum words of a command line to read: a hostile source may pass one long list to many calls.
_MAX_WORDS = 64
_STARTS = frozenset(
    {"run", "call", "check_call", "check_output", "Popen", "system", "popen", "create_subprocess_exec"}
)
#: Pattern of sources worth parsing. The others have nothing to audit.
_WORTH = re.compile(r"debugpy|ptvsd|remote_pdb|rpdb|web_pdb")
_LINES = (
    (
        re.compile(
            r"\bdebugpy\.listen\(\s*\(\s*[\"'](?:0\.0\.0\.0|::)?[\"']|\benable_attach\([^)\n]{0,200}[\"']0\.0\.0\.0"
        ),
        OPEN_PORT,
    ),
    (re.compile(r"\b(?:debugpy\.wait_for_client|ptvsd\.wait_for_attach)\(\)"), WAITS),
)


@dataclass(frozen=True, kw_only=True)
class _Call:
    line: int
    module: str
    function: str
    address: ast.expr | None


def debug_ports(text: str) -> Iterator[int]:
    """Return the ports on which debuggers listen that a source starts."""
    for call in _calls(text) or ():
        for node in ast.walk(call.address) if call.address is not None and call.function in _LISTENS else ():
            if isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value < 65536:
                yield node.value


def audit(path: str, text: str) -> Iterator[Found]:
    """Return the findings of a source that is shipped; search line by line in a source that cannot be parsed."""
    calls = _calls(text)
    if calls is None:
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, rule in _LINES:
                if not line.lstrip().startswith("#") and pattern.search(line):
                    yield number, rule, line.strip()[:80]
        return
    for call in calls:
        name = f"{call.module}.{call.function}"
        if call.function in _LISTENS and (host := _open_host(call)) is not None:
            yield call.line, OPEN_PORT, f"{name} listens on {host or 'all addresses'}"
        elif call.function in _WAITS and not is_for_debugging(path):
            yield call.line, WAITS, f"{name}() waits until a debugger attaches"
        elif call.function in _STARTS and call.address is not None:
            line = _command(call.address)
            waits = () if is_for_debugging(path) else commands.waits(line)
            yield from ((call.line, rule, message) for rule, message in (*commands.listens(line), *waits))


def _calls(text: str) -> list[_Call] | None:
    """Return the calls in a source that concern a debugger or start a process; None if the source cannot be parsed."""
    try:
        return _found(parsed(text)) if _WORTH.search(text) else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _found(tree: ast.Module) -> list[_Call]:
    modules: dict[str, str] = {}
    functions: dict[str, tuple[str, str]] = {}
    values: dict[str, ast.expr | None] = {}
    calls: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(
                {each.asname or each.name: each.name for each in node.names if each.name in _MODULES}
            )
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            functions.update({each.asname or each.name: (node.module, each.name) for each in node.names})
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    values[target.id] = None if target.id in values else node.value
        elif isinstance(node, ast.Call):
            calls.append(node)
            values.update(_option(node))
    found: list[_Call] = []
    for call in calls:
        named = call.func
        if isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name):
            module, function = modules.get(named.value.id, ""), named.attr
        elif isinstance(named, ast.Name):
            module, function = functions.get(named.id, ("", named.id))
        else:
            continue
        if module or function in _STARTS:
            given = {each.arg: each.value for each in call.keywords}
            hosts = (given[each] for each in ("address", "endpoint", "args", "host", "addr") if each in given)
            address = call.args[0] if call.args else next(hosts, None)
            address = _valued(address, values)
            if isinstance(address, (ast.Tuple, ast.List)):
                address = ast.Tuple(
                    elts=[_valued(each, values) or each for each in address.elts[:_MAX_WORDS]]
                )
            found.append(_Call(line=call.lineno, module=module, function=function, address=address))
    return found


def _valued(node: ast.expr | None, values: Mapping[str, ast.expr | None]) -> ast.expr | None:
    """Return the expression that a name or attribute stands for by `values`, otherwise `node`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return values.get(name) or node


def _option(call: ast.Call) -> dict[str, ast.expr]:
    """Return the default of an `add_argument` call by argparse's attribute name; empty for other calls."""
    default = next((each.value for each in call.keywords if each.arg == "default"), None)
    names = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if default is None or not names or getattr(call.func, "attr", "") != "add_argument":
        return {}
    return {names[-1].lstrip("-").replace("-", "_"): default}


def _open_host(call: _Call) -> str | None:
    """Return the host beyond loopback on which a call makes a debugger listen; None if the source shows none."""
    if call.address is None:
        return "0.0.0.0" if call.module in _OPEN else None  # noqa: S104 - the debugger's default
    if isinstance(call.address, ast.Constant) and isinstance(call.address.value, int):
        return None  # only a port: the host is 127.0.0.1
    hosts = call.address.elts[:1] if isinstance(call.address, (ast.Tuple, ast.List)) else [call.address]
    texts = (text for host in hosts for text in _texts(host))
    return next((text for text in texts if not ports.is_loopback(text)), None)


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield the strings to which a host expression may evaluate.

    These are a string literal, the operands of `or`, both branches of a conditional expression, and the default in a
    call such as `os.environ.get("HOST", "0.0.0.0")`.
    """
    left = [node]  # not recursive: an expression may have a thousand operands
    while left:
        each = left.pop()
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        elif isinstance(each, ast.BoolOp):
            left += reversed(each.values)
        elif isinstance(each, ast.IfExp):
            left += (each.orelse, each.body)
        elif isinstance(each, ast.Call):
            if (name := getattr(each.func, "attr", "")) in _HOST_NAME:
                yield f"{name}()"
            first = [argument for argument in each.args[:1] if isinstance(argument, ast.Call)]
            left += reversed((*first, *each.args[1:], *(keyword.value for keyword in each.keywords)))


def _command(node: ast.expr) -> str:
    """Return the command line in an argument of a call, with `X` for each part that is not a literal."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return " ".join(_command(each) for each in node.elts)
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else "X" for each in node.values)  # fmt: skip
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "X"
