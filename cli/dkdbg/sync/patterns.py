"""Lines of .gitignore and .dockerignore, compiled so that most names cost a set look-up.

pathspec turns a pattern into a regular expression. We match entry by entry from the root down, as git does, so
what pathspec adds to match everything below a folder is cut off again; dir-only is ours.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BELOW = "(?:(?P<ps_d>/)|$)"
_ANYWHERE = "^(?:.+/)?"
_PLAIN = re.compile(r"[\w.+@%=,~ -]*[\w.+@%=,~-]")
_SUFFIX = re.compile(r"\*(\.[\w+@%=,~-]+)")


class Rule(NamedTuple):
    """One pattern and where it stands.

    Attributes:
        text: the pattern as it was written.
        source: what it came from, for messages: `src/.gitignore`, `defaults`.
        line: counted from 1, 0 where there are no lines.
        order: place in its list; the last match wins.
        negated: it brings back (`!`).
        dir_only: it matches folders alone.
        whole: it is matched against the path below the base, not against the name.
        matches: the compiled pattern.
    """

    text: str
    source: str
    line: int
    order: int
    negated: bool
    dir_only: bool
    whole: bool
    matches: Callable[[str], object]

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{self.text!r} in {where}"


class Patterns:
    """An ordered list of patterns of one source.

    Args:
        source: for messages.
        lines: (line number, pattern) in the order in which the last one wins.
        cut: length of the rule file's folder below the root, with its `/`: cut off before a path is matched.
        prefix: path from a rule file above the root to the root, ending in `/`: put before a path.
    """

    def __init__(
        self, source: str, lines: Iterable[tuple[int, str]], *, cut: int = 0, prefix: str = ""
    ) -> None:
        self.source = source
        self.cut, self.prefix = cut, prefix
        self.rules: list[Rule] = []
        self.names: set[str] = set()
        self.suffixes: set[str] = set()
        name_parts: list[str] = []
        path_parts: list[str] = []
        for number, text in lines:
            self._add(number, text, name_parts, path_parts)
        self.name_regex = "|".join(name_parts)
        self.path_regex = re.compile("|".join(path_parts), re.DOTALL).match if path_parts else None
        self._any_name = re.compile(self.name_regex, re.DOTALL).match if name_parts else None

    def _add(self, number: int, text: str, name_parts: list[str], path_parts: list[str]) -> None:
        body = text
        negated = body.startswith("!")
        body = body[negated:]
        dir_only = body.endswith("/") and not body.endswith("\\/")
        if dir_only:
            body = body[:-1]
        if not body or body == "/":
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
            (path_parts if whole else name_parts).append(f"(?:{expression})")
        self.rules.append(
            Rule(
                text=text, source=self.source, line=number, order=len(self.rules), negated=negated,
                dir_only=dir_only, whole=whole, matches=re.compile(expression, re.DOTALL).match,
            )
        )  # fmt: skip

    def last(self, name: str, path: str, is_dir: bool) -> Rule | None:
        """The last rule that matches this very entry; `path` is relative to the root."""
        path = self.prefix + path[self.cut :]
        if not (
            name in self.names
            or name[name.rfind(".") :] in self.suffixes
            or (self._any_name and self._any_name(name))
            or (self.path_regex and self.path_regex(path))
        ):
            return None
        for rule in reversed(self.rules):
            if rule.matches(path if rule.whole else name) and (is_dir or not rule.dir_only):
                return rule
        return None


def _translate(body: str) -> str | None:
    """`body`, a gitignore pattern without `!` and trailing slash, as a regular expression; None matches nothing."""
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if body[0] in "!#":
        body = "\\" + body
    try:
        expression, _ = GitIgnoreSpecPattern.pattern_to_regex(body)
    except GitIgnorePatternError:
        return None
    if expression is None:
        return None
    expression = str(expression).replace(_BELOW, r"\Z")
    try:
        re.compile(expression)
    except re.error:
        return None
    return expression


def gitignore_lines(data: bytes) -> list[tuple[int, str]]:
    """The patterns of a .gitignore: no comments, blanks at the end as git takes them."""
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
    """The patterns of a .dockerignore as gitignore patterns: all anchored, cleaned as Docker does."""
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
