"""A launcher, and the program that a command line with it starts."""

from __future__ import annotations

from dkdbg.launchers.words import is_python_file, join, positionals, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs 5 ms at start: only the type checker loads it
    from collections.abc import Sequence

#: Role of the started program: a job that ends, a server, a queue's worker, a page that monitors other programs, a
#: notebook server, or a tool such as a test runner. A tool never counts as the repository's program.
JOB, SERVER, WORKER, MONITOR, NOTEBOOK, TOOL = "job", "server", "worker", "monitor", "notebook", "tool"


_BINDS = ("-b", "--bind")


class Launch:
    """One command line that starts a Python program.

    Attributes:
        command: the line, without wrappers such as `uv run` and without environment assignments.
        launcher: name of its launcher, see registry.named().
        target: file as typed, or dotted module, or the name of a console script; None for `jupyter lab`.
        is_module: whether `target` is a module.
        args: the program's own arguments.
        shell_script: path as typed if the line only runs a shell script, which the caller has to read.
        assigned: the environment assignments before the command.
    """

    __slots__ = ("args", "assigned", "command", "is_module", "launcher", "shell_script", "target")

    def __init__(
        self,
        *,
        command: str,
        launcher: str,
        target: str | None = None,
        is_module: bool = False,
        args: Sequence[str] = (),
        shell_script: str | None = None,
    ) -> None:
        self.command = command
        self.launcher = launcher
        self.target = target
        self.is_module = is_module
        self.args = tuple(args)
        self.shell_script = shell_script
        self.assigned: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Launch({self.launcher}: {self.command})"

    def under(self, command: str, launcher: str) -> Launch:
        """Return the launch of this program by `launcher`, whose `command` line contains this one."""
        return Launch(
            command=command,
            launcher=launcher,
            target=self.target,
            is_module=self.is_module,
            args=[word for word in self.args if word != "--"],
            shell_script=self.shell_script,
        )


class Reader:
    """Interface that reads a command inside another one.

    `lines.command_lines` implements it; an import of that here would be a cycle.
    """

    def words(self, words: Sequence[str]) -> Launch | None:
        """Return the launch of an argv, None if it starts no program."""
        raise NotImplementedError

    def line(self, text: str) -> list[Launch]:
        """Return the launches in shell lines, in order."""
        raise NotImplementedError


class Line:
    """A command line with the launcher found in it.

    Attributes:
        words: the whole line, without wrappers such as `sudo` or `uv run`.
        word: name by which the launcher was called: `mpiexec`, or the module in `python -m torch.distributed.run`.
        rest: the words after `word`.
        as_module: whether it was called by `python -m`.
        read: reads a command inside this one.
    """

    def __init__(
        self, words: Sequence[str], word: str, rest: Sequence[str], read: Reader, *, as_module: bool = False
    ) -> None:
        self.words = list(words)
        self.word = word
        self.rest = list(rest)
        self.read = read
        self.as_module = as_module


class Launcher:
    """One launcher: a row of the table, or a subclass with its own rules.

    Attributes:
        names: its names in messages and in `EntryPoint.launcher`. Programs not in `names` are shown by the first one.
        programs: names of its executables; by default `names`.
        modules: modules for `python -m`.
        not_a_module: a module of `modules` that Python cannot run, shown without `python -m`.
        scripts: names of Python files that are this launcher, such as `manage.py`.
        role: role of the program that it starts, see JOB.
        verbs: subcommands that run until they are stopped, such as `serve`; empty if any command line does.
        first_words: subcommands that start a program (the first word after the launcher); empty if any word does.
        is_program: whether its command line can be the repository's program, unlike that of TensorBoard beside a
            training job.
        wraps: whether the command that follows it counts as the program and is shown alone (srun).
        value_options: options that take the next word.
        port: TCP port that it listens on by default; None if it does not listen, or requires a port.
        port_options: options that name the port, as `8000` or `host:8000`; any `--...port` is recognized anyway.
        opened_by: `NAME=value` of an environment variable that makes it listen beyond loopback, if no address is given.
            Empty if it always does so, or has no such variable.
        side_ports: ports of pages that it opens beside a program; they do not make that program a server.
        spreads: whether it starts several processes of one program.
        count_options: options that set the number of processes.
        gpu: `always` if its programs need a GPU; `no fallback` if they need one unless they have code for the CPU.
        discovers: files that it looks for in the working directory if none is given.
        dotted_app: whether the last part of a module may be the app's variable (`-A worker.celery`).
        ranks, local_ranks, world_sizes: environment variables with a process's ranks and the number of ranks,
            best first.
        local_sizes: variables with the number of ranks on this machine.
        nodes: variables with the number of machines.
        node_ranks: variables with the index of this machine.
        helpers: (fragment of a command line, name) of helper processes without user code; hidden by default.
        workers: (fragment of a command line, name) of processes that run the user's code below the program.
        child: name of the child process that runs the app; empty if it runs the app itself.
        child_by: how the child starts: `fork`, `spawn` (multiprocessing) or `again` (the same command line).
        child_options: options that create the child; empty if it always exists.
    """

    names: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    not_a_module = ""
    scripts: tuple[str, ...] = ()
    role = JOB
    verbs: tuple[str, ...] = ()
    first_words: tuple[str, ...] = ()
    is_program = True
    wraps = False
    value_options: tuple[str, ...] = ()
    port: int | None = None
    port_options: tuple[str, ...] = ()
    opened_by = ""
    side_ports: tuple[int, ...] = ()
    spreads = False
    count_options: tuple[str, ...] = ()
    gpu = ""
    discovers: tuple[str, ...] = ()
    dotted_app = False
    ranks: tuple[str, ...] = ()
    local_ranks: tuple[str, ...] = ()
    world_sizes: tuple[str, ...] = ()
    node_ranks: tuple[str, ...] = ()
    local_sizes: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    helpers: tuple[tuple[str, str], ...] = ()
    workers: tuple[tuple[str, str], ...] = ()
    child = ""
    child_by = ""
    child_options: tuple[str, ...] = ()

    def __init__(self, *names: str, **fields: object) -> None:
        """Set the attributes above; a string for a tuple attribute is split at whitespace."""
        self.names = self.programs = names
        for field, value in fields.items():
            if isinstance(value, str) and isinstance(getattr(self, field), tuple):
                value = tuple(value.split())  # noqa: PLW2901
            setattr(self, field, value)

    @property
    def name(self) -> str:
        """Main name of the launcher."""
        return self.names[0]

    def starts(self, word: str) -> bool:
        """Return whether the first word of a command line, as typed, is this launcher."""
        return word.rsplit("/", 1)[-1] in self.programs

    def shown_as(self, word: str) -> str:
        """Return the name to show for the word by which the launcher was called."""
        return word if word in self.names else self.name

    def shown(self, line: Line) -> str:
        """Return the command line for display: as typed, without `-m` before `not_a_module`."""
        if line.as_module and line.word == self.not_a_module:
            # The module may end a word with options: `-m accelerate`, `-um accelerate`, `-maccelerate`.
            ends = enumerate(word[-len(line.word) :] for word in line.words)
            at = next(at for at, end in ends if end == line.word)
            return join([line.word, *line.words[at + 1 :]])
        return join(line.words)

    def may_start(self, rest: Sequence[str]) -> bool:
        """Return whether a line with these words after the launcher may start a program."""
        return not self.first_words or (bool(rest) and rest[0] in self.first_words)

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of a line with this launcher, None if it starts no program of a repository."""
        return self.launched(line) if self.is_program else None

    def launched(
        self, line: Line, target: str | None = None, args: Sequence[str] = (), *, is_module: bool = False
    ) -> Launch:
        """Return the launch of `target`, which was found in `line`."""
        return Launch(
            command=self.shown(line),
            launcher=self.shown_as(line.word),
            target=target,
            is_module=is_module,
            args=args,
        )

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the launcher, started with these words, runs until it is stopped.

        Without words, return whether any of its command lines does.
        """
        if self.role in (JOB, TOOL):
            return False
        return not self.verbs or not rest or any(word in self.verbs for word in rest)

    def port_of(self, words: Sequence[str]) -> int | None:
        """Return the port in a command line, else the default port; None without either."""
        for position, word in enumerate(words):
            option, _, value = word.partition("=")
            value = value or (words[position + 1] if position + 1 < len(words) else "")
            binds = option in _BINDS and ":" in value  # `-b 32` is a batch size
            if option in self.port_options or _names_port(option) or binds:
                port = whole_number(value.rsplit(":", 1)[-1], 65535)
                if port is not None and port > 9:
                    return port
        return self.port

    def count(self, rest: Sequence[str]) -> tuple[int, str] | None:
        """Return the index in `rest` of the word with the number of processes, and the word; None without one."""
        ends = self.program_at(rest)
        for place in range(ends):
            option, equals, _ = rest[place].partition("=")
            if option in self.count_options and (equals or place + 1 < ends):
                return (place, rest[place]) if equals else (place + 1, rest[place + 1])
        return None

    def program_at(self, rest: Sequence[str]) -> int:
        """Return the index in `rest` of the program, before the program's own options; the length without one."""
        for place, word in positionals(rest, self.value_options):
            if is_python_file(word) or rest[place - 1] in ("-m", "--module"):
                return place
        return len(rest)

    def one_process(self, rest: Sequence[str]) -> tuple[list[str], int, str] | None:
        """Return `rest` changed to start one process, the index of the changed word, and the former number.

        None if the number is 1 or is not given.
        """
        found = self.count(rest)
        if found is None:
            return None
        place, word = found
        option, equals, value = word.partition("=")
        if (value if equals else word) == "1":
            return None
        words = list(rest)
        words[place] = option + "=1" if equals else "1"
        return words, place, value if equals else word

    def rank_of(self, environment: dict[str, str]) -> int | None:
        """Return the global rank in a process's environment, None if this launcher did not set it."""
        return number_in(environment, self.ranks)

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:  # noqa: ARG002
        """Return the name of a worker process; empty if it does not belong to this launcher.

        Args:
            argv: command line of the process.
            pid: its PID.
            parent: command line of its parent.
        """
        for fragment, name in self.workers:
            if any(fragment in word for word in argv):
                return f"{name} ({pid})"
        return ""


def number_in(environment: dict[str, str], names: Sequence[str]) -> int | None:
    """Return the number in the first of these variables that has one; None without one."""
    for name in names:
        found = whole_number(environment.get(name, ""))
        if found is not None:
            return found
    return None


def _names_port(option: str) -> bool:
    """Return whether an option names a port to listen on.

    `--port`, `--server.port` and `--server_port` do. `--master_port`, for the rendezvous of ranks, and
    `--main_process_port` do not.
    """
    if not option.startswith("--") or not option.endswith("port"):
        return False
    before = option[2:-4]
    return before == "" or (before[-1] in "-_." and before[:-1].isalpha() and not before.startswith("master"))
