"""Dependency files: which there are, who manages them, and the requirements they hold."""

from __future__ import annotations

import ast
import configparser
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml.error import YAMLError
from tomlkit.exceptions import TOMLKitError

from dkdbg.detect.compose_file import load_yaml
from dkdbg.detect.files import is_vendored, join, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.detect.files import Tree

#: TOML and YAML, which is whatever a stranger wrote; narrowed at every use.
Value = Any

CONDA_FILES = re.compile(r"(?:conda[-_]?)?env(?:ironment)?(?:[-_.][\w.-]+)?\.ya?ml|conda\.ya?ml")
REQUIREMENT_FILES = re.compile(
    r"(?:pip[-_])?requirements?(?:[-_.][\w.-]+)?\.(?:txt|in)|[\w.-]*[-_.]requirements\.txt"
)
#: Requirement files for something other than running the program on Linux.
_SIDE_FILES = re.compile(
    r"dev|test|doc|lint|ci\b|style|quality|build|windows|macos|mac_|darwin|rocm|ipex|xpu|runpod|colab|optional|extra|npu|amd|"
    r"example|tensorboard|notebook|lock",
    re.IGNORECASE,
)
_CONDA_NAMES = {
    "pytorch": "torch",
    "pytorch-gpu": "torch",
    "pytorch-cpu": "torch",
    "tensorflow-gpu": "tensorflow",
}
_OPTION = re.compile(r"(?:-i|--index-url|--extra-index-url|-f|--find-links)[\s=]+(\S+)")
_INCLUDE = re.compile(r"(?:-r|--requirement)[\s=]*(\S+)")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One requirement as a file states it.

    Attributes:
        name: canonical distribution name.
        spec: version specifiers, such as `>=2.0,<3`, empty when unpinned.
        url: what follows `@`, or the whole of a VCS line; None without.
        source: file (and line).
        extra: the extra or group that it belongs to, None for the base.
    """

    name: str
    spec: str
    source: str
    url: str | None = None
    extra: str | None = None

    @property
    def requirement(self) -> str:
        """The requirement as pip takes it on its command line."""
        return f"{self.name} @ {self.url}" if self.url else f"{self.name}{self.spec}"


@dataclass(frozen=True, kw_only=True)
class DependencyFile:
    """What one dependency file holds.

    Attributes:
        path: relative to the root.
        kind: `requirements`, `pyproject`, `setup.py`, `setup.cfg`, `conda`, `Pipfile`, `lock`.
        wanted: its requirements, included files' too.
        python: (specifier, key) pairs of Python constraints.
        indexes: package index URLs.
        scripts: (name, `module:function`) of console scripts.
        extras: names of optional groups.
        name: project or environment name, None without.
        tables: names of the managers' tables of a pyproject: `project`, `poetry`, `uv`, `pdm`, `pixi`, ...
        backend: build backend of a pyproject, None without.
    """

    path: str
    kind: str
    wanted: tuple[Wanted, ...] = ()
    python: tuple[tuple[str, str], ...] = ()
    indexes: tuple[str, ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()
    extras: tuple[str, ...] = ()
    name: str | None = None
    tables: tuple[str, ...] = ()
    backend: str | None = None


def read_dependency_files(tree: Tree) -> tuple[DependencyFile, ...]:
    """Return every dependency file of the repository that is its own, shallow ones first."""
    found: list[DependencyFile] = []
    for path in tree.files:
        name = path.rsplit("/", 1)[-1]
        if is_vendored(path) or path.count("/") > 4:
            continue
        if name == "pyproject.toml":
            found.append(_pyproject(tree, path))
        elif name == "setup.py":
            found.append(_setup_py(tree, path))
        elif name == "setup.cfg":
            found.append(_setup_cfg(tree, path))
        elif name == "Pipfile":
            found.append(_pipfile(tree, path))
        elif name in {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"}:
            found.append(_lock(tree, path))
        elif CONDA_FILES.fullmatch(name):
            conda = _conda(tree, path)
            if conda is not None:
                found.append(conda)
        elif REQUIREMENT_FILES.fullmatch(name) or (
            parent(path).rsplit("/", 1)[-1] == "requirements" and name.endswith((".txt", ".in"))
        ):
            found.append(read_requirements(tree, path))
    return tuple(found)


def is_side_file(path: str) -> bool:
    """Return whether a requirements file is for tests, another platform or the like, judged by its name."""
    name = path.rsplit("/", 1)[-1]
    return bool(_SIDE_FILES.search(name)) or bool(re.search(r"(?:^|/)(?:tests?|docs?)/", path))


def read_requirements(tree: Tree, path: str, _depth: int = 0) -> DependencyFile:
    """Return a pip requirements file, the files that it includes with `-r` folded in."""
    wanted: list[Wanted] = []
    indexes: list[str] = []
    text = re.sub(r"\\\n", " ", tree.text(path))
    for number, line in enumerate(text.split("\n"), 1):
        stripped = re.sub(r"(?:^|\s)#.*$", "", line).strip()
        if not stripped:
            continue
        indexes.extend(_OPTION.findall(stripped))
        if include := _INCLUDE.match(stripped):
            other = join(parent(path), include[1])
            if other and tree.has(other) and _depth < 5:
                below = read_requirements(tree, other, _depth + 1)
                wanted.extend(below.wanted)
                indexes.extend(below.indexes)
            continue
        if item := parse_requirement(stripped, f"{path}:{number}"):
            wanted.append(item)
    return DependencyFile(
        path=path, kind="requirements", wanted=tuple(wanted), indexes=tuple(dict.fromkeys(indexes))
    )


def parse_requirement(text: str, source: str, extra: str | None = None) -> Wanted | None:
    """Return one PEP 508 or pip requirement line, None for options, paths and what cannot be read."""
    text = re.sub(r"\s+--(?:hash|config-settings|global-option)\S*.*$", "", text).strip()
    text = re.sub(r"^(?:-e|--editable)\s+", "", text)
    if match := re.match(r"(?:git|hg|svn)\+\S+", text):
        egg = re.search(r"#egg=([\w.-]+)", text)
        tail = re.split(r"[@#]", match[0].split("://", 1)[-1])[0].rstrip("/").rsplit("/", 1)[-1]
        return Wanted(
            name=canonicalize_name(egg[1] if egg else tail.removesuffix(".git")),
            spec="",
            url=match[0],
            source=source,
            extra=extra,
        )
    if text.startswith(("-", ".", "/", "http", "$", "{")):
        return None
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        match = re.match(r"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*((?:[=<>!~]=?=?\s*[\w.*+]+\s*,?\s*)*)", text)
        if not match:
            return None
        return Wanted(
            name=canonicalize_name(match[1]), spec=match[2].replace(" ", ""), source=source, extra=extra
        )
    marker = str(parsed.marker or "")
    if (
        re.search(r"(?:sys_platform|platform_system)\s*==\s*['\"](?:win32|darwin|Windows|Darwin)", marker)
        and " or " not in marker
    ):
        return None
    return Wanted(
        name=canonicalize_name(parsed.name),
        spec=str(parsed.specifier),
        url=parsed.url,
        source=source,
        extra=extra,
    )


def _items(values: Value, source: str, extra: str | None = None) -> Iterator[Wanted]:
    for value in values if isinstance(values, (list, tuple)) else ():
        if isinstance(value, str) and (item := parse_requirement(value, source, extra)):
            yield item


def _pyproject(tree: Tree, path: str) -> DependencyFile:
    document: Value
    try:
        document = tomlkit.parse(tree.text(path)).unwrap()
    except (TOMLKitError, ValueError) as error:
        tree.note(f"{path}: not valid TOML: {error}")
        return DependencyFile(path=path, kind="pyproject")
    project = _table(document.get("project"))
    tool = _table(document.get("tool"))
    poetry = _table(tool.get("poetry"))
    uv = _table(tool.get("uv"))
    wanted = list(_items(project.get("dependencies"), path))
    optional = _table(project.get("optional-dependencies"))
    groups = _table(document.get("dependency-groups"))
    for name, values in [*optional.items(), *groups.items()]:
        wanted.extend(_items(values, f"{path} [{name}]", str(name)))
    if tool.get("setuptools") and "dependencies" in (project.get("dynamic") or []):
        dynamic = _table(_table(_table(tool["setuptools"]).get("dynamic")).get("dependencies"))
        files = dynamic.get("file", [])
        for file in [files] if isinstance(files, str) else files:
            other = join(parent(path), str(file))
            if other and tree.has(other):
                wanted.extend(read_requirements(tree, other).wanted)
    python = [(str(project["requires-python"]), "requires-python")] if project.get("requires-python") else []
    poetry_tables: list[tuple[str | None, dict[str, Value]]] = [(None, _table(poetry.get("dependencies")))]
    poetry_tables += [
        (str(key), _table(_table(group).get("dependencies")))
        for key, group in _table(poetry.get("group")).items()
    ]
    poetry_tables += [("dev", _table(poetry.get("dev-dependencies")))]
    for group_name, table in poetry_tables:
        for name, value in table.items():
            spec, url = _poetry_spec(value)
            if name == "python":
                python.append((spec, "tool.poetry.dependencies.python"))
            elif spec or not project.get("dependencies"):
                wanted.append(
                    Wanted(name=canonicalize_name(name), spec=spec, url=url, source=path, extra=group_name)
                )
    pixi = _table(tool.get("pixi"))
    for name, value in _table(pixi.get("dependencies")).items():
        spec = str(value.get("version", "")) if isinstance(value, dict) else str(value)
        if name == "python":
            python.append((_conda_spec(spec), "tool.pixi.dependencies.python"))
        else:
            wanted.append(Wanted(name=_conda_name(name), spec=_conda_spec(spec), source=path))
    scripts = {
        **_table(project.get("scripts")),
        **_table(project.get("gui-scripts")),
        **_table(poetry.get("scripts")),
    }
    backend = _table(document.get("build-system")).get("build-backend")
    tables = [name for name in ("poetry", "uv", "pixi", "hatch", "flit", "rye") if tool.get(name)]
    # pdm-backend alone only builds; who works with pdm has scripts, sources or groups in its table.
    if set(_table(tool.get("pdm"))) - {"build", "version", "distribution"}:
        tables.append("pdm")
    if project:
        tables.append("project")
    if poetry.get("dependencies") is None and not poetry.get("name") and not project and "poetry" in tables:
        tables.remove("poetry")
    return DependencyFile(
        path=path,
        kind="pyproject",
        wanted=tuple(wanted),
        python=tuple(python),
        indexes=tuple(_indexes(uv, poetry, tool)),
        scripts=tuple((str(key), value) for key, value in scripts.items() if isinstance(value, str)),
        extras=tuple(str(key) for key in [*optional, *_table(poetry.get("extras"))]),
        name=str(project.get("name") or poetry.get("name") or "") or None,
        tables=tuple(tables),
        backend=str(backend) if backend else None,
    )


def _indexes(uv: Value, poetry: Value, tool: Value) -> Iterator[str]:
    """Yield index URLs, those that torch is bound to first (uv `sources`)."""
    listed = [item for item in uv.get("index") or [] if isinstance(item, dict)]
    by_name = {str(item.get("name")): str(item.get("url", "")) for item in listed}
    bound = _table(uv.get("sources")).get("torch")
    for item in bound if isinstance(bound, list) else [bound]:
        if isinstance(item, dict) and by_name.get(str(item.get("index"))):
            yield by_name[str(item.get("index"))]
    yield from by_name.values()
    for key in ("index-url", "extra-index-url", "find-links"):
        value = uv.get(key) or _table(uv.get("pip")).get(key) or []
        yield from [value] if isinstance(value, str) else (str(item) for item in value)
    sources = [*(poetry.get("source") or []), *(_table(tool.get("pdm")).get("source") or [])]
    yield from (str(item.get("url", "")) for item in sources if isinstance(item, dict))


def _poetry_spec(value: Value) -> tuple[str, str | None]:
    """Translate poetry's `^1.2` and `~1.2` to specifiers (poetry docs, "Dependency specification")."""
    if isinstance(value, list):
        specs = [_poetry_spec(item) for item in value]
        return next((item for item in specs if item[0]), ("", None))
    if isinstance(value, dict):
        url = value.get("git") or value.get("url")
        return (_poetry_spec(value.get("version", ""))[0], f"git+{url}" if value.get("git") else url)
    return caret(str(value)), None


def caret(text: str) -> str:
    """Return a specifier for poetry's caret, tilde, wildcard and bare versions; others are left as they are."""
    text = text.strip()
    if text in {"*", ""}:
        return ""
    parts = []
    for part in text.split("||")[0].split(","):
        item = part.strip()
        match = re.fullmatch(r"(\^|~)?\s*(\d+)(?:\.(\d+))?(?:\.(\d+))?([\w.+*-]*)", item)
        if not match:
            parts.append(item.replace(" ", ""))
            continue
        version = item.lstrip("^~ ")
        major, minor = int(match[2]), int(match[3] or 0)
        if match[1] == "^":
            upper = f"{major + 1}" if major else f"0.{minor + 1}"
            parts.append(f">={version},<{upper}")
        elif match[1] == "~":
            parts.append(f">={version},<{major}.{minor + 1}" if match[3] else f">={version},<{major + 1}")
        else:
            parts.append(f"=={version}")
    return ",".join(parts)


def _setup_py(tree: Tree, path: str) -> DependencyFile:
    """Read the arguments of the `setup()` call without running it; lists held in variables are followed."""
    try:
        module = ast.parse(tree.text(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        tree.note(f"{path}: not valid Python: {error}")
        return DependencyFile(path=path, kind="setup.py")
    values: dict[str, ast.expr] = {}
    call: ast.Call | None = None
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, node.value)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "setup" and node.keywords:
                call = node
    arguments = {word.arg: word.value for word in call.keywords if word.arg} if call else {}
    for word in call.keywords if call else ():
        # `setup(**settings)`
        if (
            word.arg is None
            and isinstance(word.value, ast.Name)
            and isinstance(values.get(word.value.id), ast.Dict)
        ):
            settings = values[word.value.id]
            if isinstance(settings, ast.Dict):
                pairs = zip(settings.keys, settings.values, strict=True)
                arguments.update(
                    {
                        key.value: item
                        for key, item in pairs
                        if isinstance(key, ast.Constant) and isinstance(key.value, str)
                    }
                )
    wanted = list(_items(_literal(arguments.get("install_requires"), values), path))
    if not wanted and "install_requires" in arguments and "requirements" in tree.text(path):
        beside = join(parent(path), "requirements.txt")
        if beside and tree.has(beside):
            wanted.extend(read_requirements(tree, beside).wanted)
    extras = _table(_literal(arguments.get("extras_require"), values))
    for name, items in extras.items():
        wanted.extend(_items(items, f"{path} [{name}]", str(name)))
    python = _literal(arguments.get("python_requires"), values)
    entry_points = _literal(arguments.get("entry_points"), values)
    lines = entry_points.get("console_scripts", []) if isinstance(entry_points, dict) else []
    name = _literal(arguments.get("name"), values)
    return DependencyFile(
        path=path,
        kind="setup.py",
        wanted=tuple(wanted),
        python=((python, "python_requires"),) if isinstance(python, str) else (),
        scripts=tuple(_script_lines(lines)),
        extras=tuple(str(key) for key in extras),
        name=name if isinstance(name, str) else None,
        # A setup.py that calls no setup() is an installer of the project's own.
        tables=("setup",) if call else (),
    )


def _literal(node: ast.expr | None, values: dict[str, ast.expr], depth: int = 0) -> Value:
    """Return the literal parts of an expression: names are looked up, what cannot be known is left out."""
    if node is None or depth > 6:
        return None
    if isinstance(node, ast.Name):
        return _literal(values.get(node.id), values, depth + 1)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [
            item for item in (_literal(part, values, depth + 1) for part in node.elts) if item is not None
        ]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            str(_literal(key, values, depth + 1)): _literal(value, values, depth + 1)
            for key, value in pairs
            if key is not None
        }
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        # `deps["torch"]`, made from a list of all pins by name: Hugging Face's setup.py and those that follow it.
        pins = _literal(values.get("_deps") or values.get("deps"), values, depth + 1)
        wanted = canonicalize_name(str(node.slice.value))
        named = [
            str(pin) for pin in pins or () if canonicalize_name(re.split(r"[^\w.-]", str(pin))[0]) == wanted
        ]
        return named[0] if named else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left, values, depth + 1), _literal(node.right, values, depth + 1)
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        return left if right is None else right
    return None


def _script_lines(lines: Value) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines() if isinstance(lines, str) else lines if isinstance(lines, list) else ():
        name, equals, target = str(line).partition("=")
        if equals and ":" in target:
            yield name.strip(), target.split("[")[0].strip()


def _setup_cfg(tree: Tree, path: str) -> DependencyFile:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(tree.text(path))
    except configparser.Error as error:
        tree.note(f"{path}: {str(error).splitlines()[0]}")
        return DependencyFile(path=path, kind="setup.cfg")
    lines = parser.get("options", "install_requires", fallback="").splitlines()
    python = parser.get("options", "python_requires", fallback="").strip()
    scripts = parser.get("options.entry_points", "console_scripts", fallback="")
    return DependencyFile(
        path=path,
        kind="setup.cfg",
        wanted=tuple(_items([line.strip() for line in lines if line.strip()], path)),
        python=((python, "python_requires"),) if python else (),
        scripts=tuple(_script_lines(scripts)),
        name=parser.get("metadata", "name", fallback=None),
        tables=("project",) if parser.has_option("metadata", "name") else (),
    )


def _pipfile(tree: Tree, path: str) -> DependencyFile:
    document: Value
    try:
        document = tomlkit.parse(tree.text(path)).unwrap()
    except (TOMLKitError, ValueError) as error:
        tree.note(f"{path}: not valid TOML: {error}")
        return DependencyFile(path=path, kind="Pipfile")
    wanted = [
        Wanted(name=canonicalize_name(str(name)), spec=_poetry_spec(value)[0].replace("==*", ""), source=path)
        for name, value in _table(document.get("packages")).items()
    ]
    python = _table(document.get("requires")).get("python_version")
    sources = [str(item.get("url", "")) for item in document.get("source") or [] if isinstance(item, dict)]
    return DependencyFile(
        path=path,
        kind="Pipfile",
        wanted=tuple(wanted),
        python=((f"=={python}.*", "requires.python_version"),) if python else (),
        indexes=tuple(sources),
    )


def _lock(tree: Tree, path: str) -> DependencyFile:
    """Read names and versions by pattern: a lock of 20 000 lines takes seconds through a TOML parser."""
    text = tree.text(path)
    wanted = [
        Wanted(name=canonicalize_name(match[1]), spec=f"=={match[2]}", source=path)
        for match in re.finditer(r'^name = "([^"]+)"\nversion = "([^"]+)"', text, re.MULTILINE)
    ]
    python = re.search(r'^(?:requires-python|python-versions) = "([^"]+)"', text, re.MULTILINE)
    spec = ((caret(python[1]), "lock"),) if python else ()
    return DependencyFile(path=path, kind="lock", wanted=tuple(wanted), python=spec)


def _conda(tree: Tree, path: str) -> DependencyFile | None:
    try:
        document = load_yaml(tree.text(path))
    except (YAMLError, ValueError, RecursionError) as error:
        tree.note(f"{path}: not valid YAML: {(str(error).splitlines() or ['syntax error'])[0]}")
        return None
    items = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(items, list):
        return None
    wanted: list[Wanted] = []
    python: list[tuple[str, str]] = []
    indexes: list[str] = []
    for item in items:
        if isinstance(item, dict):
            for line in item.get("pip") or []:
                indexes.extend(_OPTION.findall(str(line)))
                if include := _INCLUDE.match(str(line)):
                    other = join(parent(path), include[1])
                    wanted.extend(read_requirements(tree, other).wanted if other and tree.has(other) else ())
                elif parsed := parse_requirement(str(line), path):
                    wanted.append(parsed)
            continue
        match = re.match(r"(?:[\w.-]+::)?([A-Za-z_][\w.-]*)\s*(.*)", str(item))
        if not match:
            continue
        name, spec = match[1].lower(), match[2].strip()
        # The third part of a conda pin is the build string.
        spec = _conda_spec(re.sub(r"^(=[^=<>!~]+)=.*$", r"\1", spec))
        if name == "python":
            python.append((spec, "dependencies"))
        else:
            wanted.append(
                Wanted(name=_conda_name(name), spec=spec, source=path, url=_cuda_of_build(str(item)))
            )
    return DependencyFile(
        path=path,
        kind="conda",
        wanted=tuple(wanted),
        python=tuple(python),
        indexes=tuple(indexes),
        name=str(document.get("name")) if document.get("name") else None,
    )


def _cuda_of_build(item: str) -> str | None:
    """Return `cuda:11.3` for a conda build string such as `py3.8_cuda11.3_cudnn8.2.0_0`, None without one."""
    match = re.search(r"=[\w.]*cuda_?(\d{2})\.?(\d)", item)
    return f"cuda:{match[1]}.{match[2]}" if match else None


def _conda_spec(spec: str) -> str:
    """Translate conda's fuzzy `=1.9` (a prefix) and `1.9.*` to specifiers."""
    spec = spec.replace(" ", "").split("|")[0]
    if match := re.fullmatch(r"={0,2}([\d.]+)(\.?\*)?", spec):
        version = match[1].rstrip(".")
        return f"=={version}" if version.count(".") > 1 and not match[2] else f"=={version}.*"
    return "" if spec == "*" else spec


def _conda_name(name: str) -> str:
    return _CONDA_NAMES.get(name.lower(), canonicalize_name(name))


def _table(value: Value) -> dict[str, Value]:
    return value if isinstance(value, dict) else {}
