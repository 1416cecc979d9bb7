"""Choose the package manager, and the files that it installs from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from dkdbg.core.facts import PROJECT_FILES
from dkdbg.setup.detect.files import join, parent
from dkdbg.setup.detect.python.dependencies import is_side_file
from dkdbg.setup.detect.python.requirements import local_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.facts import PackageManager
    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.python.requirements import DependencyFile

_LOCKS: dict[str, PackageManager] = {
    "uv.lock": "uv",
    "poetry.lock": "poetry",
    "pdm.lock": "pdm",
    "Pipfile.lock": "pipenv",
    "pixi.lock": "pixi",
}
#: Names of requirements files, the most general ones first.
_MAIN_REQUIREMENTS = (
    "requirements.txt", "base.txt", "main.txt", "prod.txt", "common.txt", "default.txt", "requirement.txt",
)  # fmt: skip
_REQUIREMENTS_IN_COMMAND = re.compile(r"(?:-r|--requirement)[\s=]*([^\s;&|\"']+\.(?:txt|in))")
_README_REQUIREMENTS = re.compile(r"pip3? install[^\n]*?(?:-r|--requirement)[\s=]+([\w./-]+\.txt)")
_README_CONDA = re.compile(
    r"(?:conda|mamba|micromamba) (?:env )?(?:create|update)[^\n]*?(?:-f|--file)[\s=]+([\w./-]+\.ya?ml)"
)
#: Plain name of a conda environment file, without component, platform or version.
_PLAIN_CONDA = re.compile(r"(?:^|/)(?:conda[-_]?)?(?:env|environment)\.ya?ml$|(?:^|/)conda\.ya?ml$")
_INSTALLS_PROJECT = re.compile(
    r"pip3? install\s[^\n]*(?:-e |--editable |[\s'\"]\.(?:\s|$|\[))|setup\.py (?:install|develop)|uv sync"
)
_GOES_AND_INSTALLS = re.compile(
    r"\bcd\s+([\w./-]+)\s*(?:\n|&&|;)[\s$>]*(?:python3? -m )?pip3? install (?:-e )?\.(?:\s|$)"
)
_INSTALLS_FOLDER = re.compile(
    r"pip3? install (?:-e|--editable) ([\w-][\w./-]*|\./[\w./-]+)(?=\s|$)", re.MULTILINE
)
_USUAL_FOLDERS = (
    "requirements", "requirements/full", "docker", "env", "envs", "conda", "environment", "environments", "install", "configs",
    "src", "app", "backend", "server", "api", "code", "project",
)  # fmt: skip
#: Package managers that cannot install a repository's own packages by a command of theirs.
_WITHOUT_WORKSPACE = ("pip", "conda", "setuptools", "none")
_BUILD_INSTALLS = re.compile(r"\b(?:pip3?|uv pip|conda|mamba|poetry|uv) (?:install|sync|add|env)")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A package manager, and the files that it installs from, in order.

    Attributes:
        read: content of `files`, and of the files of the packages in `local`, which are installed, too.
        local: folders of the repository that are installed as packages (see `DependencyFile`).
    """

    manager: PackageManager
    files: tuple[str, ...]
    read: tuple[DependencyFile, ...]
    local: tuple[str, ...] = ()


def _is_package(file: DependencyFile) -> bool:
    return file.path.rsplit("/", 1)[-1] in PROJECT_FILES


def _packages_in(folders: Sequence[str], files: Sequence[DependencyFile]) -> list[DependencyFile]:
    return [each for each in files if parent(each.path) in folders and _is_package(each)]


def with_local(tree: Tree, choice: Choice, files: Sequence[DependencyFile], readme: str) -> Choice:
    """Add those of the repository's own packages that the choice or the README installs, and their requirements.

    Requirements for these packages are removed, so that pip does not look for them on an index.
    """
    named: dict[str, str] = {
        canonicalize_name(each.name): parent(each.path)
        for each in reversed(files)
        if each.name and each.kind == "pyproject"
    }
    written = (*_installed_folders(readme), *_INSTALLS_FOLDER.findall(readme))
    by_readme = local_folders(tree, ".", written if choice.manager in _WITHOUT_WORKSPACE else ())
    local: dict[str, None] = dict.fromkeys(by_readme)
    read = [*choice.read, *_packages_in(by_readme, [each for each in files if each not in choice.read])]
    for file in read:  # the loop appends to `read`
        for name in file.members:
            if name not in named:
                tree.add_problem(
                    f"{file.path}: {name} is a workspace member, but no pyproject.toml here has this name"
                )
        for folder in (*file.local, *(named[name] for name in file.members if name in named)):
            if folder not in local and folder != ".":
                local[folder] = None
                read += _packages_in((folder,), files)
    own = {canonicalize_name(each.name) for each in read if each.name and _is_package(each)}
    needed = (each for each in read if each in choice.read or any(item.extra is None for item in each.wanted))
    kept = (
        replace(each, wanted=tuple(item for item in each.wanted if item.name not in own)) for each in needed
    )
    return replace(choice, read=tuple(kept), local=tuple(local))


def choose_manager(
    tree: Tree,
    files: Sequence[DependencyFile],
    *,
    home: str,
    entry: str | None,
    build: tuple[str, str, tuple[str, ...]] | None,
    dockerfiles: Sequence[tuple[str, str, tuple[str, ...]]],
    readme: str,
    in_readme: PackageManager | None = None,
) -> Choice:
    """Choose the package manager.

    Args:
        home: directory of the project to look in first: the service's context, or the root.
        entry: file of the program; its folders may contain its requirements.
        build: (path, context, RUN lines) of the Dockerfile in use; None if there is no Dockerfile.
        dockerfiles: the same for all Dockerfiles.
        readme: text of the README.
        in_readme: package manager in the README's install lines, used without dependency files.
    """
    for directory in dict.fromkeys((home, ".")):
        found = _in_directory(tree, files, directory, readme)
        if found is None:
            continue
        built = _named_in_builds(tree, [build] if build else [], entry)
        if built and found.read[:1] and found.read[0].kind == "requirements" and found.files[0] not in built:
            return _of_requirements(built, files)
        if found.manager == "setuptools":
            installs = _INSTALLS_PROJECT.search(readme)
            if stated := _named_in(tree, readme):
                # `pip install -r sub/requirements.txt` in the README outweighs a setup.py that no document mentions.
                return found if installs else _of_requirements(stated, files)
            if by := _conda_named_in(files, readme, found):
                return by
            if not _has_requirements(found.read) and in_readme == "conda" and not installs:
                return Choice(manager="conda", files=found.files, read=found.read)
        return _with_member(found, files, entry)
    named = _named_in_builds(tree, [*([build] if build else []), *dockerfiles], entry)
    if named:
        return _of_requirements(named, files)
    if found := _first_of(tree, files, (*_folders_of(entry), *_installed_folders(readme)), readme):
        return found
    if by := _conda_named_in(files, readme, Choice(manager="none", files=(), read=())):
        return by
    if stated := _named_in(tree, readme):
        return _of_requirements(stated, files)
    if found := _first_of(tree, files, _USUAL_FOLDERS, readme):
        return found
    if dockerfiles and any(_BUILD_INSTALLS.search(line) for _, _, lines in dockerfiles for line in lines):
        path = build[0] if build else dockerfiles[0][0]
        return Choice(manager="docker", files=(path,) if "/" not in path else (), read=())
    return Choice(manager=in_readme or "none", files=(), read=())


def _installed_folders(readme: str) -> tuple[str, ...]:
    """Return the folders that a README enters (`cd`) before `pip install .`; they may begin with the project's name."""
    found = []
    for match in _GOES_AND_INSTALLS.finditer(readme):
        steps = match[1].strip("/").split("/")
        found += ["/".join(steps[start:]) for start in range(len(steps))]
    return tuple(each for each in found if not each.startswith("."))


def _of_requirements(paths: tuple[str, ...], files: Sequence[DependencyFile]) -> Choice:
    read = sorted((file for file in files if file.path in paths), key=lambda file: paths.index(file.path))
    return Choice(manager="pip", files=paths, read=tuple(read))


def _named_in(tree: Tree, readme: str) -> tuple[str, ...]:
    """Return the first requirements file in the README's install lines that exists."""
    names = (join(".", match[1]) for match in _README_REQUIREMENTS.finditer(readme))
    return next(((name,) for name in names if name is not None and tree.has(name)), ())


def _conda_named_in(files: Sequence[DependencyFile], readme: str, project: Choice) -> Choice | None:
    """Return the first conda environment, in any folder, that the README tells to create."""
    names = [join(".", match[1]) for match in _README_CONDA.finditer(readme)]
    found = [file for name in names for file in files if file.kind == "conda" and file.path == name]
    own = tuple(file for file in project.read if file.kind != "conda")
    return _choice("conda", found[:1], after=own) if found else None


def _with_member(choice: Choice, files: Sequence[DependencyFile], entry: str | None) -> Choice:
    """Add the uv workspace member that contains the program, if the root's project has no dependencies."""
    if any(file.wanted or file.local or file.members for file in choice.read if file.kind != "lock"):
        return choice
    for directory in _folders_of(entry):
        for file in files:
            is_member = file.kind == "pyproject" and parent(file.path) == directory
            if is_member and (file.wanted or file.local or file.members):
                return replace(choice, files=(*choice.files, file.path), read=(*choice.read, file))
    return choice


def _first_of(
    tree: Tree, every: Sequence[DependencyFile], folders: Sequence[str], readme: str
) -> Choice | None:
    return next(filter(None, (_in_directory(tree, every, each, readme) for each in folders)), None)


def _in_directory(tree: Tree, every: Sequence[DependencyFile], directory: str, readme: str) -> Choice | None:
    files = [file for file in every if parent(file.path) == directory]

    def has(name: str) -> bool:
        path = join(directory, name)
        return path is not None and tree.has(path)

    by_kind: dict[str, list[DependencyFile]] = {}
    for file in files:
        by_kind.setdefault(file.kind, []).append(file)
    project = by_kind.get("pyproject", [None])[0]
    tables = project.tables if project else ()
    backend = (project.backend if project else None) or ""
    locks = tuple(by_kind.get("lock", []))
    for name, manager in _LOCKS.items():
        if has(name) and (project or manager in {"pipenv", "pixi"}):
            lock = tuple(file for file in locks if file.path.endswith(name))
            base = (project,) if project and manager != "pixi" else tuple(by_kind.get("Pipfile", []))
            if manager == "pixi":
                base = _as_locked(tuple(by_kind.get("pixi", [])) or ((project,) if project else ()), lock)
            return _choice(manager, (*lock, *base), extra=(join(directory, name) or name,))
    if "uv" in tables and "project" in tables:
        return _choice("uv", (project,))
    if "poetry" in tables and (
        "poetry" in backend or (project and (project.wanted or project.local or project.members))
    ):
        return _choice("poetry", (project,))
    if (
        project
        and "project" in tables
        and re.search(r"(?:^|[\s`])uv (?:sync|run)\b", readme)
        and not re.search(r"pip3? install -[er]", readme)
    ):
        return _choice("uv", (project,))
    if "pdm" in tables and "project" in tables and "pdm" in backend:
        return _choice("pdm", (project,))
    if by_kind.get("Pipfile"):
        return _choice("pipenv", tuple(by_kind["Pipfile"]))
    if "pixi" in tables or has("pixi.toml"):
        return _choice("pixi", tuple(by_kind.get("pixi", [])) or (project,))
    conda = _conda_files(by_kind.get("conda", []), readme)
    requirements = _main_requirements(by_kind.get("requirements", []), readme) or by_kind.get(
        "python_env", []
    )
    setup = [file for kind in ("setup.py", "setup.cfg") for file in by_kind.get(kind, [])]
    if project and "project" in tables:
        setup.append(project)
    setup = [file for file in setup if file.wanted or file.name or "setup" in file.tables]
    by_conda = bool(
        re.search(
            r"(?:conda|mamba|micromamba)[^\n]*\b(?:env )?(?:create|update)[^\n]*(?:-f|--file|env)", readme
        )
    )
    by_pip = bool(re.search(r"pip3? install[^\n]*(?:-r |--requirement|-e |\s\.(?:\s|$|\[))", readme))
    if conda and (
        (by_conda and not by_pip) or (not requirements and (by_conda or not _has_requirements(setup)))
    ):
        return _choice("conda", tuple(conda[:1]), after=tuple(setup))
    if requirements:
        return _choice("pip", requirements, after=tuple(setup))
    if setup:
        by_setuptools = "setuptools" in backend or any(file.kind != "pyproject" for file in setup)
        manager = "setuptools" if by_setuptools or not backend else "pip"
        return _choice(manager, tuple(setup))
    return _choice("conda", tuple(conda[:1])) if conda else None


def _as_locked(
    files: Sequence[DependencyFile], locks: Sequence[DependencyFile]
) -> tuple[DependencyFile, ...]:
    """Return the files with the locked versions, for pip, which reads pixi.toml but not pixi's lock file.

    Drop the local part of a version (`2.7.1+cu126`), because the default index has no local versions.
    """
    specs = {item.name: item.spec.partition("+")[0] for lock in locks for item in lock.wanted}
    return tuple(
        replace(
            file,
            wanted=tuple(
                item if item.url else replace(item, spec=specs.get(item.name, item.spec))
                for item in file.wanted
            ),
        )
        for file in files
    )


def _conda_files(files: Sequence[DependencyFile], readme: str) -> list[DependencyFile]:
    """Return the conda environments: those that the README names first, then those with a plain name."""
    named = [join(".", match[1]) for match in _README_CONDA.finditer(readme)]
    found = [file for file in files if not is_side_file(file.path)] or list(files)
    return sorted(found, key=lambda file: (file.path not in named, not _PLAIN_CONDA.search(file.path)))


def _choice(
    manager: PackageManager,
    files: Sequence[DependencyFile | None],
    *,
    extra: tuple[str, ...] = (),
    after: tuple[DependencyFile, ...] = (),
) -> Choice:
    read = [file for file in files if file is not None]
    paths = [*(file.path for file in read if file.kind != "lock"), *extra, *(file.path for file in after)]
    return Choice(manager=manager, files=tuple(dict.fromkeys(paths)), read=(*read, *after))


def _has_requirements(files: Sequence[DependencyFile]) -> bool:
    return any(file.wanted for file in files)


def _main_requirements(files: Sequence[DependencyFile], readme: str) -> tuple[DependencyFile, ...]:
    """Return the requirements file to install, as a tuple; empty if all are for tests, other platforms or similar.

    It is the most general file, or the most general one that the README installs.
    """

    def order(file: DependencyFile) -> tuple[int, int, str]:
        name = file.path.rsplit("/", 1)[-1]
        at = _MAIN_REQUIREMENTS.index(name) if name in _MAIN_REQUIREMENTS else len(_MAIN_REQUIREMENTS)
        return at, len(name), name

    main = sorted(
        (file for file in files if not is_side_file(file.path) and not file.path.endswith(".in")), key=order
    )
    if not main:
        main = sorted(
            (file for file in files if re.search(r"gpu|cuda|cu1\d", file.path) or file.path.endswith(".in")),
            key=order,
        )
    named = {join(".", match[1]) for match in _README_REQUIREMENTS.finditer(readme)}
    if main and main[0].path not in named:
        main.sort(key=lambda file: file.path not in named)
    return tuple(main[:1])


def _named_in_builds(
    tree: Tree, builds: Sequence[tuple[str, str, tuple[str, ...]]], entry: str | None
) -> tuple[str, ...]:
    """Return the requirements files of the Dockerfile whose folder contains the program, otherwise of the first one."""
    best: tuple[int, tuple[str, ...]] | None = None
    for path, context, lines in builds:
        found: list[str] = []
        for line in lines:
            for name in _REQUIREMENTS_IN_COMMAND.findall(line):
                base = name.rsplit("/", 1)[-1]
                places = (join(context, name.lstrip("/")), join(context, base), join(parent(path), base))
                local = next((place for place in places if place is not None and tree.has(place)), None)
                local = local or next(
                    (other for other in tree.named(base) if parent(other) in _folders_of(entry)), None
                )
                if local is not None:
                    found.append(local)
        shared = len([folder for folder in _folders_of(entry) if path.startswith(f"{folder}/")])
        if found and (best is None or shared > best[0]):
            best = (shared, tuple(dict.fromkeys(found)))
    return best[1] if best else ()


def _folders_of(path: str | None) -> tuple[str, ...]:
    """Return the folders that contain a file, the nearest first, without the root."""
    return tuple(map(str, PurePosixPath(path or "").parents[:-1]))
