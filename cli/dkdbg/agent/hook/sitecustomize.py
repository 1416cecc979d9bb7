# -*- coding: utf-8 -*-
"""The lazy hook: every Python process below the agent can be debugged, and none pays for it until an editor comes.

The agent puts this folder first on PYTHONPATH. At start a process runs the user's own `sitecustomize`, announces
itself in the session's folder, and leaves one thread asleep on a socket. Nothing of debugpy, json or socket is
imported. Only if an editor is attached already does it join before the program's first line.

Nothing here may break or delay the program: every error is swallowed, and DKDBG_DEBUG=1 shows it. The file is read
by whatever Python the user starts, so it is valid Python 2 as well; there it only runs the user's `sitecustomize`.
"""
# ruff: noqa: ANN, PYI, UP, FURB, RUF

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
        self.silent = False  # the fork server itself
        self._thread = _thread
        self._reset()

    def _reset(self):  # type: () -> None
        self.lock = self._thread.allocate_lock()  # guards `running`
        self.done = self._thread.allocate_lock()  # held while the thread runs
        self.running = False
        self.thread_id = 0
        self.listener = None

    @property
    def base(self):  # type: () -> str
        return "%s/p/%d" % (self.directory, os.getpid())

    def register(self):  # type: () -> None
        """Announce this process and let the thread sleep on its socket. Raises OSError."""
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
        text = '{"pid":%d,"ppid":%d,"started":%f,"argv":[%s],"env":{%s}}' % (
            os.getpid(),
            os.getppid(),
            time.time(),
            ",".join(quoted(word.encode("utf-8", "replace").decode("utf-8")) for word in self.words[:16]),
            env,
        )
        file = os.open(self.base + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode("ascii"))
        finally:
            os.close(file)
        os.rename(self.base + ".tmp", self.base + ".json")
        self.wake_thread()

    def wake_thread(self):  # type: () -> None
        with self.lock:
            if self.running or self.listener is None:
                return
            self.running = True
            self.done.acquire()
            self._thread.start_new_thread(self._serve, (self.listener, self.done))

    def _serve(self, listener, done):  # type: (object, object) -> None
        try:
            import _signal

            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # they are for the program
            self.thread_id = self._thread.get_native_id()
            while self._serve_one(listener):
                pass
        except Exception as error:
            _say("socket closed: %r" % (error,))
        finally:
            self.running = False
            done.release()

    def _serve_one(self, listener):  # type: (object) -> bool
        import _socket

        descriptor, _ = listener._accept()
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        try:
            connection.settimeout(5)
            command = connection.recv(64).strip()
            if command == b"sleep":
                return False
            if command == b"join":
                connection.sendall(self.join(False).encode("utf-8", "replace") + b"\n")
        except OSError:
            pass
        finally:
            connection.close()
        return True

    def join(self, at_start):  # type: (bool) -> str
        """Load join.py, which is not needed before, and let it join the adapter."""
        module = sys.modules.get("_dkdbg_join")
        if module is None:
            import importlib.util

            path = os.path.join(os.path.dirname(_HERE), "join.py")
            spec = importlib.util.spec_from_file_location("_dkdbg_join", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules["_dkdbg_join"] = module
        return module.join(self.directory, at_start)

    def join_at_start(self):  # type: () -> None
        if os.path.exists(self.directory + "/join.json"):
            _say(self.join(True))

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
            module = sys.modules.get("_dkdbg_join")
            if module is not None:
                module.forget()
            if self._is_about_to_exec():
                return
            self.register()
            self.join_at_start()
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


def _enter():  # type: () -> None
    directory = os.environ.get("DKDBG_SESSION_DIR")
    if not directory or not os.path.isdir(directory):
        return
    words = _command_line()
    if _is_housekeeping(words):
        return
    member = _Member(directory, words)
    os.register_at_fork(before=member.before_fork, after_in_parent=member.after_fork_in_parent)
    if _FORKSERVER in " ".join(words):
        return
    member.register()
    member.join_at_start()


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
