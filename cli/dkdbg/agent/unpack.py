"""Unpacks the single file into the private runtime folder, once, and runs the agent from there.

debugpy and the hook have to be real files, and modules load faster from a folder than from a zip because
their .pyc are kept. The folder's name has the file's digest. The folder is used only while everything in it belongs
to this user and has the sizes that the archive lists. Few imports, because every start of a program runs this.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from dkdbg.agent.state import runtime_dir
from dkdbg.agent.supervisor import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Callable, Dict, List, Optional

    #: Name in the zip -> size in bytes.
    Contents = Dict[str, int]

#: Modification time of every unpacked file, in epoch seconds: another one shows that the file was changed.
_WHEN = 315532800
_FOLDER = "agent-"
#: Folder inside it. Tools that look for the program's own modules skip paths with this name: Hypothesis, for example,
#: takes test values from the constants in the program's modules.
_PACKAGES = "site-packages"
#: Prefix of a folder that is being unpacked, and seconds after which such a folder counts as left by a killed process.
_SCRATCH, _LEFT_AFTER_S = ".unpack-", 3600.0
#: Variable that is set if the file came with a batch job: the last program on the node removes the unpacked folder. The
#: suffix keeps that folder apart from one unpacked from a file of kept.py, which is removed under another lock.
_ENV_TRANSIENT, _TRANSIENT = "DKDBG_TRANSIENT", "-job"
#: Option of `launch` and `supervise`: the program starts with SIGTERM unblocked.
_UNBLOCK = "--unblock-sigterm"

#: Copies of the names in settings.py and supervisor/site_folders.py: most starts import neither.
_ENV_OWN_CONTAINER, _ENV_SITES = "DKDBG_OWN_CONTAINER", "DKDBG_SITES"


def main(archive: str) -> int:
    """Unpack the single file `archive` and run the agent's command line from it; return the exit code."""
    argv = sys.argv[1:]
    if argv[:1] in (["launch"], ["supervise"]):
        _open_sites()
    owner.become_owner(os.environ)
    hold = None
    if os.environ.pop(_ENV_TRANSIENT, "") == "1":
        return _run_and_remove(archive, argv)
    if os.path.basename(archive).startswith(_FOLDER):
        from dkdbg.agent.state import kept

        if kept.is_kept(archive):
            try:
                hold = kept.Hold(archive)
            except OSError as error:
                sys.stderr.write("dkdbg: %s is gone: %s\n" % (archive, error.strerror or "removed meanwhile"))
                return 125
            os.environ[runtime_dir.ENV_RUNTIME_DIR] = os.path.dirname(archive)
            # Keep the host's run ID, which stays in /proc and the record, from the program's environment.
            run = os.environ.pop(kept.ENV_RUN, "")
            at = {"launch": 1, "supervise": 1, "enter": 2}.get(argv[0] if argv else "")
            if run and at:
                argv[at:at] = ["--run", run]
    try:
        return _run(archive, argv)
    finally:
        if hold is not None:
            hold.release()


def _open_sites() -> None:
    os.environ.pop(_ENV_SITES, None)
    if os.environ.get(_ENV_OWN_CONTAINER) == "1":
        from dkdbg.agent.supervisor import site_folders

        try:
            site_folders.open_files(os.environ)
        except Exception as error:  # not fatal: PYTHONPATH loads the hook too
            sys.stderr.write("dkdbg: no .pth file: %s\n" % error)


def _run_and_remove(archive: str, argv: List[str]) -> int:
    import contextlib
    import signal

    from dkdbg.agent.state import kept

    held: List[kept.Hold] = []

    def hold(folder: str) -> bool:
        try:
            held.append(kept.Hold(folder))
        except FileNotFoundError:  # another process was the last to release it and has just removed it
            return False
        return True

    if argv[:1] in (["launch"], ["supervise"]):
        # Block SIGTERM, which ends a batch job, until the supervisor takes the signals. By default it would end this
        # process before the folder is removed; a handler's SystemExit could get lost in an import's weakref callback.
        if signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]):
            argv.insert(1, _UNBLOCK)
    else:
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        return _run(archive, argv, _TRANSIENT, hold)
    finally:
        if not held:  # this process was ended after unpacking the folder and before locking it
            with contextlib.suppress(OSError, runtime_dir.RuntimeDirError):
                hold(_target(archive, runtime_dir.open_runtime_dir(_asked_runtime(argv))) + _TRANSIENT)
        for each in held:
            each.release()


def _run(
    archive: str, argv: List[str], suffix: str = "", hold: Callable[[str], bool] = lambda _folder: True
) -> int:
    try:
        runtime = runtime_dir.open_runtime_dir(_asked_runtime(argv))
        folder = folder_of(archive, runtime, suffix)
        while not hold(folder):
            folder = folder_of(archive, runtime, suffix)
        _go_on_from(os.path.join(folder, _PACKAGES))
    except runtime_dir.RuntimeDirError as error:
        return _give_up(argv, str(error))
    except OSError as error:
        return _give_up(argv, "cannot unpack %s: %s" % (archive, error))
    from dkdbg.agent import __main__ as agent

    return agent.main(argv)


def _give_up(argv: List[str], reason: str) -> int:
    if argv[:1] == ["launch"] and "--" in argv:
        import signal

        from dkdbg.agent.supervisor import child

        if _UNBLOCK in argv[:2]:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return child.run_undebugged(argv[argv.index("--") + 1 :], reason)
    if argv[:1] == ["accompany"]:  # this may be a container's process 1, and its end would end the program
        from dkdbg.agent.supervisor import sidecar

        return sidecar.main(argv[1:], "", reason)
    sys.stderr.write("dkdbg: %s\n" % reason)
    return 125


def folder_of(archive: str, runtime: str, suffix: str = "") -> str:
    """Return the folder with the content of `archive`; unpack it below `runtime` if it is not there.

    Two processes may do so at once: each unpacks into a folder of its own, and the first to rename it wins.

    Args:
        archive: path of the single file, exactly as zipimport knows it.
        runtime: the result of `open_runtime_dir`.
        suffix: suffix of the folder's name.

    Raises:
        OSError: the folder cannot be written, or an existing one cannot be replaced.
    """
    _remove_left(runtime)
    target, contents = _target(archive, runtime) + suffix, _contents(archive)
    for _ in range(3):
        if _is_sound(target, contents):
            return target
        _unpack(archive, target, contents)
    raise OSError("another process keeps changing %s" % target)


def _remove_left(runtime: str) -> None:
    """Remove partly unpacked folders of processes that were killed."""
    for name in os.listdir(runtime):
        if name.startswith(_SCRATCH):
            import shutil

            path = os.path.join(runtime, name)
            try:
                info = os.lstat(path)
            except OSError:  # its process has just renamed or removed it
                continue
            if info.st_uid == os.geteuid() and info.st_mtime < time.time() - _LEFT_AFTER_S:
                shutil.rmtree(path, ignore_errors=True)


def _asked_runtime(argv: List[str]) -> Optional[str]:
    """Return the runtime folder that the command line names; must agree with supervisor/options.py."""
    asked = None
    for position, word in enumerate(argv):
        if word == "--":
            break
        if word == "--runtime":
            asked = argv[position + 1] if position + 1 < len(argv) else None
        elif word.startswith("--runtime="):
            asked = word[len("--runtime=") :]
    return asked


def _target(archive: str, runtime: str) -> str:
    with open(archive, "rb") as source:
        digest = _sha256(source.read())
    return os.path.join(runtime, _FOLDER + digest[:32])


def _sha256(data: bytes) -> str:
    """Return the hexadecimal digest. Avoid hashlib, because loading OpenSSL takes longer than everything else here."""
    for name in ("_sha2", "_sha256", "hashlib"):  # Python 3.12, older ones, others
        try:
            made: str = __import__(name).sha256(data).hexdigest()
        except (ImportError, AttributeError):
            continue
        return made
    raise OSError("this Python has no sha256")


def _contents(archive: str) -> Contents:
    """Return the zip's files by their paths once unpacked, from the directory that zipimport has read already."""
    import zipimport

    table = zipimport._zip_directory_cache[archive]  # type: ignore[attr-defined]
    return {"%s/%s" % (_PACKAGES, name): entry[3] for name, entry in table.items() if not name.endswith("/")}


def _is_own(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & 0o022


def _is_sound(target: str, contents: Contents) -> bool:
    """Tell whether the folder is complete and unchanged, belongs to this user and is writable by no one else.

    A cleaner of /tmp may have removed single files, a full disk may have cut some short, and another user may have
    created the folder before the runtime folder was private.
    """
    folders = {""}
    for name in contents:
        parts = name.split("/")
        folders.update("/".join(parts[:length]) for length in range(1, len(parts)))
    try:
        for folder in folders:
            info = os.lstat(os.path.join(target, folder) if folder else target)
            if not stat.S_ISDIR(info.st_mode) or not _is_own(info):
                return False
        for name, size in contents.items():
            info = os.lstat(os.path.join(target, name))
            if not stat.S_ISREG(info.st_mode) or not _is_own(info):
                return False
            if info.st_size != size or int(info.st_mtime) != _WHEN:
                return False
    except OSError:
        return False
    return True


def _unpack(archive: str, target: str, contents: Contents) -> None:
    import contextlib
    import shutil
    import zipfile

    scratch = os.path.join(os.path.dirname(target), _SCRATCH + os.urandom(8).hex())
    aside = scratch + "-old"
    try:
        os.mkdir(scratch, 0o700)  # inside `try`: a signal may end this process at any line
        with zipfile.ZipFile(archive) as source:
            for name in source.namelist():
                path = source.extract(name, os.path.join(scratch, _PACKAGES))
                os.chmod(path, 0o644)  # other users of the session's own container load the hook from here
                os.utime(path, (_WHEN, _WHEN))
        for folder, _, _ in os.walk(scratch):
            os.chmod(folder, 0o755)  # noqa: S103
        try:
            os.rename(scratch, target)
        except OSError:
            if _is_sound(target, contents):  # another process was faster
                return
            os.rename(target, aside)
            os.rename(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(aside)  # if a file was in the folder's place


def _go_on_from(folder: str) -> None:
    """Import the agent from `folder` instead of the zip, and write its .pyc files there despite -B."""
    from importlib.machinery import FileFinder, SourceFileLoader

    class KeepingLoader(SourceFileLoader):
        def get_code(self, fullname: str) -> Optional[CodeType]:
            sys.dont_write_bytecode, former = False, sys.dont_write_bytecode
            try:
                return super().get_code(fullname)
            finally:
                sys.dont_write_bytecode = former

    def finder(path: str) -> FileFinder:
        if path == folder or path.startswith(folder + os.sep):
            return FileFinder(path, (KeepingLoader, [".py"]))
        raise ImportError("not the agent's")

    for name in [name for name in sys.modules if name.partition(".")[0] == "dkdbg"]:
        del sys.modules[name]
    sys.path[0] = folder
    sys.path_hooks.insert(0, finder)
