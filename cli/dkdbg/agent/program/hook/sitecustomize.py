# -*- coding: utf-8 -*-
"""The lazy hook: every Python process below the agent can be debugged, and none pays for it until an editor comes.

The agent puts this folder first on PYTHONPATH. At start a process runs the user's own `sitecustomize`, announces
itself in the session's folder, and leaves one thread asleep on a socket. Nothing of debugpy, json or socket is
imported. Only if an editor is attached already does it join before the program's first line.

Nothing here may break or delay the program: every error is swallowed, and DKDBG_DEBUG=1 shows it. The file is read
by whatever Python the user starts, so it is valid Python 2 as well; there it only runs the user's `sitecustomize`.
"""
# Annotations are comments here: Python 2 reads this file too.
# ruff: noqa: ANN001, ANN202, ANN204, SIM105
# mypy: disable-error-code="import-not-found, attr-defined, arg-type, union-attr, assignment, no-any-return"

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))

#: A process with one of these words in its command line serves others and holds no code of the user. It neither
#: registers nor joins, unless DKDBG_HOUSEKEEPING=1 asks for it. The marks are those of dkdbg.launchers, which each start
#: of a Python would pay for: a test compares them.
_SKIP = (
    "multiprocessing.resource_tracker",
    "multiprocessing.semaphore_tracker",
    "torch/_inductor/compile_worker",
    "torch._inductor.compile_worker",
    "ray/dashboard/",
    "ray/autoscaler/",
    "ray/_private/log_monitor.py",
    "ray/_private/runtime_env/agent",
)
#: The debugger itself; pydevd.py is a process that has joined already.
_NEVER = ("debugpy/adapter", "pydevd.py", "dkdbg/agent/")
#: Programs that build or install; they start many short processes.
_SKIP_PROGRAMS = ("pip", "pip3", "uv", "ninja", "cmake", "conda", "mamba", "poetry", "meson")
#: In Python 2 the globals of a module that nobody holds are gone.
_kept = {}  # type: dict[str, object]
_RANK_NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "PMI_RANK", "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALRANKID", "NODE_RANK",
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK",
    "HOROVOD_SIZE", "PADDLE_TRAINER_ID", "PADDLE_LOCAL_RANK", "PADDLE_TRAINERS_NUM",
)  # fmt: skip


def _chain():  # type: () -> None
    """Run the `sitecustomize` that would have been found without this one, as `site` would have."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    here = _kept["hook"] = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if "sitecustomize" not in str(error):
            raise
    finally:
        if here is not None:
            sys.modules.setdefault("sitecustomize", here)


def _say(text):  # type: (str) -> None
    if os.environ.get("DKDBG_DEBUG"):
        sys.stderr.write("dkdbg: hook in pid %d: %s\n" % (os.getpid(), text))


def _command_line():  # type: () -> list[str]
    words = getattr(sys, "orig_argv", None)  # Python 3.10
    if words:
        return list(words)
    try:
        with open("/proc/self/cmdline", "rb") as source:
            return [os.fsdecode(word) for word in source.read().split(b"\0")[:-1]]
    except OSError:
        return list(getattr(sys, "argv", []))


def _shows_housekeeping():  # type: () -> bool
    return os.environ.get("DKDBG_HOUSEKEEPING", "").lower() in ("1", "true", "yes", "on")


def _is_housekeeping(words):  # type: (list[str]) -> bool
    line = " ".join(words)
    more = [word for word in os.environ.get("DKDBG_SKIP", "").split(",") if word]
    hidden = () if _shows_housekeeping() else _SKIP
    if any(mark in line for marks in (_NEVER, hidden, more) for mark in marks):
        return True
    for position, word in enumerate(words[1:], 1):
        if word == "-m":
            return words[position + 1 : position + 2] == ["pip"]
        if word == "-c":
            return False
        if not word.startswith("-"):
            return os.path.basename(word) in _SKIP_PROGRAMS
    return False


class _Member:
    """This process as a member of the session."""

    def __init__(self, directory, words):  # type: (str, list[str]) -> None
        import _thread

        # `threading` takes the thread that imports it first for the main one. Imported by our thread later, it would
        # let the program hang at its end.
        import threading  # noqa: F401

        self.directory = directory
        self.words = words
        self.say = _say
        self.fork_armed = False
        self.origin = ""
        self._thread = _thread
        self.reset()

    def reset(self):  # type: () -> None
        self.lock = self._thread.allocate_lock()  # guards `running`
        self.loading = self._thread.allocate_lock()  # guards `load`
        self.done = self._thread.allocate_lock()  # held while the thread runs
        self.running = False
        self.joined = False
        self.thread_id = 0
        self.listener = None

    @property
    def base(self):  # type: () -> str
        return "%s/p/%d" % (self.directory, os.getpid())

    def register(self):  # type: () -> None
        """Announce this process; the socket takes connections from here on. Raises OSError."""
        import _socket
        import time
        from _json import encode_basestring_ascii as quoted  # json itself costs 3 ms

        try:
            os.unlink(self.base + ".sock")
        except OSError:
            pass
        self.listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.listener.bind(os.path.realpath(self.directory + "/p") + "/%d.sock" % os.getpid())
        self.listener.listen(8)
        env = ",".join(
            "%s:%s" % (quoted(name), quoted(os.environ[name])) for name in _RANK_NAMES if name in os.environ
        )
        text = '{"pid":%d,"ppid":%d,"started":%f,"origin":%s,"argv":[%s],"env":{%s}}' % (
            os.getpid(),
            os.getppid(),
            time.time(),
            quoted(self.origin),
            ",".join(quoted(word.encode("utf-8", "replace").decode("utf-8")) for word in self.words[:16]),
            env,
        )
        file = os.open(self.base + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode("ascii"))
        finally:
            os.close(file)
        os.rename(self.base + ".tmp", self.base + ".json")

    def wake_thread(self, waiting=None):  # type: (object) -> None
        """Start the thread; `waiting` is the connection of the agent that asks this process to join."""
        with self.lock:
            if self.running or self.listener is None:
                return
            self.running = True
            self.done.acquire()
            if waiting is None and not self.joined:
                self._thread.start_new_thread(self.serve, (self.listener, self.done, None))
            else:
                self.load("answers").start_known(self, waiting)

    def serve(self, listener, done, waiting):  # type: (object, object, object) -> None
        handed_over = None
        try:
            import _signal

            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # they are for the program
            self.thread_id = self._thread.get_native_id()
            if waiting is not None:
                self.load("answers").answer(self, waiting, b"join")
            while True:
                connection, command = self._next(listener)
                if command in (b"", b"sleep"):
                    connection.close()
                    if command:
                        break
                elif self.load("answers").answer(self, connection, command):
                    handed_over = connection
                    break
        except Exception as error:
            _say("socket closed: %r" % (error,))
        finally:
            self.running = False
            done.release()
        if handed_over is not None:
            self.wake_thread(handed_over)

    def _next(self, listener):  # type: (object) -> tuple[object, bytes]
        import _socket

        descriptor, _ = listener._accept()
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        connection.settimeout(5)
        try:
            return connection, connection.recv(64).strip()
        except OSError:
            return connection, b""

    def join(self, at_start):  # type: (bool) -> str
        """Join the adapter."""
        answer = self.load("join").join(self.directory, at_start)
        self.joined = self.joined or answer.startswith(("joined", "already joined"))
        return answer

    def load(self, name):  # type: (str) -> object
        """Return the module in NAME.py beside the hook's folder, loaded when it is first needed."""
        key = "_dkdbg_" + name
        if (
            key not in sys.modules
        ):  # else no lock: a forked child has a copy of it that another thread may hold
            with self.loading:
                if key not in sys.modules:
                    # What importlib.util would do, which costs 2 ms to import.
                    from _frozen_importlib import module_from_spec
                    from _frozen_importlib_external import spec_from_file_location

                    path = os.path.join(os.path.dirname(_HERE), name + ".py")
                    spec = spec_from_file_location(key, path)
                    module = module_from_spec(spec)
                    spec.loader.exec_module(module)
                    sys.modules[key] = module
        return sys.modules[key]

    def enter(self):  # type: () -> None
        """Register, join if an editor is attached, and let the thread sleep on the socket."""
        self.register()
        if os.path.exists(self.directory + "/join.json"):
            _say(self.join(True))
        self.wake_thread()

    def at_fork(self, moment):  # type: (str) -> object
        """Return a callback that runs the function of this name in forking.py."""

        def callback():  # type: () -> None
            try:
                getattr(self.load("forking"), moment)(self)
            except Exception as error:
                _say("fork, %s: %r" % (moment, error))

        return callback


class _DkdbgFinder:
    """Asked last: where no package dkdbg is installed, `import dkdbg` gives `breakpoint` and its sisters."""

    def __init__(self, member):  # type: (_Member) -> None
        self.member = member

    def find_spec(self, name, path=None, target=None):  # type: (str, object, object) -> object  # noqa: ARG002
        if name not in ("dkdbg", "dkdbg.pai"):
            return None
        return self.member.load("on_demand").find_spec(name)


def _enter():  # type: () -> None
    directory = os.environ.get("DKDBG_SESSION_DIR")
    if not directory or not os.path.isdir(directory):
        return
    words = _command_line()
    if _is_housekeeping(words):
        return
    member = _Member(directory, words)
    sys.meta_path.append(_DkdbgFinder(member))
    if os.environ.get("DKDBG_ON_CRASH"):
        arming = member.load("crash_watch")
        arming.arm(member)
        if "--multiprocessing-fork" in words:
            arming.arm_worker(member)
    os.register_at_fork(before=member.at_fork("before"), after_in_parent=member.at_fork("in_parent"))
    if "multiprocessing.forkserver" in " ".join(words) and not _shows_housekeeping():
        return  # its children, made by fork, run the user's code
    member.enter()
    if os.environ.get("DKDBG_PDB_AT_START"):
        member.load("socket_pdb").wait_as_asked(directory)


def _main():  # type: () -> None
    try:
        _chain()
    finally:
        if sys.version_info >= (3, 8):
            try:
                _enter()
            except Exception as error:
                _say("off: %r" % (error,))


_main()
