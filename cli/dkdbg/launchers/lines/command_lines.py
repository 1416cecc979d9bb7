"""Parse command lines that start a Python program into its launcher, its file or module, and its arguments."""

from __future__ import annotations

import re
import shlex

from dkdbg.launchers import registry
from dkdbg.launchers.bash import BASH, Bash
from dkdbg.launchers.launcher import Launch, Line, Reader
from dkdbg.launchers.lines.wrappers import after_options, assignments, unwrapped
from dkdbg.launchers.python import PYTHON, Python, interpreted
from dkdbg.launchers.words import join, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dkdbg.launchers.launcher import Launcher

#: Modules that a README runs, but that are not the program.
_NOT_PROGRAMS = {
    "pip", "venv", "virtualenv", "unittest", "build", "twine", "ensurepip", "ipykernel", "http.server", "black",
    "ruff", "mypy", "flake8", "isort", "pre_commit", "coverage", "compileall", "json.tool", "nltk.downloader", "site",
    "spacy", "zipfile", "tarfile", "timeit", "pdb", "sphinx", "mkdocs", "grpc_tools.protoc", "pylint",
    "alembic", "pipx", "conda", "nuitka", "PyInstaller", "cProfile", "torch.utils.collect_env",
    "detectron2.utils.collect_env", "piptools", "notebook.auth",
}  # fmt: skip
#: Options of `python -m debugpy` that take the next word.
_DEBUGPY_VALUES = ("--listen", "--connect", "--configure-subProcess", "--log-to")
#: Words that stand for a script's own arguments.
_PASSED_ON = frozenset({"$@", "$*", "${@}", "${*}", "${@:1}"})
# A bare `#` begins a comment more often than it is root's prompt.
_PROMPT = re.compile(
    r"^\s*(?:\([\w.-]+\)\s*)?(?:\[[\w.@~/ -]+\][$#%>]+|[\w.-]+@[\w.-]+[:\s][^$#]*[$%#>]+|[$%>!]+)\s+|^\s*!(?=\w)|^\s*>>>\s*"
)
#: Shell keywords, and commands that need no other user's rights.
_SHELL_WORDS = frozenset({
    "cd", "export", "set", "exec", "echo", "printf", "ulimit", "umask", "mkdir", "true", "sleep", "tee", "cat", "test", "[",
    "[[", "if", "then", "else", "fi", "while", "until", "do", "done", "for", "nc", "ls", "date", "touch", "wait", "trap", "exit",
    "pip", "pip3", "uv", "alembic", "source", ".", "tail", "grep", "curl", "wget", "unset", "env", "nvidia-smi", "git",
})  # fmt: skip
#: Commands and launcher options that run a program as another user, for which a container has to start as root.
_CHANGES_USER = frozenset({"sudo", "gosu", "su-exec"})
_USER_OPTIONS = {
    "gunicorn": ("-u", "--user", "-g", "--group"),
    "celery": ("--uid", "--gid"),
    "uwsgi": ("--uid", "--gid"),
}
#: Shells, which without arguments only keep a container running, and programs that show the machine's load.
_SHELLS = frozenset({"sh", "bash", "zsh", "fish"})
_MONITORS = frozenset({"nvidia-smi", "nvtop", "gpustat", "rocm-smi", "top", "htop", "watch"})
#: Maximum depth of shells, wrappers and entry scripts inside one another.
_MAX_DEPTH = 8


class Lines(Reader):
    """Reads command lines of one repository; `scripts` are its console scripts."""

    def __init__(self, scripts: Collection[str] = ()) -> None:
        self.scripts = scripts

    def line(self, text: str) -> list[Launch]:
        """Return the launches in shell lines, in order."""
        return [launch for line in logical_lines(text) for launch in parse_line(line, self.scripts)]

    def words(self, words: Sequence[str]) -> Launch | None:
        """Return the launch of an argv, which is already split and may begin with wrappers."""
        rest = unwrapped([word for word in words if word not in _PASSED_ON])
        if not rest:
            return None
        found = self.find(rest)
        if found is not None:
            launcher, line = found
            return launcher.launch(line) if launcher.may_start(line.rest) else None
        if rest[0].endswith(".sh"):
            return Launch(command=shlex.join(rest), launcher=BASH.name, args=rest[1:], shell_script=rest[0])
        if rest[0].endswith(".py") and re.fullmatch(r"[\w./-]+", rest[0]):
            # A bare `train.py` is a line of a directory listing, `./train.py` and `train.py --lr 1` are commands.
            is_path = rest[0].startswith(("./", "/"))
            if not is_path and len(rest) < 2:
                return None
            command = join(rest) if is_path else f"python {join(rest)}"
            return Launch(command=command, launcher=PYTHON.name, target=rest[0], args=rest[1:])
        # An unknown wrapper, such as a profiler or a cluster's own launcher, may precede `python FILE.py`.
        pairs = zip(range(1, len(rest)), rest[1:], rest[2:], strict=False)
        at = next((at for at, word, file in pairs if PYTHON.starts(word) and file.endswith(".py")), None)
        return self.words(rest[at:]) if at else None

    def find(self, words: Sequence[str]) -> tuple[Launcher, Line] | None:
        """Return the launcher at the start of a command line without wrappers, and the line for it."""
        word = words[0].rsplit("/", 1)[-1]
        launcher = registry.of_program(words[0])
        if launcher is None:
            script = registry.named("console-script") if word in self.scripts else None
            return (script, Line(words, word, words[1:], self)) if script else None
        if launcher is not PYTHON:
            return launcher, Line(words, word, words[1:], self)
        inner = interpreted(words[1:])
        if inner is None:
            return launcher, Line(words, word, words[1:], self)
        if not inner.is_module:
            script = registry.of_script(inner.what)
            if script is None:
                return launcher, Line(words, word, words[1:], self)
            return script, Line(words, inner.what, inner.rest, self)
        if inner.what == "debugpy":
            return self.find(["python", *after_options(inner.rest, _DEBUGPY_VALUES)])
        module = registry.of_module(inner.what)
        return module or _MODULE, Line(words, inner.what, inner.rest, self, as_module=True)


class _Module(Python):
    """`python -m` with a module of the user."""

    def launch(self, line: Line) -> Launch | None:
        if line.word in _NOT_PROGRAMS or not re.fullmatch(r"[A-Za-z_][\w.-]*", line.word):
            return None
        return self.launched(line, line.word, line.rest, is_module=True)


_MODULE = _Module("python")


def parse_line(line: str, scripts: Collection[str] = ()) -> tuple[Launch, ...]:
    """Return the programs that one shell line starts, in order; `scripts` are the known console scripts."""
    text = _PROMPT.sub("", line.strip())
    read = Lines(scripts)
    found: list[Launch] = []
    for words in _segments(text):
        if (launch := read.words(words)) is not None:
            launch.assigned = assignments(words)
            found.append(launch)
    return tuple(found)


def parse_words(words: Sequence[str], scripts: Collection[str] = ()) -> Launch | None:
    """Return the launch of an argv, which is already split and may begin with wrappers; None for anything else."""
    return Lines(scripts).words(words)


def launchers_in(argv: Sequence[str], depth: int = 0) -> list[tuple[Launcher, Line]]:
    """Return every launcher that an argv names, in order: through wrappers, shells and entry scripts."""
    rest = unwrapped(list(argv))
    if not rest or depth > _MAX_DEPTH:
        return []
    found = Lines().find(rest)
    if found is None:
        # An entry script, as in ENTRYPOINT ["/entry.sh"], usually ends in `exec "$@"`: the rest is the program.
        is_script = "/" in rest[0] or rest[0].endswith(".sh") or "entrypoint" in rest[0]
        return launchers_in(rest[1:], depth + 1) if is_script else []
    if found[0] is not BASH:
        return [found]
    text = Bash.lines_of(found[1].rest)
    if text is not None:
        segments = [words for line in logical_lines(text) for words in _segments(line)]
        return [inner for words in segments for inner in launchers_in(words, depth + 1)]
    script = Bash.script_of(found[1].rest)
    return launchers_in(script[1:], depth + 1) if script else []


def runs_python_alone(argv: Sequence[str], scripts: Collection[str] = ()) -> bool:
    """Return whether an argv starts Python programs and `scripts`, and nothing that could need another user's rights."""
    if _CHANGES_USER.intersection(argv):
        return False
    words = unwrapped(list(argv))
    if not words:
        return bool(argv)
    name = words[0].rsplit("/", 1)[-1]
    found = Lines().find(words)
    if found is None:
        return name.endswith(".py") or name in _SHELL_WORDS or name in scripts
    launcher, line = found
    if launcher is not BASH:
        options = _USER_OPTIONS.get(launcher.name, ())
        return not any(word.partition("=")[0] in options for word in line.rest)
    text = Bash.lines_of(line.rest)
    if text is None:
        script = Bash.script_of(line.rest)
        return script is not None and script[0].rsplit("/", 1)[-1] in scripts
    bare = re.sub(r"\d?>&\d|\d?>>?\s*\S+|<\s*\S+", " ", text)
    segments = [segment for each in logical_lines(bare) for segment in _segments(each)]
    return bool(segments) and all(runs_python_alone(_after_keyword(each), scripts) for each in segments)


def _after_keyword(words: Sequence[str]) -> Sequence[str]:
    """Return a simple command without a shell keyword before it (`while ! nc ...`); `then` counts as a wrapper."""
    return words[1:] if len(words) > 1 and words[0] in {"if", "elif", "while", "until", "{", "("} else words


def serves(argv: Sequence[str]) -> bool:
    """Return whether an argv starts a program that runs until it is stopped, according to its launchers."""
    return any(launcher.serves(line.rest) for launcher, line in launchers_in(argv))


def idles(argv: tuple[str, ...]) -> bool:
    """Return whether a command only keeps a container open: a bare shell, a sleep, an endless tail, a monitor."""
    if not argv:
        return False
    name = argv[0].rsplit("/", 1)[-1]
    if name in _SHELLS:
        rest = " ".join(argv[1:])
        inner = tuple(rest.removeprefix("-c ").split())  # CMD /bin/bash is `/bin/sh -c /bin/bash`
        if rest.startswith("-c ") and inner and inner[0].rsplit("/", 1)[-1] in _SHELLS:
            return idles(inner)
        return all(word.startswith("-") and "c" not in word for word in argv[1:]) or bool(
            re.search(r"(sleep\s+(infinity|inf)|tail\s+-f\s+/dev/null|while\s+(true|:|sleep))", rest)
        )
    return name in _MONITORS or name == "sleep" or (name == "tail" and argv[-1] == "/dev/null")


def port_of(command: str) -> int | None:
    """Return the port that a command line names, or else its launcher's default port."""
    words = split(command)
    found = launchers_in(words)
    launcher, rest = (found[-1][0], found[-1][1].rest) if found else (PYTHON, words)
    return launcher.port_of(rest)


def one_process(argv: Sequence[str]) -> tuple[tuple[str, ...], int, str] | None:
    """Return an argv changed to start one process, the index of the changed word, and the former number.

    None if it does not start several processes, or does not set their number.
    """
    words = list(argv)
    found = Lines().find(words) if words else None
    if found is None:
        return None
    launcher, line = found
    less = launcher.one_process(line.rest)
    if less is None:
        return None
    rest, place, count = less
    before = words[: len(words) - len(line.rest)]
    return (*before, *rest), len(before) + place, count


def logical_lines(text: str) -> list[str]:
    r"""Return shell lines with `\` continuations joined."""
    return re.sub(r"[ \t]*\\[ \t]*\n[ \t]*", " ", text).split("\n")


def _segments(text: str) -> list[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        words = text.split()
    segments: list[list[str]] = [[]]
    for word in words:
        if word in {"#", ">", ">>", "2>&1", "<"} or re.match(r"#\s?\w|\d?>>?[^<]*$|^&?>", word):
            segments.append(["#"])
        elif word and set(word) <= set(";&|"):
            segments.append([])
        else:
            segments[-1].append(word)
    return [segment for segment in segments if segment and segment[0] != "#"]
