"""Observations about a repository, each with its source, also as JSON. Decides nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Gpu = Literal["required", "optional", "none"]
#: Distributions that are released with torch, each version for one version of torch.
WITH_TORCH = frozenset({"torchaudio", "torchtext", "torchvision"})
GPU_NEEDS: tuple[Gpu, ...] = ("required", "optional", "none")
#: `docker`: only the image installs packages; `setuptools`: setup.py or a pyproject without another manager's table.
PackageManager = Literal[
    "pip", "uv", "poetry", "conda", "setuptools", "pdm", "pipenv", "pixi", "docker", "none"
]
#: Name of a launcher in `launchers.registry`, such as `torchrun`.
Launcher = str


#: Source of a value that the user has stated.
BY_USER = "you set it"
#: `PythonFact.source` of a version that was inferred from the packages to install.
BY_WHEELS = "not declared; the required wheels exist for it"


#: Files that make a folder a package.
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True, kw_only=True)
class Rival:
    """An alternative value of a fact.

    Attributes:
        topic: the flag of `init` that sets it: `service`, `python`, `gpu` or `dockerfile`.
        value: the value in that flag's syntax.
        source: evidence for the value.
        is_close: whether this evidence is about as good as the fact's.
    """

    topic: str
    value: str
    source: str
    is_close: bool = False


@dataclass(frozen=True, kw_only=True)
class PythonFact:
    """Python minor version that the repository runs on, such as `3.11`, and the source of that observation."""

    version: str
    source: str


@dataclass(frozen=True, kw_only=True)
class TorchFact:
    """The torch that the repository requires.

    Attributes:
        version: such as `2.9.1`, None when torch is used without a version.
        cuda: CUDA minor version of the wheel or base image, such as `12.8`; None if unknown.
        source: file (and line or key) of the observation.
    """

    version: str | None
    cuda: str | None
    source: str


@dataclass(frozen=True, kw_only=True)
class EntryPoint:
    """One way to start the program.

    Attributes:
        command: as a user would type it in `cwd`, shell syntax.
        file: the source file it starts, relative to the repository root, POSIX separators; None when the file
            lives only in an image.
        launcher: a name in `launchers.registry`: `python`, `torchrun`, `uvicorn`, `console-script`, `notebook`, ...
        cwd: directory to start it in, relative to the repository root, `.` for the root itself.
        home: directory that its module is imported from, relative to the root; `cwd` for a script.
        needs_args: whether it stops with a usage message when started with this command.
        source: where the command was found, as text.
        line: its line in the source, 0 if unknown.
        error: `LINE: reason` if its file does not parse, else empty.
        points: its score from setup/detect/launch/entrypoint.py; equally likely candidates are few points apart.
        trains: whether it is a training run, which ends even if ports are published for it.
        listens: port on which its own code serves, 0 if unknown; None if it serves nothing.
        on_loopback: whether its own code serves on the loopback address alone.
        shows_windows: whether it opens windows, and so exits without a display.
        assigned: environment assignments that its source has before the command.
    """

    command: str
    file: str | None
    launcher: Launcher
    cwd: str = "."
    home: str = "."
    needs_args: bool = False
    source: str = ""
    line: int = 0
    error: str = ""
    points: float = 0.0
    trains: bool = False
    listens: int | None = None
    on_loopback: bool = False
    shows_windows: bool = False
    assigned: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The source with its line, and the directory to start it in."""
        place = f"{self.source}:{self.line}" if self.line else self.source
        return ", ".join(
            part for part in (place, f"started in {self.cwd}" * (self.cwd not in {".", ""})) if part
        )


@dataclass(frozen=True, kw_only=True)
class DockerfileFact:
    """The parts of a Dockerfile that matter to a debugger.

    Attributes:
        path: relative to the repository root.
        context: build context, relative to the root.
        base: image of the last stage's FROM (ARG defaults substituted), after following local stage names.
        workdir: last WORKDIR of the final stage, absolute, `/` when none.
        workdir_is_assumed: whether `workdir` is relative to the WORKDIR of an unknown base image, which is assumed to
            be `/`.
        user: last USER of the final stage, None for root.
        copies: (local, remote) pairs of COPY/ADD lines of the final stage that bring sources from the build
            context: local relative to `context`, remote absolute.
        clones: (name, remote) pairs of the repositories that its RUN lines clone.
        code: the `copies` of Python sources, and the clones of this repository. Local paths are relative to the root; a
            pattern (`*.py`) is replaced by the files that match.
        entrypoint: ENTRYPOINT of the final stage as argv (shell form: `("/bin/sh", "-c", text)`), or None.
        inherits_entrypoint: whether its base image sets it; that image's CMD is unknown.
        cmd: CMD of the final stage as argv, or None.
        has_shell: whether its base image may have a /bin/sh.
        python: Python minor version evident from base image or ENV/ARG, or None.
        venvs: absolute paths of virtual environments that the build makes below `workdir` or a copied root.
        exposed: ports of EXPOSE.
        env: ENV and ARG values of the final stage, which the container's shell would expand.
        kept: the names in `env` that ENV sets, and containers have; without those of secrets.
        inputs: the part of its context that the image is built from, see setup/detect/docker/dockerfile.py; None for
            all.
    """

    path: str
    base: str
    context: str = "."
    workdir: str = "/"
    workdir_is_assumed: bool = False
    user: str | None = None
    copies: tuple[tuple[str, str], ...] = ()
    clones: tuple[tuple[str, str], ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    entrypoint: tuple[str, ...] | None = None
    inherits_entrypoint: bool = False
    cmd: tuple[str, ...] | None = None
    has_shell: bool = True
    python: str | None = None
    venvs: tuple[str, ...] = ()
    exposed: tuple[int, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    kept: frozenset[str] = frozenset()
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ServiceFact:
    """One service of one of the user's compose files.

    Attributes:
        name: key under `services`.
        file: compose file, relative to the repository root.
        dockerfile: Dockerfile that builds it relative to the repository root, None for a plain image or when the
            file is missing.
        context: build context relative to the repository root, None without a build section.
        image: `image:` as written, None when absent.
        release: the registry's image that the service runs, if it is a release of this repository. `dockerfile` and
            `context` then build the local sources. None if the service itself defines its build.
        profiles: as written.
        command: `command:` as argv, None when absent.
        entrypoint: `entrypoint:` as argv, None when absent.
        working_dir: as written, None when absent.
        user: as written, None when absent.
        image_user: the user of its image, None for root.
        command_from_env, entrypoint_from_env: (index of a word, the word as written) of each word with a value
            from a .env file, which may be a secret.
        binds: (local relative to the repository root, remote absolute) of bind mounts of directories inside the
            repository.
        volumes: (name, remote absolute) of named volumes.
        ports: container ports it publishes.
        gpu: whether it requests a GPU in one of compose's ways.
        depends_on: names of the services that it requires, by `depends_on` or another key.
        optional: the services in `depends_on` that may be missing (`required: false`).
        parts: (section, name, definition as JSON) of the top-level entries of its file that it uses and the compose
            file in the root lacks: networks, volumes, configs, secrets. As written, paths relative to the root.
        layers: the files that define it together, in compose's order, if there are several; `file` is the first.
        retags: the files in `layers` with compose's tags !reset or !override.
        without: files in other folders that also define it; a service that extends `layers` does not get their
            settings.
        mounted: the `binds` without those from files in `without`; None if there are no such files.
        refers: keys in its section that name other services; these are all in `depends_on`.
        host_network: `network_mode: host`.
        fixes_user: it drops CAP_SETUID, without which root cannot become another user.
        joins_network: it uses another container's network, and the engine rejects its `ports`.
        env_files: files that it reads its environment from, relative to the root, if a required one is missing;
            else empty.
        include_env: files with values for the variables in its file, if that is included; relative to the root.
        needs: variables that compose requires for its file and that have no value.
        needs_files: (file, an example of it or None) relative to the root: missing environment files that services of
            its file read. Without them, compose rejects the file, unless another file only extends services of it.
        pythonpath: PYTHONPATH of its environment; None if unset.
        variables: names in its environment, including those without a value.
        networks: names of its networks, as written; empty for the project's default one.
        called: further names by which other services may reach it: `container_name`, `hostname`.
        says: keys in its section, and in the sections of services that it extends.
        is_python: whether its image evidently runs a Python program of this repository or of its own.
        is_bare: whether its image lacks packages, which a dev container's `postCreateCommand` installs into its
            container.
    """

    name: str
    file: str
    dockerfile: str | None = None
    context: str | None = None
    image: str | None = None
    release: str | None = None
    profiles: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    command_from_env: tuple[tuple[int, str], ...] = ()
    entrypoint_from_env: tuple[tuple[int, str], ...] = ()
    working_dir: str | None = None
    user: str | None = None
    image_user: str | None = None
    binds: tuple[tuple[str, str], ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    ports: tuple[int, ...] = ()
    gpu: bool = False
    depends_on: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    parts: tuple[tuple[str, str, str], ...] = ()
    layers: tuple[str, ...] = ()
    retags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    mounted: tuple[tuple[str, str], ...] | None = None
    refers: tuple[str, ...] = ()
    host_network: bool = False
    fixes_user: bool = False
    joins_network: bool = False
    env_files: tuple[str, ...] = ()
    include_env: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    needs_files: tuple[tuple[str, str | None], ...] = ()
    pythonpath: str | None = None
    variables: frozenset[str] = frozenset()
    networks: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    says: frozenset[str] = frozenset()
    is_python: bool = False
    is_bare: bool = False

    def is_called(self, wanted: str) -> bool:
        """Return whether a user who types NAME or FILE:NAME means this service."""
        return wanted in {self.name, f"{self.file}:{self.name}"}

    def flag_value(self, names: list[str]) -> str:
        """Return the `--service` value for this service: NAME, or FILE:NAME if several of `names` are its name."""
        return self.name if names.count(self.name) == 1 else f"{self.file}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class DevcontainerFact:
    """One existing devcontainer.json.

    Attributes:
        path: path of the devcontainer.json, relative to the repository root.
        dockerfile: Dockerfile that builds it, relative to the root, None without one or when it is missing.
        context: its build context relative to the root, None without a Dockerfile or when it lies outside.
        image: `image` as written, None when absent.
        compose_files: `dockerComposeFile`, relative to the root.
        service: `service` as written, None when absent.
        workspace_folder: `workspaceFolder` as written, variables included, None when absent.
        gpu: whether it asks for a GPU (`runArgs`, or `hostRequirements.gpu` that is not merely "optional").
        installs: whether a command of it installs packages after the container is created (`postCreateCommand`).
    """

    path: str
    dockerfile: str | None = None
    context: str | None = None
    image: str | None = None
    compose_files: tuple[str, ...] = ()
    service: str | None = None
    workspace_folder: str | None = None
    gpu: bool = False
    installs: bool = False


@dataclass(frozen=True, kw_only=True)
class DockerRun:
    """A `docker run` line that mounts the repository, or starts an image that it builds.

    Attributes:
        source: file that contains the line.
        mounts: (local relative to the root, remote absolute) of folders of the repository.
        workdir: absolute; None if not given.
        shm, ipc: as written; None if not given.
        ports: container ports that it publishes.
        env: (name, value) of `-e`; `${OTHER}` stands for a variable of the user's shell, None for the one of the same
            name.
        env_files: files of `--env-file`, relative to the root; they may be missing.
        dockerfile: end of the path of the Dockerfile that a command near this line builds from; empty if unknown.
    """

    source: str
    mounts: tuple[tuple[str, str], ...]
    workdir: str | None = None
    shm: str | None = None
    ipc: str | None = None
    ports: tuple[int, ...] = ()
    env: tuple[tuple[str, str | None], ...] = ()
    env_files: tuple[str, ...] = ()
    dockerfile: str = ""

    def starts(self, dockerfile: str) -> bool:
        """Return whether this line may start an image of `dockerfile`, a path relative to the root."""
        return f"/{dockerfile}".endswith("/" + self.dockerfile) or not self.dockerfile


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project of a repository that has several.

    Attributes:
        folder: relative to the repository root.
        program: file of its best program, relative to the repository root.
    """

    folder: str
    program: str


@dataclass(frozen=True, kw_only=True)
class RepoFacts:
    """Everything `init` knows about a repository.

    Attributes:
        root: absolute, local side.
        name: directory name.
        python, torch, gpu, package_manager: see their types.
        dependency_files: the files to install from, in order, relative to the root.
        requirements: requirements of the repository that README install lines and imports show, as pip writes them, if
            no dependency file states any.
        declared: requirements in the dependency files, as pip writes them (`torch>=2.1`), without the optional groups.
        undeclared: packages that the sources import and the dependency files may not install: numpy, which torch has
            not required since 1.9 (pytorch #60081), and tensorboard for torch.utils.tensorboard.
        beside: the entries of `declared` that a setup.py or pyproject.toml has, and the requirements file in the same
            folder lacks.
        unnamed: (distribution, another dependency file that names it) of each distribution that the program imports and
            `declared` lacks, without those that other packages usually install. Empty if a lock file names everything.
            If nothing is declared: distributions whose names are guessed from module names.
        included: files of the repository that pip reads through `-r` or `-c` lines of `dependency_files`.
        installs_itself: whether a requirements file installs the repository (`-e .`, `.`).
        local_packages: folders below the root from which `dependency_files` install further packages: members of
            a workspace, path dependencies.
        frameworks: such as `torch`, `jax`, `tensorflow`, `ray`, `fastapi`.
        entrypoint: the best candidate, None when nothing can be started.
        candidates: every candidate seen, best first, `entrypoint` included.
        dockerfiles, services: parsed.
        compose_files: compose files, relative to the root. Those in the root that plain `docker compose` reads or that
            a user names with -f come first, in compose's order of preference; files in subfolders follow.
        compose_env: names in COMPOSE_FILE of the root's `.env`, joined by `:`; None if unset.
        compose_separator: separator of the names in the original COMPOSE_FILE.
        compose_read: the compose files that plain `docker compose` reads in the root, including the files that
            they include.
        compose_names: the services in `compose_read`.
        service: the service to debug, None if none fits.
        mappings: (local relative to the root, remote absolute) as the existing image or service has them.
        ports: container ports of the program itself.
        gpu_source: evidence for `gpu`.
        devcontainers: paths of existing devcontainer.json files.
        apt: Debian packages that wheels of this repository need at run time.
        build_apt: Debian packages needed to build its dependencies (compilers, git).
        readme_apt: packages in the README's apt lines, for some release of Debian or Ubuntu.
        harmless_scripts: names of shell scripts and of the repository's console scripts that do not need root.
        passing_scripts: names of shell scripts that run their arguments as the program.
        notebooks: number of notebooks.
        dockerfile: the Dockerfile that the program is built with outside compose, None if none fits.
        asked_dockerfile: whether the user has named `dockerfile`.
        extras: names of the optional dependency groups of the project (`[project.optional-dependencies]`, setup.py).
        torch_index: wheel index that torch is taken from, such as `https://download.pytorch.org/whl/cu124`, None
            for the default index.
        index_options: options of pip for the repository's indexes, as `--extra-index-url`, URL.
        readme_links: options of pip for the README's pages of wheels, for what only the README installs.
        indexed: (URL, requirements) of each index that is named only for these requirements.
        below: path of `root` below the root of its git repository, `a/b`; empty if it is that root.
        projects: the projects in a repository that has several, and is not a project itself.
        docker_run: the `docker run` line by which users start the image manually; None without such a line.
        installed: (path, how it installs the repository) of each Dockerfile that installs it; see
            setup/detect/docker/installed.py.
        source_root: folder that the repository's packages are imported from, None without packages.
        compiled: whether the repository's packages have compiled parts.
        extensions: (setup.py, whether it compiles CUDA, folder to make before) of those that compile extension modules
            which are not built here. Cython names a module after the package that setup.py lies in, and an in-place
            build writes into a folder of that name.
        missing: script that the command names and the repository lacks, relative to the root; else empty.
        dockerignores: (path, whether a build leaves out Python's compiled files) of .dockerignore files,
            including those for one Dockerfile alone.
        terminal: why the program needs a terminal; empty if it does not.
        inherited: (image, Dockerfile lines that state the settings that a build inherits from it). The image is the
            base image of `dockerfile` or of the service's Dockerfile, or the service's `image`. Empty if unknown, or if
            it sets only `WORKDIR /` and user root.
        rivals: alternatives to `service`, `python`, `gpu` and `dockerfile`, the best of each first.
        problems: files that could not be read or understood, one text each.
    """

    root: Path
    name: str
    python: PythonFact
    package_manager: PackageManager
    dependency_files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    unnamed: tuple[tuple[str, str], ...] = ()
    included: tuple[str, ...] = ()
    installs_itself: bool = False
    local_packages: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    torch: TorchFact | None = None
    entrypoint: EntryPoint | None = None
    candidates: tuple[EntryPoint, ...] = ()
    dockerfiles: tuple[DockerfileFact, ...] = ()
    services: tuple[ServiceFact, ...] = ()
    compose_files: tuple[str, ...] = ()
    compose_env: str | None = None
    compose_separator: str = ":"
    compose_read: tuple[str, ...] = ()
    compose_names: frozenset[str] = frozenset()
    service: ServiceFact | None = None
    mappings: tuple[tuple[str, str], ...] = ()
    ports: tuple[int, ...] = ()
    gpu: Gpu = "none"
    gpu_source: str = ""
    devcontainers: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    build_apt: tuple[str, ...] = ()
    readme_apt: tuple[str, ...] = ()
    harmless_scripts: frozenset[str] = frozenset()
    passing_scripts: frozenset[str] = frozenset()
    notebooks: int = 0
    dockerfile: str | None = None
    asked_dockerfile: bool = False
    extras: tuple[str, ...] = ()
    torch_index: str | None = None
    index_options: tuple[str, ...] = ()
    readme_links: tuple[str, ...] = ()
    indexed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    docker_run: DockerRun | None = None
    installed: tuple[tuple[str, str], ...] = ()
    source_root: str | None = None
    compiled: bool = False
    extensions: tuple[tuple[str, bool, str], ...] = ()
    missing: str = ""
    dockerignores: tuple[tuple[str, bool], ...] = ()
    terminal: str = ""
    below: str = ""
    projects: tuple[Project, ...] = ()
    inherited: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rivals: tuple[Rival, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def strictest(self) -> ServiceFact | None:
        """The service whose file decides which variables are required: `service`, else one that plain compose reads."""
        return self.service or next((each for each in self.services if each.file in self.compose_read), None)


def facts_json(facts: RepoFacts) -> dict[str, object]:
    """Return the facts as plain values: strings, numbers, lists and maps, paths relative to the repository."""
    entry = facts.entrypoint
    return {
        "python": facts.python.version,
        "python_source": facts.python.source,
        "package_manager": facts.package_manager,
        "dependency_files": list(facts.dependency_files),
        "frameworks": list(facts.frameworks),
        "torch": None
        if facts.torch is None
        else {"version": facts.torch.version, "cuda": facts.torch.cuda, "source": facts.torch.source},
        "entrypoint": None
        if entry is None
        else {
            "command": entry.command,
            "file": entry.file,
            "cwd": entry.cwd,
            "needs_args": entry.needs_args,
            "source": entry.source,
        },
        "launcher": entry.launcher if entry is not None else None,
        "candidates": [
            {"command": item.command, "file": item.file, "launcher": item.launcher}
            for item in facts.candidates[:10]
        ],
        "service": None
        if facts.service is None
        else {
            "name": facts.service.name,
            "file": facts.service.file,
        },
        "needs": list(facts.strictest.needs) if facts.strictest else [],
        "needs_files": [name for name, _ in facts.strictest.needs_files] if facts.strictest else [],
        "mappings": [{"local": local, "remote": remote} for local, remote in facts.mappings],
        "ports": list(facts.ports),
        "gpu": facts.gpu,
        "gpu_source": facts.gpu_source,
        "apt": list(facts.apt),
        "build_apt": list(facts.build_apt),
        "readme_apt": list(facts.readme_apt),
        "requirements": list(facts.requirements),
        "notebooks": facts.notebooks,
        "devcontainers": list(facts.devcontainers),
        "problems": list(facts.problems),
    }


_WORD = r"[\w./:@%+=,-]{1,500}"
#: The instructions that are inherited, with values that a Dockerfile takes as they are, without substitution.
_INHERITED = (
    rf'(?:WORKDIR |USER |ENV PYTHONPATH=){_WORD}|(?:SHELL|ENTRYPOINT) \["{_WORD}"(?:, "{_WORD}"){{0,9}}\]'
)
#: Lines that state a default: an image that sets no working directory or user has them.
_NOT_INHERITED = frozenset({"WORKDIR /", "USER root", "USER 0", "USER 0:0"})
_MAX_INHERITED = 5


def inherited_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the valid lines of an image that a build inherits, without defaults, at most `_MAX_INHERITED`.

    `lines` come from an untrusted image or manifest.
    """
    found = (each for each in lines if re.fullmatch(_INHERITED, each, re.ASCII))
    return tuple(each for each in found if each not in _NOT_INHERITED)[:_MAX_INHERITED]
