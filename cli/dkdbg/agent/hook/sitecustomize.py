# -*- coding: utf-8 -*-
"""The lazy hook: every Python process below the agent can be debugged, and none pays for it until an editor comes.

The agent puts this folder first on PYTHONPATH. At start a process runs the user's own `sitecustomize`, announces
itself in the session's folder, and leaves one thread asleep on a socket. Nothing of debugpy, json or socket is
imported. Only if an editor is attached already does it join before the program's first line.

Nothing here may break or delay the program: every error is swallowed, and DKDBG_DEBUG=1 shows it. The file is read
by whatever Python the user starts, so it is valid Python 2 as well; there it only runs the user's `sitecustomize`.
"""
# Annotations are comments here: Python 2 reads this file too.
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, ANN204, SIM105
# mypy: disable-error-code="import-not-found, attr-defined, arg-type, union-attr, assignment, no-any-return"

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))

#: A process with one of these words in its command line serves others and holds no code of the user. It neither
#: registers nor joins; pydevd.py is a process that has joined already.
_SKIP = (
    "multiprocessing.resource_tracker",
    "multiprocessing.semaphore_tracker",
    "torch/_inductor/compile_worker",
    "torch._inductor.compile_worker",
    "ray/dashboard/",
    "ray/autoscaler/",
    "ray/_private/log_monitor.py",
    "ray/_private/runtime_env/agent",
    "debugpy/adapter",
    "pydevd.py",
    "dkdbg/agent/",
)
#: Programs that build or install; they start many short processes.
_SKIP_PROGRAMS = ("pip", "pip3", "uv", "ninja", "cmake", "conda", "mamba", "poetry", "meson")
#: Its children, made by fork, run the user's code.
_FORKSERVER = "multiprocessing.forkserver"
_RANK_NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "PMI_RANK", "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALRANKID",
)  # fmt: skip


def _chain():  # type: () -> None
    """Run the `sitecustomize` that would have been found without this one, as `site` would have."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    here = sys.modules.pop("sitecustomize", None)
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


def _is_housekeeping(words):  # type: (list[str]) -> bool
    line = " ".join(words)
    more = [word for word in os.environ.get("DKDBG_SKIP", "").split(",") if word]
    if any(mark in line for mark in _SKIP) or any(mark in line for mark in more):
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
        self.fork_armed = False
        self.worker_armed = False
        self.held = None
        self.origin = ""
        self._thread = _thread
        self._reset()

    def _reset(self):  # type: () -> None
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
        """Start the thread; `waiting` is the connection of the agent that asks this process to join.

        Until this process has joined it is a bare thread, which a program that counts its threads does not see. From
        then on pydevd sees every thread: it is one that `threading` knows, marked to be left alone. For a bare one
        pydevd would make `threading` invent a dummy, and Python 3.13 complains about that when the program ends.
        """
        with self.lock:
            if self.running or self.listener is None:
                return
            self.running = True
            self.done.acquire()
            if waiting is None and not self.joined:
                self._thread.start_new_thread(self._serve, (self.listener, self.done, None))
                return
            import threading

            arguments = (self.listener, self.done, waiting)
            thread = threading.Thread(target=self._serve, args=arguments, name="dkdbg hook", daemon=True)
            thread.pydev_do_not_trace = True
            thread.is_pydev_daemon_thread = True
            thread.start()

    def _serve(self, listener, done, waiting):  # type: (object, object, object) -> None
        handed_over = None
        try:
            import _signal

            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # they are for the program
            self.thread_id = self._thread.get_native_id()
            if waiting is not None:
                self._answer(waiting)
            while True:
                connection, command = self._next(listener)
                if command == b"join" and not self.joined:
                    handed_over = connection
                    break
                if command == b"join":
                    self._answer(connection)
                elif command == b"pdb":
                    self._open_pdb(connection)
                else:
                    connection.close()
                if command == b"sleep":
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

    def _answer(self, connection):  # type: (object) -> None
        try:
            connection.sendall(self.join(False).encode("utf-8", "replace") + b"\n")
        except OSError:
            pass
        finally:
            connection.close()

    def _open_pdb(self, connection):  # type: (object) -> None
        try:
            path = os.path.realpath(self.directory + "/p") + "/%d.pdb" % os.getpid()
            connection.sendall(self.load("tcppdb").interrupt(path).encode() + b"\n")
        finally:
            connection.close()

    def join(self, at_start):  # type: (bool) -> str
        """Join the adapter."""
        answer = self.load("join").join(self.directory, at_start)
        self.joined = self.joined or answer.startswith(("joined", "already joined"))
        return answer

    def load(self, name):  # type: (str) -> object
        """Return the module in NAME.py beside the hook's folder, loaded when it is first needed."""
        key = "_dkdbg_" + name
        with self.loading:
            if key not in sys.modules:
                import importlib.util

                path = os.path.join(os.path.dirname(_HERE), name + ".py")
                spec = importlib.util.spec_from_file_location(key, path)
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                sys.modules[key] = module
            return sys.modules[key]

    def wait_for_pdb(self):  # type: () -> None
        """`launch --pdb`: the first Python process stops at its first line."""
        try:
            os.close(os.open(self.directory + "/pdb-first", os.O_CREAT | os.O_EXCL))
        except OSError:
            return
        environ = os.environ
        seconds = float(environ.get("DKDBG_BREAKPOINT_WAIT", "0").replace("forever", "inf"))
        self.load("tcppdb").wait_at_start(environ["DKDBG_PDB"], seconds, environ.get("DKDBG_THEN") or "exit")

    def arm_for_crash(self):  # type: () -> None
        """Have an uncaught exception looked at after the program's own hooks; `threading` is imported already."""
        import threading

        def excepthook(kind, value, trace):  # type: (type, BaseException, object) -> None
            former(kind, value, trace)
            self.hold((kind, value, trace))

        def thread_excepthook(details):  # type: (object) -> None
            former_of_threads(details)
            self.hold((details.exc_type, details.exc_value, details.exc_traceback))

        def at_end():  # type: () -> None
            # A program that sets its own excepthook (rich, absl) takes ours away; Python has noted the exception.
            value = getattr(sys, "last_value", None)
            if value is not None and sys.excepthook is not excepthook and not hasattr(sys, "ps1"):
                self.hold((type(value), value, sys.last_traceback))

        register = getattr(
            threading, "_register_atexit", None
        )  # Python 3.9; threads can still be started there
        if register is not None:
            register(at_end)
        former, sys.excepthook = sys.excepthook, excepthook
        former_of_threads, threading.excepthook = threading.excepthook, thread_excepthook

    def arm_for_worker(self):  # type: () -> None
        """The same in a worker of multiprocessing, which prints its exception itself and ends."""
        import traceback

        def print_exc(*args, **kwargs):  # type: (object, object) -> None
            former(*args, **kwargs)
            caller = sys._getframe(1).f_code
            if caller.co_name == "_bootstrap" and "multiprocessing" in caller.co_filename:
                self.hold(sys.exc_info())

        former, traceback.print_exc = traceback.print_exc, print_exc
        self.worker_armed = True

    def hold(self, failure):  # type: (tuple[object, ...]) -> None
        if failure[1] is self.held:
            return
        self.held = failure[1]
        try:
            if not issubclass(failure[0], (KeyboardInterrupt, SystemExit)):
                self.load("crash").hold(self.directory, self.load, failure)
        except Exception as error:
            _say("post-mortem: %r" % (error,))

    def enter(self):  # type: () -> None
        """Register, join if an editor is attached, and let the thread sleep on the socket."""
        self.register()
        if os.path.exists(self.directory + "/join.json"):
            _say(self.join(True))
        self.wake_thread()

    # -- fork ---------------------------------------------------------------------------------------------------

    def before_fork(self):  # type: () -> None
        """Put the thread away, so that the program forks with the threads that it has by itself.

        Python 3.12 and newer warn when a process with several threads forks. The callback for the child is
        registered at the first fork and not at start: it has to run after the one of `threading`.
        """
        try:
            if not self.fork_armed:
                self.fork_armed = True
                os.register_at_fork(after_in_child=self.after_fork_in_child)
            if not self.running:
                return
            import _socket

            knock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            try:
                knock.settimeout(1)
                knock.connect(self.listener.getsockname())
                knock.sendall(b"sleep\n")
            finally:
                knock.close()
            if self.done.acquire(True, 1):
                self.done.release()
                self._until_thread_is_gone()
        except Exception as error:
            _say("before fork: %r" % (error,))

    def _until_thread_is_gone(self):  # type: () -> None
        import time

        path = "/proc/self/task/%d" % self.thread_id
        for _ in range(50):
            if not os.path.exists(path):
                return
            time.sleep(0.0001)

    def after_fork_in_parent(self):  # type: () -> None
        try:
            self.wake_thread()
        except Exception as error:
            _say("after fork: %r" % (error,))

    def after_fork_in_child(self):  # type: () -> None
        try:
            listener = self.listener
            self._reset()
            if listener is not None:
                listener.close()
            for name in ("_dkdbg_join", "_dkdbg_tcppdb"):
                if name in sys.modules:
                    sys.modules[name].forget()
            if self._is_about_to_exec():
                return
            self.origin = _origin_of_fork()
            if (
                os.environ.get("DKDBG_ON_CRASH")
                and not self.worker_armed
                and "multiprocessing.process" in sys.modules
            ):
                self.arm_for_worker()
            self.enter()
        except Exception as error:
            _say("in a forked child: %r" % (error,))

    def _is_about_to_exec(self):  # type: () -> bool
        """Whether this is subprocess.Popen with a preexec_fn: its child has another program in a moment."""
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name == "_execute_child" and "subprocess" in frame.f_code.co_filename:
                return True
            frame = frame.f_back
        return False


class _DkdbgFinder:
    """Asked last: where no package dkdbg is installed, `import dkdbg` gives `breakpoint` and its sisters."""

    def __init__(self, member):  # type: (_Member) -> None
        self.member = member

    def find_spec(self, name, path=None, target=None):  # type: (str, object, object) -> object  # noqa: ARG002
        if name != "dkdbg":
            return None
        from _frozen_importlib import ModuleSpec

        return ModuleSpec(name, self)

    def create_module(self, spec):  # type: (object) -> None
        """Leave it to Python."""

    def exec_module(self, module):  # type: (object) -> None
        ondemand = self.member.load("ondemand")
        for name in ("breakpoint", "set_trace", "settrace"):
            setattr(module, name, getattr(ondemand, name))


def _origin_of_fork():  # type: () -> str
    """Who forked this process, from the frames that it was forked in; see `origin` in contract.py."""
    frame = sys._getframe()
    name = ""
    while frame is not None:
        path = frame.f_code.co_filename.replace(os.sep, "/")
        if path.endswith("multiprocessing/forkserver.py"):
            return ""  # its command line says it
        if path.endswith("multiprocessing/popen_fork.py"):
            name = str(getattr(frame.f_locals.get("process_obj"), "_name", name))
        elif path.endswith("torch/utils/data/dataloader.py") and isinstance(frame.f_locals.get("i"), int):
            return "dataloader:%d" % frame.f_locals["i"]
        frame = frame.f_back
    return "multiprocessing:" + name if name else "fork"


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
        member.arm_for_crash()
        if "--multiprocessing-fork" in words:
            member.arm_for_worker()
    os.register_at_fork(before=member.before_fork, after_in_parent=member.after_fork_in_parent)
    if _FORKSERVER in " ".join(words):
        return
    member.enter()
    if os.environ.get("DKDBG_PDB_AT_START"):
        member.wait_for_pdb()


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
