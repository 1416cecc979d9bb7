# -*- coding: utf-8 -*-
"""The hook, which makes every Python process below the agent debuggable, at almost no cost until an editor attaches.

The agent puts this folder first on PYTHONPATH. At its start, a process runs the user's own `sitecustomize`, announces
itself in the session's folder, and leaves one thread asleep on a socket, without importing debugpy, json or socket. A
process that starts while an editor is attached joins on its main thread, before the program's first line. A running
process joins on the hook's thread when the agent asks, or in a `breakpoint()` of its code.

Nothing here may break or delay the program: every error is swallowed, and DKDBG_DEBUG=1 shows it. Any Python
that the user starts may read the file, so it is valid Python 2 as well; there it only runs the user's
`sitecustomize`.
"""
# Annotations are comments here: Python 2 reads this file too.
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, ANN204, F401, SIM105
# mypy: disable-error-code="import-not-found"

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from _thread import LockType
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Dict, List, Optional, Tuple

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: Descriptor number for the hook's socket, so high that the program's own get the same numbers as without the hook.
_HIGH = 1000

#: Fragments of the command lines of helper processes, which run no user code. Such a process neither registers
#: nor joins, unless DKDBG_HOUSEKEEPING=1. A copy of the list in dkdbg.launchers, whose import would slow down each
#: start of a Python; a test compares them.
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
#: Fragments of the command lines of the debugger itself, and of processes that pydevd.py starts already debugged.
_NEVER = ("debugpy/adapter", "pydevd.py", "dkdbg/agent/")
#: Fragments of generic command lines: only the parent knows what such a process is (parent_lookup.py).
_NAMELESS = ("--multiprocessing-fork", "multiprocessing.forkserver", "exec(eval(sys.stdin.readline()))")
#: Programs that build or install, which also neither register nor join: they start many short processes.
_SKIP_PROGRAMS = ("pip", "pip3", "uv", "ninja", "cmake", "conda", "mamba", "poetry", "meson")
#: Seconds that a process waits for the agent to notice that it has changed its user.
_ADMISSION_TIMEOUT_S = 5.0
#: The same for the first child that a process forks after changing its user; later children do not wait.
_ADMISSION_OF_FORK_S = 1.0
#: Holds a reference to this module once it is out of sys.modules: Python 2 would clear its globals.
_kept = {}  # type: Dict[str, Any]
_RANK_NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "PMI_RANK", "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALRANKID", "NODE_RANK",
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE",
    "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "HOROVOD_SIZE", "PADDLE_TRAINER_ID", "PADDLE_LOCAL_RANK", "PADDLE_TRAINERS_NUM",
)  # fmt: skip


def _chain():  # type: () -> None
    """Import the `sitecustomize` that this one hides, as `site` would, without the hook's folder on sys.path."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
    own = _kept["hook"] = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize
    except ImportError as error:
        if "sitecustomize" not in str(error):
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


def _say(text):  # type: (str) -> None
    if os.environ.get("DKDBG_DEBUG"):
        sys.stderr.write("dkdbg: hook in pid %d: %s\n" % (os.getpid(), text))


def _command_line():  # type: () -> list[str]
    argv = getattr(sys, "orig_argv", None)  # Python 3.10
    if argv:
        return list(argv)
    try:
        with open("/proc/self/cmdline", "rb") as source:
            return [os.fsdecode(word) for word in source.read().split(b"\0")[:-1]]
    except OSError:
        return list(getattr(sys, "argv", []))


def _shows_housekeeping():  # type: () -> bool
    return os.environ.get("DKDBG_HOUSEKEEPING", "").lower() in ("1", "true", "yes", "on")


def _is_housekeeping(argv):  # type: (list[str]) -> bool
    line = " ".join(argv)
    more = [word for word in os.environ.get("DKDBG_SKIP", "").split(",") if word]
    hidden = () if _shows_housekeeping() else _SKIP
    if any(fragment in line for fragments in (_NEVER, hidden, more) for fragment in fragments):
        return True
    for position, word in enumerate(argv[1:], 1):
        if word == "-m":
            return argv[position + 1 : position + 2] == ["pip"]
        if word == "-c":
            return False
        if not word.startswith("-"):
            return os.path.basename(word) in _SKIP_PROGRAMS
    return False


def _import(name):  # type: (str) -> Any
    """Import NAME.py of the parent folder as `_dkdbg.NAME`: its files import each other relatively."""
    found = sys.modules.get("_dkdbg." + name)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found  # without the import lock: in a signal handler, the interrupted code may hold it
    if "_dkdbg" not in sys.modules:
        package = type(sys)("_dkdbg")
        package.__path__ = [os.path.dirname(_FOLDER)]
        sys.modules.setdefault("_dkdbg", package)
    # Like importlib.import_module, but importing importlib costs 2 ms. The program may have replaced the built-in
    # `__import__`.
    from _frozen_importlib import __import__ as import_

    import_("_dkdbg.standard")
    import_("_dkdbg." + name)
    return sys.modules["_dkdbg." + name]


class _Late(object):
    """A module of the parent folder, imported at the first access to an attribute."""

    def __init__(self, name):  # type: (str) -> None
        self._name = name

    def __getattr__(self, name):  # type: (str) -> object
        return getattr(_import(self._name), name)


# Any: importing these modules for the type checker would be a cycle, because they use `_Member`.
answers = _Late("answers")  # type: Any
choosing = _Late("choosing")  # type: Any
clocks = _Late("clocks.clocks")  # type: Any
crash_watch = _Late("crash_watch")  # type: Any
forking = _Late("forking")  # type: Any
join = _Late("join")  # type: Any
on_demand = _Late("on_demand")  # type: Any
parent_lookup = _Late("parent_lookup")  # type: Any
passing = _Late("passing")  # type: Any
profiling = _Late("profilers.profiling")  # type: Any
ray_hook = _Late("ray.hook")  # type: Any
site_entry = _Late("site_entry")  # type: Any
socket_pdb = _Late("pdb.socket_pdb")  # type: Any
timeouts = _Late("clocks.timeouts")  # type: Any


def _identity(number):  # type: (int) -> Optional[Tuple[int, int]]
    """Return the device and inode of a descriptor's file; None if it is closed.

    A program may close the hook's descriptor and open its own file under the same number.
    """
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _lift(sock):  # type: (socket) -> socket
    """Move a socket to descriptor _HIGH, and return it; if that is impossible, return `sock` unchanged.

    Safe only while no other thread can take that number. `fcntl` would always be safe, but takes 0.4 ms to import.
    """
    if _identity(_HIGH) is not None:
        return sock
    try:
        os.dup2(sock.fileno(), _HIGH, False)
    except OSError:  # `ulimit -n`
        return sock
    lifted = type(sock)(sock.family, sock.type, sock.proto, _HIGH)
    sock.close()
    return lifted


def _native(name):  # type: (str) -> Any
    """Return the original of a function in `_thread`, even where gevent has replaced it."""
    import _thread

    monkey = sys.modules.get("gevent.monkey")  # in a process that the agent attached to after gevent's patch
    return getattr(_thread, name) if monkey is None else monkey.get_original("_thread", name)


class _Member(object):
    """This process as a member of the session.

    Attributes:
        directory: the session's folder. hook: the hook's folder, as on the PYTHONPATH of child processes.
        argv: the command line.
        origin: how this process was created, see `origin` in contract.py.
        rank: for a rank of torch.multiprocessing and its children, the rank according to parent_lookup.py; else None.
        free: whether ranks were selected at its start and this process was not among them.
        fork_armed: whether the callback for forked children is registered. block_signals: blocks signals in a child.
        user: effective uid at the last fork. is_new_user: whether it had changed since the fork before.
        main_ident: the main thread's identifier, without gevent's changes.
        lock: held while registering again; reentrant, because a signal handler may fork on the thread that holds it.
        done: lock that is held while the hook's thread runs, and while `starter` (a thread's identifier) starts it.
        begun: lock that is held between the start of the hook's thread and its first instruction.
        running: whether the hook's thread runs. thread_id: its thread ID in the kernel. answering: whether it
            answers a query.
        forking: number of forks in progress, before which the hook's thread has to end. A signal handler may fork
            during another fork.
        handed_over: connection of a query that the hook's thread, ended for a fork, leaves to the next one.
        joined: whether this process has ever joined an adapter.
        listener: socket for the agent's queries; to be used only after `owns_listener()`.
    """

    def __init__(self, directory, argv):  # type: (str, List[str]) -> None
        # Import `threading` here: it takes the thread that first imports it for the main thread. If that were the
        # hook's thread, the program would hang at its end.
        import threading

        self.directory = directory
        self.hook = _FOLDER
        self.argv = argv
        self.fork_armed = False
        self.user = os.geteuid()
        self.is_new_user = False
        self.block_signals = None  # type: Optional[Callable[[], object]]
        self.origin = ""
        self.rank = None  # type: Optional[int]
        # The rank by which this process is selected or not (choosing.py). It is not announced as its rank: the first
        # Python of a job belongs to rank 0, but may be the user's own launcher.
        self.belongs = None  # type: Optional[int]
        self.free = False
        self._allocate_lock = _native("allocate_lock")
        self._allocate_rlock = _native("RLock")
        self._start_new_thread = _native("start_new_thread")
        self._get_ident = _native("get_ident")
        self.reset()

    def reset(self):  # type: () -> None
        self.main_ident = self._get_ident()
        self.lock = self._allocate_rlock()
        self.done = self._allocate_lock()
        self.begun = self._allocate_lock()
        self.running = self.answering = False
        self.forking = 0
        self.starter = 0
        self.handed_over = None  # type: Optional[socket]
        self.joined = False
        self.thread_id = 0
        self.listener = None  # type: Optional[socket]
        self._listener_id = None  # type: Optional[Tuple[int, int]]

    def module(self, name):  # type: (str) -> Any
        return _import(name)

    def say(self, text):  # type: (str) -> None
        _say(text)

    @property
    def base(self):  # type: () -> str
        return "%s/p/%d" % (self.directory, os.getpid())

    def register(self, lift=_lift):  # type: (Callable[[socket], socket]) -> None
        """Announce this process, and open the socket for the agent's queries. Raises OSError."""
        import _socket

        try:
            os.unlink(self.base + ".sock")
        except OSError:
            pass
        # A datagram socket: a thread that waits in accept() would have reserved the lowest free descriptor number.
        try:
            sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
            # Read the identity now. Once the socket has the high number, the program may close that number and open a
            # file under it at any moment, and the socket object would close that file.
            listener_id = _identity(sock.fileno())
            sock.bind(os.path.realpath(self.directory + "/p") + "/%d.sock" % os.getpid())
        except OSError as error:  # for example in a sandbox; see hook_check.py
            self._write(".failed", "cannot open a socket for the agent: %s" % error.strerror)
            raise
        self.listener, self._listener_id = lift(sock), listener_id
        self.announce()

    def announce(self):  # type: () -> None
        """Write this process's announcement, by which the agent finds the process. Raises OSError."""
        import time
        from _json import encode_basestring_ascii as quoted  # json itself costs 3 ms

        env = ",".join(
            "%s:%s" % (quoted(name), quoted(os.environ[name])) for name in _RANK_NAMES if name in os.environ
        )
        started = time.clock_gettime(time.CLOCK_REALTIME)  # time.time() may be behind, see clocks.py
        text = '{"pid":%d,"ppid":%d,"started":%f,"rank":%s,"origin":%s,"argv":[%s],"env":{%s}}' % (
            os.getpid(),
            os.getppid(),
            started,
            "null" if self.rank is None else "%d" % self.rank,
            quoted(self.origin),
            ",".join(quoted(word.encode("utf-8", "replace").decode("utf-8")) for word in self.argv[:16]),
            env,
        )
        self._write(".json", text)

    def _write(self, suffix, text):  # type: (str, str) -> None
        """Write a file about this process atomically. Raises OSError."""
        file = os.open(self.base + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode("ascii", "replace"))
        finally:
            os.close(file)
        os.rename(self.base + ".tmp", self.base + suffix)

    def owns_listener(self):  # type: () -> bool
        """Tell whether the listener's descriptor is still the hook's socket; if not, never use it again."""
        if self.listener is None or self.listener.fileno() < 0:
            return False
        if self._listener_id is not None and _identity(self.listener.fileno()) == self._listener_id:
            return True
        self.listener.detach()
        return False

    def register_again(self):  # type: () -> None
        """Announce this process again, if the program has closed the hook's socket. Raises OSError."""
        with self.lock:
            if not self.owns_listener():
                self.register(answers.lift)

    def wake_thread(self, waiting=None):  # type: (Optional[socket]) -> None
        """Start the hook's thread, unless it runs; `waiting` is the connection of a query `join` to answer first."""
        if self.listener is None or not self.done.acquire(False):
            return
        self.starter = self._get_ident()
        self.running = True
        try:
            if waiting is None and not self.joined:
                self.begun.acquire()
                self._start_new_thread(self.serve, (self.done, None))
            else:
                answers.start_known(self, waiting)
        except RuntimeError as error:  # no further thread is allowed: the next fork tries again
            _say("no thread: %r" % (error,))
            self.running = False
            if self.begun.locked():
                self.begun.release()
            self.done.release()
        self.starter = 0

    def serve(self, done, waiting):  # type: (LockType, Optional[socket]) -> None
        handed_over, slept = None, False
        if self.begun.locked():
            self.begun.release()
        try:
            import _signal
            import _thread

            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # signals are for the program
            self.thread_id = _thread.get_native_id()
            if waiting is not None:
                self._answer(waiting, b"join")
            while True:
                connection, command = self._next()
                if command == b"sleep":
                    if not self.forking:
                        continue  # from a fork that did not wait for this thread, or from another process
                    slept = True
                    break
                if self._answer(connection, command):
                    handed_over = connection or self._unread()
                    break
        except Exception as error:
            if self.owns_listener():  # otherwise the program has taken the listener's descriptor
                _say("socket closed: %r" % (error,))
        finally:
            self.running = False
            if self.forking:
                self.handed_over, handed_over = handed_over, None
            done.release()
        if handed_over is None and not self.forking:  # the fork is over already
            handed_over, self.handed_over = self.handed_over, None
        if handed_over is not None:
            self.wake_thread(handed_over)
        elif slept and not self.forking:  # the fork did not wait, and found this thread running
            self.wake_thread()

    def _answer(self, connection, command):  # type: (Optional[socket], bytes) -> bool
        """Answer a query through answers.py; return whether this thread has to end. An error ends only this answer."""
        self.answering = True
        try:
            if answers.answer(self, connection, command):
                return True
        except Exception as error:
            _say("no answer to %r: %r" % (command, error))
        finally:
            self.answering = False
        if connection is not None:
            connection.close()  # after an error the agent would wait for an answer until the next query
        return False

    def _unread(self):  # type: () -> socket
        """Return a connection for an answer that is discarded: its other end is closed."""
        import _socket

        return _socket.socketpair()[0]

    def _next(self):  # type: () -> Tuple[Optional[socket], bytes]
        """Wait for the next query; return the connection for its answer, if one came with it, and the query."""
        import _socket

        while True:
            if not self.owns_listener():
                self.register_again()
            listener = self.listener
            try:
                # 8192 bytes for a query with a path, 32 for one descriptor.
                found = listener.recvmsg(8192, 32, getattr(_socket, "MSG_CMSG_CLOEXEC", 0))  # type: ignore[union-attr]
            except OSError:  # closed since the check, for example by a fork, and perhaps replaced
                if self.listener is listener and self.owns_listener():
                    raise
                continue
            for _, _, data in found[1]:
                number = int.from_bytes(data[:4], sys.byteorder)
                return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, number), found[0]
            return None, found[0]

    def join(self, at_start):  # type: (bool) -> str
        """Join the adapter; return `joined`, `already joined`, or why not."""
        # Import forking now: a forked child needs it to drop the debugger, and its file may be out of reach after
        # setuid or chroot.
        _import("forking")
        answer = join.join(self.directory, at_start)  # type: str
        self.joined = self.joined or answer.startswith(("joined", "already joined"))
        return answer

    def enter(self):  # type: () -> None
        """Register, join now if an editor is attached, and start the thread that sleeps on the socket."""
        attached = os.path.exists(self.directory + "/join.json")
        are_chosen = os.path.exists(self.directory + "/ranks")
        if (attached or are_chosen) and any(fragment in word for word in self.argv for fragment in _NAMELESS):
            parent_lookup.learn(self)
        is_rank = not self.origin and any(name in os.environ for name in _RANK_NAMES)
        is_rank = is_rank or self.origin.startswith("rank:")
        if is_rank and os.environ.get("DKDBG_ON_CRASH"):
            timeouts.allow_for_crashes()
        if are_chosen:
            chosen = choosing.settle(self)
            if chosen is not None and chosen.failing and self.belongs is not None:
                crash_watch.arm(self)
                timeouts.allow_for_crashes()
            if attached and self.free:  # otherwise `join` does this
                clocks.follow(self.directory, at_start=True)
            attached = attached and not self.free
        else:
            self.free = False
        self.register()
        if attached:
            _say(self.join(True))
        self.wake_thread()

    def follow_user(self):  # type: () -> None
        """Switch to the session's folder for this child's new user. Raises KeyError, ValueError or OSError."""
        self.directory = _admitted(self.directory, _ADMISSION_OF_FORK_S if self.is_new_user else 0.0)

    def at_fork(self, moment):  # type: (str) -> Callable[[], None]
        """Return a callback that runs the function of forking.py with the name `moment`."""

        def callback():  # type: () -> None
            try:
                getattr(forking, moment)(self)
            except Exception as error:
                _say("fork, %s: %r" % (moment, error))

        return callback


class _DkdbgFinder(object):
    """Last finder on sys.meta_path: makes `import dkdbg` work (`dkdbg.breakpoint()`) where dkdbg is not installed."""

    def __init__(self, member):  # type: (_Member) -> None
        self.member = member

    def find_spec(self, name, path=None, target=None):  # type: (str, object, object) -> Optional[ModuleSpec]  # noqa: ARG002
        return on_demand.find_spec(name) if name in ("dkdbg", "dkdbg.pai", "paipdb") else None


class _CoverageFinder(object):
    """First finder on sys.meta_path, until the program imports coverage; see coverage_files.py."""

    def find_spec(self, name, path=None, target=None):  # type: (str, Any, Any) -> Optional[ModuleSpec]
        if name != "coverage.inorout":
            return None
        sys.meta_path = [each for each in sys.meta_path if each is not self]
        return _import("coverage_files").find_spec(name, path, target)  # type: ignore[no-any-return]


def _profile(directory, argv):  # type: (str, List[str]) -> None
    """Start this process's profilers. On an error, report it and continue."""
    try:
        profiling.begin(directory, argv)
    except Exception as error:
        sys.stderr.write("dkdbg: pid %d cannot be profiled: %s\n" % (os.getpid(), error))


def _admitted(directory, limit=_ADMISSION_TIMEOUT_S):  # type: (str, float) -> str
    """Wait for the session's folder for this process's new user, and return it.

    The agent creates it once it notices a descendant process of that user. Raises KeyError, ValueError or OSError if
    there is no such folder and will be none.
    """
    import time

    users, uid = os.path.split(directory)
    session = os.path.dirname(users) if os.path.basename(users) == "u" and uid.isdigit() else directory
    own, end = "%s/u/%d" % (session, os.geteuid()), time.time() + limit
    pause = _native("allocate_lock")()  # gevent's `sleep` would run other greenlets
    pause.acquire()
    is_coming = os.geteuid() != 0 and int(session.rpartition("-")[2]) in site_entry.above()
    while is_coming and os.path.isdir(session + "/u"):
        if os.path.isdir(own + "/p"):
            if not os.access(own + "/p", os.W_OK):
                break
            os.environ["DKDBG_SESSION_DIR"] = own
            return own
        if time.time() >= end:
            break
        pause.acquire(True, 0.02)
    raise KeyError("no folder for uid %d in %s" % (os.geteuid(), session))


def _pass_on(member):  # type: (_Member) -> None
    """Pass the session on even to child processes with an environment that the program makes; see passing.py."""
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def handed_on(*arguments):  # type: (Any) -> int
        try:
            arguments = passing.fork_exec(member.directory, member.hook, arguments)
        except Exception as error:  # passing.py is out of reach, after a chroot or as another user
            _say("not handed on: %r" % (error,))
        return fork_exec(*arguments)

    def started(start):  # type: (Callable[..., Any]) -> Callable[..., Any]
        def handed_on(path, argv, env, **more):  # type: (Any, Any, Any, Any) -> Any
            try:
                env = passing.with_session(member.directory, member.hook, env)
            except Exception as error:
                _say("not handed on: %r" % (error,))
            return start(path, argv, env, **more)

        return handed_on

    _posixsubprocess.fork_exec = handed_on
    known = sys.modules.get("subprocess")  # in a process that the agent attaches to while it runs
    if getattr(known, "_fork_exec", None) is fork_exec:
        known._fork_exec = handed_on  # type: ignore[union-attr]
    for name in ("execve", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            former = getattr(os, name)
            setattr(os, name, started(former))
            if former in os.supports_fd:
                os.supports_fd.add(getattr(os, name))


def _enter():  # type: () -> None
    directory = os.environ.get("DKDBG_SESSION_DIR")
    if not directory or not os.path.isdir(directory):
        return
    argv = _command_line()
    if _is_housekeeping(argv):
        return
    if not os.access(directory + "/p", os.W_OK):
        directory = _admitted(directory)
    member = _Member(directory, argv)
    _pass_on(member)
    # Ray sets this variable in its workers and drivers, and a program that they start inherits it; there Ray's function
    # would fail.
    if os.environ.get("PYTHONBREAKPOINT", "").startswith("ray.util.rpdb."):
        os.environ["PYTHONBREAKPOINT"] = "dkdbg.breakpoint"
    if "DKDBG_PROFILE" in os.environ:
        _profile(directory, argv)
    sys.meta_path.append(_DkdbgFinder(member))
    if "coverage.inorout" in sys.modules:  # coverage's own .pth file has imported it
        _import("coverage_files").watch()
    else:
        sys.meta_path.insert(0, _CoverageFinder())
    if "DKDBG_RAY_WORKERS" in os.environ:
        ray_hook.register()
    if "job submit" in " ".join(argv):
        ray_hook.register_submit()
    if os.environ.get("DKDBG_ON_CRASH"):
        crash_watch.arm(member)
        if "--multiprocessing-fork" in argv:
            crash_watch.arm_worker(member)
    os.register_at_fork(before=member.at_fork("before"), after_in_parent=member.at_fork("in_parent"))
    if "multiprocessing.forkserver" in " ".join(argv) and not _shows_housekeeping():
        return  # a forkserver does not join; its forked children run the user's code
    member.enter()
    # Wait until the thread has begun. CPython 3.11 crashes if a program ends before that, because it frees the
    # thread's start data.
    with member.begun:
        pass
    if os.environ.get("DKDBG_PDB_AT_START"):
        socket_pdb.wait_as_asked(directory)


def _is_main_interpreter():  # type: () -> bool
    """Tell whether this is the main interpreter.

    `site` runs in subinterpreters too, where the hook's thread would end the process.
    """
    import _signal

    try:
        _signal.set_wakeup_fd(-1)  # -1 is the initial value; raises ValueError in a subinterpreter
    except ValueError:
        return False
    return True


def _main():  # type: () -> None
    try:
        _chain()
    finally:
        if sys.version_info >= (3, 8) and _is_main_interpreter():
            try:
                _enter()
            except Exception as error:
                _say("off: %r" % (error,))


_main()
