"""Command lines that start a Python program: what starts it, which file or module, with which arguments."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg.detect.launch.wrappers import after_options, unwrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_DISTRIBUTED_MODULES = {
    "torch.distributed.launch": "torchrun", "torch.distributed.run": "torchrun", "torch.distributed.elastic": "torchrun",
    "accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed", "paddle.distributed.launch": "python",
}  # fmt: skip
_DISTRIBUTED = {
    "torchrun": "torchrun", "deepspeed": "deepspeed", "composer": "composer", "colossalai": "colossalai", "xpmem": "python",
    "horovodrun": "horovodrun", "mpirun": "mpirun", "mpiexec": "mpiexec", "orterun": "mpirun", "fabric": "fabric",
}  # fmt: skip
_APP_SERVERS = {"uvicorn", "gunicorn", "hypercorn", "daphne", "granian", "waitress-serve"}
_RUN_SERVERS = {
    "streamlit",
    "chainlit",
    "panel",
    "bokeh",
    "shiny",
    "solara",
    "marimo",
    "mesop",
    "fastapi",
    "litestar",
    "modal",
}
#: Modules and programs that people type in a README but that are not the program.
_NOT_PROGRAMS = {
    "pip", "venv", "virtualenv", "pytest", "unittest", "build", "twine", "ensurepip", "ipykernel", "http.server", "black",
    "ruff", "mypy", "flake8", "isort", "pre_commit", "coverage", "compileall", "json.tool", "nltk.downloader", "site",
    "spacy", "zipfile", "tarfile", "timeit", "pdb", "sphinx", "mkdocs", "grpc_tools.protoc", "tensorboard", "pylint",
    "tensorboard.main", "alembic", "pipx", "conda", "nuitka", "PyInstaller", "cProfile", "torch.utils.collect_env",
    "detectron2.utils.collect_env", "piptools", "notebook.auth",
}  # fmt: skip
_PYTHON = re.compile(
    r"(?:\S*/)?(?:python|pypy|ipython)(?:3(?:\.\d+)?|2(?:\.\d+)?)?(?:\.exe)?|py|\$\{?(?:PYTHON|PY)\w*\}?|\$\((?:PYTHON|PY)\w*\)"
)
_PYTHON_FILE = re.compile(r"[^\s\"'=:]*\.py")
_APP = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)(?:\(.*\))?")
# A bare `#` begins a comment far more often than it is root's prompt.
_PROMPT = re.compile(
    r"^\s*(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+[:\s][^$#]*[$%#>]+|[$%>!]+)\s+|^\s*!(?=\w)|^\s*>>>\s*"
)
_PLACEHOLDER = re.compile(
    r"<[^<>]+>|/?path/to|\$\{?\w|\.\.\.|\[[A-Z_ ]+\]|\{[a-z_ ]+\}|(?:^|[ =])(?:YOUR|your)[_-]|\bXXX?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One command line that starts a Python program.

    Attributes:
        command: the line, wrappers such as `uv run` taken off, environment assignments too.
        launcher: see EntryPoint.
        target: file as typed, or dotted module, or the name of a console script; None for `jupyter lab`.
        is_module: whether `target` is a module.
        args: the program's own arguments.
        shell_script: path as typed when the line only runs a shell script, which has to be read in its turn.
    """

    command: str
    launcher: str
    target: str | None
    is_module: bool = False
    args: tuple[str, ...] = ()
    shell_script: str | None = None


def parse_line(line: str, scripts: Collection[str] = ()) -> tuple[Launch, ...]:
    """Return the programs that one shell line starts, in order; `scripts` are the known console scripts."""
    text = _PROMPT.sub("", line.strip())
    return tuple(launch for words in _segments(text) if (launch := parse_words(words, scripts)))


def parse_words(words: Sequence[str], scripts: Collection[str] = ()) -> Launch | None:
    """Return what an argv (already split, perhaps with wrappers before the program) starts, None for anything else."""
    rest = unwrapped([word for word in words if word not in {"$@", "$*", "${@}", "${*}", "${@:1}"}])
    if not rest:
        return None
    name = rest[0].rsplit("/", 1)[-1]
    if name in {"sh", "bash", "zsh", "ash", "source", "."}:
        return _shell(rest, scripts)
    if _PYTHON.fullmatch(rest[0]):
        return _python(rest, scripts)
    found = _by_name(name, rest, scripts)
    if found is not None:
        return found
    if rest[0].endswith(".sh"):
        return Launch(
            command=shlex.join(rest), launcher="bash", target=None, args=tuple(rest[1:]), shell_script=rest[0]
        )
    if rest[0].endswith(".py") and re.fullmatch(r"[\w./-]+", rest[0]):
        # A bare `train.py` is a line of a directory listing, `./train.py` and `train.py --lr 1` are commands.
        is_path = rest[0].startswith(("./", "/"))
        if not is_path and len(rest) < 2:
            return None
        command = _join(rest) if is_path else f"python {_join(rest)}"
        return Launch(command=command, launcher="python", target=rest[0], args=tuple(rest[1:]))
    if name in scripts:
        return Launch(command=_join(rest), launcher="console-script", target=name, args=tuple(rest[1:]))
    return None


def has_placeholder(command: str) -> bool:
    """Return whether a command line holds something that a person has to fill in first."""
    return bool(_PLACEHOLDER.search(command))


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


def _shell(words: list[str], scripts: Collection[str]) -> Launch | None:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        if "c" in rest[0] and not rest[0].startswith("--") and len(rest) > 1:
            found = [launch for line in logical_lines(rest[1]) for launch in parse_line(line, scripts)]
            return found[-1] if found else None
        rest = rest[1:]
    if not rest or not rest[0].endswith(".sh"):
        return None
    return Launch(
        command=_join(words), launcher="bash", target=None, args=tuple(rest[1:]), shell_script=rest[0]
    )


def _python(words: list[str], scripts: Collection[str]) -> Launch | None:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        flag = rest[0]
        if flag == "-m" or (flag.startswith("-m") and not flag.startswith("--")):
            module, tail = (rest[1], rest[2:]) if flag == "-m" and len(rest) > 1 else (flag[2:], rest[1:])
            return _module(words, module, tail, scripts)
        if flag in {"-c", "-", "-V", "--version", "-h", "--help"}:
            return None
        rest = rest[2:] if flag in {"-W", "-X"} else rest[1:]
    if not rest:
        return None
    script = rest[0]
    if not re.search(r"\.pyw?$", script):
        # `python train` and `python tools/` are typos or placeholders; a directory with __main__.py is rare but real.
        return None
    if script.endswith("manage.py") and rest[1:] and not rest[1].startswith("run"):
        # `manage.py migrate` prepares; `manage.py runserver` is the program.
        return None
    return Launch(command=_join(words), launcher="python", target=script, args=tuple(rest[1:]))


def _module(words: list[str], module: str, tail: list[str], scripts: Collection[str]) -> Launch | None:
    if module in _DISTRIBUTED_MODULES:
        return _distributed(words, tail, _DISTRIBUTED_MODULES[module])
    if module == "debugpy":
        rest = after_options(tail, {"--listen", "--connect", "--configure-subProcess", "--log-to"})
        return parse_words(["python", *rest], scripts)
    if module in _NOT_PROGRAMS or not re.fullmatch(r"[A-Za-z_][\w.-]*", module):
        return None
    if module in {*_APP_SERVERS, *_RUN_SERVERS, "flask", "celery", "jupyter", "notebook", "jupyterlab", "rq"}:
        found = _by_name(module, [module, *tail], scripts)
        return replace(found, command=_join(words)) if found else None
    if module in {"accelerate", "deepspeed"}:
        return _by_name(module, [module, *tail], scripts)
    return Launch(command=_join(words), launcher="python", target=module, is_module=True, args=tuple(tail))


def _by_name(name: str, words: list[str], scripts: Collection[str]) -> Launch | None:
    rest = words[1:]
    command = _join(words)
    if name in _DISTRIBUTED:
        return _distributed(words, rest, _DISTRIBUTED[name])
    if name == "accelerate":
        return _distributed(words, rest[1:], "accelerate") if rest[:1] == ["launch"] else None
    if name == "lightning":
        return _distributed(words, rest, "lightning") if rest[:1] in (["run"], ["fabric"]) else None
    if name == "ray":
        if rest[:2] != ["job", "submit"] or "--" not in rest:
            return None
        inner = parse_words(rest[rest.index("--") + 1 :], scripts)
        return replace(inner, command=command, launcher="ray") if inner else None
    if name in _APP_SERVERS:
        app = next(
            (match for word in rest if not word.startswith("-") and (match := _APP.fullmatch(word))), None
        )
        return (
            Launch(command=command, launcher=name, target=app[1], is_module=True, args=tuple(rest))
            if app
            else None
        )
    if name in _RUN_SERVERS:
        file = next((word for word in rest if _PYTHON_FILE.fullmatch(word)), None)
        if file is None:
            # `fastapi run` looks for the program itself.
            finds = name == "fastapi" and rest[:1] in (["run"], ["dev"])
            return Launch(command=command, launcher=name, target=None, args=tuple(rest)) if finds else None
        return Launch(command=command, launcher=name, target=file, args=tuple(rest[rest.index(file) + 1 :]))
    if name == "gradio" and rest and rest[0].endswith(".py"):
        return Launch(command=command, launcher="gradio", target=rest[0], args=tuple(rest[1:]))
    if name == "flask":
        name_of = next((rest[i + 1] for i, word in enumerate(rest[:-1]) if word in {"--app", "-A"}), None)
        return (
            Launch(
                command=command,
                launcher="flask",
                target=name_of,
                is_module=not (name_of or "").endswith(".py"),
            )
            if "run" in rest
            else None
        )
    if name in {"celery", "dramatiq", "arq", "huey_consumer", "rq", "taskiq", "faust"}:
        name_of = next((rest[i + 1] for i, word in enumerate(rest[:-1]) if word in {"-A", "--app"}), None)
        if name == "celery" and "worker" not in rest and "beat" not in rest:
            return Launch(command=command, launcher="flower", target=None) if "flower" in rest else None
        name_of = name_of or next(
            (
                word
                for word in rest
                if re.fullmatch(r"[a-z_][\w.]*(?::\w+)?", word) and word not in {"worker", "run"}
            ),
            None,
        )
        return Launch(
            command=command,
            launcher=name,
            target=(name_of or "").split(":")[0] or None,
            is_module=True,
            args=tuple(rest),
        )
    if name in {"jupyter", "jupyter-lab", "jupyter-notebook", "notebook", "jupyterlab"}:
        if name == "jupyter" and (not rest or rest[0] not in {"lab", "notebook"}):
            return None
        book = next((word for word in rest if word.endswith(".ipynb")), None)
        return Launch(command=command, launcher="notebook", target=book, args=tuple(rest))
    if name in {"roslaunch", "rosrun", "ros2"}:
        return Launch(
            command=command,
            launcher=name,
            target=next((word for word in rest if word.endswith(".py")), None),
            args=tuple(rest),
        )
    return None


def _distributed(words: list[str], rest: list[str], launcher: str) -> Launch | None:
    for index, word in enumerate(rest):
        if (
            word in {"-m", "--module"}
            and index + 1 < len(rest)
            and re.fullmatch(r"[A-Za-z_][\w.]*", rest[index + 1])
        ):
            module = rest[index + 1]
            if module in _DISTRIBUTED_MODULES:
                return _distributed(words, rest[index + 2 :], launcher)
            args = tuple(item for item in rest[index + 2 :] if item != "--")
            return Launch(command=_join(words), launcher=launcher, target=module, is_module=True, args=args)
        if _PYTHON_FILE.fullmatch(word):
            return Launch(command=_join(words), launcher=launcher, target=word, args=tuple(rest[index + 1 :]))
    return None


def _join(words: Sequence[str]) -> str:
    """Join for a person to read: quote only where the shell would split or eat something.

    A command substitution was taken apart by the splitting already; it is left as it was typed.
    """
    if any("$(" in word or "`" in word for word in words):
        return " ".join(words)
    plain = re.compile(r"[\w@%+=:,./\-~$<>{}*\[\]]+")
    return " ".join(word if plain.fullmatch(word) else shlex.quote(word) for word in words)
