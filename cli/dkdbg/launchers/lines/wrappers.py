"""Unwrap the command after environment assignments, `sudo`, `uv run`, `docker run IMAGE` and the like."""

from __future__ import annotations

import re
from itertools import takewhile

from dkdbg.launchers import registry
from dkdbg.launchers.python import PYTHON, interpreted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Words that run the command after them, with the number of their own arguments.
_PREFIXES = {
    "sudo": 0, "exec": 0, "nohup": 0, "time": 0, "command": 0, "then": 0, "do": 0, "else": 0, "timeout": 1, "env": 0,
    "nice": 0, "stdbuf": 0, "taskset": 1, "numactl": 0, "xvfb-run": 0, "catchsegv": 0, "dumb-init": 0, "tini": 0,
    "ddtrace-run": 0, "opentelemetry-instrument": 0, "proxychains": 0, "proxychains4": 0, "@": 0, "!": 0,
    "catchsegv.sh": 0, "gosu": 1, "su-exec": 1, "watchfiles": 0, "watchmedo": 0, "viztracer": 0, "scalene": 0,
}  # fmt: skip
#: Environment managers that run a command: `uv run CMD`, `poetry run CMD`, ...
_RUNNERS = {"uv", "poetry", "pipenv", "pdm", "rye", "hatch", "pixi", "conda", "mamba", "micromamba", "uvx"}
_RUNNER_VALUES = {
    "-n", "--name", "-p", "--prefix", "--extra", "--group", "--python", "--with", "--env-file", "-e", "--package",
    "--project", "--directory", "--index", "--manifest-path", "--environment", "--only-group", "--with-requirements",
}  # fmt: skip
_DOCKER_VALUES = re.compile(
    r"-[a-z]*[pvewmhuln]|--(?:name|gpus|volume|env|env-file|publish|workdir|user|shm-size|network|mount|ipc|runtime|memory|"
    r"entrypoint|platform|hostname|device|cpus|ulimit|cap-add|security-opt|add-host|restart|file|profile|pull|label)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
#: Options that have a value, by the command to which they belong.
PREFIX_VALUES = {
    "sudo": ("-C", "-D", "-R", "-T", "-g", "-h", "-p", "-r", "-t", "-u", "--chdir", "--group", "--user"),
    "env": ("-C", "-u", "--chdir", "--unset"),
    "nice": ("-n", "--adjustment"),
    "stdbuf": ("-e", "-i", "-o", "--error", "--input", "--output"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "time": ("-f", "-o", "--format", "--output"),
    "exec": ("-a",),
    "numactl": ("-C", "-N", "-i", "-m", "-p", "--cpunodebind", "--interleave", "--membind", "--physcpubind", "--preferred"),
    "xvfb-run": ("-e", "-f", "-n", "-p", "-s", "-w", "--server-args", "--server-num"),
    "tini": ("-e", "-p"),
    "dumb-init": ("-r", "--rewrite"),
    "viztracer": ("-o", "--output_file"),
    "watchmedo": ("-d", "-p", "--directory", "--patterns"),
}  # fmt: skip


def assignments(words: Sequence[str]) -> tuple[str, ...]:
    """Return the environment assignments at the start of a command line."""
    return tuple(takewhile(_ASSIGNMENT.fullmatch, words))


def program_name(words: Sequence[str]) -> str:
    """Return the name of a command line's program or script, without `env NAME=VALUE`, which may set a secret."""
    program = unwrapped([*words]) or [word for word in words if "=" not in word] or [""]
    path = program[1] if len(program) > 1 and program[1][:1] != "-" else program[0]
    found = interpreted(program[1:]) if PYTHON.starts(program[0]) else None
    if found is not None and not found.is_module:
        path = found.what
    return path.rstrip("/").rpartition("/")[2]


def unwrapped(words: list[str]) -> list[str]:
    """Return the command after `sudo`, `uv run`, `docker run IMAGE` and assignments; empty if it runs no command."""
    for _ in range(12):
        while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] in {"--", "set", "-e", "-x"}):
            words = words[1:]
        if not words:
            return words
        name = words[0].rsplit("/", 1)[-1].lstrip("@-")
        if name in {"docker", "podman", "nvidia-docker"} and len(words) > 2:
            words = _inside_docker(words)
        elif name in _RUNNERS:
            if name != "uvx" and (len(words) < 3 or words[1] not in {"run", "exec"}):
                return []
            words = after_options(words[1:] if name == "uvx" else words[2:], _RUNNER_VALUES)
            if words and (words[0] == "-m" or (name == "uv" and words[0].endswith(".py"))):
                words = ["python", *words]
        elif (launcher := registry.of_program(name)) is not None and launcher.wraps:
            words = after_options(words[1:], launcher.value_options)
        elif name in _PREFIXES:
            words = after_options(words[1:], PREFIX_VALUES.get(name, ()))
            words = words[_PREFIXES[name] :]
        else:
            return [name, *words[1:]] if words[0].startswith("@") else words
    return words


def after_options(words: list[str], with_value: Collection[str]) -> list[str]:
    """Return the words after the leading options, of which `with_value` take a value; `-m` is not an option."""
    while words and words[0].startswith("-") and words[0] != "-m":
        if words[0] == "--":
            return words[1:]
        words = words[2:] if words[0] in with_value else words[1:]
    return words


def _inside_docker(words: list[str]) -> list[str]:
    """Return CMD of `docker run IMAGE CMD`, `docker exec NAME CMD` or `docker compose run SERVICE CMD`."""
    verbs = [index for index, word in enumerate(words) if word in {"run", "exec"}]
    if not verbs:
        return []
    rest = words[verbs[0] + 1 :]
    while rest and rest[0].startswith("-"):
        takes = (
            "=" not in rest[0]
            and bool(_DOCKER_VALUES.fullmatch(rest[0]))
            and rest[0] not in {"--rm", "-it", "-i", "-t"}
        )
        rest = rest[2:] if takes else rest[1:]
    return rest[1:]
