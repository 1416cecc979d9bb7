"""Registers a running Python with the session of the agent that attaches to it by PID, as the hook would at its start.

The agent makes the main thread execute `SCRIPT` (inject/main.py), which leaves no name behind in the program and raises
nothing. It does not join: the agent asks for that over the socket, as with every other process.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, List

    from .hook.sitecustomize import _Member as Member

#: Suffix of the file with the result, beside the process's announcement.
ANSWER = ".entered"
ENTERED = "entered"
SERVES = "it is a helper process and runs none of your code"
#: Name of the hook's module in a process that was attached to by PID.
HOOK = "_dkdbg_hook"
#: Code to execute; each `%r` stands for: this file, the folder of the hook's files, the session's folder.
SCRIPT = """\
def enter(path, files, directory):
    import os, sys
    try:
        with open(path, "rb") as source:
            code = compile(source.read(), path, "exec", dont_inherit=True)
        names = {"__name__": "_dkdbg_entered", "__package__": "_dkdbg", "__file__": path}
        exec(code, names)
        text = names["enter"](files, directory)
    except BaseException as error:
        text = "%%s: %%s" %% (type(error).__name__, error)
    try:
        path = "%%s/p/%%d.entered" %% (directory, os.getpid())
        with open(path + "-", "wb") as answer:
            answer.write(text.encode("utf-8", "replace"))
        os.rename(path + "-", path)
    except BaseException:
        pass

enter(%r, %r, %r)
"""


def enter(files: str, directory: str) -> str:
    """Register with this session, on the main thread, with the agent's code in `files`; return ENTERED, or why not."""
    if sys.version_info < (3, 8):
        return "Python %d.%d is too old: the debugger needs 3.8 or newer" % sys.version_info[:2]
    if "debugpy" in sys.modules and "pydevd" in sys.modules and HOOK not in sys.modules:
        known: Any = sys.modules["pydevd"]
        if known.get_global_debugger() is not None:
            return "another debugger is attached to it: debugpy, or an IDE's pydevd"
    package = sys.modules.get("_dkdbg")
    if package is not None:  # left by an earlier agent; its files are deleted
        package.__path__ = [files]
    for finder in sys.meta_path:
        if type(finder).__name__ == "_DkdbgFinder":
            return _move(finder.member, directory, files)  # type: ignore[attr-defined]
    hook = sys.modules[HOOK] = hook_functions(files)
    argv: List[str] = hook._command_line()
    if hook._is_housekeeping(argv):
        del sys.modules[HOOK]
        return SERVES
    member = hook._Member(directory, argv)
    sys.meta_path.append(hook._DkdbgFinder(member))
    os.register_at_fork(before=member.at_fork("before"), after_in_parent=member.at_fork("in_parent"))
    hook._pass_on(member)
    _register(member, directory, files)
    return ENTERED


def hook_functions(files: str) -> ModuleType:
    """Return the hook in the folder `files` as a module, without running its last line, `_main()`."""
    path = files + "/hook/sitecustomize.py"
    with open(path, "rb") as source:
        return functions_of(source.read(), path)


def functions_of(source: bytes, path: str) -> ModuleType:
    """Return the hook as a module from its source, whose file is `path`, without running its last line."""
    hook = type(sys)(HOOK)
    hook.__file__ = path
    functions, _, _ = source.rpartition(b"\n_main()")
    exec(compile(functions, path, "exec", dont_inherit=True), hook.__dict__)  # noqa: S102 - our own file
    return hook


def _move(member: Member, directory: str, files: str) -> str:
    """Move this process from a session that has ended to another one."""
    if member.directory == directory:
        return ENTERED
    if os.path.exists(member.directory + "/session.json") and _is_alive(member):
        return "it is in another session of dkdbg already: " + os.path.basename(member.directory)
    former, member.directory = member.listener, directory
    if "pydevd" in sys.modules:
        sys.modules["pydevd"].SetupHolder.setup = None  # else pydevd reports the former agent as the parent
    _register(member, directory, files)
    if former is not None and former.fileno() >= 0 and former is not member.listener:
        try:  # noqa: SIM105 - contextlib may be the program's, see standard.py
            former.shutdown(2)  # wakes the hook's thread, which then reads from the new listener
        except OSError:
            pass
    return ENTERED


def _is_alive(member: Member) -> bool:
    """Tell whether the agent of this process's session still runs."""
    try:
        os.kill(member.module("session").record(member.directory)["pid"], 0)
    except (OSError, KeyError, TypeError):
        return False
    return True


def is_hook_folder(entry: str) -> bool:
    """Tell whether an entry of PYTHONPATH is the hook's folder of some agent."""
    folder, last = os.path.split(entry)
    return last == "hook" and os.path.basename(folder).startswith(("inprocess", "hook-"))


def _register(member: Member, directory: str, files: str) -> None:
    # Make programs that this process starts from now on load the hook too.
    member.hook = files + "/hook"
    former = os.environ.get("PYTHONPATH", "")
    rest = [each for each in former.split(os.pathsep) if each and not is_hook_folder(each)]
    os.environ["PYTHONPATH"] = os.pathsep.join([member.hook, *rest])
    os.environ["DKDBG_SESSION_DIR"] = directory
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    member.register(member.module("answers").lift)
    member.wake_thread()
