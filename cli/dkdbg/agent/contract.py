"""The contract between agent and host: file names, the session record, values of settings, exit codes.

Everything here is a constant or a type, so that `health` starts in a few milliseconds.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs 5 ms at start: only the type checker loads it
    from typing import List, Literal, Optional, TypedDict

    #: State of a session. `idle`: the program has ended; `supervise` waits for a change or a request, or the agent
    #: waits for an editor that is about to attach (DKDBG_LINGER). `restarting`: the program is being ended, to be
    #: started again.
    State = Literal[
        "starting", "waiting", "attached", "running", "post-mortem", "restarting", "idle", "exited"
    ]

    class Mapping(TypedDict):
        """One path mapping in an editor's form, and what the agent found out about its remote root.

        Attributes:
            localRoot: folder on the machine of the editor; may hold `${workspaceFolder}`.
            remoteRoot: the same folder where the program runs.
            exists: whether remoteRoot is a directory there.
            kind: `mount` when a mount other than `/` covers it, `image` when not, `unknown` without /proc.
        """

        localRoot: str
        remoteRoot: str
        exists: bool
        kind: Literal["mount", "image", "unknown"]

    class Process(TypedDict):
        """One Python process below the agent.

        Attributes:
            argv: its command line, at most 16 arguments.
            started: epoch seconds.
            spread: whether its launcher reports ranks on other machines too.
            rank: global rank according to its launcher (torchrun, Slurm, Open MPI), or null.
            joined: whether it is connected to debugpy's adapter.
            state: `breakpoint` or `post-mortem` (after a crash) while it waits for an editor; empty while it
                runs.
            detail: location of that wait. expires: epoch seconds of that wait's end, null without one.
            origin: how it was created: empty for an ordinary start, `fork`, `multiprocessing:NAME` (forked),
                `spawned:NAME` (with an interpreter of its own), `dataloader:NUMBER`, `rank:NUMBER`
                (torch.multiprocessing), `worker:NUMBER` of a server, `xdist:NAME`.
            name: its name in an editor. stopped: where a debugger has stopped it; empty while it runs.
        """

        pid: int
        ppid: int
        argv: List[str]
        started: float
        rank: Optional[int]
        local_rank: Optional[int]
        world_size: Optional[int]
        spread: bool
        joined: bool
        state: str
        detail: str
        expires: Optional[float]
        origin: str
        name: str
        stopped: str

    class Deadline(TypedDict):
        """A time limit outside the program that keeps running while the debugger holds the program.

        Attributes:
            what: consequence, such as `Slurm ends job 12`.
            ends: epoch seconds; null where it is unknown or depends on how long the program is held.
            after: seconds without an answer from the held program; null for other limits.
            lift: command that gives more time; may be empty.
        """

        what: str
        ends: Optional[float]
        after: Optional[float]
        lift: str

    class Record(TypedDict):
        """The session record, `session.json`.

        Attributes:
            version: RECORD_VERSION of the writer.
            id: name of the session's folder in the runtime folder.
            pid: the agent's pid in its own PID namespace, `pid_namespace`.
            boot: boot id of the agent's machine (/proc/sys/kernel/random/boot_id), empty where unknown; missing in
                records of older agents.
            pid_start: the agent's start in clock ticks since boot (/proc/PID/stat), null without /proc.
            host: the address that the listener binds; port: its TCP port.
            adapter_up: whether debugpy's adapter accepts connections; an editor that attaches earlier waits for it.
            client: whether an editor is attached (it has sent configurationDone).
            child: pid of the user's command, null before its start.
            started, updated: epoch seconds. expires: epoch seconds of the wait's end, null without one.
            exit_code: the program's, 0 to 255 as a shell reports it (128+n for signal n); null while the agent runs,
                and if the agent ended before the program.
            runs: how many times the command was started. last_exit_code: that of the previous run, null in the
                first.
            detail: one line for the user about the state; may be empty.
            jobs: names of the batch job that the agent runs in; empty where unknown.
            run: ID of the `dkdbg run` that has started the session; empty for any other start.
            deadlines: known time limits that dkdbg cannot stop.
        """

        version: int
        id: str
        name: str
        pid: int
        pid_start: Optional[int]
        pid_namespace: str
        boot: str
        host: str
        port: int
        adapter_up: bool
        state: State
        client: bool
        child: Optional[int]
        python: str
        debugpy: str
        argv: List[str]
        cwd: str
        started: float
        updated: float
        run: str
        expires: Optional[float]
        exit_code: Optional[int]
        runs: int
        last_exit_code: Optional[int]
        detail: str
        jobs: List[str]
        deadlines: List[Deadline]
        mappings: List[Mapping]
        processes: List[Process]

    class JoinInfo(TypedDict):
        """Content of `join.json`, with which a Python process joins the adapter.

        The file exists only while an editor is attached.

        Attributes:
            adapter: path of the Unix socket on which the adapter accepts processes.
            token: secret that the adapter sends to each process; with another one the process would hang.
            ppid: the agent's pid, which a process reports as its parent's: the adapter then announces the process in
                the root session.
            search: folders that may hold a `debugpy-VERSION`. runtime: the runtime folder.
            deadline: seconds that a starting program waits for the editor's breakpoints.
        """

        adapter: str
        token: str
        ppid: int
        search: List[str]
        runtime: str
        deadline: float

else:
    Mapping = Process = Deadline = Record = JoinInfo = dict
    State = str

RECORD_VERSION = 1
RECORD_NAME = "session.json"
JOIN_NAME = "join.json"
#: File that tells the processes how far their clocks are behind, see inprocess/clocks/held_time.py.
HELD_NAME = "held-time"
PROCESSES_NAME = "p"
#: Lock file in the session's folder; the agent holds the lock while it lives.
LOCK_NAME = "lock"
#: Subfolder of the session's folder. For each other user that the program's processes have changed to, it has a folder
#: named by the uid, which those processes use as the session's folder.
USERS_NAME = "u"
#: File with the ranks to debug; missing while all are debugged. See inprocess/choosing.py.
RANKS_NAME = "ranks"
#: Control socket for `restart` and `stop`, in the processes' folder, whose path is short enough for a Unix socket.
CONTROL_NAME = "agent.sock"
#: Socket on which debugpy's adapter accepts processes; also in the processes' folder.
ADAPTER_NAME = "adapter.sock"
#: File in the runtime folder for the health check in agent.sh, which runs every two seconds and must not start Python.
#: The agent writes it as soon as a debugger can attach: its pid and the listener's port (4 hex digits), or NOT_READY
#: once no debugger can attach any more; then the machine's uptime at the write, in hundredths of a second.
READY_NAME = "ready"
NOT_READY = "0 0000"

#: States in which a debugger can attach.
ATTACHABLE = ("waiting", "attached", "running", "post-mortem", "restarting", "idle")

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5678
#: Policies for an attach if sources have changed since the program's start: `auto` restarts the program; `ask`
#: only reports the changes; `never` reports them, and disables an editor's Restart button too.
RESTART_AUTO, RESTART_ASK, RESTART_NEVER = RESTART = ("auto", "ask", "never")
#: Ranks that continue or pause with one rank: all of its job, or only that one.
CONTINUE_ALL, CONTINUE_ONE = CONTINUES = ("all", "one")

EXIT_NO_DEBUGGER = 124
#: The agent itself failed; the program was not started.
EXIT_AGENT = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
