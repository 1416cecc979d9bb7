"""Audit a repository: read each file once, and apply the rules for its kind."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.audit import (
    compose,
    dockerfiles,
    documents,
    editor_files,
    manifests,
    ports,
    python_sources,
    scripts,
    secrets,
)
from dkdbg.audit.documents import UnreadableError
from dkdbg.audit.rules import OLD_AGENT, RULES, TOKEN, UNREAD, Finding, Found, is_for_debugging, is_test
from dkdbg.delivery import single_file
from dkdbg.printable import printable
from dkdbg.setup.detect.files import SKIP_DIRS, is_vendored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dkdbg.audit.documents import Value
    from dkdbg.setup.detect.files import Tree

_YAML, _JSON_OBJECT = re.compile(r".+\.ya?ml"), re.compile(r"\"apiVersion\"")
#: Pattern of YAML files worth parsing. The others have nothing to audit, and parsing 15 KB takes a second.
_WORTH = r"debugpy|ptvsd|REMOTE_PDB_HOST|web_pdb|DKDBG_|agent\.pyz|SYS_PTRACE|privileged|nconfined|hostPort|hostNetwork|cap_add|capabilities|dockerfile_inline|\bargs\b|\d-\d+:\d"
_LOCK = re.compile(r".+\.(?:lock|lockb|svg|csv|tsv|map)|package-lock\.json|.+-lock\.ya?ml")
_KIND = re.compile(r"^kind: *[\"']?(\w+)", re.MULTILINE)
_SCHEMA = re.compile(
    r"^\"?(?:(?:swagger|openapi)\"?: *[\"']?[23]\.|\$schema\"?: *[\"']?https?://json-schema\.org/)",
    re.MULTILINE,
)
_BETWEEN = re.compile(r"(^---(?!\S))", re.MULTILINE)
_IGNORE = re.compile(r"dkdbg:\s*ignore[ =:]\s*([\w-]+(?:\s*,\s*[\w-]+)*)")
_COMMENT = re.compile(r"\s*(?:#|//|/\*|<!--|--|;)")
#: Patterns of the texts in Tree.problems: an exceeded limit; a path that is not a regular file of the repository.
_LIMIT = re.compile(r"more than |detection took longer")
_NO_FILE = re.compile(r"a link that leads |it is not a regular file|Too many levels of symbolic links")
#: Limits: total characters of all files, seconds of an audit, number of debug ports, characters of a message.
_MAX_CHARS, _MAX_S, _MAX_PORTS, _MAX_MESSAGE = 300_000_000, 120.0, 200, 300


def audit(
    tree: Tree, *, agents: Iterable[str], version: str, read: Callable[[str], bytes | None]
) -> tuple[list[Finding], list[str]]:
    """Return a repository's findings, sorted, without those that a comment ignores; and notes on files not read.

    Args:
        tree: the repository, with the files to audit.
        agents: paths of `agent.pyz` files in the repository.
        version: version of the installed dkdbg.
        read: function that returns the bytes of a repository's file; None if it cannot be read.
    """
    until = time.monotonic() + _MAX_S
    texts = _texts(tree)
    own = {path: text for path, text in texts.items() if not _is_others(path)}
    debug, parsed = _parsed(own, tree, until)
    images = {
        path: dockerfiles.installed(path, text)
        for path, text in own.items()
        if dockerfiles.is_dockerfile(path)
    }
    found: list[Finding] = []
    for path, text in _in_time(texts, tree, until):
        by_kind = _of_kind(path, text, debug, parsed.get(path, ()), images, tree=tree) if path in own else ()
        for line, rule, message in (*_tokens(path, text), *by_kind):
            found.append(Finding(path=path, line=line, rule=rule, message=message))
    found += [each for path in agents if (each := _old_agent(path, version, read)) is not None]
    notes = _omitted(tree)
    for problem in tree.problems:
        path, _, why = (".", "", problem) if _LIMIT.match(problem) else problem.partition(": ")
        if _NO_FILE.match(why) or "{{" in texts.get(path, ""):  # templates are often not valid YAML
            notes.append(problem)
        else:
            found.append(Finding(path=path, line=1, rule=UNREAD, message=why))
    ignored = {path: _ignored(texts[path]) for path in {each.path for each in found} & texts.keys()}
    for path, lines in sorted(ignored.items()):
        unknown = set().union(*lines.values()) - RULES.keys()
        notes += [
            f"{path}: `dkdbg: ignore {rule}`: unknown rule; dkdbg audit prints the rule of each finding after its line number"
            for rule in sorted(unknown)
        ]
    shown = {
        replace(each, message=printable(each.message)[:_MAX_MESSAGE])
        for each in found
        if each.rule not in ignored.get(each.path, {}).get(each.line, ())
    }
    return sorted(shown), notes


def _texts(tree: Tree) -> dict[str, str]:
    """Return the text of each file by path, until all texts together have _MAX_CHARS characters."""
    found: dict[str, str] = {}
    size = 0
    for path in tree.files:
        if not _LOCK.fullmatch(path.rsplit("/", 1)[-1]):
            found[path] = tree.text(path)
            size += len(found[path])
            if size > _MAX_CHARS:
                tree.add_problem(f"more than {_MAX_CHARS // 1_000_000} MB: not all files were read")
                break
    return found


def _in_time(texts: dict[str, str], tree: Tree, until: float) -> Iterator[tuple[str, str]]:
    """Yield each path with its text; stop at the time limit, and record that in `tree`."""
    for each in texts.items():
        if time.monotonic() > until:
            tree.add_problem(f"more than {_MAX_S:g} s: not all files were audited")
            return
        yield each


def _is_others(path: str) -> bool:
    """Return whether a file is third-party code, in which only tokens are searched for."""
    return is_vendored(path) or not SKIP_DIRS.isdisjoint(path.split("/")[:-1])


def _parsed(own: dict[str, str], tree: Tree, until: float) -> tuple[frozenset[int], dict[str, list[Value]]]:
    """Return the ports on which the repository's debuggers listen, and the parsed YAML and JSON documents by path."""
    ports_of: dict[int, None] = dict.fromkeys(ports.USUAL)
    for path, text in _in_time(own, tree, until):
        if is_test(path):
            continue
        if path.endswith(".py"):
            ports_of |= dict.fromkeys(python_sources.debug_ports(text))
        elif dockerfiles.is_dockerfile(path):
            ports_of |= dict.fromkeys(dockerfiles.debug_ports(text))
        elif scripts.is_script(path, text):
            ports_of |= dict.fromkeys(scripts.debug_ports(text))
    worth = re.compile("|".join([_WORTH, *(rf"\b{port}\b" for port in islice(ports_of, _MAX_PORTS))]))
    parsed: dict[str, list[Value]] = {}
    for path, text in _in_time(own, tree, until):
        is_object = path.endswith(".json") and _JSON_OBJECT.search(text)
        if (_YAML.fullmatch(path) or is_object) and worth.search(rest := _without_schemas(text)):
            try:
                parsed[path] = documents.yaml_documents(documents.without_directives(rest))
            except UnreadableError as error:
                tree.add_problem(f"{path}: {error}, so only tokens were searched for")
    for each in (document for every in parsed.values() for document in every):
        ports_of |= dict.fromkeys(
            compose.debug_ports(each) if compose.is_compose(each) else manifests.debug_ports(each)
        )
    if len(ports_of) > _MAX_PORTS:
        tree.add_problem(f"more than {_MAX_PORTS} debug ports: not all were searched for")
    return frozenset(islice(ports_of, _MAX_PORTS)), parsed


def _without_schemas(text: str) -> str:
    """Return a YAML text with schemas and CustomResourceDefinitions blanked out: they are large and define no pods."""
    return "".join("\n" * each.count("\n") if _is_schema(each) else each for each in _BETWEEN.split(text))


def _is_schema(document: str) -> bool:
    if set(_KIND.findall(document)) == {"CustomResourceDefinition"}:
        return True
    if not document.startswith("{"):
        return _SCHEMA.search(document) is not None
    inside = document[1:].lstrip()
    margin = document[1 : len(document) - len(inside)]  # newline and indentation of each key
    keys = inside.split(margin) if "\n" in margin else [inside]
    return any(map(_SCHEMA.match, keys))


def _of_kind(
    path: str,
    text: str,
    debug: frozenset[int],
    parsed: Iterable[Value],
    images: dict[str, str],
    *,
    tree: Tree,
) -> Iterator[Found]:
    """Return the findings in one file by the rules for its kind; `debug` are the ports of debuggers."""
    for document in parsed:
        if compose.is_compose(document):
            yield from compose.audit(path, document, debug)
            for inline, ships in compose.inline_dockerfiles(path, document):
                for line, rule, message in dockerfiles.audit(inline.text, debug, ships=ships):
                    yield inline.line + line, rule, message
            continue
        if manifests.is_manifest(document):
            yield from manifests.audit(path, document, debug)
        if not is_test(path) and not any(True for _ in manifests.pods(document)):
            yield from scripts.audit_document(path, document, debug)
    if dockerfiles.is_requirements(path, images):
        yield from dockerfiles.audit_requirements(path, text, images)
    if dockerfiles.is_dockerfile(path):
        yield from dockerfiles.audit(text, debug, ships=not is_for_debugging(path))
    elif editor_files.is_devcontainer(path) or editor_files.is_launch(path):
        yield from _of_editor(path, text, debug, tree)
    elif is_test(path):
        return
    elif path.endswith(".py"):
        yield from python_sources.audit(path, text)
    elif scripts.is_script(path, text):
        yield from scripts.audit(path, text, debug)


def _omitted(tree: Tree) -> list[str]:
    """Return a note for each reason in `tree.omitted`, with the paths of the files left out.

    They are notes, not findings, because generated sources and data files may well exceed the limits.
    """
    paths: dict[str, list[str]] = {}
    for path, why in tree.omitted.items():
        paths.setdefault(why, []).append(path)
    return [f"{', '.join(each)}: {why}" for why, each in paths.items()]


def _of_editor(path: str, text: str, debug: frozenset[int], tree: Tree) -> Iterator[Found]:
    try:
        document = documents.json_document(text)
    except UnreadableError as error:
        tree.omitted[path] = f"not valid JSON, so only tokens were searched for: {str(error).lstrip(':')}"
        return
    if editor_files.is_devcontainer(path):
        yield from editor_files.audit_devcontainer(document, debug)
    else:
        yield from editor_files.audit_launch(document)


def _tokens(path: str, text: str) -> Iterator[Found]:
    for at, message in secrets.tokens(path, text, keys=not is_test(path)):
        yield text.count("\n", 0, at) + 1, TOKEN, message


def _old_agent(path: str, version: str, read: Callable[[str], bytes | None]) -> Finding | None:
    held = single_file.version_in(read(path) or b"")
    if held is None or not single_file.is_older(held, version):
        return None
    return Finding(
        path=path, line=1, rule=OLD_AGENT, message=f"the agent is dkdbg {held}, and {version} is installed"
    )


def agents_of(tree: Tree) -> tuple[str, ...]:
    """Return where agents may be: `.dkdbg/agent.pyz` in each folder, and each file named `agent.pyz`."""
    beside = (PurePosixPath(folder, ".dkdbg", single_file.NAME) for folder in (".", *tree.dirs))
    return tuple(str(each) for each in (*beside, *map(PurePosixPath, tree.named(single_file.NAME))))


def _ignored(text: str) -> dict[int, set[str]]:
    """Return the rules that `dkdbg: ignore` comments switch off, by line number.

    A comment applies to its own line; if it has that line to itself, also to the next one.
    """
    found: dict[int, set[str]] = defaultdict(set)
    for number, line in enumerate(text.split("\n"), 1):
        for each in _IGNORE.finditer(line):
            for at in (number, number + 1) if _COMMENT.match(line) else (number,):
                found[at].update(re.split(r"\s*,\s*", each[1]))
    return found
