"""Read Dockerfiles: their instructions and stages, and the facts of the final stage.

This follows the Dockerfile reference: parser directives, continuation lines (with comments between them),
here-documents, substitution of ARG and ENV, exec and shell form, stages based on other stages.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.core.facts import DockerfileFact
from dkdbg.launchers.words import whole_number
from dkdbg.setup.detect.docker.dockerfile_syntax import (
    HEREDOC,
    Instruction,
    json_words,
    parse_instructions,
    split,
    unquote,
)
from dkdbg.setup.detect.docker.images import read_image
from dkdbg.setup.detect.files import is_address
from dkdbg.setup.detect.secret_values import is_secret
from dkdbg.setup.detect.substitution import substitute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    #: Base image -> Dockerfile lines that a build inherits from it.
    Inherited = Mapping[str, tuple[str, ...]]

_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?\s+")
_PYTHON_PACKAGE = re.compile(r"(?<![\w./-])python(3\.\d{1,2})(?![\d.])")
_PYTHON_CHOICE = re.compile(
    r"python\s*(?:={1,2}|~=)\s*(3\.\d{1,2})|--python[= ](?:python)?(3\.\d{1,2})|uv python install (3\.\d{1,2})"
)
_PYTHON_PATH = re.compile(r"lib/python(3\.\d{1,2})")
#: Debian packages that install the distribution's own Python.
_SYSTEM_PYTHON = re.compile(
    r"\spython3(?:\.\d+)?(?:-(?:pip|dev|venv|minimal|full|setuptools|distutils))?(?=\s|$|=)|\spython-is-python3(?=\s|$|=)"
)
_APT_INSTALL = re.compile(r"\bapt(?:-get)?\s.{0,200}?\binstall\b")
#: File written by a redirection or `tee`.
_WRITTEN = re.compile(r"(?:>>?|\btee(?: -a)?)\s*[\"']?(/[\w./-]+)")
_COMMAND_END = re.compile(r"[;&|\n]")
#: Commands that install a Python other than the distribution's.
_OTHER_PYTHON = re.compile(
    r"\b(?:conda|mamba|micromamba|miniconda|miniforge|pyenv|deadsnakes|uv)\b|[Mm]ini(?:conda|forge)|python\.org/ftp|\bpython3\.\d+\s+-m\s+venv"
)
_REMOVE = re.compile(
    r"(?:^|[;&|\n(]|\bsudo|\bthen)[ \t]{0,200}(?:/bin/)?rm[ \t]{1,200}(-\w{0,20}[rR][^;&|\n)]*)"
)
#: Base images without a shell; (pattern, ENTRYPOINT) of those with Python.
_SHELL_LESS = re.compile(r"(?:^|/)distroless/(?!.*debug)|^scratch$|^cgr\.dev/(?!.*-dev)")
_SHELL_LESS_PYTHONS = (
    (r"(?:^|/)distroless/python3", "/usr/bin/python3"),
    (r"^cgr\.dev/[^/]+/python\b", "/usr/bin/python"),
)
_PIP_INSTALL = re.compile(r"\bpip3?\s+install\b")
_PYTHON_VARIABLE = re.compile(r"(?:PYTHON|PY)_?(?:VERSION|VER)?", re.IGNORECASE)
_VENV = re.compile(r"(?:-m\s+venv|virtualenv|uv\s+venv)\s+(?:--?[\w-]+(?:[= ]3\.[\d.]+)?\s+)*([^\s;&|]+)")
_FLAGS = re.compile(r"(?:--[a-z-]+(?:=\S+)?\s+)*")
#: Commands that do not process the repository's code. Package managers are checked separately.
_HARMLESS = frozenset(
    {
        "", ":", "[", "addgroup", "adduser", "apk", "apt", "apt-get", "cd", "chmod", "chown", "curl", "dnf", "echo",
        "export", "groupadd", "ldconfig", "ln", "locale-gen", "mkdir", "printf", "rm", "set", "test", "touch", "true",
        "update-ca-certificates", "useradd", "usermod", "wget", "yum",
    }
)  # fmt: skip
#: Package manager -> subcommands that copy no code of the repository; at most they link to it (editable installs).
_FROM_FILES = {
    "conda": {"env", "install", "update", "clean", "config", "create"},
    "mamba": {"env", "install", "update", "clean", "create"},
    "micromamba": {"env", "install", "update", "clean", "create"},
    "pdm": {"install", "sync", "config"},
    "pipenv": {"install", "sync"},
    "poetry": {"install", "config", "lock"},
    "uv": {"sync", "lock", "venv", "python", "cache"},
}
#: Files in a copied folder that determine the image, as in image_inputs.sh; then the file options of pip and of conda.
_COUNTED = re.compile(
    r"(?:^|/)(?:requirement[^/]*|constraint[^/]*|[^/]*\.lock|pyproject\.toml|setup\.[^/]*|environment[^/]*\.y[^/]*ml|Pipfile[^/]*)$"
)
_PIPS_FILE = re.compile(r"^(?:-[rc][\n=]?|--(?:requirements?|constraints?)[\n=])([^\n]+)", re.MULTILINE)
_CONDAS_FILE = re.compile(r"^(?:-f|--file)[\n=]([^\n]+)", re.MULTILINE)
#: `.dockerignore` patterns, without outer slashes, that match bytecode in all folders. Without `**/` a pattern applies
#: only to the context's top folder (Dockerfile reference, .dockerignore).
_BYTECODE = re.compile(r"\*\*/(?:__pycache__(?:/\*\*?)?|\*\.py(?:c|\?|\[\w*c\w*\]))|\*\*?")


#: Shell for CMD and ENTRYPOINT in shell form, unless SHELL sets another (Dockerfile reference, "SHELL").
_SHELL = ("/bin/sh", "-c")


@dataclass(kw_only=True)
class _Stage:
    base: str
    name: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    workdir: str = "/"
    workdir_is_assumed: bool = True
    user: str | None = None
    shell: tuple[str, ...] = _SHELL
    entrypoint: tuple[str, ...] | None = None
    inherits_entrypoint: bool = False
    cmd: tuple[str, ...] | None = None
    copies: list[tuple[str, str]] = field(default_factory=list)
    clones: list[tuple[str, str]] = field(default_factory=list)
    exposed: list[int] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)


def read_dockerfile(
    text: str,
    path: str,
    *,
    args: Mapping[str, str] | None = None,
    target: str | None = None,
    inherited: Inherited | None = None,
) -> DockerfileFact:
    """Return the facts of the final stage, or of the stage `target`. Copied paths are relative to the build context.

    Args:
        path: the Dockerfile's path relative to the root, for the result only.
        args: build arguments, which override defaults of ARG.
        inherited: Dockerfile lines that a build inherits from each base image.
    """
    given = dict(args or {})
    global_args: dict[str, str] = {}
    stages: list[_Stage] = []
    for step in parse_instructions(text):
        if step.keyword == "ARG" and not stages:
            _set_arg(step.rest, global_args, given, {})
        elif step.keyword == "FROM":
            stages.append(_open_stage(step.rest, {**global_args, **given}, stages, inherited or {}))
        elif stages:
            _apply(step, stages, global_args, given)
    if not stages:
        return DockerfileFact(path=path, base="")
    final = next((stage for stage in stages if target and stage.name == target.lower()), stages[-1])
    venvs = _venvs(stages, final)
    base_runs = next(
        (python for pattern, python in _SHELL_LESS_PYTHONS if re.search(pattern, final.base)), None
    )
    return DockerfileFact(
        path=path,
        base=final.base,
        workdir=final.workdir,
        workdir_is_assumed=final.workdir_is_assumed,
        user=final.user if final.user not in {"root", "0", "0:0", ""} else None,
        copies=tuple(dict.fromkeys(final.copies)),
        clones=tuple(final.clones),
        entrypoint=(base_runs,) if final.entrypoint is None and base_runs else final.entrypoint,
        inherits_entrypoint=final.inherits_entrypoint,
        has_shell=_SHELL_LESS.search(final.base) is None,
        cmd=final.cmd,
        python=_python(final, stages),
        venvs=venvs,
        exposed=tuple(dict.fromkeys(final.exposed)),
        env=tuple(final.env.items()),
        kept=frozenset(name for name in final.kept if not is_secret(name, final.env[name])),
        inputs=image_inputs(text),
    )


def run_lines(text: str) -> tuple[str, ...]:
    """Return the shell command lines of all RUN instructions and their here-documents, with variables replaced."""
    values: dict[str, str] = {}
    lines: list[str] = []
    for step in parse_instructions(text):
        if step.keyword in {"ARG", "ENV"}:
            for name, value in _assignments(step.rest, values):
                values.setdefault(name, value)
        elif step.keyword == "RUN":
            lines.append(_run_text(step.rest, values))
            lines.extend(line for body in step.heredocs for line in body.splitlines())
    return tuple(lines)


def written_scripts(text: str, names: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the files that RUN (`>`, tee) or COPY (here-document) writes and whose names match `names`.

    Without a here-document the text is all words of the RUN instruction, one a line.
    """
    for step in parse_instructions(text):
        paths = []
        if step.keyword == "RUN":
            paths = _WRITTEN.findall(step.rest)
        elif step.keyword == "COPY" and step.heredocs:
            paths = split(step.rest)[-1:]
        found = [name for path in paths if names.fullmatch(name := path.rsplit("/", 1)[-1])]
        if found:
            written = "\n".join(step.heredocs) or _printed(split(_run_text(step.rest, {})))
            yield from ((name, written) for name in found)


def _printed(words: list[str]) -> str:
    """Return the words of a RUN instruction as lines, with the escapes of `printf` and `echo -e` replaced."""
    return re.sub(r'\\(["$])', r"\1", "\n".join(words).replace("\\n", "\n"))


def takes_system_python(text: str) -> bool:
    """Return whether the build installs the distribution's Python and uses pip, and installs no other Python."""
    lines = run_lines(text)
    return (
        any(_installs_system_python(part) for line in lines for part in _COMMAND_END.split(line))
        and any(map(_PIP_INSTALL.search, lines))
        and not any(map(_OTHER_PYTHON.search, lines))
    )


def _installs_system_python(command: str) -> bool:
    installs = _APT_INSTALL.search(command)
    return installs is not None and _SYSTEM_PYTHON.search(command, installs.end()) is not None


def _open_stage(rest: str, values: Mapping[str, str], stages: list[_Stage], inherited: Inherited) -> _Stage:
    words = [word for word in substitute(rest, values).split() if not word.startswith("--")]
    base = words[0] if words else ""
    name = words[2].lower() if len(words) > 2 and words[1].lower() == "as" else None
    below = next((stage for stage in reversed(stages) if stage.name == base.lower()), None)
    if below is None:
        stage = _Stage(base=base, name=name)
        for step in parse_instructions("\n".join(inherited.get(base, ()))):
            _apply(step, [*stages, stage], {}, {})
        stage.inherits_entrypoint = stage.entrypoint is not None
        return stage
    return replace(
        below, name=name, env=dict(below.env), kept=set(below.kept), copies=list(below.copies), clones=list(below.clones), exposed=list(below.exposed), runs=list(below.runs)
    )  # fmt: skip


def _apply(
    step: Instruction, stages: list[_Stage], global_args: Mapping[str, str], given: Mapping[str, str]
) -> None:
    stage = stages[-1]
    keyword, rest = step.keyword, step.rest
    if keyword == "ARG":
        _set_arg(rest, stage.env, given, global_args)
    elif keyword == "ENV":
        assigned = dict(_assignments(rest, stage.env))
        stage.env.update(assigned)
        stage.kept |= assigned.keys()
    elif keyword == "WORKDIR":
        path = unquote(substitute(rest, stage.env))
        stage.workdir = absolute(stage.workdir, path)
        stage.workdir_is_assumed &= not path.startswith("/")
    elif keyword == "USER":
        stage.user = substitute(rest, stage.env).strip()
    elif keyword == "EXPOSE":
        ports = re.findall(r"\b(\d+)(?:-\d+)?(?:/\w+)?", substitute(rest, stage.env))
        stage.exposed.extend(port for each in ports if (port := whole_number(each, 65535)))
    elif keyword == "ENTRYPOINT":
        stage.entrypoint, stage.inherits_entrypoint = _command(rest, stage.shell), False
        # An ENTRYPOINT resets the CMD that a base stage has set (Dockerfile reference, "CMD and ENTRYPOINT").
        stage.cmd = None
    elif keyword == "CMD":
        stage.cmd = _command(rest, stage.shell)
    elif keyword == "SHELL":
        stage.shell = _command(rest, ())
    elif keyword in {"COPY", "ADD"}:
        _copy(rest, stage, stages)
    elif keyword == "RUN":
        text = _run_text(rest, stage.env)
        stage.runs.append(text)
        stage.runs.extend(step.heredocs)
        _remove("\n".join((text, *step.heredocs)), stage)
        stage.clones.extend(_clones("\n".join((text, *step.heredocs)), stage.workdir))


def _clones(text: str, folder: str) -> Iterator[tuple[str, str]]:
    """Yield (name, folder in the image) of each repository that a `git clone` fetches."""
    for part in _COMMAND_END.split(text):
        words = split(part)
        if words[:1] == ["cd"] and len(words) == 2:
            folder = absolute(folder, words[1])
        elif " ".join(words[:2]) == "git clone":
            address = next(
                (at for at, word in enumerate(words) if "://" in word or word.startswith("git@")), None
            )
            if address is not None and not any("$" in word for word in (folder, *words[address:])):
                name = words[address].rstrip("/").removesuffix(".git").rsplit("/", 1)[-1]
                yield name, absolute(folder, next(iter(words[address + 1 :]), name))


def _set_arg(rest: str, into: dict[str, str], given: Mapping[str, str], outer: Mapping[str, str]) -> None:
    for part in split(rest):
        name, has_default, default = part.partition("=")
        if name in given:
            into[name] = given[name]
        elif has_default:
            into[name] = unquote(substitute(default, {**outer, **into}))
        elif name in outer:
            into[name] = outer[name]


def _assignments(rest: str, values: Mapping[str, str]) -> list[tuple[str, str]]:
    first = rest.split(None, 1)
    if first and "=" not in first[0]:
        # Legacy form: `ENV key value with blanks`.
        return [(first[0], substitute(first[1], values))] if len(first) > 1 else []
    pairs = (part.partition("=") for part in split(rest))
    return [(name, substitute(value, values, keep_unknown=True)) for name, equals, value in pairs if equals]


def _command(rest: str, shell: tuple[str, ...]) -> tuple[str, ...]:
    """Return a CMD or ENTRYPOINT as argv. Variables stay, because the container's shell expands them."""
    if rest.startswith("["):
        try:
            argv = json.loads(rest)
        except (ValueError, RecursionError):
            argv = None
        if isinstance(argv, list):
            return tuple(str(word) for word in argv)
    return (*shell, rest)


def _run_text(rest: str, values: Mapping[str, str]) -> str:
    """Return the shell text of a RUN instruction without its flags, such as `--mount=...`."""
    while flag := _FLAG.match(rest):
        rest = rest[flag.end() :]
    return _shell_text(substitute(rest, values, keep_unknown=True))


def _shell_text(rest: str) -> str:
    """Return a RUN instruction as a shell line; for `["sh", "-c", "..."]` the line in it."""
    argv = _command(rest, ())
    if argv == (rest,):
        return rest
    if (
        len(argv) > 2
        and PurePosixPath(argv[0]).name in {"sh", "bash", "dash"}
        and re.fullmatch(r"-\w*c", argv[1])
    ):
        return argv[2]
    return shlex.join(argv)


def _remove(text: str, stage: _Stage) -> None:
    """Drop the copies that a later RUN instruction removes, such as sources needed only for the build."""
    gone = [
        absolute(stage.workdir, word.removesuffix("/*"))
        for match in _REMOVE.finditer(text)
        for word in split(match[1])
        if not word.startswith("-") and "$" not in word and not re.search(r"[*?\[]", word.removesuffix("/*"))
    ]
    stage.copies = [
        copy for copy in stage.copies if not any(PurePosixPath(copy[1]).is_relative_to(each) for each in gone)
    ]


def _copy(rest: str, stage: _Stage, stages: list[_Stage]) -> None:
    flags: dict[str, str] = {}
    while match := _FLAG.match(rest):
        flags[match[1]] = match[2] or ""
        rest = rest[match.end() :]
    if HEREDOC.search(rest):
        return
    rest = substitute(rest, stage.env, keep_unknown=True)
    words = json_words(rest) if rest.startswith("[") else split(rest)
    if len(words) < 2:
        return
    *sources, destination = words
    if "$" in destination:  # a variable of the base image: its value is unknown
        return
    target = absolute(stage.workdir, destination)
    # WORKDIR has created its folder, and a file copied into an existing folder keeps its name.
    is_workdir = PurePosixPath(stage.workdir).is_relative_to(target)
    into_directory = destination.endswith("/") or destination == "." or len(sources) > 1 or is_workdir
    origin = flags.get("from")
    if origin is not None:
        named = next((other for other in stages if other.name == origin.lower()), None)
        at = whole_number(origin, len(stages) - 2)
        if named is None and at is not None:
            named = stages[at]
        if named is not None:
            for source in sources:
                stage.copies.extend(_through(named, absolute("/", source), target))
        return
    for source in sources:
        if is_address(source):
            continue
        local = source.lstrip("/") or "."
        local = re.sub(r"^(?:\./)+", "", local).rstrip("/") or "."
        # `COPY dir/* /app` copies the content of dir.
        if local.endswith("/*"):
            local = local[:-2]
        elif local == "*":
            local = "."
        is_file = bool(PurePosixPath(local).suffix) and not source.endswith("/")
        remote = absolute(target, PurePosixPath(local).name) if is_file and into_directory else target
        stage.copies.append((local, remote))


def _through(named: _Stage, source: str, target: str) -> list[tuple[str, str]]:
    """Trace a copy from another stage (`--from`) back to the build context, by that stage's own copies."""
    found: list[tuple[str, str]] = []
    for local, remote in named.copies:
        if remote == source:
            found.append((local, target))
        elif remote.startswith(source.rstrip("/") + "/"):
            found.append((local, absolute(target, remote[len(source.rstrip("/")) + 1 :])))
        elif source.startswith(remote.rstrip("/") + "/"):
            below = source[len(remote.rstrip("/")) + 1 :]
            found.append((below if local == "." else f"{local}/{below}", target))
    return found


def _python(final: _Stage, stages: list[_Stage]) -> str | None:
    image = read_image(final.base)
    if image.python and not image.system_python:
        return image.python
    for name, value in final.env.items():
        if _PYTHON_VARIABLE.fullmatch(name) and (match := re.match(r"(3\.\d{1,2})", value)):
            return match[1]
    runs = "\n".join(final.runs)
    for pattern in (_PYTHON_CHOICE, _PYTHON_PACKAGE, _PYTHON_PATH):
        if match := pattern.search(runs):
            return next(group for group in match.groups() if group)
    for stage in stages:
        fact = read_image(stage.base)
        if fact.python and not fact.system_python and fact.is_python:
            return fact.python
    return image.python


def _venvs(stages: list[_Stage], final: _Stage) -> tuple[str, ...]:
    found: list[str] = []
    below = [final.workdir, *(remote for _, remote in final.copies)]
    for stage in stages:
        for run in stage.runs:
            found.extend(absolute(stage.workdir, match[1].strip("\"'")) for match in _VENV.finditer(run))
            if re.search(r"\buv sync\b", run) and "UV_PROJECT_ENVIRONMENT" not in stage.env:
                found.append(absolute(stage.workdir, ".venv"))
            if re.search(r"virtualenvs\.in-project\s+true", run):
                found.append(absolute(stage.workdir, ".venv"))
        if stage.env.get("POETRY_VIRTUALENVS_IN_PROJECT", "").lower() in {"1", "true"}:
            found.append(absolute(stage.workdir, ".venv"))
        if place := stage.env.get("UV_PROJECT_ENVIRONMENT"):
            found.append(absolute(stage.workdir, place))
    kept = (
        path
        for path in found
        if "$" not in path and any(path.startswith(root.rstrip("/") + "/") for root in below)
    )
    return tuple(dict.fromkeys(path for path in kept if not path.startswith("/tmp/")))  # noqa: S108 - a container path


def absolute(directory: str, path: str) -> str:
    """Return `path` in a container as an absolute path from `directory`, without a final slash."""
    return posixpath.normpath(posixpath.join(directory, path))


def image_inputs(text: str) -> tuple[str, ...] | None:
    """Return the paths that determine a Dockerfile's image, relative to the build context; None for the whole context.

    For a path with a final slash, only the folder's dependency files count: its other files are copied, but no later
    step processes them. Such a folder must be mounted over the copy.
    """
    found: list[str] = []
    folders: list[str] = []
    for step in parse_instructions(text):
        if step.keyword in {"COPY", "ADD"}:
            sources = _sources(step.rest)
            if sources is None:
                return None
            folders.extend(source for source in sources if source.endswith("/"))
            found.extend(sources)
        elif step.keyword == "ONBUILD" or (
            step.keyword == "RUN" and _takes_code(step, has_code=bool(folders))
        ):
            return None
    return tuple(dict.fromkeys(found))


def _takes_code(run: Instruction, *, has_code: bool) -> bool:
    if "type=bind" in run.rest:
        return True
    return has_code and not all(map(_is_harmless, _commands(run.rest, run.heredocs)))


def _sources(rest: str) -> tuple[str, ...] | None:
    """Return the sources of a COPY from the context, folders with a final slash; None if they are unknown."""
    flags = _FLAGS.match(rest)
    taken = flags[0] if flags else ""
    if "--from=" in taken or HEREDOC.search(rest):
        return ()
    rest = rest[len(taken) :]
    words = json_words(rest) if rest.startswith("[") else split(rest)
    sources = []
    for word in words[:-1]:
        if is_address(word):
            continue
        path = PurePosixPath(word.lstrip("/") or ".")
        if "$" in word or ".." in path.parts:
            return None
        if any(character in word for character in "*?["):
            path = path.parent
            sources.append(f"{path}/")
        else:
            is_file = bool(path.suffix) and not word.endswith("/")
            sources.append(str(path) if is_file else f"{path}/")
    return tuple(sources)


def _commands(rest: str, heredocs: tuple[str, ...]) -> Iterator[list[str]]:
    flags = _FLAGS.match(rest)
    rest = rest[flags.end() :] if flags else rest
    if rest.startswith("["):
        yield json_words(rest)
        return
    lines = heredocs or (rest,)
    for part in re.split(r"&&|\|\||[;|\n]", "\n".join(lines)):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = ["?"]
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        yield words


def _is_harmless(words: list[str]) -> bool:
    if any(expansion in word for word in words for expansion in ("$(", "`")):
        return False
    name, rest = (PurePosixPath(words[0]).name, words[1:]) if words else ("", [])
    if re.fullmatch(r"python3?(?:\.\d+)?", name) and rest[:1] == ["-m"]:
        name, rest = (rest[1] if rest[1:] else ""), rest[2:]
        if name == "venv":
            return True
    if name == "uv" and rest[:1] == ["pip"]:
        name, rest = "pip", rest[1:]
    if re.fullmatch(r"pip3?(?:\.\d+)?", name):
        return _is_harmless_pip(rest) and _all_count(_PIPS_FILE.findall("\n".join(rest)))
    if name in _FROM_FILES:
        is_known = bool(set(rest) & _FROM_FILES[name]) and "--no-editable" not in rest
        return is_known and _all_count(_CONDAS_FILE.findall("\n".join(rest)))
    return name in _HARMLESS


def _is_harmless_pip(words: list[str]) -> bool:
    """Return whether all that pip installs from the repository is requirements files and editable sources."""
    before = ""
    for word in words:
        local = re.match(r"(?:\.|/|file:)", word) or word.endswith(("/", ".whl", ".tar.gz"))
        if local and before not in {
            "-r",
            "-c",
            "-e",
            "--requirement",
            "--constraint",
            "--editable",
            "--cache-dir",
            "--target",
            "--prefix",
        }:
            return False
        before = word
    return True


def _all_count(paths: list[str]) -> bool:
    """Return whether all files that a command installs from count for the image (`_COUNTED`), by name and depth."""
    return all(
        "://" in path or (_COUNTED.search(path) and path.count("/") <= (4 if path.startswith("/") else 2))
        for path in paths
    )


def keeps_bytecode_out(text: str) -> bool:
    """Return whether a .dockerignore, given as text, excludes all `__pycache__` folders from the build.

    The last pattern that matches a file decides, so only those after the last `!` pattern count.
    """
    found = False
    for line in text.splitlines():
        pattern = line.strip()
        if pattern.startswith("!"):
            found = False
        elif not pattern.startswith("#"):
            found = found or _BYTECODE.fullmatch(pattern.removeprefix("./").strip("/")) is not None
    return found
