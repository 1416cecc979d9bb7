"""Collect all facts about a repository that `init` decides by, each with its source."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg.core.facts import BY_USER, WITH_TORCH, Project, PythonFact, RepoFacts, Rival, TorchFact
from dkdbg.errors import DkdbgError
from dkdbg.launchers.lines.command_lines import port_of
from dkdbg.setup.detect.accelerator.frameworks import places_itself, uses_accelerator
from dkdbg.setup.detect.accelerator.gpu import CUDA_DRIVER, read_gpu
from dkdbg.setup.detect.accelerator.torch import TextEvidence, is_for_cpu, read_torch, torch_index
from dkdbg.setup.detect.around import below_git_root, is_set_up
from dkdbg.setup.detect.docker import service
from dkdbg.setup.detect.docker.dockerfile import keeps_bytecode_out, run_lines, takes_system_python
from dkdbg.setup.detect.docker.images import read_image
from dkdbg.setup.detect.docker.installed import (
    build_tools,
    extensions,
    how_installed,
    is_compiled,
    source_root,
)
from dkdbg.setup.detect.docker.service import harmless_scripts, passing_scripts, shell_scripts
from dkdbg.setup.detect.files import MAX_TEXT_BYTES, MAX_WALK_S, Tree, parent
from dkdbg.setup.detect.launch.candidates import modules_of
from dkdbg.setup.detect.launch.entrypoint import terminal_asked
from dkdbg.setup.detect.launch.readme import (
    find_links,
    installed,
    installed_by_apt,
    installed_by_conda,
    installed_extras,
)
from dkdbg.setup.detect.python import imports
from dkdbg.setup.detect.python.dependencies import is_side_file, named_in
from dkdbg.setup.detect.python.pyproject import NEEDS_CUDA, NEEDS_NOTHING
from dkdbg.setup.detect.python.python_version import DEFAULT, read_python
from dkdbg.setup.detect.python.requirements import Wanted, included_files, installs_itself
from dkdbg.setup.detect.python.system_packages import system_packages
from dkdbg.setup.detect.survey import Survey
from dkdbg.setup.render import manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from dkdbg.core.facts import EntryPoint, Gpu

_DOCKERIGNORE = re.compile(r".*\.dockerignore")
_CONFIG = re.compile(r".*\.(?:ya?ml|toml|json|gin|cfg|ini)")
_MAX_SOURCES = 400
_MAX_CONFIGS = 120
#: Minimum number of projects for a repository of projects; fewer folders are parts of one program.
_MIN_PROJECTS = 3
_MAX_DEPTH = 3
_OWN = ("requirements.txt", "pyproject.toml", "setup.py", "environment.yml", "environment.yaml", "Pipfile", "Dockerfile", "README.md", "README.rst")  # fmt: skip


def inspect(
    root: Path,
    *,
    ignore: frozenset[str] = frozenset(),
    command: str | None = None,
    service: str | None = None,
    dockerfile: str | None = None,
    python: str | None = None,
    gpu: Gpu | None = None,
    inherited: Callable[[str], tuple[str, ...]] = lambda _: (),
) -> RepoFacts:
    """Return the facts of a repository.

    Reads a bounded number of files, writes nothing, and runs nothing itself.

    Args:
        root: the repository's folder on this machine.
        ignore: files to ignore, relative to the root, because dkdbg generated them.
        command: shell text of the program that the user named; None to detect it.
        service: name of the compose service that the user named; None to detect it.
        dockerfile: the Dockerfile that the user named; None to detect it.
        python: Python version for a generated Dockerfile; None to detect it.
        gpu: the need for a GPU that the user stated; None to detect it.
        inherited: function that returns the Dockerfile lines that a build inherits from an image; called for at most
            one image.

    Raises:
        DkdbgError: the folder cannot be read, or the compose file of plain `docker compose` is invalid. Other broken
            files are skipped and listed in `problems`.
    """
    tree = Tree(root.absolute(), ignore=ignore)
    if below := _generated_below(tree):
        tree = Tree(tree.root, ignore=ignore | below)
    survey = Survey(tree, command, service, dockerfile)
    chosen = survey.chosen.fact.image if survey.chosen else None
    base = survey.dockerfile.base if survey.dockerfile else chosen
    if base and (lines := inherited(base)):
        survey = Survey(tree, command, service, dockerfile, {base: lines})
    return _facts(survey, python, gpu)


def _generated_below(tree: Tree) -> frozenset[str]:
    """Return the files that dkdbg generated in folders below the root which were set up separately.

    Size and time are bounded: `init` writes some 20 names into a manifest, but a hostile one may contain millions.
    """
    found: set[str] = set()
    until = time.monotonic() + MAX_WALK_S
    for folder in filter(lambda each: is_set_up(tree.root / each), tree.dirs):
        with contextlib.suppress(DkdbgError, OSError):  # ignore an unusable manifest
            if (tree.root / folder / manifest.MANIFEST).stat().st_size <= MAX_TEXT_BYTES:
                found.update(f"{folder}/{path}" for path in manifest.load(tree.root / folder).files)
        if time.monotonic() > until:
            break
    return frozenset(found)


def _facts(survey: Survey, asked_python: str | None, asked_gpu: Gpu | None) -> RepoFacts:
    """Return all facts. `asked_gpu` overrides detection; `asked_python` does so without a Dockerfile or service."""
    tree, chosen = survey.tree, survey.chosen
    said = _torch(survey, DEFAULT)
    python, pythons = _python(survey, said.version if said else None)
    if asked_python is not None and survey.dockerfile is None and chosen is None:
        python = PythonFact(version=asked_python, source=BY_USER)
    torch = _torch(survey, int(python.version.split(".")[1]))
    if any(NEEDS_NOTHING in file.tables for file in survey.manager.read):
        torch = None  # `dependencies = []`: only tests or a side script import torch
    gpu, gpu_source, gpus = (asked_gpu, BY_USER, ()) if asked_gpu else _gpu(survey)
    files = tuple(file for file in survey.manager.read if file.kind != "lock")
    extras = {None, *installed_extras(text for _, text in survey.own_documents())}
    wanted = [item for file in files for item in file.wanted if item.extra in extras]
    needs_nothing = any(NEEDS_NOTHING in file.tables for file in files)
    requirements, guessed = ((), ()) if wanted or needs_nothing else _requirements(survey)
    always = {"mpi4py", "opencv-python", "soundfile"} if wanted or needs_nothing else None
    imported = imports.distributions(survey.imported)
    needed = {name for name in imported if always is None or name in always}
    apt, build_apt = system_packages((*wanted, *requirements), needed, compiles=bool(extensions(tree)))
    places = named_in(survey.dependency_files)
    dockerfiles = [
        *([chosen.dockerfile] if chosen and chosen.dockerfile else []),
        *survey.dockerfiles.values(),
    ]
    scripts = shell_scripts(tree)
    tools = build_tools(tree) if wanted or requirements else ()
    of_readme = _of_readme(survey, {item.name for item in wanted})
    return RepoFacts(
        root=tree.root,
        name=tree.root.name,
        python=python,
        package_manager=survey.manager.manager,
        dependency_files=survey.manager.files,
        requirements=tuple(item.requirement for item in requirements),
        declared=tuple(dict.fromkeys(item.requirement for item in wanted)),
        undeclared=(
            *_undeclared(survey, {item.name for item in wanted}),
            *(item.requirement for item in of_readme),
            *tools,
        ),
        beside=_beside(survey, frozenset(wanted)),
        unnamed=tuple(
            (name, places.get(name, ""))
            for name in guessed or _unnamed(survey, {item.name for item in (*wanted, *of_readme)})
            if name not in tools
        ),
        included=included_files(tree, survey.manager.files),
        installs_itself=installs_itself(tree, survey.manager.files)
        or any(file.local for file in files if file.kind in {"requirements", "conda", "python_env"}),
        local_packages=survey.manager.local,
        frameworks=survey.frameworks,
        torch=torch,
        entrypoint=survey.entry,
        candidates=survey.ranking.candidates,
        dockerfiles=tuple({fact.path: fact for fact in reversed(dockerfiles)}.values())[::-1],
        services=tuple(item.fact for item in survey.services),
        compose_files=survey.compose_files,
        compose_env=survey.compose_env,
        compose_separator=survey.compose_separator,
        compose_read=survey.composed.read,
        compose_names=survey.composed.names,
        service=chosen.fact if chosen else None,
        mappings=_mappings(survey),
        ports=_ports(survey),
        gpu=gpu,
        gpu_source=gpu_source,
        devcontainers=tuple(item.path for item in survey.devcontainers),
        apt=apt,
        build_apt=build_apt,
        readme_apt=installed_by_apt(survey.readme),
        harmless_scripts=harmless_scripts(scripts) | set(survey.scripts),
        passing_scripts=passing_scripts(scripts),
        notebooks=len(survey.notebooks),
        dockerfile=survey.dockerfile.path if survey.dockerfile else None,
        asked_dockerfile=survey.asked_dockerfile is not None,
        extras=tuple(dict.fromkeys(extra for file in files for extra in file.extras)),
        torch_index=_torch_index(survey, torch),
        index_options=(
            *(word for file in files for word in file.index_options),
            *(find_links(survey.install_text()) if requirements else ()),
        ),
        readme_links=find_links(survey.install_text()) if of_readme else (),
        indexed=tuple(
            (index, tuple(item.requirement for item in wanted if item.index == index))
            for index in dict.fromkeys(item.index for item in wanted)
            if index
        ),
        docker_run=survey.docker_run,
        installed=tuple(
            (path, how)
            for path, text in survey.dockerfile_texts.items()
            if (how := how_installed(run_lines(text), survey.distributions()))
        ),
        source_root=source_root(tree, survey.packages()),
        compiled=is_compiled(tree),
        extensions=extensions(tree, (survey.entry.file or "") if survey.entry else ""),
        missing=survey.missing,
        dockerignores=tuple(
            (path, keeps_bytecode_out(tree.text(path))) for path in tree.matching(_DOCKERIGNORE)
        ),
        terminal=terminal_asked(_program(survey)),
        below=below_git_root(tree.root),
        projects=_projects(tree, survey.ranking.candidates),
        rivals=(*survey.service_rivals(), *survey.dockerfile_rivals(), *pythons, *gpus),
        inherited=tuple(survey.inherited.items()),
        problems=(*tree.problems, *_empty_submodules(survey)),
    )


def _python(survey: Survey, torch: str | None) -> tuple[PythonFact, tuple[Rival, ...]]:
    images: list[tuple[str, str | None]] = []
    weak: list[tuple[str, str]] = []
    near = [
        survey.dockerfiles[item.dockerfile]
        for item in survey.near_devcontainers()
        if item.dockerfile in survey.dockerfiles
    ]
    for fact in [*([survey.dockerfile] if survey.dockerfile else []), *near]:
        image = read_image(fact.base)
        is_plain = image.system_python and image.python == fact.python
        if is_plain and not takes_system_python(survey.dockerfile_texts.get(fact.path, "")):
            weak.append((fact.path, f"python {fact.python}"))
        else:
            images.append((fact.path, fact.python))
    images.extend(
        (item.path, read_image(item.image).python) for item in survey.near_devcontainers() if item.image
    )
    if survey.chosen is not None and survey.chosen.fact.image and survey.chosen.dockerfile is None:
        images.append((survey.chosen.fact.file, read_image(survey.chosen.fact.image).python))
    home = {".", survey.chosen.fact.context if survey.chosen and survey.chosen.fact.context else "."}
    files = tuple(
        dict.fromkeys(
            [*survey.manager.read, *(file for file in survey.dependency_files if parent(file.path) in home)]
        )
    )
    pins = [(".python-version", survey.tree.text(".python-version"))]
    tools = re.findall(r"^python\s+(\S+)", survey.tree.text(".tool-versions"), re.MULTILINE)
    pins.append((".tool-versions", "\n".join(tools)))
    # A notebook records the Python on which it ran.
    kernels = [] if survey.python_files else imports.notebook_pythons(survey.tree, survey.notebooks)
    workflows = [
        (path, survey.tree.text(path)) for path in survey.tree.files if path.startswith(".github/workflows/")
    ]
    # runtime.txt, which hosting services read, counts as much as CI.
    workflows += [
        ("runtime.txt", f"python-version: {version}")
        for version in re.findall(r"3\.\d+", survey.tree.text("runtime.txt"))
    ]
    return read_python(
        images=images,
        pins=pins,
        files=tuple(file for file in files if file.kind != "requirements" or file in survey.manager.read),
        workflows=workflows,
        documents=[*survey.own_documents(), *survey.setup_scripts().items(), *weak, *kernels],
        torch=torch,
    )


def _torch(survey: Survey, python: int) -> TorchFact | None:
    own = sorted(survey.manager.read, key=lambda file: file.kind != "lock")
    others = [
        file
        for file in survey.dependency_files
        if file not in own and parent(file.path) in {".", "requirements"} and not is_side_file(file.path)
    ]
    in_root = [path for path in survey.tree.files if path.endswith((".sh", ".bat")) and "/" not in path]
    scripts = {**{path: survey.tree.text(path) for path in in_root}, **survey.setup_scripts()}
    documents = [*survey.own_documents(), *scripts.items()]
    base, base_source = None, ""
    if survey.dockerfile:
        base, base_source = survey.dockerfile.base, survey.dockerfile.path
    elif survey.chosen:
        base, base_source = survey.chosen.fact.image, survey.chosen.fact.file
    return read_torch(
        files=[*own, *others],
        base=base,
        base_source=base_source,
        build=survey.build_text(),
        documents=[TextEvidence(text=text, source=path) for path, text in documents],
        is_used="torch" in survey.frameworks or bool(read_image(base or "").torch),
        python=python,
    )


def _torch_index(survey: Survey, torch: TorchFact | None) -> str | None:
    """Return the wheel index for torch; None if a file for CPU machines installs torch."""
    lists = (path for path in survey.manager.files if path.endswith((".txt", ".in")))
    if any(is_for_cpu(path, survey.tree.text(path)) for path in lists):
        return None
    texts = [text for _, text in survey.documents]
    return torch_index(survey.manager.read, survey.build_text(), texts, torch)


def _gpu(survey: Survey) -> tuple[Gpu, str, tuple[Rival, ...]]:
    tree, entry = survey.tree, survey.entry
    file = entry.file if entry and entry.file and entry.file.endswith(".py") else None
    home = parent(file) if file else "."
    ordered = sorted(survey.python_files, key=lambda path: (parent(path) != home, path.count("/")))
    side = re.compile(r"(?:^|/)(?:tests?|docs?|benchmarks?)/")
    read = [path for path in ordered if not side.search(path)][:_MAX_SOURCES]
    sources = [(path, tree.text(path)) for path in read]
    if not survey.python_files:
        sources += [(path, imports.notebook_code(tree, path)) for path in survey.notebooks[:20]]
    configs = [
        path
        for path in tree.files
        if _CONFIG.fullmatch(path) and not path.startswith(".") and path not in survey.compose_files
    ]
    packages = {
        item.name
        for found in survey.manager.read
        if found.kind != "lock"
        for item in found.wanted
        if item.extra is None
    }
    if not packages:
        needed = imports.third_party(tree, survey.python_files, optional=False)
        packages = set(imports.distributions(needed if survey.python_files else survey.imported))
    if any(NEEDS_CUDA in found.tables for found in survey.manager.read):
        packages.add(CUDA_DRIVER)
    others = [
        (item.fact.name, item.fact.gpu)
        for item in survey.services
        if item is not survey.chosen and item.fact.is_python
    ]
    base = read_image(survey.dockerfile.base) if survey.dockerfile else None
    has_cuda = survey.dockerfile and base and (base.cuda or base.torch)
    extras = {extra for found in survey.dependency_files for extra in found.extras if "/" not in found.path}
    chosen = survey.chosen
    found = read_gpu(
        service=(chosen.fact.name, chosen.fact.gpu) if chosen else None,
        other_services=others,
        devcontainers=[(item.path, item.gpu) for item in survey.devcontainers if survey.near_devcontainers()],
        base_cuda=(survey.dockerfile.path, survey.dockerfile.base)
        if survey.dockerfile and has_cuda
        else None,
        entry=(file, tree.text(file)) if file else None,
        launcher=entry.launcher if entry else None,
        sources=sources,
        documents=[item for item in survey.documents if parent(item[0]) in {".", "docs"}],
        configs=[(path, tree.text(path)) for path in configs[:_MAX_CONFIGS]],
        packages=frozenset(packages),
        extras=frozenset(extras),
        places_itself=places_itself(survey.frameworks),
        modules=_program(survey),
        uses_framework=uses_accelerator(survey.frameworks),
    )
    rival = "required" if found.need == "optional" else "optional"
    return found.need, found.source, (Rival(topic="gpu", value=rival, source="", is_close=found.in_doubt),)


def _program(survey: Survey) -> list[tuple[str, str]]:
    """Return (path, text) of the program and of the repository's modules that it imports."""
    tree, file = survey.tree, survey.entry.file if survey.entry else None
    if file is None or not file.endswith(".py"):
        return []
    return list(modules_of(tree, file).items())


def _requirements(survey: Survey) -> tuple[tuple[Wanted, ...], tuple[str, ...]]:
    """Return the requirements of a repository that declares none, and the distributions whose names are only guessed.

    A name guessed from a module may belong to an unrelated package on PyPI.
    """
    own = {name.replace("_", "-") for name in survey.project_names()}
    text = survey.install_text()
    stated = [item for item in installed(text) if item.name not in own]
    known = imports.distributions(tuple(filter(imports.is_known, survey.imported)))
    by_conda = [item for item in installed_by_conda(text) if item.name in known]
    pinned = {item.name: item for item in reversed((*stated, *by_conda))}
    listed = [item.name for item in (*stated, *by_conda)]
    at_once = imports.imported_at_once(survey.tree, _program(survey))
    missing = imports.unnamed(at_once, listed, text) if stated else imports.distributions(survey.imported)
    names = dict.fromkeys((*(listed if stated else ()), *(name for name in missing if name in known)))
    return (
        tuple(pinned.get(name, Wanted(name=name, spec="", source="imports")) for name in names),
        tuple(name for name in missing if name not in known),
    )


def _undeclared(survey: Survey, named: set[str]) -> tuple[str, ...]:
    imported = imports.distributions(survey.imported)
    # The distribution `sklearn` does not install scikit-learn any more.
    renamed = ("scikit-learn",) if "sklearn" in named and "scikit-learn" not in named else ()
    return (
        *renamed,
        *(
            name
            for name in ("numpy", "tensorboard")
            if "torch" in named and name in imported and name not in named
        ),
    )


def _of_readme(survey: Survey, named: set[str]) -> tuple[Wanted, ...]:
    """Return what the README installs besides the declared requirements, and the program imports.

    Packages that are released with torch have no version: it has to fit torch's, and pip finds the one that does.
    """
    if not named or survey.manager.manager not in {"pip", "setuptools"}:
        return ()
    text = survey.install_text()
    at_once = imports.distributions(imports.imported_at_once(survey.tree, _program(survey)))
    imported = set(imports.distributions(survey.imported)) & WITH_TORCH | set(at_once)
    known = {"torch", "numpy", "tensorboard", *map(imports.stem, named)}
    stems = {imports.stem(each) for each in imported} - known
    first: dict[str, Wanted] = {}
    for item in (*installed(text), *installed_by_conda(text)):
        if imports.stem(item.name) in stems:
            first.setdefault(imports.stem(item.name), item)
    return tuple(
        replace(item, spec="", url=None) if item.name in WITH_TORCH else item for item in first.values()
    )


def _beside(survey: Survey, wanted: frozenset[Wanted]) -> tuple[str, ...]:
    """Return requirements in setup.py, setup.cfg and pyproject.toml that the installed requirements files lack."""
    files = [file for file in survey.manager.read if file.path in survey.manager.files]
    listed = {item.name for file in files if file.kind == "requirements" for item in file.wanted}
    projects = (file for file in files if file.kind in {"setup.py", "setup.cfg", "pyproject"})
    own = [item for file in projects for item in file.wanted if item.name not in listed]
    return tuple(dict.fromkeys(item.requirement for item in own if item in wanted))


def _unnamed(survey: Survey, named: set[str]) -> tuple[str, ...]:
    if not named or any(file.kind == "lock" for file in survey.manager.read):
        return ()
    written = "\n".join(survey.tree.text(path) for path in survey.manager.files)
    return imports.unnamed(imports.imported_at_once(survey.tree, _program(survey)), named, written)


def _mappings(survey: Survey) -> tuple[tuple[str, str], ...]:
    if survey.chosen is not None:
        return survey.chosen.mappings
    if survey.dockerfile is not None:
        # If the image contains no code, a `docker run` line may mount it.
        run = survey.docker_run
        manual = run.mounts if run and run.starts(survey.dockerfile.path) else ()
        mounted = tuple(pair for pair in manual if service.holds_code(survey.tree, pair[0]))
        if found := survey.dockerfile.code or mounted:
            return found
    places = [item.workspace_folder for item in survey.devcontainers if item.workspace_folder]
    return tuple((".", place) for place in places[:1] if "$" not in place)


def _ports(survey: Survey) -> tuple[int, ...]:
    found = survey.chosen.fact.ports if survey.chosen is not None else ()
    if not found and survey.dockerfile is not None:
        found = survey.dockerfile.exposed
    if not found and survey.entry is not None:
        port = port_of(survey.entry.command) or survey.entry.listens
        found = (port,) if port else ()
    return found


def _empty_submodules(survey: Survey) -> list[str]:
    """Return messages about git submodules that are not checked out."""
    paths = re.findall(r"^[ \t]*path\s*=\s*(\S+)", survey.tree.text(".gitmodules"), re.MULTILINE)
    empty = [path for path in paths if not any(file.startswith(f"{path}/") for file in survey.tree.files)]
    return [f"{path}, a submodule that is not checked out (git submodule update --init)" for path in empty]


def _projects(tree: Tree, candidates: Iterable[EntryPoint]) -> tuple[Project, ...]:
    """Return the projects, ordered by folder: folders that have a program and their own dependencies or README.

    If the root has dependencies, an image or a program, the repository is one project: return ().
    """
    if any(tree.has(name) for name in _OWN[:-2]) or any("/" not in (item.file or "/") for item in candidates):
        return ()
    best: dict[str, EntryPoint] = {}
    for item in candidates:
        folder = parent(item.file) if item.file else "."
        if folder.count("/") < _MAX_DEPTH and any(tree.has(f"{folder}/{name}") for name in _OWN):
            best.setdefault(folder, item)
    if len(best) < _MIN_PROJECTS:
        return ()
    return tuple(Project(folder=folder, program=best[folder].file or "") for folder in sorted(best))
