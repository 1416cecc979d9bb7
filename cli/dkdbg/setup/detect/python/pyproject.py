"""Read pyproject.toml, pixi.toml, Pipfile and lock files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from packaging.markers import Marker
from packaging.utils import canonicalize_name
from tomlkit.exceptions import TOMLKitError

from dkdbg.setup.detect.files import join, parent
from dkdbg.setup.detect.python.conda import conda_name, conda_spec
from dkdbg.setup.detect.python.requirements import (
    DependencyFile,
    Wanted,
    items_of,
    local_folders,
    options_of,
    read_requirements,
    without_login,
)
from dkdbg.setup.detect.values import Value, elements, load_toml, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dkdbg.setup.detect.files import Tree


#: Entry in `DependencyFile.tables`: the project requires an NVIDIA driver.
NEEDS_CUDA = "system-requirements.cuda"
#: Entry in `DependencyFile.tables`: the project declares that it has no dependencies.
NEEDS_NOTHING = "dependencies = []"
#: Values of the variables in environment markers (PEP 508) for the image.
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
#: Names of optional groups that usually hold requirements of programs.
_FOR_PROGRAMS = re.compile(r"all$|full|main|base|core|run|cpu|gpu|cuda|cu\d|train|torch|jax|tensorflow|tf$")

_ROOT = "pyproject.toml"
#: Conda packages that are not Python packages (pip cannot install them).
_CONDA_ALONE = re.compile(
    r"make|git|git-lfs|ffmpeg|gcc\w*|gxx\w*|clang\w*|(?:c-|cxx-)?compilers?|cuda(?:[-_]\w+)*|cudnn|lib[\w-]+|nodejs|pkg-config|rust|openssl"
)


def read_toml(tree: Tree, path: str) -> dict[str, Value]:
    """Return the content of a TOML file, empty if it is missing; record invalid TOML as a problem."""
    try:
        return table(load_toml(tree.text(path)))
    except (TOMLKitError, ValueError, RecursionError) as error:
        tree.add_problem(f"{path}: not valid TOML: {error}")
        return {}


def read_pyproject(tree: Tree, path: str) -> DependencyFile:
    """Return the content of a pyproject.toml (tables of PEP 621, poetry, uv, pdm, pixi); empty if it is invalid."""
    document = read_toml(tree, path)
    project = table(document.get("project"))
    tool = table(document.get("tool"))
    poetry = table(tool.get("poetry"))
    uv = table(tool.get("uv"))
    wanted = list(items_of(project.get("dependencies"), path))
    optional = table(project.get("optional-dependencies"))
    groups = table(document.get("dependency-groups"))
    for name, values in [*optional.items(), *groups.items()]:
        wanted.extend(items_of(values, f"{path} [{name}]", str(name)))
    if tool.get("setuptools") and "dependencies" in elements(project.get("dynamic")):
        dynamic = table(table(table(tool["setuptools"]).get("dynamic")).get("dependencies"))
        files = dynamic.get("file", [])
        for file in elements(files):
            other = join(parent(path), str(file))
            if other and tree.has(other):
                wanted.extend(read_requirements(tree, other).wanted)
    python = [(str(project["requires-python"]), "requires-python")] if project.get("requires-python") else []
    poetry_tables: list[tuple[str | None, dict[str, Value]]] = [(None, table(poetry.get("dependencies")))]
    poetry_tables += [
        (str(key), table(table(group).get("dependencies")))
        for key, group in table(poetry.get("group")).items()
    ]
    poetry_tables += [("dev", table(poetry.get("dev-dependencies")))]
    for group_name, entries in poetry_tables:
        for name, value in entries.items():
            spec = _poetry_spec(value)
            if name == "python":
                python.append((spec, "tool.poetry.dependencies.python"))
            elif spec or not project.get("dependencies"):
                wanted.append(Wanted(name=canonicalize_name(name), spec=spec, source=path, extra=group_name))
    pixi = table(tool.get("pixi"))
    in_pixi, pixi_python = _pixi_items(pixi, path)
    wanted.extend(in_pixi)
    _warn_of_logins(tree, path)
    of_poetry = (each for _, each in poetry_tables)
    sources = (table(uv.get("sources")), table(pixi.get("pypi-dependencies")), *of_poetry)
    root = _workspace(tree, path)
    indexes = [
        table(item)
        for listed in (
            root.get("index"),
            uv.get("index"),
            poetry.get("source"),
            table(tool.get("pdm")).get("source"),
        )
        for item in elements(listed)
    ]
    found = _from_sources(tree, path, wanted, indexes, sources, of_root=table(root.get("sources")))
    python.extend((spec, "tool.pixi.dependencies.python") for spec in pixi_python)
    scripts = {
        **table(project.get("scripts")),
        **table(project.get("gui-scripts")),
        **table(poetry.get("scripts")),
    }
    backend = table(document.get("build-system")).get("build-backend")
    tables = [name for name in ("poetry", "uv", "pixi", "hatch", "flit", "rye") if tool.get(name)]
    # pdm as a mere build backend uses only these keys; a project that is installed by pdm has others.
    if set(table(tool.get("pdm"))) - {"build", "version", "distribution"}:
        tables.append("pdm")
    if project:
        tables.append("project")
        needed = [name for name in (*optional, *groups) if _FOR_PROGRAMS.match(str(name))]
        if (
            project.get("dependencies") == []
            and not any(each.extra is None for each in wanted)
            and not needed
        ):
            tables.append(NEEDS_NOTHING)
    if poetry.get("dependencies") is None and not poetry.get("name") and not project and "poetry" in tables:
        tables.remove("poetry")
    return DependencyFile(
        path=path,
        kind="pyproject",
        **found,
        python=tuple(python),
        indexes=tuple(_indexes(uv, poetry, tool)),
        index_options=_index_options(indexes, uv, table(uv.get("pip")), table(pixi.get("pypi-options"))),
        scripts=tuple((str(key), value) for key, value in scripts.items() if isinstance(value, str)),
        extras=tuple(str(key) for key in [*optional, *table(poetry.get("extras"))]),
        name=str(project.get("name") or poetry.get("name") or "") or None,
        tables=tuple(tables),
        backend=str(backend) if backend else None,
    )


def read_pixi(tree: Tree, path: str) -> DependencyFile:
    """Return the content of a pixi.toml; its top level equals `tool.pixi` in a pyproject.toml."""
    document = read_toml(tree, path)
    wanted, python = _pixi_items(document, path)
    _warn_of_logins(tree, path)
    found = _from_sources(tree, path, wanted, (), [table(document.get("pypi-dependencies"))])
    about = table(document.get("workspace")) or table(document.get("project"))
    # With this entry, pixi refuses to install on a machine without a CUDA driver.
    needs = [NEEDS_CUDA] if table(document.get("system-requirements")).get("cuda") else []
    return DependencyFile(
        path=path, kind="pixi", **found, index_options=_index_options((), table(document.get("pypi-options"))),
        python=tuple((spec, "dependencies.python") for spec in python), name=str(about.get("name") or "") or None,
        tables=("pixi", *needs),
    )  # fmt: skip


def _warn_of_logins(tree: Tree, path: str) -> None:
    """Record a problem if a file has URLs with credentials, which the generated Dockerfile omits."""
    if re.search(r"https?://[^/\s\"']+@", tree.text(path), re.IGNORECASE):
        tree.add_problem(
            f"{path}: the Dockerfile of dkdbg init leaves out the user and password of a URL here, because they would stay readable in the image"
        )


def _workspace(tree: Tree, path: str) -> dict[str, Value]:
    """Return the `tool.uv` table of the workspace root, which applies to its members; empty for the root itself.

    Source: uv docs, "Using workspaces", workspace sources.
    """
    uv = (
        table(table(read_toml(tree, _ROOT).get("tool")).get("uv"))
        if path != _ROOT and tree.has(_ROOT)
        else {}
    )
    return uv if uv.get("workspace") else {}


def _source(value: Value) -> dict[str, Value]:
    """Return a dependency's source if it applies to every installation on Linux; empty for the default index."""
    listed = map(table, value if isinstance(value, list) else [value])
    return next((each for each in listed if _is_always(each)), {})


class _Sourced(TypedDict):
    """The fields of `DependencyFile` that depend on where its requirements come from."""

    wanted: tuple[Wanted, ...]
    local: tuple[str, ...]
    members: tuple[str, ...]


def _from_sources(
    tree: Tree,
    path: str,
    wanted: Iterable[Wanted],
    indexes: Iterable[Mapping[str, Value]],
    sources: Iterable[Mapping[str, Value]],
    *,
    of_root: Mapping[str, Value] | None = None,
) -> _Sourced:
    """Return the requirements, each with its VCS URL, archive or index; and the local folders separately.

    Sources: uv docs, "Dependency sources"; poetry docs, "Dependency specification"; pipenv docs, "Specifying
    Package Indexes"; pixi docs, "pypi-dependencies".

    Args:
        indexes: the file's package indexes, to which sources refer by name.
        sources: tables of (name of a requirement -> its source).
        of_root: sources of the workspace root; their paths are relative to that root.
    """
    own: dict[str, Value] = {
        canonicalize_name(name): value for each in sources for name, value in each.items()
    }
    of_workspace: dict[str, Value] = {
        canonicalize_name(name): value for name, value in (of_root or {}).items()
    }
    urls = {str(each.get("name")): str(each.get("url")) for each in indexes}
    kept: list[Wanted] = []
    local: list[str] = []
    members: list[str] = []
    for each in wanted:
        file, value = (path, own[each.name]) if each.name in own else (_ROOT, of_workspace.get(each.name))
        source = _source(value)
        if source.get("workspace") is True:
            members.append(each.name)
        elif folder := str(source.get("path") or ""):
            packages = local_folders(tree, file, [folder])
            local.extend(packages)
            if not packages and join(parent(file), folder) not in {"", "."}:
                tree.add_problem(
                    f"{file}: {each.name} is taken from {folder}, which is not a package of this repository: it is not installed"
                )
        else:
            index = str(source.get("index") or source.get("source") or "")
            index = without_login(urls.get(index, index))
            kept.append(replace(each, url=_url(source) or each.url, index=index if "://" in index else None))
    return {
        "wanted": tuple(kept),
        "local": tuple(dict.fromkeys(local)),
        "members": tuple(dict.fromkeys(members)),
    }


def _is_always(source: Mapping[str, Value]) -> bool:
    """Return whether a source applies to every installation on Linux, with whatever extras and groups."""
    if {"extra", "group"} & set(source):
        return False
    marker = source.get("marker") or source.get("markers")  # the keys of uv and pixi, and of poetry
    try:
        return not marker or Marker(str(marker)).evaluate(_LINUX)
    except (ValueError, RecursionError):  # not a marker
        return True


def _index_options(indexes: Iterable[Mapping[str, Value]], *settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Return pip's options for the indexes that serve all requirements.

    Args:
        indexes: tables with an index's URL each; an index called pypi replaces PyPI (pdm).
        settings: tables with keys that have the names of pip's options.
    """
    default, further = "--index-url", "--extra-index-url"
    stated = [
        (default if each.get("default") is True or each.get("name") == "pypi" else further, each.get("url"))
        for each in indexes
        if each.get("explicit") is not True and each.get("priority") != "explicit"
    ]
    for key in ("index-url", "extra-index-url", "extra-index-urls"):
        stated += [
            (f"--{key.removesuffix('s')}", url) for each in settings for url in elements(each.get(key))
        ]
    return options_of(stated)


def _pixi_items(pixi: dict[str, Value], path: str) -> tuple[list[Wanted], list[str]]:
    """Return the requirements and the Python specifiers in pixi's two tables of dependencies.

    Both tables use conda's syntax for versions.
    """
    wanted, python = [], []
    listed = [*table(pixi.get("dependencies")).items(), *table(pixi.get("pypi-dependencies")).items()]
    for name, value in listed:
        spec = str(value.get("version", "")) if isinstance(value, dict) else str(value)
        if name == "python":
            python.append(conda_spec(spec))
        elif not _CONDA_ALONE.fullmatch(name):
            extras = table(value).get("extras")
            wanted.append(Wanted(
                name=conda_name(name), spec=conda_spec(spec), source=path,
                extras=tuple(map(str, elements(extras))),
            ))  # fmt: skip
    return wanted, python


def _indexes(uv: Value, poetry: Value, tool: Value) -> Iterator[str]:
    """Yield the URLs of indexes, first those that serve torch (uv `sources`)."""
    listed = [item for item in elements(uv.get("index")) if isinstance(item, dict)]
    by_name = {str(item.get("name")): str(item.get("url", "")) for item in listed}
    bound = table(uv.get("sources")).get("torch")
    for item in bound if isinstance(bound, list) else [bound]:
        if isinstance(item, dict) and by_name.get(str(item.get("index"))):
            yield by_name[str(item.get("index"))]
    yield from by_name.values()
    for key in ("index-url", "extra-index-url", "find-links"):
        value = uv.get(key) or table(uv.get("pip")).get(key)
        yield from (str(item) for item in elements(value))
    sources = [*elements(poetry.get("source")), *elements(table(tool.get("pdm")).get("source"))]
    yield from (str(item.get("url", "")) for item in sources if isinstance(item, dict))


def _poetry_spec(value: Value) -> str:
    """Translate poetry's `^1.2` and `~1.2` to specifiers for pip (poetry docs, "Dependency specification")."""
    if isinstance(value, list):
        return next(filter(None, map(_poetry_spec, value)), "")
    if isinstance(value, dict):
        return _poetry_spec(value.get("version", ""))
    return caret(str(value))


def _url(value: Mapping[str, Value]) -> str | None:
    """Return a dependency's source in pip's syntax, such as `git+https://...@v1`; None if it comes from an index."""
    reference = value.get("rev") or value.get("tag") or value.get("branch") or value.get("ref")
    git = f"git+{value.get('git')}{f'@{reference}' if reference else ''}" if value.get("git") else None
    folder = f"#subdirectory={value['subdirectory']}" if value.get("subdirectory") else ""
    found = git or value.get("url")
    return f"{found}{folder}" if found else None


def caret(text: str) -> str:
    """Return a specifier for poetry's caret, tilde, wildcard and bare versions; leave others unchanged."""
    text = text.strip()
    if text in {"*", ""}:
        return ""
    parts = []
    for part in text.split("||")[0].split(","):
        item = part.strip()
        match = re.fullmatch(r"(\^|~)?\s*(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d+))?([\w.+*-]*)", item)
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


def read_pipfile(tree: Tree, path: str) -> DependencyFile:
    """Return the content of a Pipfile."""
    document = read_toml(tree, path)
    _warn_of_logins(tree, path)
    packages = table(document.get("packages"))
    wanted = [
        Wanted(name=canonicalize_name(str(name)), spec=_poetry_spec(value).replace("==*", ""), source=path)
        for name, value in packages.items()
    ]
    python = table(document.get("requires")).get("python_version")
    indexes = [item for item in map(table, elements(document.get("source"))) if item]
    return DependencyFile(
        path=path,
        kind="Pipfile",
        **_from_sources(tree, path, wanted, indexes, [packages]),
        python=((f"=={python}.*", "requires.python_version"),) if python else (),
        indexes=tuple(str(each.get("url", "")) for each in indexes),
        # Only the first index serves all packages; another serves only packages that name it.
        index_options=_index_options([{**each, "default": True} for each in indexes[:1]]),
    )


#: Folder of a local package in a uv.lock or poetry.lock.
_LOCKED_FOLDER = re.compile(
    r"""^(?:source = \{ (?:editable|virtual|directory) =|\[package\.source\]\ntype = "directory"\nurl =) "([\w./-]+)\"""",
    re.MULTILINE,
)


def read_lock(tree: Tree, path: str) -> DependencyFile:
    """Return names and versions in a lock file, found by a pattern: a TOML parser needs seconds for 20,000 lines."""
    text = tree.text(path)
    if path.endswith("pixi.lock"):
        return _read_pixi_lock(text, path)
    wanted = [
        Wanted(name=canonicalize_name(match[1]), spec=f"=={match[2]}", source=path)
        for match in re.finditer(r'^name = "([^"]+)"\nversion = "([^"]+)"', text, re.MULTILINE)
    ]
    python = re.search(r'^(?:requires-python|python-versions) = "([^"]+)"', text, re.MULTILINE)
    spec = ((caret(python[1]), "lock"),) if python else ()
    folders = (match[1] for match in _LOCKED_FOLDER.finditer(text))
    return DependencyFile(
        path=path, kind="lock", wanted=tuple(wanted), python=spec, local=local_folders(tree, path, folders)
    )


#: A package in a pixi.lock: `.../linux-64/pytorch-2.10.0-cuda129_mkl_py314_h6_302.conda`, or a wheel such as
#: `.../torch-2.7.1-cp312-cp312-linux_x86_64.whl`.
_LOCKED = re.compile(
    r"^[ \t]*- (?:conda|pypi): \S*/([A-Za-z0-9_.-]+?)-(\d[\w.+!%]*)(?:-\S*)?(?:\.conda|\.tar\.bz2|\.whl|\.tar\.gz)\s*$",
    re.MULTILINE,
)
_LOCKED_CUDA = re.compile(r"/pytorch-[\d.]+-cuda(\d{2})(\d)_")


def _read_pixi_lock(text: str, path: str) -> DependencyFile:
    """Return the packages for Linux in a pixi.lock; if it has several environments, those of the first."""
    part = re.search(r"^      linux-64:\n((?:      -.*\n|       .*\n)*)", text, re.MULTILINE)
    lines = part[1] if part else text
    wanted = [
        Wanted(name=conda_name(match[1].lower()), spec=f"=={match[2].replace('%2B', '+')}", source=path)
        for match in _LOCKED.finditer(lines)
    ]
    if cuda := _LOCKED_CUDA.search(lines):
        wanted = [
            replace(each, url=f"cuda:{cuda[1]}.{cuda[2]}") if each.name == "torch" else each
            for each in wanted
        ]
    python = next((f"=={each.spec.lstrip('=')}" for each in wanted if each.name == "python"), "")
    return DependencyFile(
        path=path, kind="lock", wanted=tuple(wanted), python=((python, "python"),) if python else ()
    )
