"""Read the options of `docker run` lines in scripts, Makefiles and READMEs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.core.facts import DockerRun
from dkdbg.launchers.lines.blanks import has_blank
from dkdbg.launchers.lines.command_lines import logical_lines
from dkdbg.launchers.words import split, whole_number
from dkdbg.setup.detect.docker.dockerfile import absolute
from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.secret_values import is_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from dkdbg.setup.detect.files import Tree

_RUN = re.compile(r"\b(?:docker|podman|nvidia-docker)\s+(?:container\s+)?(?:run|create)\s+(.+)")
#: Assignment of the `docker` command to a variable, in a script or Makefile: `cmd=nvidia-docker`, `DOCKER ?=
#: podman`, `DOCKER=${DOCKER:-docker}`.
_NAMED = re.compile(
    r"^[ \t]{0,40}(?:export[ \t]{1,8})?(\w{1,60})[ \t]{0,8}[:?]?=[ \t]{0,8}[\"']?(?:\$\{\w{1,60}:-)?(?:sudo[ \t]{1,8})?(?:nvidia-)?(?:docker|podman)\}?[\"']?[ \t]*$",
    re.MULTILINE,
)
_FILES = re.compile(r".*\.(?:sh|bash|md|rst)|makefile|justfile|readme|dockerfile", re.IGNORECASE)
#: The current folder in the syntax of shells, Makefiles and cmd.
_CURRENT_FOLDER = re.compile(
    r"^(?:\$\{?PWD\}?|\$\(pwd\)|`pwd`|\$\(CURDIR\)|\$\(shell pwd\)|%cd%|\$\{?(?:PROJECT|REPO|ROOT|WORK|SCRIPT)_?(?:DIR|ROOT|PATH)\}?|\.)(?=/|$)"
)
_VALUED = {"-v": "volume", "--volume": "volume", "--mount": "mount", "-w": "workdir", "--workdir": "workdir", "--shm-size": "shm", "--ipc": "ipc",
           "-p": "port", "--publish": "port", "-e": "env", "--env": "env", "--env-file": "env_file"}  # fmt: skip
#: An assignment; used if the value is options of `docker run`, or the folder of the script or Makefile.
_ASSIGNED = re.compile(r"\s*(?:export\s+|local\s+|readonly\s+)?(\w{1,60})\s*[:?+]?=\s*(.{1,2000})$")
_OPTIONS = re.compile(r"[\"'(]?\s*--?\w")
_OWN_FOLDER = re.compile(
    r"[\"']?(?:\$\(shell (?:pwd|dirname \$\(realpath \$\(firstword [^/]*)|\$\(dir \$\(abspath \$\((?:lastword|firstword) [^/]*|\$\(CURDIR\)|"
    r"\$\(pwd\)|`pwd`|\$\{?PWD\}?|\$\(cd [^;|]{0,60}?dirname[^;|/]{0,60}&& pwd\))[\"')]*\s*"
)
_BUILT = re.compile(
    r"\b(?:docker|podman)\s+(?:buildx\s+|image\s+)?build\b.*?\s(?:-t|--tag)[\s=]+([\w./-]*[\w])"
)
#: Options of `docker run` without a value, also joined as in `-it`.
_FLAG = re.compile(
    r"-[ditPq]+|--(?:detach|interactive|tty|rm|init|privileged|publish-all|quiet|read-only|no-healthcheck|oom-kill-disable|sig-proxy)"
)
_BUILT_FROM = re.compile(r"\sbuild\s.*?\s(?:-f|--file)[\s=]+[\"']?(?:\./)*(\w[\w./-]*)")
_MAX_ITEMS = 60
#: Maximum characters of a line with its variables replaced.
_MAX_LINE_CHARS = 20_000
_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*")
#: NAME in `-e NAME`, without a value. Upper case only: a program in the image may have its own `-e` option.
_BARE = re.compile(r"[A-Z_][A-Z0-9_]*")
#: `$NAME`, `${NAME}` and make's `$(NAME)`.
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|\((\w+)\)|(\w+))")
#: Variables to ignore: dkdbg's own, and those that the image or the engine sets.
_NOT_TAKEN = re.compile(r"DKDBG_\w*|PATH|HOME|PWD|HOSTNAME|PYTHONUNBUFFERED")


def read_docker_run(tree: Tree, names: Collection[str] = ()) -> DockerRun | None:
    """Return the first `docker run` line that mounts a folder of the repository, shallow files first.

    Otherwise return the first one with an image that the repository builds, or that has one of its `names`, else None.
    """
    paths = [path for path in tree.matching(_FILES) if path.count("/") <= 2 and not is_vendored(path)][
        :_MAX_ITEMS
    ]
    lines = [(path, line) for path in paths for line in _lines(_text(tree, path))]
    built = {
        match[1]: source[1] if (source := _BUILT_FROM.search(line)) else ""
        for _, line in lines
        for match in _BUILT.finditer(line)
    }
    unmounted = None
    for path, line in lines:
        found = _RUN.search(line)
        read = _read(tree, path, found[1], built, names) if found else None
        if read is not None and read.mounts:
            return read
        unmounted = unmounted or read
    return unmounted


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, continued ones joined, and with variables for options replaced in `docker run` lines."""
    values: dict[str, str] = {}
    for line in logical_lines(text):
        assigned = _ASSIGNED.match(line) if len(values) < _MAX_ITEMS else None
        if assigned and _OWN_FOLDER.fullmatch(assigned[2]):
            values[assigned[1]] = "$PWD"
        elif assigned and _OPTIONS.match(assigned[2]):
            values[assigned[1]] = assigned[2].strip().strip("\"'()")
        yield _filled(line, values) if values and _RUN.search(line) else line


def _filled(line: str, values: Mapping[str, str]) -> str:
    for _ in range(2):  # twice: the options may contain the folder's variable
        for name, value in values.items():
            whole = rf"[\"']?\$(?:\{{{name}(?:\[@\])?\}}|\({name}\)|{name}\b)[\"']?"
            line = (
                re.sub(whole, value.replace("\\", "\\\\"), line)[:_MAX_LINE_CHARS] if name in line else line
            )
    return line


def _text(tree: Tree, path: str) -> str:
    """Return the text of a file in which to look for `docker run` lines; for a Dockerfile only its comments."""
    text = tree.text(path)
    if not path.lower().endswith("dockerfile"):
        for name in sorted(set(_NAMED.findall(text)))[:_MAX_ITEMS]:
            text = re.sub(rf"[\"']?\$[{{(]?{name}\b[}})]?[\"']?(?=\s+(?:container\s+)?run\s)", "docker", text)
        return text
    return "\n".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))


def _read(
    tree: Tree, path: str, text: str, built: Mapping[str, str], names: Collection[str]
) -> DockerRun | None:
    words = split(re.sub(r"\$\(\s*(pwd|CURDIR|shell pwd)\s*\)|`pwd`", "$PWD", text))
    given: dict[str, list[str]] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option in _VALUED:
            given.setdefault(_VALUED[option], []).append(value if equals else following)
    mounts = [
        mount for value in given.get("volume", []) if (mount := _mount(tree, path, *value.split(":")[:2]))
    ]
    for value in given.get("mount", []):
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        source, target = (
            parts.get("source", parts.get("src", "")),
            parts.get("target", parts.get("dst", parts.get("destination", ""))),
        )
        if parts.get("type") == "bind" and (mount := _mount(tree, path, source, target)):
            mounts.append(mount)
    image = _image(words, built)
    is_built = image in built
    if not mounts and not is_built and image.rpartition("/")[2].lower() not in names:
        return None
    workdir = next(
        (value for value in given.get("workdir", []) if value.startswith("/") and "$" not in value), None
    )
    shm = next(
        (value for value in given.get("shm", []) if re.fullmatch(r"\d+(?:\.\d+)?[bkmgBKMG]{0,2}", value)),
        None,
    )
    ports = (re.search(r"(\d+)(?:/\w+)?$", value) for value in given.get("port", []))
    return DockerRun(
        source=path, mounts=tuple(dict.fromkeys(mounts)), workdir=absolute("/", workdir) if workdir else None, shm=shm,
        ipc="host" if "host" in given.get("ipc", []) else None,
        ports=tuple(dict.fromkeys(port for match in ports if match and (port := whole_number(match[1], 65535)))),
        env=_read_environment(given.get("env", [])),
        env_files=_env_files(tree, path, given.get("env_file", [])),
        dockerfile=built[image] if is_built else "",
    )  # fmt: skip


def _image(words: Sequence[str], built: Collection[str]) -> str:
    """Return the image of a `docker run` line without its tag: the first word after the options; empty if unknown.

    A variable that is no built image (`$OPTIONS`) is skipped.
    """
    place = 0
    while place < len(words):
        word = words[place]
        if word.startswith("-"):
            place += 1 if "=" in word or _FLAG.fullmatch(word) or re.match(r"-[a-zA-Z][^\s]", word) else 2
        elif word.startswith("$") and word not in built:
            place += 1
        else:
            return re.sub(r"(?::[^/:]*)?(?:@.*)?$", "", word)
    return ""


def _mount(tree: Tree, path: str, source: str = "", target: str = "") -> tuple[str, str] | None:
    """Return (local, remote) if a mount's source is a folder of the repository, otherwise None.

    The line's current folder is assumed to be the root, or the folder of its file if that fits better.
    """
    current = _CURRENT_FOLDER.match(source)
    if current is None or not target.startswith("/") or "$" in target or target == "/":
        return None
    rest = source[current.end() :].strip("/") or "."
    for base in dict.fromkeys((".", parent(path))):
        local = join(base, rest)
        if local is not None and tree.has_dir(local):
            return local, absolute("/", target)
    return None


def _env_files(tree: Tree, path: str, named: list[str]) -> tuple[str, ...]:
    """Return the `--env-file` paths in the repository. The files may be missing, because git usually ignores them."""
    found = []
    for name in named:
        current = _CURRENT_FOLDER.match(name)
        rest = name[current.end() :].strip("/") if current else name
        places = [join(base, rest) for base in dict.fromkeys((".", parent(path)))]
        inside = [
            place
            for place in places
            if place and "$" not in place and not rest.startswith(("/", "~", "-", "<"))
        ]
        found += [next((place for place in inside if tree.has(place)), inside[0])] if inside else []
    return tuple(dict.fromkeys(found))


def _read_environment(given: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    """Return (name, value) for each `-e`; for a repeated name the last one.

    The value is None if the user's environment has to provide it: if it is missing, a placeholder, a secret, or
    computed by a shell. For `-e NAME=${OTHER}` it is `${OTHER}`.
    """
    found: dict[str, str | None] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (_VARIABLE_NAME if equals else _BARE).fullmatch(name) or _NOT_TAKEN.fullmatch(name):
            continue
        found[name] = _value(name, value) if equals else None
    return tuple(found.items())


def _value(name: str, value: str) -> str | None:
    if variable := _VARIABLE.fullmatch(value):
        other = variable[1] or variable[2] or variable[3]
        return None if other == name else f"${{{other}}}"
    if "$" in value or "`" in value or has_blank(value) or not value.isprintable():
        return None
    return None if value and is_secret(name, value) else value
