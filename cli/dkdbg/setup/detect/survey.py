"""Read a repository in steps, of which later ones use the results of earlier ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.core.facts import Rival
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.setup.detect.accelerator.frameworks import frameworks_of, uses_accelerator
from dkdbg.setup.detect.accelerator.torch import TextEvidence
from dkdbg.setup.detect.docker import compose_file, dockerfile_syntax, service
from dkdbg.setup.detect.docker.devcontainer import read_devcontainers
from dkdbg.setup.detect.docker.docker_run import read_docker_run
from dkdbg.setup.detect.docker.dockerfile import absolute, read_dockerfile, run_lines
from dkdbg.setup.detect.docker.inside import Inside, started, to_local
from dkdbg.setup.detect.docker.installed import how_installed
from dkdbg.setup.detect.files import Tree, is_vendored, parent
from dkdbg.setup.detect.launch.entrypoint import Ranking, given, rank
from dkdbg.setup.detect.launch.launches import gather
from dkdbg.setup.detect.launch.readme import installed, installs_with
from dkdbg.setup.detect.python import imports
from dkdbg.setup.detect.python.dependencies import read_dependency_files
from dkdbg.setup.detect.python.manager import Choice, choose_manager, with_local
from dkdbg.setup.detect.substitution import parse_env

if TYPE_CHECKING:
    from dkdbg.core.facts import DevcontainerFact, DockerfileFact
    from dkdbg.setup.detect.docker.dockerfile import Inherited
    from dkdbg.setup.detect.docker.service import RunningService
    from dkdbg.setup.detect.launch.launches import Seen

_NOT_DOCKERFILE = re.compile(
    r"\.(?:dockerignore|md|txt|sh|py|tmpl|j2|jinja|template|yml|yaml|in)$", re.IGNORECASE
)
_SIDE_IMAGE = re.compile(
    r"doc(?!ker)|test|lint|\bci\b|frontend|node|nginx|web-?ui|runpod|rocm|amd|xpu|intel|arm|jetson|windows|tpu",
    re.IGNORECASE,
)
_INSTALL_DOCUMENT = re.compile(
    r"(?:readme|install\w*|get(?:ting)?[-_]?started|quick[-_]?start|setup|usage)(?:[-_.]\w+)*\.(?:md|rst|txt)",
    re.IGNORECASE,
)

#: Folders whose documents describe the whole repository.
_OF_DOCUMENTS = {".", ".github", "docs", "doc", "docker", "install", "readme", "documentation"}
#: Folders that hold Dockerfiles, but no files for the image.
_OF_IMAGES = {"docker", ".docker", "build"}
#: A shell script that a command line starts.
_SCRIPT = re.compile(
    r"(?:\b(?:bash|sh|sbatch|source)\s+|^[ \t$>]*\.[ \t]+|(?<![\w/.])\./)([\w./-]{1,200}\.sh)\b", re.MULTILINE
)
#: Names of scripts that set up an environment.
_MAKES_ENVIRONMENT = re.compile(
    r"(?:^|[/_-])(?:create|make|build|set_?up|install\w*|env\w*|requirements|dependencies|conda)(?:[/_.-]|$)",
    re.IGNORECASE,
)


class Survey:
    """All that was read from a repository, before conclusions are drawn."""

    def __init__(
        self,
        tree: Tree,
        command: str | None = None,
        wanted: str | None = None,
        dockerfile: str | None = None,
        inherited: Inherited | None = None,
    ) -> None:
        self.tree = tree
        self.inherited = inherited or {}
        self.python_files = tuple(
            path for path in tree.files if path.endswith(".py") and not is_vendored(path)
        )
        self.notebooks = tuple(
            path for path in tree.files if path.endswith(".ipynb") and not is_vendored(path)
        )
        self.dependency_files = read_dependency_files(tree)
        self.scripts = self._scripts()
        self.docker_run = read_docker_run(tree, self.project_names())
        self.devcontainers = read_devcontainers(tree)
        self.dockerfile_texts = self._dockerfile_texts()
        self.dockerfiles = {
            path: read_dockerfile(text, path, inherited=self.inherited)
            for path, text in self.dockerfile_texts.items()
        }
        names = self.project_names()
        for path, fact in self.dockerfiles.items():
            context = self._build_context(path)
            copied = service.code_mappings(tree, (), fact, context, names)
            self.dockerfiles[path] = replace(fact, code=copied, context=context)
        variables = parse_env(tree.text(".env")) if tree.has(".env") else {}
        self.compose_separator = variables.get("COMPOSE_PATH_SEPARATOR") or ":"
        # Without COMPOSE_FILE, compose reads the files with default names.
        self.compose_env = (
            ":".join(compose_file.named_files(variables.get("COMPOSE_FILE", ""), self.compose_separator))
            or None
        )
        self.compose_files = compose_file.find_compose_files(tree)
        self.services = self._services()
        self.asked_dockerfile = dockerfile
        own = (item.service for item in self.devcontainers if item.service and item.compose_files)
        self._ranked = service.ranked(self._startable(wanted), next(own, None))
        self.chosen = service.choose(self.services, self._ranked, wanted)
        if dockerfile is not None and dockerfile not in self.dockerfiles:
            raise DkdbgError(
                f"there is no Dockerfile {dockerfile!r} here; there are: {', '.join(self.dockerfiles) or 'none'}",
                hint="pass one of them with --dockerfile, relative to the repository",
                exit_code=EXIT_USAGE,
            )
        if dockerfile is not None and wanted is None:
            self.chosen = None  # --dockerfile without --service: extend no service
        is_asked = dockerfile and self.chosen is None
        self.dockerfile = self.dockerfiles.get(dockerfile or "") if is_asked else self._main_dockerfile()
        code = imports.third_party(tree, self.python_files)
        # Imports in notebooks count only if there are no Python files.
        self.imported = code if self.python_files else imports.notebook_imports(tree, self.notebooks)
        self.documents = self._documents()
        self.readme = "\n".join(text for path, text in self.documents if parent(path) in {".", ".github"})
        packages = {
            item.name for file in self.dependency_files for item in file.wanted if "/" not in file.path
        }
        self.frameworks = frameworks_of(packages, self._installed(packages))
        self.ranking = self._ranking()
        self.entry = self.ranking.candidates[0] if self.ranking.has_best else None
        #: Path of a script that the command names and the repository lacks; empty if none is missing.
        self.missing = self._missing_of_service()
        if command is not None:
            self.entry, self.missing = given(tree, command, self.scripts)
        if self.dockerfile is None and self.chosen is None:
            near = (
                item.dockerfile for item in self.near_devcontainers() if item.dockerfile in self.dockerfiles
            )
            self.dockerfile = next((self.dockerfiles[path] for path in near if path), None)
        self.manager = self._manager()

    def _scripts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for file in self.dependency_files:
            if (
                parent(file.path) in {".", "src", "python", "backend", "server", "app", "api"}
                or len(self.dependency_files) < 4
            ):
                for name, target in file.scripts:
                    found.setdefault(name, target)
        return found

    def project_names(self) -> frozenset[str]:
        """Return names that an image or distribution of this repository may have."""
        names = {self.tree.root.name.lower()}
        names |= {name.lower() for name in self.distributions()}
        return frozenset({*names, *(name.replace("_", "-") for name in names)})

    def distributions(self) -> frozenset[str]:
        """Return the names of the repository's own distributions."""
        return frozenset(file.name for file in self.dependency_files if file.name and "/" not in file.path)

    def packages(self) -> tuple[str, ...]:
        """Return the names of the packages (folders with `__init__.py`) in the root or in `src`."""
        found = (path.removeprefix("src/").split("/") for path in self.tree.named("__init__.py"))
        side = {"tests", "test", "docs", "examples", "scripts", "src"}
        return tuple(dict.fromkeys(steps[0] for steps in found if len(steps) == 2 and steps[0] not in side))

    def _dockerfile_texts(self) -> dict[str, str]:
        paths = [
            path
            for path in self.tree.matching(dockerfile_syntax.NAME)
            if not _NOT_DOCKERFILE.search(path) and not is_vendored(path)
        ]
        paths += [
            item.dockerfile for item in self.devcontainers if item.dockerfile and item.dockerfile not in paths
        ]
        texts = {path: self.tree.text(path) for path in paths[:80]}
        return {
            path: text
            for path, text in texts.items()
            if re.search(r"^[ \t]*FROM\s", text, re.MULTILINE | re.IGNORECASE)
        }

    def _services(self) -> tuple[RunningService, ...]:
        files = list(self.compose_files)
        for item in self.devcontainers:
            files.extend(name for name in item.compose_files if self.tree.has(name) and name not in files)
        self.compose_files = tuple(files)
        self.composed = compose_file.read_services(self.tree, self.compose_files, self.compose_env)
        names = self.project_names()
        images = {
            path: self.dockerfiles[path].context
            for path in self._dockerfiles_by_place()
            if self.dockerfiles[path].copies
        }
        found = service.with_only_build(
            self.tree,
            tuple(
                service.read_service(
                    self.tree,
                    fact,
                    build,
                    self.scripts,
                    projects=names,
                    images=images,
                    inherited=self.inherited,
                )
                for fact, build in self.composed.services
            ),
        )
        return tuple(
            replace(each, fact=replace(each.fact, is_bare=True)) if self._is_bare(each) else each
            for each in found
        )

    def _is_bare(self, item: RunningService) -> bool:
        """Return whether a service's image lacks packages, which its dev container installs in each new container."""
        text = self.tree.text(item.fact.dockerfile) if item.fact.dockerfile else ""
        return (
            item.seen is None
            and not service.installs_python(text)
            and any(
                each.installs and item.fact.file in each.compose_files and each.service == item.fact.name
                for each in self.devcontainers
            )
        )

    def _startable(self, wanted: str | None) -> tuple[RunningService, ...]:
        """Return the services to choose from: all if the user named one, otherwise complete ones that compose can start.

        Leave out a service whose file needs variables without a value. To extend it, compose would read that whole
        file, and then reject the user's own files, too.
        """
        read = self.composed.read
        return tuple(
            each
            for each in self.services
            if wanted is not None
            or (
                each.fact.says & {"image", "build"}
                and not self._lacks_dockerfile(each)
                and not (read and each.fact.needs and each.fact.file not in read)
            )
        )

    def _lacks_dockerfile(self, item: RunningService) -> bool:
        """Return whether a service has nothing but a build section whose Dockerfile is not in the repository."""
        fact = item.fact
        return "image" not in fact.says and fact.context is not None and fact.dockerfile is None

    def _main_dockerfile(self) -> DockerfileFact | None:
        """Return the program's Dockerfile: the service's, or one in the root, in `docker/`, or of a dev container."""
        if self.chosen is not None:
            return self.chosen.dockerfile
        near = self._dockerfiles_by_place()
        return self.dockerfiles[near[0]] if near else None

    def _dockerfiles_by_place(self) -> list[str]:
        """Return the Dockerfiles that build from this repository's sources, first `Dockerfile` in the root."""

        def order(path: str) -> tuple[bool, int, bool, str]:
            is_plain = path.rsplit("/", 1)[-1] == "Dockerfile"
            return bool(_SIDE_IMAGE.search(path)), path.count("/"), not is_plain, path

        near = [
            path
            for path, fact in self.dockerfiles.items()
            if path.count("/") <= 1 + (parent(path).rsplit("/", 1)[-1] in _OF_IMAGES)
            and ".devcontainer" not in path
            and (
                fact.copies
                or how_installed(run_lines(self.dockerfile_texts[path]), self.distributions()) != "released"
            )
        ]
        return sorted(near, key=order)

    def service_rivals(self) -> tuple[Rival, ...]:
        """Return the other services that run Python of this repository, as alternatives."""
        return service.rivals(self._ranked, self.chosen) if self.chosen else ()

    def dockerfile_rivals(self) -> tuple[Rival, ...]:
        """Return the other Dockerfiles that build this repository; those of the same kind and folder are close."""
        main = self.dockerfile
        if main is None or self.chosen is not None:
            return ()
        is_side = bool(_SIDE_IMAGE.search(main.path))
        is_named = PurePosixPath(main.path).name == "Dockerfile"
        return tuple(
            Rival(
                topic="dockerfile",
                value=path,
                source=f"FROM {self.dockerfiles[path].base}",
                is_close=not is_named
                and parent(path) == parent(main.path)
                and bool(_SIDE_IMAGE.search(path)) == is_side,
            )
            for path in self._dockerfiles_by_place()
            if path != main.path
        )

    def _documents(self) -> tuple[tuple[str, str], ...]:
        paths = [
            path
            for path in self.tree.matching(_INSTALL_DOCUMENT)
            if path.count("/") <= 2
            and not is_vendored(path)
            and not re.search(r"[-_.](?:zh|cn|ja|ko|fr|de|es|ru|pt)\w*\.", path.lower())
        ]
        paths.sort(key=lambda path: (path.count("/"), not path.lower().startswith("readme"), path))
        return tuple((path, self.tree.text(path)) for path in paths[:25])

    def _installed(self, packages: set[str]) -> tuple[str, ...]:
        """Return the imported modules, without GPU packages missing from the lock file (a side script imports them)."""
        locked = {item.name for file in self.dependency_files if file.kind == "lock" for item in file.wanted}
        if not locked:
            return self.imported
        named = packages | locked | {item.name for item in installed(self.readme)}
        return tuple(
            name
            for name in self.imported
            if not uses_accelerator(frameworks_of((), (name,)))
            or named & {name, *imports.distributions((name,))}
        )

    def setup_scripts(self) -> dict[str, str]:
        """Return path -> text of the shell scripts in the README that set up an environment."""
        named = dict.fromkeys(path.removeprefix("./") for path in _SCRIPT.findall(self.readme))
        made_for_it = (path for path in named if self.tree.has(path) and _MAKES_ENVIRONMENT.search(path))
        return {path: self.tree.text(path) for path in made_for_it}

    def install_text(self) -> str:
        """Return the README followed by its scripts that set up an environment, as code blocks."""
        return "\n".join((self.readme, *(f"```\n{text}\n```" for text in self.setup_scripts().values())))

    def own_documents(self) -> tuple[tuple[str, str], ...]:
        """Return the documents about the program: in the root, in documentation folders, or beside the program."""
        file = self.entry.file if self.entry and self.entry.file else ""
        return tuple(
            (path, text)
            for path, text in self.documents
            if parent(path).split("/")[0] in _OF_DOCUMENTS or file.startswith(parent(path) + "/")
        )

    def _ranking(self) -> Ranking:
        resolved: list[tuple[Seen, str | None]] = []
        for item in self.services:
            if item.seen is None or not item.fact.is_python:
                continue
            is_chosen = self.chosen is not None and item.fact == self.chosen.fact
            # `docker compose up` in the root starts the program; a compose file in a subfolder is only one of several
            # ways.
            own = "service" if "/" not in item.fact.file else "image"
            place = own if is_chosen else "other-service"
            resolved.append((replace(item.seen, place=place), item.file))
        for path, fact in self.dockerfiles.items():
            is_main = self.dockerfile is not None and path == self.dockerfile.path
            inside = Inside(
                workdir=fact.workdir, mappings=fact.code, scripts=self.scripts, context=fact.context
            )
            seen, file = started(self.tree, service.image_argv(fact), inside)
            if seen is not None and (file is not None or is_main):
                place = "image" if is_main and self.chosen is None else "other-image"
                if file is None and place == "image" and self.python_files:
                    continue
                resolved.append((replace(seen, place=place, source=path), file))
        named = (file.name for file in self.dependency_files if file.name and "/" not in file.path)
        return rank(
            self.tree,
            gather(self.tree, frozenset(self.scripts)),
            scripts=self.scripts,
            resolved=resolved,
            project=next(named, None) or min(self.project_names()),
            is_ml=uses_accelerator(self.frameworks),
            notebooks=self.notebooks,
        )

    def _missing_of_service(self) -> str:
        """Return the script that the chosen service starts, if its folder is mapped but has no such file."""
        chosen = self.chosen
        if chosen is None or chosen.seen is None or chosen.file is not None or chosen.seen.launch.is_module:
            return ""
        target = chosen.seen.launch.target or ""
        local = (
            to_local(absolute(chosen.workdir, target), chosen.mappings) if target.endswith(".py") else None
        )
        return local if local is not None and not self.tree.has(local) else ""

    def _manager(self) -> Choice:
        chosen = self.chosen
        context = chosen.fact.context if chosen and chosen.fact.context else "."
        builds = {
            path: (path, self.dockerfiles[path].context, run_lines(text))
            for path, text in self.dockerfile_texts.items()
        }
        build = builds.get(self.dockerfile.path) if self.dockerfile else None
        if build is not None and chosen:
            build = (build[0], context, build[2])
        chosen_manager = choose_manager(
            self.tree,
            self.dependency_files,
            home=context,
            entry=self.entry.file if self.entry else None,
            build=build,
            dockerfiles=[*builds.values()],
            readme=self.readme,
            in_readme=installs_with(self.readme),
        )
        return with_local(self.tree, chosen_manager, self.dependency_files, self.readme)

    def near_devcontainers(self) -> list[DevcontainerFact]:
        """Return the dev containers, first those beside the program."""
        file = self.entry.file if self.entry and self.entry.file else ""
        beside = [
            item
            for item in self.devcontainers
            if file.startswith(item.path.split(".devcontainer")[0] or "\0")
        ]
        own = [
            item
            for item in self.devcontainers
            if item not in beside and item.path.startswith(".devcontainer")
        ]
        # If there is a program, dev containers of other folders are only examples.
        return [*beside, *own] if file else list(self.devcontainers)

    def build_text(self) -> TextEvidence:
        """Return the RUN lines of the program's Dockerfile; empty without a Dockerfile."""
        if self.dockerfile is None or self.dockerfile.path not in self.dockerfile_texts:
            return TextEvidence(text="", source="")
        text = "\n".join(run_lines(self.dockerfile_texts[self.dockerfile.path]))
        return TextEvidence(text=text, source=self.dockerfile.path)

    def _build_context(self, dockerfile: str) -> str:
        """Return a Dockerfile's probable build context: its folder, or the root if only that has the copied sources."""
        for item in self.devcontainers:
            if item.dockerfile == dockerfile and item.context is not None:
                return item.context
        sources = [local for local, _ in self.dockerfiles[dockerfile].copies if local != "."]
        folder = parent(dockerfile)
        if folder != "." and sources:
            paths = [f"{folder}/{local}" for local in sources]
            return folder if all(self.tree.has(path) or self.tree.has_dir(path) for path in paths) else "."
        return "." if folder in {"docker", ".docker", ".devcontainer", "build", "deploy"} else folder
