"""Audit a repository: read each file once, and ask the rules of its kind."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from dkdbg.audit import (
    compose,
    dockerfiles,
    documents,
    editor_files,
    manifests,
    ports,
    python_sources,
    requirements,
    scripts,
    secrets,
)
from dkdbg.audit.documents import UnreadableError
from dkdbg.audit.rules import OLD_AGENT, RULES, TOKEN, UNREAD, Finding, is_test
from dkdbg.delivery import single_file
from dkdbg.setup.detect.files import is_vendored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dkdbg.audit.documents import Value
    from dkdbg.setup.detect.files import Tree

_YAML, _JSON_OBJECT = re.compile(r".+\.ya?ml"), re.compile(r"\"apiVersion\"")
#: Texts without which a YAML file has nothing for the audit: parsing takes a second for 15 KB.
_WORTH = r"debugpy|ptvsd|DKDBG_|agent\.pyz|SYS_PTRACE|privileged|nconfined|hostPort|hostNetwork|cap_add|capabilities|\bargs\b|\d-\d+:\d"
_LOCK = re.compile(r".+\.(?:lock|lockb|svg|csv|tsv|map)|package-lock\.json|.+-lock\.ya?ml")
_KIND = re.compile(r"^kind: *[\"']?(\w+)", re.MULTILINE)
_IGNORE = re.compile(r"dkdbg:\s*ignore[ =:]\s*([\w-]+(?:\s*,\s*[\w-]+)*)")
_COMMENT = re.compile(r"\s*(?:#|//|/\*|<!--|--|;)")
#: Private lines of Tree.problems that mean a limit of the walk.
_LIMIT = re.compile(r"^more than |^detection took longer")


def audit(
    tree: Tree,
    *,
    files: Iterable[str],
    agents: Iterable[str],
    version: str,
    read: Callable[[str], bytes | None],
) -> list[Finding]:
    """Return the findings of a repository, sorted by file and line, without those that a comment ignores.

    Args:
        tree: the repository.
        files: those of its files that count, such as the ones that git knows.
        agents: paths of its `agent.pyz`.
        version: version of the dkdbg that is installed.
        read: returns the bytes of a file of the repository; None if it cannot be read.
    """
    chosen = [path for path in files if tree.has(path)]
    texts = {path: tree.text(path) for path in chosen if not _LOCK.fullmatch(path.rsplit("/", 1)[-1])}
    own = {path: text for path, text in texts.items() if not is_vendored(path)}
    debug, parsed = _debug_ports(own, tree)
    images = {
        path: dockerfiles.installed(path, text)
        for path, text in own.items()
        if dockerfiles.is_dockerfile(path)
    }
    found: list[Finding] = []
    for path, text in texts.items():
        every = list(_tokens(path, text))
        if path in own:
            every += _of_kind(path, text, debug, parsed.get(path, ()), images)
        lines = text.split("\n") if every else []
        found += [each for each in every if not _is_ignored(each, lines)]
    found += [each for path in agents if (each := _old_agent(path, version, read)) is not None]
    found += [
        Finding(path=".", line=1, rule=UNREAD, message=each) for each in tree.problems if _LIMIT.search(each)
    ]
    return sorted(set(found))


def unknown_ignores(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return the rules that comments ignore and that do not exist, as `path: rule`."""
    for path, text in texts:
        for found in _IGNORE.finditer(text):
            yield from (f"{path}: {rule}" for rule in re.split(r"\s*,\s*", found[1]) if rule not in RULES)


def _debug_ports(own: dict[str, str], tree: Tree) -> tuple[frozenset[int], dict[str, list[Value]]]:
    """Return the ports of all debuggers of the repository, and the YAML files that are worth parsing, parsed."""
    found = set(ports.USUAL)
    for path, text in own.items():
        if is_test(path):
            continue
        if path.endswith(".py"):
            found.update(python_sources.debug_ports(text) if python_sources.WORTH.search(text) else ())
        elif dockerfiles.is_dockerfile(path):
            found.update(dockerfiles.debug_ports(text))
        elif scripts.is_script(path, text):
            found.update(scripts.debug_ports(text))
    worth = re.compile("|".join([_WORTH, *(rf"\b{port}\b" for port in sorted(found))]))
    parsed: dict[str, list[Value]] = {}
    for path, text in own.items():
        is_object = path.endswith(".json") and _JSON_OBJECT.search(text)
        if (_YAML.fullmatch(path) or is_object) and worth.search(text) and not _is_schema(text):
            try:
                parsed[path] = documents.yaml_documents(documents.without_directives(text))
            except UnreadableError as error:
                tree.note(f"{path}: {error}, so it was searched for tokens alone")
    for each in (document for every in parsed.values() for document in every):
        found.update(compose.debug_ports(each) if compose.is_compose(each) else manifests.debug_ports(each))
    return frozenset(found), parsed


def _is_schema(text: str) -> bool:
    """Return whether all objects of a manifest define resources: large, and without pods."""
    kinds = _KIND.findall(text)
    return bool(kinds) and set(kinds) == {"CustomResourceDefinition"}


def _of_kind(
    path: str, text: str, debug: frozenset[int], parsed: Iterable[Value], images: dict[str, str]
) -> Iterator[Finding]:
    """Return what the rules for this kind of file find."""
    for document in parsed:
        if compose.is_compose(document):
            yield from compose.audit(path, document, debug)
        elif manifests.is_manifest(document):
            yield from manifests.audit(path, document, debug)
    if requirements.is_requirements(path):
        yield from requirements.audit(path, text, images)
    if dockerfiles.is_dockerfile(path):
        yield from dockerfiles.audit(path, text, debug)
    elif editor_files.is_devcontainer(path) or editor_files.is_launch(path):
        yield from _of_editor(path, text, debug)
    elif is_test(path):
        return
    elif path.endswith(".py"):
        yield from python_sources.audit(path, text) if python_sources.WORTH.search(text) else ()
    elif scripts.is_script(path, text):
        yield from scripts.audit(path, text, debug)


def _of_editor(path: str, text: str, debug: frozenset[int]) -> Iterator[Finding]:
    try:
        document = documents.json_document(text)
    except UnreadableError:
        return
    if editor_files.is_devcontainer(path):
        yield from editor_files.audit_devcontainer(path, document, debug)
    else:
        yield from editor_files.audit_launch(path, document)


def _tokens(path: str, text: str) -> Iterator[Finding]:
    for at, message in secrets.tokens(path, text, keys=not is_test(path)):
        yield Finding(path=path, line=text.count("\n", 0, at) + 1, rule=TOKEN, message=message)


def _old_agent(path: str, version: str, read: Callable[[str], bytes | None]) -> Finding | None:
    held = single_file.version_in(read(path) or b"")
    try:
        is_old = held is not None and Version(held) < Version(version)
    except InvalidVersion:
        is_old = True
    if not is_old:
        return None
    return Finding(
        path=path, line=1, rule=OLD_AGENT, message=f"the agent is dkdbg {held}, and {version} is installed"
    )


def agents_of(tree: Tree) -> tuple[str, ...]:
    """Return where `init` and users put the agent: `.dkdbg/agent.pyz` of each folder, and files of that name."""
    beside = (PurePosixPath(folder, ".dkdbg", single_file.NAME) for folder in (".", *tree.dirs))
    return tuple(str(each) for each in (*beside, *map(PurePosixPath, tree.named(single_file.NAME))))


def _is_ignored(finding: Finding, lines: list[str]) -> bool:
    """Return whether a comment on the line, or alone on the line above, ignores a finding."""
    here = lines[finding.line - 1 : finding.line]
    above = lines[finding.line - 2 : finding.line - 1] if finding.line > 1 else []
    for line in (*here, *(each for each in above if _COMMENT.match(each))):
        for found in _IGNORE.finditer(line):
            if finding.rule in re.split(r"\s*,\s*", found[1]):
                return True
    return False
