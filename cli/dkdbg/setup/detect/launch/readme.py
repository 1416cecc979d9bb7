"""Read the install lines and the shell commands of a README in Markdown or reStructuredText."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dkdbg.core.config import DEBIAN_PACKAGE
from dkdbg.launchers.lines.command_lines import logical_lines
from dkdbg.launchers.words import split
from dkdbg.setup.detect.python.conda import conda_requirement
from dkdbg.setup.detect.python.requirements import INDEX_OPTION, options_of, parse_requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dkdbg.setup.detect.python.requirements import Wanted

#: `pip install ...`. A `#` within a word, as in `git+https://...#egg=name`, does not begin a comment.
_INSTALL = re.compile(
    r"(?:^|[\s;&!%$>(])(?:python3?\s+-m\s+)?(?:uv\s+)?pip3?\s+install\s+"
    r"((?:\"[^\"]*\"|'[^']*'|(?<=\S)#|[^;&|#`])+)"
)
#: `pip install -e ".[train]"` installs the repository itself, with extras.
_ITSELF = re.compile(r"\bpip3?\s+install\s(?:[^;&|#\n]*\s)?[\"']?\.(?:\[([\w., -]*)\])?[\"']?(?=\s|$)")
_CONDA = re.compile(r"(?:^|[\s;&!%$>(])(?:conda|mamba|micromamba)\s+(?:install|create)\s+([^;&|#`]+)")
_CONDA_VALUES = {"-n", "--name", "-p", "--prefix", "-c", "--channel", "-f", "--file", "--clone"}
_APT = re.compile(r"(?:^|[\s;&|!$>(])apt(?:-get)?\s+(?:-\S+\s+)*install\s+([^;&|#`]+)")
_APT_VALUES = {"-t", "--target-release", "-o", "--option", "-c", "--config-file"}
#: Packages for the machine instead of the program: drivers, kernel, container engines, Debian's own Python.
_OF_MACHINE = re.compile(
    r"(?:lib)?(?:nvidia|cuda|cudnn|docker|containerd|podman|linux|python|snapd|ubuntu)(?![a-z]).*"
)
_VALUES = {
    "-r",
    "--requirement",
    "-c",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "-t",
    "--target",
    "-e",
    "--editable",
}
_TOOLS = {"pip", "setuptools", "wheel", "uv", "poetry", "virtualenv", "pipenv", "conda", "build"}
_SHELL_LANGUAGES = {
    "",
    "bash",
    "sh",
    "shell",
    "console",
    "zsh",
    "shell-session",
    "bat",
    "cmd",
    "powershell",
    "text",
    "txt",
    "none",
    "terminal",
    "commandline",
    "command",
}
_FENCE = re.compile(r"^[\s>]*(`{3,}|~{3,})\s*\{?\.?([\w+-]*)")
#: A comment after a backslash (`--seed 1 \ # always`). The author meant a continued line, although no shell reads it
#: so.
_COMMENTED = re.compile(r"\\[ \t]+#.*")
_HEADING = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|=+\s*$|-{3,}\s*$)")
_STARTS_PYTHON = re.compile(r"\s*(?:\$ )?python3? (?:-\w )?[\w./-]+(?:[ \t\n]|$)")


def installs_with(text: str) -> Literal["conda", "pip"] | None:
    """Return the package manager that a document's install lines use; creating an environment alone does not count."""
    found: Literal["pip"] | None = None
    for block in code_blocks(text):
        for line in logical_lines(block):
            for match in _CONDA.finditer(line):
                if _names_package(match[1].split()):
                    return "conda"
            if _INSTALL.search(line):
                found = "pip"
    return found


def _names_package(argv: list[str]) -> bool:
    """Return whether `conda install` or `conda create` with these arguments installs more than Python and pip."""
    previous = ""
    for word in argv:
        plain = re.split(r"[=<>]", word.strip("\"'"))[0].rsplit("::", 1)[-1].lower()
        if (
            not word.startswith("-")
            and previous not in _CONDA_VALUES
            and plain not in {"python", "pip", "anaconda"}
        ):
            return True
        previous = word
    return False


def installed_extras(documents: Iterable[str]) -> frozenset[str]:
    """Return the extras in the first documented line that installs the repository itself; empty if it names none."""
    lines = (line for text in documents for block in code_blocks(text) for line in logical_lines(block))
    first = next(filter(None, map(_ITSELF.search, lines)), None)
    return frozenset(re.findall(r"[\w.-]+", first[1] or "")) if first else frozenset()


def installed(text: str) -> tuple[Wanted, ...]:
    """Return the requirements in a document's pip lines, in order, without packaging tools such as pip.

    Drop the local part of a version (`2.7.1+cu126`), because the default index has no local versions.
    """
    found = (parse_requirement(word, "README") for word in _arguments(text, _INSTALL, _VALUES))
    return tuple(
        replace(item, spec="" if re.match("=[^=]", item.spec) else item.spec.partition("+")[0])
        for item in found
        if item is not None and item.name not in _TOOLS
    )


def installed_by_conda(text: str) -> tuple[Wanted, ...]:
    """Return the packages in a document's conda lines, with names and pins translated for pip."""
    found = (conda_requirement(word, "README") for word in _arguments(text, _CONDA, _CONDA_VALUES))
    return tuple(filter(None, found))


def find_links(text: str) -> tuple[str, ...]:
    """Return pip's --find-links options in a document's pip lines, without PyTorch's own pages."""
    lines = (line for block in code_blocks(text) for line in logical_lines(block))
    stated = (
        pair for line in lines for match in _INSTALL.finditer(line) for pair in INDEX_OPTION.findall(match[1])
    )
    return options_of(
        (option, url) for option, url in dict.fromkeys(stated) if option in {"-f", "--find-links"}
    )


def installed_by_apt(text: str) -> tuple[str, ...]:
    """Return the Debian packages in a document's apt lines, in order, without those for the machine (drivers, ...)."""
    found = dict.fromkeys(_arguments(text, _APT, _APT_VALUES))
    return tuple(name for name in found if DEBIAN_PACKAGE.fullmatch(name) and not _OF_MACHINE.fullmatch(name))


def _arguments(text: str, command: re.Pattern[str], values: set[str]) -> Iterator[str]:
    """Yield the arguments of a document's install lines without options and their values; keep `-e git+URL`."""
    for block in code_blocks(text):
        for line in (re.sub(r"(?:^|\s)#.*", "", each) for each in logical_lines(block)):
            if "<" in line and ">" not in line.split("<")[0] and re.search(r"<[\w -]+>", line):
                continue
            for match in command.finditer(line):
                previous = ""
                for word in split(match[1]):
                    is_value = previous in values and not ("+" in word and previous in {"-e", "--editable"})
                    if not word.startswith("-") and not is_value:
                        yield word
                    previous = word


def code_blocks(text: str, *, is_rst: bool = False) -> Iterator[str]:
    """Yield the blocks of shell commands in a Markdown or reStructuredText document."""
    block: list[str] = []
    fence: str | None = None
    language = ""
    blank_before = True
    for line in _COMMENTED.sub(r"\\", text).split("\n"):
        match = _FENCE.match(line)
        if fence is not None:
            if match and match[1].startswith(fence) and not match[2]:
                yield from _commands(block, language)
                block, fence, language = [], None, ""
            else:
                block.append(line.lstrip(">") if line.startswith(">") else line)
            continue
        if match:
            if block:
                yield "\n".join(block)
            block, fence, language = [], match[1][:3], match[2]
            continue
        # An indented block. In Markdown: four columns or a tab, after a blank line or a heading.
        indented = bool(re.match(r"(?: {4}|\t)", line)) or (is_rst and line.startswith("  "))
        if indented and (blank_before or block):
            block.append(line.strip())
        elif line.strip():
            if block:
                yield "\n".join(block)
            block = []
        blank_before = not line.strip() or bool(block) or bool(_HEADING.match(line))
    if block and fence is None:
        yield "\n".join(block)
    elif block:
        yield from _commands(block, language)


def _commands(block: list[str], language: str) -> Iterator[str]:
    """Yield a fenced block if it is shell; in a block marked as Python, only a command such as `python train.py`."""
    if language.lower() in _SHELL_LANGUAGES or (
        language.lower() in {"python", "py"} and _STARTS_PYTHON.match("\n".join(block))
    ):
        yield "\n".join(block)
