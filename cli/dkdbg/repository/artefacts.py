"""Find the files that dkdbg ships (artefacts), and render its templates."""

from __future__ import annotations

import functools
import json
import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.errors import DkdbgError
from dkdbg.printable import is_text

if TYPE_CHECKING:
    from importlib.abc import Traversable

    import jinja2

FOLDERS = ("templates", "compose", "devcontainer")


def artefact(folder: str, name: str) -> Traversable:
    """Return a file or folder that dkdbg ships: from the wheel or, in an editable install, from the checkout.

    site-packages is not searched: an editable install leaves a stale copy there (pypa/hatch PR 296).

    Raises:
        DkdbgError: the installation is incomplete.
    """
    package = resources.files("dkdbg")
    for place in (package.joinpath("_artefacts"), Path(__file__).resolve().parents[3]):
        found = place.joinpath(folder).joinpath(*name.split("/"))
        if found.is_file() or found.is_dir():
            return found
    raise DkdbgError(
        f"this installation lacks {folder}/{name}",
        hint="reinstall dkdbg",
    )


def _load(name: str) -> str | None:
    folder, _, rest = name.partition("/")
    return artefact(folder, rest).read_text("utf-8") if folder in FOLDERS else None


def quoted(value: object) -> str:
    """Return `value` as JSON that is also YAML, without Jinja's HTML escapes: `&` must stay `&` in a command line.

    Escape, too, the characters that JSON allows but YAML rejects or folds: control characters, U+0085 and U+2028.
    """
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if is_text(each) or ord(each) > 0xFFFF else f"\\u{ord(each):04x}" for each in text)


def for_compose(value: object) -> object:
    """Double each `$` in a string, or in the strings of a list or dict, because compose replaces `$NAME`."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: for_compose(each) for key, each in value.items()}
    return [for_compose(each) for each in value] if isinstance(value, (list, tuple)) else value


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - takes 20 ms, and sync and attach do not need it

    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(_load),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - YAML, JSON and Dockerfiles, never HTML; values are quoted by tojson
    )
    found.filters.update({"tojson": quoted, "compose": for_compose, "shell": shlex.quote})
    return found


def render(name: str, /, **values: Any) -> str:  # noqa: ANN401 - the template decides; StrictUndefined checks
    """Render the template `name` (`folder/file.j2`); a value that it needs but does not get is an error."""
    return _environment().get_template(name).render(**values)
