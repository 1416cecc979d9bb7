"""Compiles the lines of .gitignore and .dockerignore; default exclusions, and the result of all rules.

Most patterns are plain names or suffixes, which cost one set look-up.

pathspec turns a pattern into a regular expression. Entries are matched one by one from the root down, as in git, so the
suffix by which pathspec matches everything below a folder is removed. `dir_only`, a pattern for folders only, is
checked in this module.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Matcher = Callable[[str], object]

_BELOW = "(?:(?P<ps_d>/)|$)"
_ANYWHERE = "^(?:.+/)?"
_BLANK = "\ue000"
_SLASH = re.compile(r"(?<!\\)((?:\\\\)*)\\/")
_STARS = re.compile(r"(?<![^/])\*{3,}(?![^/])")
_CLASS = re.compile(r"\[:(\w*):\]")
_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F",
    "space": " \t\n\r\f\v", "blank": " \t", "cntrl": "\x00-\x1f\x7f", "print": " -~", "graph": "!-~",
    "punct": "!-.:-@\\[-`{-~",
}  # fmt: skip
_PLAIN = re.compile(r"[\w.+@%=,~ -]*[\w.+@%=,~-]")
_SUFFIX = re.compile(r"\*(\.[\w+@%=,~-]+)")


class Rule(NamedTuple):
    """One pattern and its position.

    Attributes:
        text: the pattern as written.
        source: its origin for messages: `src/.gitignore`, `defaults`.
        line: counted from 1, 0 where there are no lines.
        order: position in its list; the last match wins.
        negated: whether it brings entries back (`!`).
        dir_only: whether it matches only folders.
        whole: whether it is matched against the path below the rule file's folder, not against the name alone.
        matches: the compiled pattern.
    """

    text: str
    source: str
    line: int
    order: int
    negated: bool
    dir_only: bool
    whole: bool
    matches: Matcher

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{self.text!r} in {where}"


class Patterns:
    """An ordered list of patterns of one source.

    Args:
        source: name of the source, for messages.
        lines: (line number, pattern); the last match wins.
        cut: number of characters to remove from a path before matching: the rule file's folder, with its `/`.
        depth: that folder's depth; the root's is 0.
        prefix: text to prepend to a path before matching: the root relative to a rule file above it, with `/`.
    """

    def __init__(
        self, source: str, lines: Iterable[tuple[int, str]], *, cut: int = 0, depth: int = 0, prefix: str = ""
    ) -> None:
        self.source = source
        self.cut, self.prefix, self._cut_depth = cut, prefix, depth
        self.rules: list[Rule] = []
        self.names: set[str] = set()
        self.suffixes: set[str] = set()
        self._name_parts: list[str] = []
        self._path_parts: list[tuple[int, str]] = []
        self._by_depth: dict[int, Matcher | None] = {}
        for number, text in lines:
            self._add(number, text)
        self.name_regex = "|".join(self._name_parts)
        self._any_name = matcher(self.name_regex) if self.name_regex else None

    def paths_at(self, depth: int) -> Matcher | None:
        """Return a matcher of the patterns with a slash that apply `depth` folders below the root; None without any."""
        depth += self.prefix.count("/") - self._cut_depth
        if depth not in self._by_depth:
            parts = [part for parts, part in self._path_parts if parts in (0, depth + 1)]
            self._by_depth[depth] = matcher("|".join(parts)) if parts else None
        return self._by_depth[depth]

    def _add(self, number: int, text: str) -> None:
        body = text
        negated = body.startswith("!")
        body = body[negated:]
        dir_only = body.endswith("/")
        if dir_only:
            body = body[:-1]
        body = _SLASH.sub(r"\1/", body)
        if not body or body.endswith("/"):
            return
        plain = _PLAIN.fullmatch(body)
        suffix = _SUFFIX.fullmatch(body)
        whole = "/" in body
        if plain:
            expression = re.escape(body) + r"\Z"
            self.names.add(body)
        elif suffix:
            expression = r".*" + re.escape(suffix[1]) + r"\Z"
            self.suffixes.add(suffix[1])
        else:
            translated = _translate(body)
            if translated is None:
                return
            expression = translated
            if not whole and expression.startswith(_ANYWHERE):
                expression = expression[len(_ANYWHERE) :]
            if whole:
                parts = 0 if "**" in body else body.lstrip("/").count("/") + 1
                self._path_parts.append((parts, f"(?:{expression})"))
            else:
                self._name_parts.append(f"(?:{expression})")
        self.rules.append(
            Rule(
                text=text, source=self.source, line=number, order=len(self.rules), negated=negated,
                dir_only=dir_only, whole=whole, matches=matcher(expression),
            )
        )  # fmt: skip

    def last(self, name: str, path: str, is_dir: bool) -> Rule | None:
        """Return the last rule that matches this entry itself; `path` is relative to the root."""
        path = self.prefix + path[self.cut :]
        if not (
            name in self.names
            or name[name.rfind(".") :] in self.suffixes
            or (self._any_name and self._any_name(name))
            or (
                (matches := self.paths_at(path.count("/") + self._cut_depth - self.prefix.count("/")))
                and matches(path)
            )
        ):
            return None
        for rule in reversed(self.rules):
            if rule.matches(path if rule.whole else name) and (is_dir or not rule.dir_only):
                return rule
        return None


def matcher(expression: str) -> Matcher:
    """Return the match function of `expression`; suppress FutureWarning for a user's pattern with `[` in brackets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(expression, re.DOTALL).match


def _translate(body: str) -> str | None:
    """Return `body`, a gitignore pattern without `!` and trailing slash, as a regular expression; None matches nothing.

    git supports three things that pathspec 1.1 does not: `[[:alpha:]]`, `***` (the same as `**`), and a blank
    at the end that was escaped or is followed by a slash.
    """
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if _CLASS.search(body):
        body = _CLASS.sub(lambda found: _CLASSES.get(found[1], found[0]), body)
        if _CLASS.search(body):
            return None
    body = _STARS.sub("**", body)
    if body[0] in "!#":
        body = "\\" + body
    last = body[-1]
    if last.isspace():
        body = body[:-1].removesuffix("\\") + _BLANK
    try:
        expression, _ = GitIgnoreSpecPattern.pattern_to_regex(body)
    except GitIgnorePatternError:
        return None
    if expression is None:
        return None
    expression = str(expression).replace(_BELOW, r"\Z").replace(_BLANK, re.escape(last))
    try:
        matcher(expression)
    except re.error:
        return None
    return expression


def gitignore_lines(data: bytes) -> list[tuple[int, str]]:
    """Return the patterns of a .gitignore without comments, with trailing blanks treated as in git."""
    lines = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        text = raw.removesuffix(b"\r").decode(errors="surrogateescape")
        bare = text.rstrip(" ")
        escapes = len(bare) - len(bare.rstrip("\\"))
        if len(bare) < len(text) and escapes % 2:
            bare += " "
        if bare and not bare.startswith("#"):
            lines.append((number, bare))
    return lines


def dockerignore_lines(data: bytes) -> list[tuple[int, str]]:
    """Return the patterns of a .dockerignore as gitignore patterns: all anchored, and cleaned as Docker does."""
    lines = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        text = raw.decode(errors="surrogateescape").strip()
        if not text or text.startswith("#"):
            continue
        negated = text.startswith("!")
        parts: list[str] = []
        for part in text[negated:].strip().split("/"):
            if part == "..":
                parts[-1:] = []
            elif part not in ("", "."):
                parts.append(part)
        if parts:
            lines.append((number, ("!/" if negated else "/") + "/".join(parts)))
    return lines


#: Patterns that are excluded by default.
OUT = (
    ".git", ".hg", ".svn", ".dkdbg-sync/", "dkdbg-pulled/",
    ".venv/", "venv/", "conda-meta/",
    "__pycache__/", "*.pyc", "*.pyo", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".tox/", ".nox/", ".cache/",
    "node_modules/", ".ipynb_checkpoints/", ".DS_Store",
    "*.swp", "*.swx", "*~", ".#*", "#*#",
    "*.ckpt", "*.pt", "*.pth", "*.safetensors",
)  # fmt: skip
#: Output folders of training runs. Source folders may have these names, too, so Python files in them take part, and
#: folders with tracked files.
RUNS = ("checkpoints/", "outputs/", "wandb/", "mlruns/", "lightning_logs/")
SOURCE = (".py", ".pyi")
RUN_FOLDERS = "defaults for run folders"
ENVIRONMENT = Rule(
    "pyvenv.cfg, conda-meta",
    "defaults for virtual environments",
    0,
    0,
    False,
    True,
    False,
    matcher(""),
)


class Standing(NamedTuple):
    """The result of the rules for one entry; the rules for entries below it start from this result.

    Attributes:
        git: the default or the rule of git that excludes the entry.
        docker: the last rule of .dockerignore that matched the entry or a folder above; a negated rule brings it back.
        sync: the pattern of `[sync] ignore` that excludes the entry.
        kept: the pattern of `[sync] ignore` that brought the entry itself back.
    """

    git: Rule | None = None
    docker: Rule | None = None
    sync: Rule | None = None
    kept: Rule | None = None

    @property
    def out(self) -> Rule | None:
        """Return the rule that excludes the entry, None if it takes part."""
        docker = self.docker if self.docker and not self.docker.negated else None
        return self.sync or self.git or docker


#: Standing of an entry that takes part without a matching rule.
IN = Standing()
