"""Reject text from the repository that cannot be written to our files, before any file is written.

Rendering quotes text for the syntax of each file. This module rejects text for which there is no quoting: editors and
dev container tools replace `${...}` everywhere and have no escape for it, a value in a Dockerfile or .env file cannot
contain a newline, and a command line cannot contain NUL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.core.compose_names import is_name
from dkdbg.core.config import DEBIAN_PACKAGE
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.printable import is_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.core.facts import RepoFacts
    from dkdbg.core.plan import ImagePlan, Mapping, ServicePlan

#: An image with optional tag and digest (Docker's reference grammar; upper case occurs in host names).
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
#: Characters with a special meaning in a Dockerfile, a .dockerignore or a requirements file.
_SPECIAL = re.compile(r"[\\\"'$`*?!#<>\[\]{}|&;]")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][^\s\\]*( @ [^\s\\]+)?( ;( [^\s\\]+)+)?")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
#: NUL, and lone surrogates, for which UTF-8 has no encoding.
_NOT_AN_ARGUMENT = re.compile("[\0\ud800-\udfff]")
#: Value that needs no quotes in a .env file.
_ENV_VALUE = re.compile(r"[^\s\"'$`#\\]+")


def check(
    facts: RepoFacts,
    image: ImagePlan,
    service: ServicePlan,
    mappings: Iterable[Mapping],
    *,
    chain: Iterable[str],
    compose_file_value: str | None,
) -> None:
    """Raise DkdbgError for the first text that cannot be written."""
    base = service.extends
    for name in (service.name, *((base.name,) if base else ())):
        if not is_name(name):
            raise _refused(name, "a service name consists of letters, digits, `.`, `_` and `-`")
    for word in service.argv:
        if _NOT_AN_ARGUMENT.search(word):
            raise _refused(word, "a command line cannot contain NUL or a character that UTF-8 cannot encode")
    paths = [*chain, *service.includes, *(word for mount in service.mounts for word in mount), *service.masks]
    paths += [word for mapping in mappings for word in (mapping.local, str(mapping.remote))]
    paths += [base.file] if base else []
    paths += [image.dockerfile] if image.dockerfile else []
    for path in paths:
        _check_path(path)
    if compose_file_value is not None and not _ENV_VALUE.fullmatch(compose_file_value):
        raise _refused(compose_file_value, "COMPOSE_FILE in .env cannot contain blanks, quotes, `$` or `#`")
    if image.is_generated:
        _check_image(image)
        if facts.torch and facts.torch.cuda and not re.fullmatch(r"[0-9.]+", facts.torch.cuda):
            raise _refused(facts.torch.cuda, "a CUDA version has digits and dots")


def _check_image(image: ImagePlan) -> None:
    if not _IMAGE.fullmatch(image.base):
        raise _refused(image.base, "this is not a valid image name")
    for package in (*image.apt, *image.optional_apt):
        if not DEBIAN_PACKAGE.fullmatch(package):
            raise _refused(package, "this is not a valid Debian package name")
    for install in image.installs:
        for name in install.copy:
            if not is_file_name(name):
                raise _refused(name, "a Dockerfile cannot contain this file name")
        if not all(map(is_text, install.run)) or install.run.endswith("\\"):
            raise _refused(install.run, "a Dockerfile command must be one line of text")


def is_file_name(path: str) -> bool:
    """Return whether a Dockerfile and a .dockerignore can name this file, and pip does not take it for an option."""
    return (
        all(map(is_text, path))
        and not _SPECIAL.search(path)
        and path == path.strip()
        and not path.startswith("-")
    )


def is_requirement(text: str) -> bool:
    """Return whether a text is a requirement for pip (also with URL or environment marker), and not an option."""
    return _REQUIREMENT.fullmatch(text) is not None and all(map(is_text, text))


def is_user(name: str) -> bool:
    """Return whether `useradd` accepts this name."""
    return _USER.fullmatch(name) is not None


def _check_path(path: str) -> None:
    if "${" in path:
        raise _refused(path, "editors replace ${...}, which cannot be escaped")
    if not all(map(is_text, path)):
        raise _refused(path, "a path must be text")


def _refused(text: str, why: str) -> DkdbgError:
    return DkdbgError(
        f"'{printable(text)[:200]}' cannot be written into dkdbg's files: {why}",
        hint="rename it in the repository, or set the command: dkdbg init --command 'python train.py'",
        exit_code=EXIT_CONFLICT,
    )
