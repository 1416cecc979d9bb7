"""Read compose files, and the parts of each service that matter to a debugger.

`docker compose config` has the final say about a running project. This module works without an engine, and never
writes.
"""

from __future__ import annotations

import functools
import json
import posixpath
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from dkdbg.core.compose_names import DEFAULT_NAMES, OVERRIDE_NAMES, is_name, main_files
from dkdbg.errors import DkdbgError
from dkdbg.setup.detect.docker.compose_service import absent_files, argv, read_body, read_build
from dkdbg.setup.detect.files import is_address, is_fixed, is_vendored, join, parent
from dkdbg.setup.detect.substitution import insisted, names, parse_env, substitute
from dkdbg.setup.detect.values import Override, elements, load_yaml, table, untagged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dkdbg.core.facts import ServiceFact
    from dkdbg.setup.detect.docker.compose_service import ComposeBuild
    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.values import Value

_COMPOSE_NAME = re.compile(r"(?:docker[-_])?compose(?:[._-][\w.-]+)?\.ya?ml|[\w.-]+[._-]compose\.ya?ml")
#: Other names of compose files, as in `-f local.yml` (cookiecutter-django); their content decides.
_STAGE_NAME = re.compile(r"(?:local|dev|development|staging|production|prod)\.ya?ml")
_SERVICES = re.compile(r"^services:[ \t]*(?:#.*)?$", re.MULTILINE)
#: YAML tags by which compose drops or replaces values when it merges files.
_RETAGS = re.compile(r"!(?:reset|override)\b")
#: Maximum number of compose files to read; more are only variants of each other.
_MAX_FILES = 60
_MAX_EXTENDS = 8
#: Keys whose value is a string or a list. Compose merges both into one list.
_STRING_OR_LIST = frozenset({"dns", "dns_search", "env_file", "tmpfs"})
SECTIONS = ("networks", "volumes", "configs", "secrets")
#: Valid name of a network, volume, config or secret. Any other source of a volume is a path (compose-spec, "Volumes").
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def named_files(value: str, separator: str) -> tuple[str, ...]:
    """Return the files that COMPOSE_FILE names, as normalised paths relative to the root."""
    names = (name.strip().strip("\"'") for name in value.split(separator or ":"))
    return tuple(posixpath.normpath(name) for name in names if name)


def find_compose_files(tree: Tree) -> tuple[str, ...]:
    """Return the compose files: first the default one, then others in the root, then those in subfolders."""
    found = [path for path in tree.matching(_COMPOSE_NAME) if not is_vendored(path)]
    stages = (path for path in tree.matching(_STAGE_NAME) if "/" not in path)
    found.extend(sorted(path for path in stages if _SERVICES.search(tree.text(path))))
    root = [path for path in found if "/" not in path]
    defaults = [name for name in DEFAULT_NAMES if name in root]
    overrides = [name for name in OVERRIDE_NAMES if name in root]
    others = [name for name in root if name not in defaults and name not in overrides]
    deeper = [path for path in found if "/" in path]
    return tuple([*defaults, *overrides, *others, *deeper][:_MAX_FILES])


@dataclass(frozen=True)
class ComposeFiles:
    """The facts in a repository's compose files.

    Attributes:
        services: the services of all files, in the order of the files.
        read: files that plain `docker compose` reads in the root, and the files that these include.
        names: names of the services in `read`.
    """

    services: tuple[tuple[ServiceFact, ComposeBuild], ...]
    read: tuple[str, ...]
    names: frozenset[str]


def read_services(tree: Tree, files: tuple[str, ...], compose_env: str | None) -> ComposeFiles:
    """Return all services of all files.

    Files that plain compose merges count as one: the default file and its override, or the files in `compose_env`.

    Raises:
        DkdbgError: the root's compose file is malformed; all further steps need it.
    """
    main = tuple(name for name in main_files(files, compose_env) if tree.has(name))
    loaded = {name: _with_extended(tree, main[0], _load(tree, name, strict=True)) for name in main}
    whole = _merged(loaded.values())
    included = list(_included(loaded, lambda path: _load(tree, path, strict=False)))
    inner = {path: document for path, document, _ in included}
    environments = {path: environment for path, _, environment in included}
    existing = frozenset[tuple[str, str]]().union(*map(names_of, (whole, *inner.values())))
    if main:
        existing |= {("networks", "default")}  # every project has it
    found: list[tuple[ServiceFact, ComposeBuild]] = []
    if main:
        merged = _File.of(tree, main[0], whole, strict=True)
        bodies = {path: _bodies(document) for path, document in loaded.items()}
        for name in merged.bodies:
            sources = [path for path, each in bodies.items() if name in each]
            read = _merged_service(merged, loaded, sources, name)
            if read is not None:
                found.append(read)
    for path in dict.fromkeys((*files, *inner)):
        if path in loaded or (main and path in OVERRIDE_NAMES):
            continue
        document = _with_extended(tree, path, inner.get(path) or _load(tree, path, strict=False))
        file = _File.of(tree, path, _merged([document]), strict=False)
        for name in file.bodies:
            read = file.service(name)
            if read is not None:
                parts = tuple(part for part in read[0].parts if part[:2] not in existing)
                beside = environments.get(path, (posixpath.join(parent(path), ".env"),))
                include_env = tuple(each for each in beside if tree.has(each) and each != ".env")
                found.append((replace(read[0], parts=parts, include_env=include_env), read[1]))
    names = frozenset(name for document in (whole, *inner.values()) for name in _bodies(document))
    return ComposeFiles(services=tuple(found), read=(*main, *inner), names=names)


def _included(
    files: Mapping[str, Value], load: Callable[[str], Value]
) -> Iterator[tuple[str, Value, tuple[str, ...]]]:
    """Yield path, document and environment files of each included file, also of those that included files include."""
    seen = set(files)
    todo: list[tuple[str, Value, tuple[str, ...]]] = [(*each, ()) for each in files.items()]
    while todo and len(seen) < _MAX_FILES:
        path, document, outer = todo.pop(0)
        for name, environment in _included_names(document):
            found = join(parent(path), name)
            if found is not None and found not in seen:
                seen.add(found)
                own = environment or [posixpath.join(posixpath.dirname(name), ".env")]
                # In a list of environment files the last one wins: the including file's variables override those of the
                # included.
                read = (*(each for item in own if (each := join(parent(path), item))), *outer)
                todo.append((found, load(found), read))
                yield todo[-1]


def _included_names(document: Value) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each included file, and its environment files; an empty list means the `.env` beside it."""
    for item in elements(table(document).get("include"))[:_MAX_FILES]:
        more = item if isinstance(item, dict) else {"path": item}
        folder, environment = more.get("project_directory"), elements(more.get("env_file"))
        if isinstance(folder, str) and not environment:
            environment = [posixpath.join(folder, ".env")]
        names = [name for name in elements(more.get("path")) if isinstance(name, str)]
        yield from ((name, [each for each in environment if isinstance(each, str)]) for name in names)


def _bodies(document: Value) -> dict[str, Value]:
    return {str(name): body for name, body in table(table(document).get("services")).items()}


@dataclass(frozen=True)
class _File:
    """A compose file, or several files merged, and the data that all its services need.

    Attributes:
        bodies: definitions of the services, by name.
        env: values of variables in the file.
        devices: name of a volume that binds a folder -> that folder.
        needs, needs_files: see ServiceFact.
        strict: whether an invalid service is an error instead of a note.
    """

    tree: Tree
    path: str
    document: Value
    bodies: dict[str, Value]
    env: dict[str, str]
    devices: dict[str, str]
    needs: tuple[str, ...]
    needs_files: tuple[tuple[str, str | None], ...]
    strict: bool

    @classmethod
    def of(cls, tree: Tree, path: str, document: Value, *, strict: bool) -> _File:
        """Return a compose file with the data that all its services need."""
        # `${PWD}` is the folder in which users start compose.
        env = {
            "PWD": _typed_in(tree, path, document),
            **parse_env(tree.text(join(parent(path), ".env") or ".env")),
        }
        needs_files = _needed_files(tree, path, document, env)
        devices = dict(_devices(_interpolate(_section(document, "volumes"), env)))
        return cls(
            tree, path, document, _bodies(document), env, devices, _needed(document, env), needs_files, strict
        )

    def service(self, name: str) -> tuple[ServiceFact, ComposeBuild] | None:
        """Return the facts of a service; None if it is invalid.

        Raises:
            DkdbgError: its name is invalid, and the file is the root's compose file.
        """
        body = self.bodies[name]
        if not is_name(name):
            message = f"{self.path}: {name[:80]!r} is not a valid service name: use letters, digits, `.`, `_` and `-`"
            if self.strict:
                hint = f"Rename it in {self.path}; then check it: docker compose config -q"
                raise DkdbgError(message, hint=hint)
            self.tree.add_problem(message)
            return None
        if not isinstance(body, dict):
            return None
        resolved, secret = _without_secrets(self.tree, f"{self.path}: {name}", body, self.env)
        fact, build = read_body(self.tree, self.path, name, resolved, self.devices)
        fact = replace(
            fact,
            command_from_env=secret.get("command", ()),
            entrypoint_from_env=secret.get("entrypoint", ()),
            needs=self.needs,
            needs_files=self.needs_files,
            parts=used_parts(self.path, self.document, resolved),
        )
        return fact, build


def _devices(volumes: Value) -> Iterator[tuple[str, str]]:
    """Yield (name, folder) of each volume that binds a folder (`driver_opts: {o: bind, device: ...}`)."""
    for name, body in table(volumes).items():
        options = table(table(body).get("driver_opts"))
        device = options.get("device")
        if isinstance(device, str) and {"bind", "rbind"} & set(str(options.get("o")).split(",")):
            yield str(name), device


def _merged_service(
    whole: _File, loaded: dict[str, Value], sources: list[str], name: str
) -> tuple[ServiceFact, ComposeBuild] | None:
    """Return a service that several merged files define; None if it is invalid.

    Compose resolves the paths in merged files from the first file's folder, but those of an extended service from the
    folder of its own file. So merge only the files in the first file's folder.

    Raises:
        DkdbgError: its name is invalid.
    """
    read = whole.service(name)
    if read is None:
        return None
    layers = [path for path in sources if parent(path) == parent(sources[0])]
    fact = replace(
        read[0],
        file=sources[0],
        parts=(),  # all top-level definitions of the merged files are in the project
        layers=tuple(layers) if len(layers) > 1 else (),
        retags=tuple(path for path in layers[1:] if _RETAGS.search(whole.tree.text(path))),
        without=tuple(path for path in sources if path not in layers),
    )
    if fact.without:
        document = _merged(loaded[path] for path in layers)
        own = replace(whole, path=sources[0], document=document, bodies=_bodies(document)).service(name)
        if own is not None:
            fact = replace(fact, says=own[0].says, mounted=own[0].binds)
    return fact, read[1]


def _needed(document: Value, env: dict[str, str]) -> tuple[str, ...]:
    """Return the unset variables for which compose rejects the whole file, whatever service is started.

    These are required variables (`${NAME:?...}`), and those without which a mount has no source, an image no name or a
    port no number.
    """
    found = [name for text in _texts(document) for name in insisted(text, env)]
    for body in map(table, _bodies(document).values()):
        for each in elements(body.get("volumes")):
            if isinstance(each, str) and not each.startswith(":") and substitute(each, env).startswith(":"):
                found.extend(name for name in names(each.split(":/")[0]) if not env.get(name))
        image = body.get("image")
        if isinstance(image, str) and image and "build" not in body and not substitute(image, env):
            found.extend(names(image))
        for each in elements(body.get("ports")):
            if isinstance(each, str) and not substitute(each, env).rpartition(":")[2].partition("/")[0]:
                found.extend(name for name in names(each) if not env.get(name))
    return tuple(dict.fromkeys(found))


def _needed_files(
    tree: Tree, path: str, document: Value, env: dict[str, str]
) -> tuple[tuple[str, str | None], ...]:
    """Return (missing environment file, its example or None) for the services that compose starts without a profile."""
    absent = dict.fromkeys(
        name
        for body in map(table, _bodies(document).values())
        if not body.get("profiles")
        for name in absent_files(tree, parent(path), _interpolate(body.get("env_file"), env))
    )
    return tuple((name, _example_of(tree, name)) for name in absent)


def _example_of(tree: Tree, name: str) -> str | None:
    """Return the example for an environment file, such as `.env.example` or `example.env`; None if it is missing."""
    last = name.rsplit("/", 1)[-1]
    plain = last.removeprefix(".")
    for kind in ("example", "sample", "template", "dist", "default"):
        others = (f"{last}.{kind}", f"{last}-{kind}", f"{kind}{last}", f"{plain}.{kind}", f".{kind}.{plain}")
        for other in others:
            path = join(parent(name), other)
            if path is not None and tree.has(path):
                return path
    return None


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        if "$" in value:
            yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _without_secrets(
    tree: Tree, where: str, raw: Value, env: dict[str, str]
) -> tuple[Value, dict[str, tuple[tuple[int, str], ...]]]:
    """Return a service with variables replaced, and those words of its command line that use a value from .env.

    Such a value may be a secret, and users commit the files that `init` writes: there, these words keep their
    variables.
    """
    resolved = _interpolate(raw, env)
    found: dict[str, tuple[tuple[int, str], ...]] = {}
    for key in ("command", "entrypoint"):
        written, words = argv(raw.get(key)) or (), argv(resolved.get(key)) or ()
        secret = tuple((index, word) for index, word in enumerate(written) if _takes(word, env))
        if secret and len(written) != len(words):  # a value with blanks became several words
            resolved[key] = _interpolate(raw[key], {"PWD": env["PWD"]})
            tree.add_problem(
                f"{where}: {key} takes several words from .env; pass the whole line with --command"
            )
        elif secret:
            found[key] = secret
    return resolved, found


def _takes(word: str, env: dict[str, str]) -> bool:
    return any(name in env and name != "PWD" for name in names(word))


def _typed_in(tree: Tree, path: str, document: Value) -> str:
    """Return the folder in which users start compose (`$PWD`), relative to the compose file's folder.

    It is the root if the compose file or a README says `-f path/from/root`, or if all services are built from the root.
    """
    folder = parent(path)
    if folder == ".":
        return "."
    named = re.compile(rf"(?:-f|--file)[ =](?:\./)?{re.escape(path)}\b")
    texts = (tree.text(other) for other in (path, f"{folder}/README.md", "README.md"))
    bodies = map(table, _bodies(document).values())
    contexts = {read_build(tree, folder, body.get("build"))[0] for body in bodies}
    from_root = any(named.search(text) for text in texts) or contexts - {None} == {"."}
    return "/".join(".." for _ in folder.split("/")) if from_root else "."


def _merged(documents: Iterable[Value]) -> Value:
    """Return compose files merged into one, with compose's tags removed."""
    return untagged(functools.reduce(merge, documents, {}))


def merge(base: Value, over: Value, key: str = "") -> Value:
    """Return two values of a key merged as compose does it: join maps, append sequences, replace other values.

    A tagged value keeps its tag, which may also have to replace a value of an extended service or an earlier file.
    """
    if isinstance(over, Override):
        return over
    if isinstance(base, Override):
        return Override(merge(base.value, over, key))
    base, over = _long(key, base, over), _long(key, over, base)
    if isinstance(base, dict) and isinstance(over, dict):
        common = {name: merge(base[name], value, str(name)) for name, value in over.items() if name in base}
        return {**base, **over, **common}
    if key in {"command", "entrypoint"}:
        return over
    if isinstance(base, list) and isinstance(over, list):
        return list({_identity(key, each): each for each in (*base, *over)}.values())
    return base if over is None else over


def _long(key: str, value: Value, other: Value) -> Value:
    """Return `value` in its long form if `other` has that form: compose merges long forms (compose-go, `override`)."""
    if isinstance(value, str) and key == "build" and isinstance(other, dict):
        return {"context": value}
    if isinstance(value, str) and key in _STRING_OR_LIST:
        return [value]
    if isinstance(value, list) and isinstance(other, dict):
        if key == "depends_on":
            return {str(each): {"required": True} for each in value}
        pairs = (str(each).partition("=") for each in value)
        return {name: text if equals else None for name, equals, text in pairs}
    return value


def _identity(key: str, entry: Value) -> str:
    """Return the text by which compose identifies a list entry; of entries with the same identity the last one wins."""
    if key == "volumes" and isinstance(entry, dict):
        return str(entry.get("target"))
    if key == "volumes" and isinstance(entry, str):
        source, _, target = re.sub(r"(\$\{\w+):", r"\1", entry).partition(":")
        return target.partition(":")[0] or source
    return repr(entry)


def _load(tree: Tree, path: str, *, strict: bool) -> Value:
    try:
        document = load_yaml(tree.text(path), keeps_tags=True)
    except (YAMLError, ValueError, RecursionError, MemoryError) as error:
        line, what = _where(error)
        message = f"{path}:{line}: not valid YAML: {what}" if line else f"{path}: not valid YAML: {what}"
        if strict:
            raise DkdbgError(
                message, hint=f"Correct {path}; then check it: docker compose config -q"
            ) from error
        tree.add_problem(message)
        return {}
    is_valid = isinstance(document, dict) and isinstance(document.get("services", {}), (dict, Override))
    if document is not None and not is_valid and strict:
        raise DkdbgError(
            f"{path}:1: not a compose file: `services` must be a mapping of names to services",
            hint=f"Correct {path}; then check it: docker compose config -q",
        )
    return table(document)


def _where(error: Exception) -> tuple[int | None, str]:
    if isinstance(error, MarkedYAMLError):
        position = error.problem_mark or error.context_mark
        return (position.line + 1 if position else None), str(
            error.problem or error.context or "syntax error"
        )
    return None, (str(error).splitlines() or ["syntax error"])[0]


def _with_extended(tree: Tree, path: str, document: Value) -> Value:
    """Return a compose file with each `extends` resolved, which compose does before merging files."""
    services = document.get("services")
    if not isinstance(services, dict):
        return document
    extended = {
        name: _extended(tree, path, document, body, 0) if isinstance(body, dict) else body
        for name, body in services.items()
    }
    return {**document, "services": extended}


def _extended(tree: Tree, path: str, document: Value, body: Value, depth: int) -> Value:
    extends = body.get("extends")
    if not extends or depth > _MAX_EXTENDS:
        return body
    name = extends if isinstance(extends, str) else table(extends).get("service")
    file = table(extends).get("file")
    other_path: str | None = path
    other: Value = document
    if isinstance(file, str):
        other_path = join(parent(path), file)
        other = _load(tree, other_path, strict=False) if other_path and tree.has(other_path) else {}
    base = table(_bodies(other).get(name)) if isinstance(name, str) else {}
    if not base or other_path is None:
        return body
    below = _extended(tree, other_path, other, base, depth + 1)
    below = untagged(below) if isinstance(file, str) else below  # a tag has no effect outside its own file
    own = {key: value for key, value in body.items() if key != "extends"}
    return merge(_moved(below, parent(other_path), parent(path)), own)


def _moved(body: Value, source: str, destination: str) -> Value:
    """Rewrite the relative paths of an extended service, which are relative to the file that defines it."""
    if source == destination:
        return body
    up = "/".join(".." for _ in destination.split("/")) if destination != "." else "."
    prefix = f"{up}/{source}"
    moved = dict(body)
    build = moved.get("build")

    def rebased(path: Value) -> str:
        return str(path) if is_fixed(str(path)) else f"{prefix}/{path}"

    context = build.get("context", ".") if isinstance(build, dict) else build
    if isinstance(context, str) and not is_address(context):
        moved["build"] = (
            {**build, "context": rebased(context)} if isinstance(build, dict) else rebased(context)
        )
    volumes = moved.get("volumes")
    if isinstance(volumes, list):
        moved["volumes"] = [
            f"{prefix}/{volume}" if isinstance(volume, str) and volume.startswith(".") else volume
            for volume in volumes
        ]
    if "env_file" in moved:
        moved["env_file"] = [
            {**each, "path": rebased(each.get("path"))} if isinstance(each, dict) else rebased(each)
            for each in elements(moved["env_file"])
        ]
    return moved


def _interpolate(value: Value, env: dict[str, str]) -> Value:
    if isinstance(value, str):
        return substitute(value, env) if "$" in value else value
    if isinstance(value, dict):
        return {key: _interpolate(item, env) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolate(item, env) for item in value]
    return value


def names_of(document: Value) -> frozenset[tuple[str, str]]:
    """Return (section, name) of each top-level definition of a compose file."""
    return frozenset((section, str(name)) for section in SECTIONS for name in _section(document, section))


def used_parts(path: str, document: Value, body: Value) -> tuple[tuple[str, str, str], ...]:
    """Return (section, name, definition as JSON) of each top-level definition that a service uses.

    Args:
        path: path of the compose file; it and the paths in the result are relative to the root.
        document: the file with its variables: compose replaces them, and dkdbg must not write their values to a file.
        body: the service, with variables replaced.
    """
    return tuple(
        (
            section,
            name,
            json.dumps(
                _plain(_with_file_moved(_section(document, section)[name], parent(path))), default=str
            ),
        )
        for section, name in dict.fromkeys(_uses(body))
        if _NAME.fullmatch(name) and name in _section(document, section)
    )


def _section(document: Value, section: str) -> dict[str, Value]:
    return table(table(document).get(section))


def _uses(body: Value) -> Iterator[tuple[str, str]]:
    networks = body.get("networks")
    for name in networks if isinstance(networks, dict) else elements(networks):
        yield "networks", str(name)
    for each in elements(body.get("volumes")):
        if isinstance(each, dict) and each.get("type", "volume") == "volume":
            yield "volumes", str(each.get("source"))
        elif isinstance(each, str) and ":" in each:
            yield "volumes", each.split(":")[0]
    for section, value in (
        ("configs", body.get("configs")),
        ("secrets", body.get("secrets")),
        ("secrets", table(body.get("build")).get("secrets")),
    ):
        for each in elements(value):
            yield section, str(each.get("source") if isinstance(each, dict) else each)


def _plain(value: Value) -> Value:
    """Return the value with string keys, as JSON requires: YAML keys may be dates or numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _with_file_moved(definition: Value, folder: str) -> Value:
    """Rewrite the file path of a config or secret, which is relative to the file that defines it."""
    file = table(definition).get("file")
    if not isinstance(file, str) or file.startswith(("/", "~", "$")):
        return definition
    return {**definition, "file": "./" + posixpath.normpath(f"{folder.replace('$', '$$')}/{file}")}
