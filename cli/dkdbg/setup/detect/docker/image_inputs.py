"""List the parts of its build context that determine an image, given that the code is mounted over the image's copy."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.setup.detect.docker.dockerfile_syntax import (
    HEREDOC,
    Instruction,
    json_words,
    parse_instructions,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAGS = re.compile(r"(?:--[a-z-]+(?:=\S+)?\s+)*")
#: Commands that do not process the repository's code. Package installations are checked separately.
_HARMLESS = frozenset(
    {
        "", ":", "[", "addgroup", "adduser", "apk", "apt", "apt-get", "cd", "chmod", "chown", "curl", "dnf", "echo",
        "export", "groupadd", "ldconfig", "ln", "locale-gen", "mkdir", "printf", "rm", "set", "test", "touch", "true",
        "update-ca-certificates", "useradd", "usermod", "wget", "yum",
    }
)  # fmt: skip
#: Managers that install the repository only as a link to its sources.
_FROM_FILES = {
    "conda": {"env", "install", "update", "clean", "config", "create"},
    "mamba": {"env", "install", "update", "clean", "create"},
    "micromamba": {"env", "install", "update", "clean", "create"},
    "pdm": {"install", "sync", "config"},
    "pipenv": {"install", "sync"},
    "poetry": {"install", "config", "lock"},
    "uv": {"sync", "lock", "venv", "python", "cache"},
}


def image_inputs(text: str) -> tuple[str, ...] | None:
    """Return the paths that determine a Dockerfile's image, relative to its context; None for "any of it".

    A path with a final slash stands for the dependency files of a folder: its other files are copied, but no later
    step processes them. Such a folder has to be mounted over the copy.
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
            step.keyword == "RUN" and _takes_code(step, is_there=bool(folders))
        ):
            return None
    return tuple(dict.fromkeys(found))


def _takes_code(run: Instruction, *, is_there: bool) -> bool:
    if "type=bind" in run.rest:
        return True
    return is_there and not all(map(_is_harmless, _commands(run.rest, run.heredocs)))


def _sources(rest: str) -> tuple[str, ...] | None:
    """Return the sources of a COPY in the context, folders with a final slash; None if unknown."""
    flags = _FLAGS.match(rest)
    taken = flags[0] if flags else ""
    if "--from=" in taken or HEREDOC.search(rest):
        return ()
    rest = rest[len(taken) :]
    words = json_words(rest) if rest.startswith("[") else split(rest)
    sources = []
    for word in words[:-1]:
        if re.match(r"[a-z]+://|git@", word):
            continue
        path = PurePosixPath(word.lstrip("/") or ".")
        if "$" in word or ".." in path.parts:
            return None
        if any(mark in word for mark in "*?["):
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
    if any(mark in word for word in words for mark in ("$(", "`")):
        return False
    name, rest = (PurePosixPath(words[0]).name, words[1:]) if words else ("", [])
    if re.fullmatch(r"python3?(?:\.\d+)?", name) and rest[:1] == ["-m"]:
        name, rest = (rest[1] if rest[1:] else ""), rest[2:]
        if name == "venv":
            return True
    if name == "uv" and rest[:1] == ["pip"]:
        name, rest = "pip", rest[1:]
    if re.fullmatch(r"pip3?(?:\.\d+)?", name):
        return _is_harmless_pip(rest)
    if name in _FROM_FILES:
        return bool(set(rest) & _FROM_FILES[name]) and "--no-editable" not in rest
    return name in _HARMLESS


def _is_harmless_pip(words: list[str]) -> bool:
    """Return whether pip uses only requirements files of the repository, or its sources as a link."""
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
