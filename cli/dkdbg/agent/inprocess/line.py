"""Reports what this process knows about one line of a source file, for `dkdbg why`.

The answer contains the loaded modules from a file of that name, whether the line has code, and whether that code has
run. The hook's thread computes it while the program continues.
"""

# pydevd and torch are untyped, and not imported here: they are used only if they are loaded.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import gc
import itertools
import opcode
import os
import sys
import types

from . import compiling, missed_code, session
from .pydevd_patches import breakpoints, own_tracer, suspending
from .ray import cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

    #: Code that is running, its current line, and whether a caller's loop may call it again.
    Running = List[Tuple[CodeType, int, bool]]

#: Maximum files to report, and functions of a module to look at.
MAX_FILES, MAX_FUNCTIONS = 50, 20_000
#: Prefix of the module of a compiled function's type -> name of the compiler.
_COMPILERS = (
    ("numba.", "numba"), ("jaxlib", "jax"), ("jax.", "jax"), ("triton.", "triton"), ("torch.jit", "torch.jit"),
    ("tensorflow.", "tensorflow"),
)  # fmt: skip
#: Reported like a compiler: functools.lru_cache, which returns cached results without calling the function.
_KEEPS = "functools"
#: Attributes in which functools.wraps, torch.compile, torch.jit, numba and triton store the decorated function.
_INNER = ("__wrapped__", "_torchdynamo_orig_callable", "_torchdynamo_inline", "py_func", "fn")
#: Suffixes of modules that are loaded in compiled form instead of their source.
_COMPILED = (".pyc", ".so", ".pyd")
#: Statements that may skip some of their lines.
_BRANCHES = ("If", "For", "While", "Try", "TryStar", "Match")
#: Instructions of Python 3.12 that leave a function.
_LEAVING = ("RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "RAISE_VARARGS")
#: Number of frozen objects from which on the program has probably called gc.freeze, after which `gc` does not return
#: its objects. Python 3.12 itself starts with about 400.
_MANY_FROZEN = 2000
#: Types of suspended code, which is on no thread's stack, and the prefix of their attributes (`cr_frame`).
_SUSPENDABLE = {types.CoroutineType: "cr", types.GeneratorType: "gi", types.AsyncGeneratorType: "ag"}
#: Instructions that jump.
_JUMPS = frozenset(opcode.hasjrel + opcode.hasjabs)
#: Flags of the code of generators, coroutines and asynchronous generators.
_SUSPENDS = 0x20 | 0x80 | 0x200
#: Flag that code objects of functions have, and those of modules and classes lack.
_CO_OPTIMIZED = 1


def describe(path: str, line: int, *, is_asked: bool) -> Dict[str, Any]:
    """Return what this process knows about a line, for each loaded file with the same name as `path`.

    Args:
        path: absolute path here, according to the editor's path mapping.
        is_asked: whether a user runs `dkdbg why`; only then search all objects of the program, which is slow.
    """
    name = os.path.basename(path)
    running = _running(name, is_asked)
    functions = _functions(name) if is_asked else None
    found: List[Dict[str, Any]] = []
    seen: Set[int] = set()
    for module_name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file and _is_called(file, name) and id(module) not in seen:  # it may have two names
            seen.add(id(module))
            found.append(_of_file(file, module_name, module, line, running, functions=functions))
        elif not file and module_name.rpartition(".")[2] + ".py" == name and _is_frozen(module):
            found.append({"path": "", "module": module_name, "origin": "frozen"})
    paths = [each["path"] for each in found]
    codes = [code for code, _, _ in running]
    codes += [
        each.__code__
        for each in functions or ()
        if os.path.abspath(each.__code__.co_filename) == path
        and each.__globals__.get("__file__") not in paths
    ]
    for file in dict.fromkeys(os.path.abspath(code.co_filename) for code in codes):
        if not any(
            each.get("real") == os.path.realpath(file) for each in found
        ):  # a file without a module, run by runpy or exec
            found.append(_of_file(file, "", None, line, running, functions=functions))
    return {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "optimize": sys.flags.optimize,
        "debugger": _debugger(),
        "tracer": own_tracer.tracer(),
        "cluster": cluster.is_outside(),
        "interpreters": missed_code.has_interpreters(),
        "files": found[:MAX_FILES],
    }


def _is_called(file: str, name: str) -> bool:
    """Tell whether a module's file is a source with this name, or compiled from one."""
    base = os.path.basename(file)
    return base == name or (base.endswith(_COMPILED) and base.partition(".")[0] + ".py" == name)


def _file_of(module: Any) -> str:
    found = session.namespace(module).get("__file__")
    return os.path.abspath(found) if isinstance(found, str) else ""


def _is_in_archive(file: str) -> bool:
    """Tell whether a file lies in a zip, an egg or a wheel: a part of its path is a file."""
    above = os.path.dirname(file)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    return os.path.isfile(above)


def _is_frozen(module: Any) -> bool:
    spec = getattr(module, "__spec__", None)
    return getattr(spec, "origin", None) == "frozen"


def _of_file(
    file: str,
    module_name: str,
    module: Optional[ModuleType],
    line: int,
    running: Running,
    *,
    functions: Optional[List[types.FunctionType]],
) -> Dict[str, Any]:
    """Return the facts about the line in one file.

    Args:
        functions: all functions of files of this name; None if they were not searched for.
    """
    facts: Dict[str, Any] = {
        "path": file, "real": os.path.realpath(file), "module": module_name,
        "origin": "compiled" if file.endswith(_COMPILED) else "zip" if _is_in_archive(file) else "source",
        "importing": bool(getattr(getattr(module, "__spec__", None), "_initializing", False)),
        "breakpoints": _breakpoints(file, is_loaded=module is not None),
    }  # fmt: skip
    whole = compiling.compiled(file, sys.flags.optimize)
    if whole is None:
        return facts
    facts["code"] = _has_line(whole, line)
    facts["unoptimised"] = bool(sys.flags.optimize) and _has_line(compiling.compiled(file, 0), line)
    statements = [] if facts["code"] else _statements(file)
    name, fresh = _around(whole, line, statements)
    facts["function"] = name
    following = (number for _, code in _codes(fresh) for number in _lines(code) if number > line)
    facts["next"] = min(following, default=None)
    if fresh is whole:
        active = [
            each
            for each in running
            if each[0].co_name == "<module>" and os.path.abspath(each[0].co_filename) == file
        ]
        live = active[0][0] if active else None
        facts["at"] = [at for _, at, _ in active]
        facts["branch"] = _is_in_branch(statements or _statements(file), line)
        facts["ran"] = None if facts["importing"] or facts["at"] or module is None else True
    else:
        live, compiler = _live(module, fresh, running, functions or ())
        facts["kept"] = compiler == _KEEPS
        active = [each for each in running if each[0] is live]
        if functions is not None and live is not None:
            active += _suspended(live)
        facts["ran"] = bool(active) or _has_run(live)
        is_compiled = live is not None and (
            missed_code.is_compiled(live) or (facts["ran"] is not True and missed_code.is_inlined(live))
        )
        facts["compiled"] = "torch.compile" if is_compiled else compiler
        if facts["ran"] is False and missed_code.may_be_inlined():
            facts["ran"] = None
        facts["gone"] = functions is not None and live is None and gc.get_freeze_count() < _MANY_FROZEN
        facts["beats"] = live is not None and _beats(live)
        facts["at"] = [at for _, at, _ in active]
        facts["first"] = line == next(
            (each for each in sorted(_lines(fresh)) if each > fresh.co_firstlineno), line
        )
    facts["again"] = any(again for _, _, again in active)
    facts["same"] = None if live is None else _is_equal(live, fresh)
    return facts


def _statements(file: str) -> List[Any]:
    """Return all statements of a source as `ast` nodes; empty for a file that cannot be parsed."""
    import ast

    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        with open(file, "rb") as source:
            text = source.read(compiling.MAX_SOURCE_BYTES)
        with compiling.without_warnings():
            tree = ast.parse(text)
        return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return []


def _is_in_branch(statements: List[Any], line: int) -> bool:
    """Tell whether a line is inside a statement of `_BRANCHES`, which may skip it."""
    return any(
        type(node).__name__ in _BRANCHES and node.lineno < line <= (node.end_lineno or 0)
        for node in statements
    )


def _codes(code: CodeType, name: str = "") -> Iterator[Tuple[str, CodeType]]:
    """Yield a code object and all those nested in it, each with its qualified name, empty for the outermost one."""
    yield name, code
    for inner in code.co_consts:
        if hasattr(inner, "co_code"):
            yield from _codes(inner, "%s.%s" % (name, inner.co_name) if name else inner.co_name)


def _lines(code: CodeType) -> Iterator[int]:
    if hasattr(code, "co_lines"):  # Python 3.10
        return (number for _, _, number in code.co_lines() if number)
    import dis

    return (number for _, number in dis.findlinestarts(code) if number)


def _has_line(code: Optional[CodeType], line: int) -> bool:
    return code is not None and any(line in _lines(each) for _, each in _codes(code))


def _around(whole: CodeType, line: int, statements: List[Any]) -> Tuple[str, CodeType]:
    """Return name and code of the innermost function around this line; outside of functions, of the module.

    A function's decorators, `def` and defaults count as code of what encloses it; so do the bodies of a class and a
    comprehension. A function's first and last statements may have no code: a docstring, or what follows `return`.

    Args:
        statements: the source's statements if the line has no code, else empty.
    """
    bounds = {
        (min(each.lineno for each in (node, *node.decorator_list)), node.name): (node.body[0].lineno, node.end_lineno)
        for node in statements
        if type(node).__name__ in ("FunctionDef", "AsyncFunctionDef") and node.body[0].lineno > node.lineno
    }  # fmt: skip
    best = ("", whole)
    for name, code in _codes(whole):
        numbers = set(_body(code))
        if code.co_name != "<lambda>" and len(numbers) > 1:
            numbers.discard(code.co_firstlineno)
        numbers.update(bounds.get((code.co_firstlineno, code.co_name), ()))
        if _is_function(code) and numbers and min(numbers) <= line <= max(numbers):
            best = (name, code)
    return best


def _is_function(code: CodeType) -> bool:
    """Tell whether code is a function's, not a module's or the body of a class or a comprehension."""
    return bool(code.co_flags & _CO_OPTIMIZED) and (
        not code.co_name.startswith("<") or code.co_name == "<lambda>"
    )


def _body(code: CodeType) -> Iterator[int]:
    """Yield the lines of a code object, including those of classes and comprehensions in it, but not of functions."""
    yield from _lines(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType) and not _is_function(inner):
            yield from _body(inner)


def _live(
    module: Optional[ModuleType], fresh: CodeType, running: Running, functions: Sequence[types.FunctionType]
) -> Tuple[Optional[CodeType], str]:
    """Find the program's own copy of `fresh`, code that was compiled from the file just now.

    Returns:
        The code object, None if it was not found; and the name of the compiler of the function, or an empty text.
    """
    for active, _, _ in running:
        if _is_same(active, fresh):
            return active, ""
    left, seen = MAX_FUNCTIONS, set()
    names = session.namespace(module)
    todo: List[Any] = list(names.values())
    while todo and left:
        left -= 1
        value = todo.pop()
        with contextlib.suppress(Exception):  # for example flask's `request` raises outside of a request
            if (
                issubclass(type(value), type)
                and id(value) not in seen
                and value.__module__ == names.get("__name__")
            ):
                seen.add(id(value))
                todo += list(vars(value).values())
            bare, compiler = _unwrapped(value)
            for inner in (value, _own(value, "__func__"), _own(value, "fget"), bare):
                code = _own(inner, "__code__")
                if isinstance(code, types.CodeType):
                    for _, each in _codes(code):
                        if _is_same(each, fresh):
                            return each, compiler
    for function in functions:
        if os.path.abspath(function.__code__.co_filename) == fresh.co_filename:
            for _, each in _codes(function.__code__):
                if _is_same(each, fresh):
                    return each, ""
    return None, ""


def _own(value: Any, name: str) -> Any:
    """Return an attribute if the type defines it, else None: reading another may make a lazy proxy load its object."""
    return getattr(value, name, None) if hasattr(type(value), name) else None


def _unwrapped(value: Any) -> Tuple[Any, str]:
    """Return the function below decorators, and the name of the first compiler among these, or an empty text."""
    compiler = ""
    for _ in range(8):
        module = str(getattr(type(value), "__module__", ""))
        found = next((name for prefix, name in _COMPILERS if module.startswith(prefix)), "")
        if module == "functools" and hasattr(type(value), "cache_info") and value.cache_info().hits:
            found = _KEEPS
        compiler = compiler or found
        names = getattr(value, "__dict__", None)
        known = names if isinstance(names, dict) else {}
        inner = next((known[each] for each in _INNER if known.get(each) is not None), None)
        if inner is None and found:  # an object with slots, or of a C type
            inner = next((each for name in _INNER if (each := getattr(value, name, None)) is not None), None)
        if inner is None:
            break
        value = inner
    return value, compiler


def _is_same(code: Any, fresh: CodeType) -> bool:
    return bool(code.co_name == fresh.co_name and code.co_firstlineno == fresh.co_firstlineno)


def _functions(name: str) -> List[types.FunctionType]:
    """Return all functions of files of this name, even those that only a decorator or a registry refers to."""
    # Do not store what gc.get_objects returns: it has tuples that `tuple(...)` in another thread is still filling,
    # which raises SystemError if there is a second reference (cpython#59313). All in this one expression is C code,
    # during which no other thread runs.
    found = list(filter(callable, itertools.chain.from_iterable(map(gc.get_objects, (None,)))))
    return [
        each
        for each in found
        if type(each) is types.FunctionType
        and os.path.basename(each.__code__.co_filename) == name
        and _is_function(each.__code__)  # a module's code may be wrapped in a function too
    ]


def _suspended(code: CodeType) -> Running:
    """Return where suspended coroutines and generators of this code will continue."""
    found: Running = []
    for each in gc.get_referrers(code):  # safe, as opposed to gc.get_objects (see `_functions`)
        prefix = _SUSPENDABLE.get(type(each), "")
        frame = getattr(each, prefix + "_frame") if prefix else None
        if frame is None or getattr(each, prefix + "_running"):
            continue
        if frame.f_lineno not in (None, code.co_firstlineno):  # it has begun, and may be called again (True)
            found.append((code, frame.f_lineno, True))
    return found[:MAX_FILES]


def _is_equal(one: CodeType, other: CodeType) -> bool:
    """Tell whether two functions have the same instructions on the same lines."""
    if one.co_code != other.co_code or list(_lines(one)) != list(_lines(other)):
        return False
    names = [(code.co_names, code.co_varnames, len(code.co_consts)) for code in (one, other)]
    return names[0] == names[1] and all(
        _is_equal(a, b)
        if isinstance(a, types.CodeType) and isinstance(b, types.CodeType)
        else type(a) is type(b) and a == b
        for a, b in zip(one.co_consts, other.co_consts)
    )


def _has_run(live: Optional[CodeType]) -> Optional[bool]:
    """Tell whether a function that no thread is executing has ever run; None if unknown.

    The interpreter (3.11 and newer) rewrites the instructions of code that has run: counters and specialised
    instructions differ from those of a fresh copy. Python 3.11 does so from the eighth call on, Python 3.12
    only where an instruction has a counter.
    """
    adaptive = getattr(live, "_co_code_adaptive", None)
    if live is None or adaptive is None:
        return None
    fresh: Any = live.replace()
    changed = [pair for pair in zip(adaptive, fresh._co_code_adaptive) if pair[0] != pair[1]]
    if changed:
        # Some changes are no proof. A task that is cancelled before its first step runs no line. But the exception that
        # is thrown into it makes the interpreter insert instrumented instructions, and split combined ones (without a
        # name).
        names = [(opcode.opname[new], opcode.opname[old]) for new, old in changed]
        is_vague = all(new.startswith("INSTRUMENTED") or old.startswith("<") for new, old in names)
        return None if is_vague and live.co_flags & _SUSPENDS else True
    return False if sys.version_info[:2] != (3, 12) or _counts_at_start(live) else None


def _counts_at_start(code: CodeType) -> bool:
    """Tell whether each call executes an instruction that has a counter, which `return 1` has not in Python 3.12."""
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    for each in code.co_code[::2]:
        if entries[each]:
            return True
        if each in opcode.hasjrel or opcode.opname[each] in _LEAVING:
            break
    return False


def _running(name: str, is_asked: bool) -> Running:
    """Return the code of files of this name that threads are executing; with `is_asked`, look for loops around it."""
    found: Running = []
    loops: Dict[int, List[Tuple[int, int]]] = {}
    frames = sys._current_frames()
    for top in list(frames.values()):
        frame: Any = top
        stack: List[Tuple[CodeType, int, int]] = []
        while frame is not None:
            code = frame.f_code
            is_wanted = os.path.basename(code.co_filename) == name
            stack.append((code, (frame.f_lineno or 0) if is_wanted else -1, frame.f_lasti))
            frame = frame.f_back
        again, matching = False, []
        for code, line, at in reversed(stack):  # outermost frames first
            if line >= 0:
                matching.append((code, line, again))
            if is_asked and not again:
                if id(code) not in loops:
                    loops[id(code)] = _loops(code)
                again = any(first <= at < last for first, last in loops[id(code)])
        found += reversed(matching[-MAX_FILES:])
    frames.clear()
    return found[:MAX_FILES]


def _loops(code: CodeType) -> List[Tuple[int, int]]:
    """Return the offsets of the first and the last instruction of each loop."""
    import dis

    jumps = [each for each in dis.get_instructions(code) if each.opcode in _JUMPS]
    return [(each.argval, each.offset) for each in jumps if each.argval < each.offset]


def _beats(code: CodeType) -> bool:
    """Tell whether a heartbeat thread, which the debugger neither stops nor traces, is executing this code.

    See clocks/clocks.py.
    """
    from .clocks.slow_clocks import IS_HEARTBEAT

    threads = getattr(sys.modules.get("threading"), "_active", {})
    for ident, top in list(sys._current_frames().items()):
        frame: Any = top if hasattr(threads.get(ident), IS_HEARTBEAT) else None
        while frame is not None:
            if frame.f_code is code:
                return True
            frame = frame.f_back
    return False


def _debugger() -> str:
    """Return which debugger this process has: `dkdbg`, `other`, or an empty text without a debugger."""
    if session.debugger() is None:
        return "other" if "pdb" in sys.modules and sys.gettrace() is not None else ""
    return "dkdbg" if session.is_joined() else "other"


def _breakpoints(file: str, *, is_loaded: bool) -> Optional[List[Dict[str, Any]]]:
    """Return the editor's breakpoints in a file, None without a debugger."""
    debugger, names = session.debugger(), sys.modules.get("pydevd_file_utils")
    if debugger is None or names is None:
        return None
    canonical = names.canonical_normalized_path(file)
    found = dict(getattr(debugger, "breakpoints", {})).get(canonical) or {}
    return [
        {
            "line": number,
            "condition": _condition(each),
            "logs": bool(getattr(each, "is_logpoint", False)),
            "early": is_loaded and breakpoints.is_early(each),
            "error": breakpoints.error(each),
            "stops": suspending.stops.get((canonical, number), 0),
        }
        for number, each in list(found.items())[:MAX_FILES]
    ]


def _condition(breakpoint_: Any) -> str:
    """Return a breakpoint's condition, joined with the condition on its hit count."""
    hits = str(getattr(breakpoint_, "hit_condition", None) or "").replace("@HIT@", "its hit count")
    return " and ".join(each for each in (str(getattr(breakpoint_, "condition", None) or ""), hits) if each)
