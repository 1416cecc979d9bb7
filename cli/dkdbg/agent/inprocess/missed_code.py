"""Finds code that pydevd's breakpoints miss; makes breakpoints stop there, or warns. Used by join.py.

- Functions that torch.compile has compiled: a breakpoint there never stops, and gets a warning. This module never
    imports torch; Dynamo's bytecode hook (`torch._dynamo.convert_frame.register_bytecode_hook`, torch 2.0
    and newer) reports the replaced code. Functions that Dynamo inlines are found through the translators
    (`torch._dynamo.symbolic_convert`) that Dynamo creates after the one for the outermost function. The code of
    an inlined function is not replaced, so a breakpoint there stops when it is called from elsewhere.
- Threads that `threading` does not know: those started by `_thread`, and by C++, in which frameworks call the
    user's functions. Up to Python 3.11 pydevd traces only threads whose start it sees, so that a breakpoint in
    `backward` of an `autograd.Function` would never stop on a GPU. From 3.12 on it sees the functions that they
    call, but not a loop that began before the attach.
- Generators and coroutines that are suspended when a breakpoint in them is set, from Python 3.12 on.
- Functions that cloudpickle sends to another process by value (joblib, dask, submitit), such as those of the main
    script or a notebook: they keep the name of their file, which cloudpickle 3.1.3 replaces by `<dynamic-code>`.
- A program that is a zip file (zipapp, shiv, pex) gets a warning: an editor has no file with its code.
- Subinterpreters (InterpreterPoolExecutor) get a warning: the debugger is only in the main interpreter.
"""

# The frameworks, cloudpickle and debugpy are untyped, and not imported here: they are used only if they are loaded.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
import weakref
from types import CodeType

from . import importing, session
from .pydevd_patches import equal_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

_CONVERT_FRAME = "torch._dynamo.convert_frame"
_COMPILED = "torch.compile has compiled {0}: the breakpoint at {2}:{3} does not stop there. "
_INLINED = "the breakpoint at {2}:{3} does not stop where torch.compile has inlined {0} into {1} (calls from elsewhere stop). "
_REMEDY = "Start the program with `env TORCH_COMPILE_DISABLE=1 COMMAND`, in the debug service with `DKDBG_NO_COMPILE=1 dkdbg up`"
#: Canonical file name -> line -> name of the compiled function, and name of the one that it is inlined into, or "".
_lines: Dict[str, Dict[int, Tuple[str, str]]] = {}
_reported: Set[Tuple[str, int, str]] = set()
#: Id -> code that Dynamo has replaced, and code that it has inlined.
_compiled: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()
_inlined: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()
#: Code objects in Dynamo's current or last trace, that of the outermost function first.
_trace: List[CodeType] = []
_knows_inlined = False
#: Module -> its functions that C++ calls, on a thread that `threading` does not know, and that call the user's code.
_CALLED = {
    "torch.autograd.function": ("BackwardCFunction.apply", "BackwardCFunction.apply_boxed"),
    "torch.distributed.rpc.internal": ("_run_function",),
    "ray._private.function_manager": ("is_class_method",),  # called before each method of an actor
    "tensorflow.python.ops.script_ops": ("FuncRegistry.__call__",),  # py_function, numpy_function
    "jax._src.callback": ("pure_callback_impl", "io_callback_impl"),
    "jax._src.debugging": ("debug_callback_p.impl",),
}
#: Module -> its methods that take a function which C++ calls directly, perhaps in another thread.
_TAKING = {"torch._C": ("Future.then", "Future.add_done_callback")}
_NAMELESS = "<dynamic-code>"
_ZIP_MESSAGE = (
    "%s is a zip: it runs its own copies, so breakpoints in the original files do not stop. "
    "Debug the original folder: python FOLDER"
)
_INPUT_MESSAGE = (
    "Python reads the program from standard input: breakpoints stop only in the files that it imports. "
    "Name the program's file in the command: python FILE"
)
#: Modules that make subinterpreters, in Python 3.13 and in older versions.
_INTERPRETERS = ("_interpreters", "_xxsubinterpreters")
_INTERPRETER_MESSAGE = (
    "no breakpoint stops in a subinterpreter (InterpreterPoolExecutor, concurrent.interpreters). "
    "Use ThreadPoolExecutor or ProcessPoolExecutor while you debug"
)
_program_is_reported = _made_interpreter = _interpreter_is_reported = False


def watch() -> None:
    """Watch the frameworks, now or from their import on."""
    if not os.environ.get("TORCH_COMPILE_DISABLE"):
        _check_new_breakpoints()
        importing.after(_CONVERT_FRAME, _attach)
    importing.after("cloudpickle.cloudpickle", _restore_names)
    for name in _INTERPRETERS:
        importing.after(name, functools.partial(_replace, ["create"], _reported_interpreter))
    if sys.version_info >= (3, 12):
        _watch_running()
        return
    for table, wrap in ((_CALLED, _traced), (_TAKING, _traced_later)):
        for name, paths in table.items():
            importing.after(name, functools.partial(_replace, paths, wrap))


def warn_of_program(debugger: Any) -> None:
    """Warn this debugger's editor, once: the program is a zip file or standard input, or has subinterpreters."""
    global _program_is_reported  # noqa: PLW0603
    if has_interpreters():
        _report_interpreter()
    if _program_is_reported:
        return
    name = (getattr(sys, "argv", None) or ["-c"])[0]
    _program_is_reported = True
    if _is_zip(name):
        session.tell(debugger, _ZIP_MESSAGE % os.path.basename(name))
    elif name in ("", "-") and not os.isatty(0):
        session.tell(debugger, _INPUT_MESSAGE)


def _is_zip(path: str) -> bool:
    if path.endswith(".py") or not os.path.isfile(path):
        return False
    import zipimport

    try:
        zipimport.zipimporter(path).is_package("__main__")
    except zipimport.ZipImportError:
        return False
    return True


def has_interpreters() -> bool:
    """Tell whether the program has subinterpreters now, or has created one since `watch`."""
    modules = [sys.modules[name] for name in _INTERPRETERS if name in sys.modules]
    return _made_interpreter or any(len(module.list_all()) > 1 for module in modules)


def _reported_interpreter(create: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `create` of a module of _INTERPRETERS to send the editor a warning."""

    @functools.wraps(create)
    def create_reported(*args: Any, **named: Any) -> Any:
        global _made_interpreter  # noqa: PLW0603
        made = create(*args, **named)
        _made_interpreter = True
        with contextlib.suppress(Exception):  # the debugger has ended
            _report_interpreter()
        return made

    return create_reported


def _report_interpreter() -> None:
    global _interpreter_is_reported  # noqa: PLW0603
    debugger = session.debugger()
    if debugger is not None and not _interpreter_is_reported:
        _interpreter_is_reported = True
        session.tell(debugger, _INTERPRETER_MESSAGE)


def is_compiled(code: CodeType) -> bool:
    """Tell whether torch.compile has replaced this code (torch 2.0 and newer)."""
    return id(code) in _compiled or any(each is code for each in _replaced(sys.modules.get(_CONVERT_FRAME)))


def is_inlined(code: CodeType) -> bool:
    """Tell whether torch.compile has inlined this code since `watch`; calls from elsewhere run it."""
    return id(code) in _inlined


def may_be_inlined() -> bool:
    """Tell whether torch.compile may have inlined functions unnoticed, because it compiled some before `watch`."""
    return not _knows_inlined and bool(_replaced(sys.modules.get(_CONVERT_FRAME)))


def _replaced(module: Any) -> List[CodeType]:
    seen = getattr(getattr(module, "input_codes", None), "seen", ())
    return [code for code in [reference() for reference in list(seen)] if code is not None]


def _attach(module: Any) -> None:
    global _knows_inlined  # noqa: PLW0603
    try:
        earlier = _replaced(module)  # functions compiled before we joined
        _record_code(*earlier)
        module.register_bytecode_hook(_on_bytecode)
        _follow_traces(sys.modules["torch._dynamo.symbolic_convert"])
        _knows_inlined = not earlier
    except Exception as error:  # an unknown torch: breakpoints in compiled code get no warning
        if os.environ.get("DKDBG_DEBUG"):
            sys.stderr.write("dkdbg: torch.compile: %r\n" % (error,))


def _on_bytecode(code: CodeType, _new: CodeType) -> None:
    _record_code(code)
    if _trace and _trace[0] is code:
        _record_code(*_trace[1:], root=code)


def _follow_traces(module: Any) -> None:
    """Record which code Dynamo traces, anew when it starts again because it could not inline a function."""
    make = module.InstructionTranslatorBase.__init__

    @functools.wraps(make)
    def translator(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        with contextlib.suppress(Exception):  # an unknown torch
            if not isinstance(self, module.InliningInstructionTranslator):
                _trace.clear()
            _trace.append(self.f_code)

    module.InstructionTranslatorBase.__init__ = translator


def _record_code(*codes: CodeType, root: Optional[CodeType] = None) -> None:
    """Record code that Dynamo has replaced, or has inlined into `root`."""
    import dis

    import pydevd_file_utils

    known = _compiled if root is None else _inlined
    for code in codes:
        if id(code) in _compiled or id(code) in known:
            continue
        known[id(code)] = code
        path = pydevd_file_utils.canonical_normalized_path(code.co_filename)
        lines = _lines.setdefault(path, {})
        for _, line in dis.findlinestarts(code):
            if line and line != code.co_firstlineno:
                if root is None:
                    lines[line] = code.co_name, ""
                else:
                    lines.setdefault(line, (code.co_name, _name(root)))
    _compare()


def _name(code: CodeType) -> str:
    """Return the function's name, for code that Dynamo generates to resume it after a graph break too."""
    name = str(getattr(code, "co_qualname", code.co_name))  # Python 3.11
    return re.sub(r"torch_dynamo_resume_in_(.*)_at_\d+", r"\1", name)


def _check_new_breakpoints() -> None:
    from _pydevd_bundle.pydevd_api import PyDevdAPI

    add = PyDevdAPI.add_breakpoint

    def add_breakpoint(*args: Any, **kwargs: Any) -> Any:
        result = add(*args, **kwargs)
        _compare()
        return result

    PyDevdAPI.add_breakpoint = add_breakpoint


def _compare() -> None:
    """Warn once about each breakpoint in compiled code."""
    debugger = session.debugger()
    if debugger is None or not _lines:
        return
    for path, lines in list(_lines.items()):
        for line, each in list((debugger.breakpoints.get(path) or {}).items()):
            if isinstance(each, equal_code.Never):  # the breakpoint is in another file
                continue
            name, root = lines.get(line, ("", ""))
            if name and (path, line, root) not in _reported:
                _reported.add((path, line, root))
                text = _INLINED if root else _COMPILED
                session.tell(debugger, text.format(name, root, os.path.basename(path), line) + _REMEDY)


def _watch_running() -> None:
    from _pydevd_sys_monitoring import pydevd_sys_monitoring as monitoring

    enable, theirs = monitoring.enable_code_tracing, sys.modules["pydevd"].threading

    def enable_code_tracing(thread_ident: Any, code: Any, frame: Any) -> Any:
        """Trace the code of a running frame; if `threading` does not know its thread, name the main thread instead.

        pydevd needs the right thread only for stepping.
        """
        known = thread_ident in theirs._active
        return enable(thread_ident if known else theirs.main_thread().ident, code, frame)

    def resumed(code: CodeType, _: int) -> object:
        """Trace the code of a generator or coroutine that has begun before its breakpoint was set."""
        with contextlib.suppress(Exception):  # an error would be raised in the program
            enable_code_tracing(threading.get_ident(), code, sys._getframe(1))
        return tools.DISABLE

    def update_monitor_events(*args: Any, **kwargs: Any) -> None:
        update(*args, **kwargs)
        if tools.get_tool(tools.DEBUGGER_ID) == "pydevd":
            tools.register_callback(tools.DEBUGGER_ID, tools.events.PY_RESUME, resumed)

    tools, update = sys.monitoring, monitoring.update_monitor_events  # type: ignore[attr-defined]
    monitoring.enable_code_tracing = enable_code_tracing
    monitoring.update_monitor_events = update_monitor_events


def _replace(paths: Sequence[str], wrap: Callable[[Any], Any], module: Any) -> None:
    for path in paths:
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, module)
        if hasattr(owner, name):  # another version of the framework may lack it
            setattr(owner, name, wrap(getattr(owner, name)))


def _traced(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs `run` in a traced thread."""

    @functools.wraps(run)
    def run_traced(*args: Any, **named: Any) -> Any:
        if sys.gettrace() is None:
            threading.current_thread()  # pydevd skips threads that `threading` does not know
            with contextlib.suppress(Exception):  # the debugger has ended
                sys.modules["debugpy"].trace_this_thread(True)
        return run(*args, **named)

    return run_traced


def _traced_later(take: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that passes its function to `take`, to run in a traced thread."""

    @functools.wraps(take)
    def take_traced(owner: Any, run: Any) -> Any:
        return take(owner, _traced(run) if callable(run) else run)

    return take_traced


def _restore_names(module: Any) -> None:
    table = module.Pickler._dispatch_table
    true = table[CodeType]

    def reduce(code: CodeType) -> Any:
        make, values = true(code)
        return make, tuple(code.co_filename if value == _NAMELESS else value for value in values)

    table[CodeType] = reduce
