"""Reads a repository: every fact that `init` decides on, each with the place where it was seen."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg.detect import compose_file, imports, service
from dkdbg.detect.dependencies import read_dependency_files
from dkdbg.detect.devcontainer import read_devcontainers
from dkdbg.detect.dockerfile import read_dockerfile, run_lines
from dkdbg.detect.entrypoint import Ranking, rank
from dkdbg.detect.files import Tree, is_vendored, parent
from dkdbg.detect.frameworks import frameworks_of, uses_accelerator
from dkdbg.detect.gpu import read_gpu
from dkdbg.detect.images import read_image
from dkdbg.detect.includes import included_files, installs_itself
from dkdbg.detect.launches import gather
from dkdbg.detect.manager import Choice, choose_manager
from dkdbg.detect.python_version import read_python
from dkdbg.detect.readme import installed_names
from dkdbg.detect.substitution import parse_env
from dkdbg.detect.system_packages import system_packages
from dkdbg.detect.torch import TextEvidence, read_torch, torch_index
from dkdbg.model.facts import DevcontainerFact, DockerfileFact, EntryPoint, PythonFact, RepoFacts, TorchFact

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.detect.launches import Seen
    from dkdbg.detect.service import RunningService
    from dkdbg.model.facts import Gpu

_DOCKERFILE = re.compile(r"(?:[\w.-]+[._-])?(?:Dockerfile|dockerfile|Containerfile)(?:[._-][\w.-]+)?")
_NOT_DOCKERFILE = re.compile(
    r"\.(?:dockerignore|md|txt|sh|py|tmpl|j2|jinja|template|yml|yaml|in)$", re.IGNORECASE
)
_SIDE_IMAGE = re.compile(
    r"doc|test|lint|\bci\b|frontend|node|nginx|web-?ui|runpod|rocm|amd|xpu|intel|arm|jetson|windows|tpu",
    re.IGNORECASE,
)
_INSTALL_DOCUMENT = re.compile(
    r"(?:readme|install\w*|getting[-_]?started|quick[-_]?start|setup|usage)(?:[-_.]\w+)*\.(?:md|rst|txt)",
    re.IGNORECASE,
)
_CONFIG = re.compile(r".*\.(?:ya?ml|toml|json|gin|cfg|ini)")
_MAX_SOURCES = 400
_MAX_CONFIGS = 120


def inspect(root: Path, *, ignore: frozenset[str] = frozenset()) -> RepoFacts:
    """Return what a repository shows of itself. Reads at most a bounded number of files, runs and writes nothing.

    Args:
        root: local folder of the repository.
        ignore: files, relative to it, that are no evidence: those that dkdbg itself generated.

    Raises:
        DkdbgError: when the folder cannot be read, or when the compose file that plain `docker compose` would
            use is not valid; every other broken file is left out and named in `problems`.
    """
    root = root.absolute()
    return _Inspection(Tree(root, ignore=ignore)).facts()


class _Inspection:
    """The steps of one inspection; each step's values are there for the next ones."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.python_files = tuple(
            path for path in tree.files if path.endswith(".py") and not is_vendored(path)
        )
        self.notebooks = tuple(
            path for path in tree.files if path.endswith(".ipynb") and not is_vendored(path)
        )
        self.dependency_files = read_dependency_files(tree)
        self.scripts = self._scripts()
        self.devcontainers = read_devcontainers(tree)
        self.dockerfile_texts = self._dockerfile_texts()
        self.dockerfiles = {path: read_dockerfile(text, path) for path, text in self.dockerfile_texts.items()}
        self.compose_env = parse_env(tree.text(".env")).get("COMPOSE_FILE") if tree.has(".env") else None
        self.compose_files = compose_file.find_compose_files(tree)
        self.services = self._services()
        self.chosen = service.choose(self.services, self._devcontainer_service())
        self.dockerfile = self._main_dockerfile()
        code = imports.third_party(tree, self.python_files)
        # Notebooks beside a program are side material; they speak only where there is nothing else.
        self.imported = code if self.python_files else imports.notebook_imports(tree, self.notebooks)
        self.documents = self._documents()
        self.readme = "\n".join(text for path, text in self.documents if parent(path) in {".", ".github"})
        packages = {
            item.name for file in self.dependency_files for item in file.wanted if "/" not in file.path
        }
        self.frameworks = frameworks_of(packages, self.imported)
        self.ranking = self._ranking()
        self.entry = self.ranking.candidates[0] if self.ranking.has_best else None
        if self.dockerfile is None and self.chosen is None:
            near = (
                item.dockerfile for item in self._near_devcontainer() if item.dockerfile in self.dockerfiles
            )
            self.dockerfile = next((self.dockerfiles[path] for path in near if path), None)
        self.manager = self._manager()

    def facts(self) -> RepoFacts:
        """Return everything, put together."""
        tree, chosen = self.tree, self.chosen
        python = self._python()
        torch = self._torch(int(python.version.split(".")[1]))
        gpu, gpu_source = self._gpu()
        files = tuple(file for file in self.manager.read if file.kind != "lock")
        wanted = [item for file in files for item in file.wanted if item.extra is None]
        requirements = () if wanted else self._requirements()
        needed = {*(imports.distributions(self.imported) if not wanted else ()), *requirements}
        needed |= {
            name
            for name in imports.distributions(self.imported)
            if name in {"mpi4py", "opencv-python", "soundfile"}
        }
        apt, build_apt = system_packages(wanted, needed)
        env_files = [file for file in self.dependency_files if file.kind == "conda" and "/" not in file.path]
        dockerfiles = [
            *([chosen.dockerfile] if chosen and chosen.dockerfile else []),
            *self.dockerfiles.values(),
        ]
        return RepoFacts(
            root=tree.root,
            name=tree.root.name,
            python=python,
            package_manager=self.manager.manager,
            dependency_files=self.manager.files,
            requirements=requirements,
            declared=tuple(dict.fromkeys(item.requirement for item in wanted)),
            included=included_files(tree, self.manager.files),
            installs_itself=installs_itself(tree, self.manager.files),
            frameworks=self.frameworks,
            torch=torch,
            entrypoint=self.entry,
            candidates=self.ranking.candidates,
            dockerfiles=tuple({fact.path: fact for fact in reversed(dockerfiles)}.values())[::-1],
            services=tuple(item.fact for item in self.services),
            compose_files=self.compose_files,
            compose_env=self.compose_env,
            service=chosen.fact if chosen else None,
            mappings=self._mappings(),
            ports=self._ports(),
            gpu=gpu,
            gpu_source=gpu_source,
            devcontainers=tuple(item.path for item in self.devcontainers),
            vscode=tuple(path for path in tree.files if re.fullmatch(r"\.vscode/[^/]+\.json", path)),
            dockerignore=".dockerignore" if tree.has(".dockerignore") else None,
            apt=apt,
            build_apt=build_apt,
            notebooks=len(self.notebooks),
            git=any((folder / ".git").exists() for folder in (tree.root, *tree.root.parents)),
            devcontainer_facts=self.devcontainers,
            dockerfile=self.dockerfile.path if self.dockerfile else None,
            extras=tuple(dict.fromkeys(extra for file in files for extra in file.extras)),
            torch_index=torch_index(
                self.manager.read, self._build_text(), [text for _, text in self.documents], torch
            ),
            conda_env=env_files[0].name if env_files else None,
            empty_submodules=self._empty_submodules(),
            problems=tuple(tree.problems),
        )

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

    def _project_names(self) -> frozenset[str]:
        names = {self.tree.root.name.lower()}
        names |= {file.name.lower() for file in self.dependency_files if file.name and "/" not in file.path}
        return frozenset({*names, *(name.replace("_", "-") for name in names)})

    def _dockerfile_texts(self) -> dict[str, str]:
        paths = [
            path
            for path in self.tree.matching(_DOCKERFILE)
            if not _NOT_DOCKERFILE.search(path) and not is_vendored(path)
        ]
        paths += [
            item.dockerfile for item in self.devcontainers if item.dockerfile and item.dockerfile not in paths
        ]
        texts = {path: self.tree.text(path) for path in paths[:80]}
        return {
            path: text
            for path, text in texts.items()
            if re.search(r"^\s*FROM\s", text, re.MULTILINE | re.IGNORECASE)
        }

    def _services(self) -> tuple[RunningService, ...]:
        files = list(self.compose_files)
        for item in self.devcontainers:
            files.extend(name for name in item.compose_files if self.tree.has(name) and name not in files)
        self.compose_files = tuple(files)
        read = compose_file.read_services(self.tree, self.compose_files, self.compose_env)
        names = self._project_names()
        return tuple(
            service.read_service(self.tree, fact, build, self.scripts, names) for fact, build in read
        )

    def _devcontainer_service(self) -> str | None:
        return next(
            (item.service for item in self.devcontainers if item.service and item.compose_files), None
        )

    def _main_dockerfile(self) -> DockerfileFact | None:
        """Return the Dockerfile of the program: the service's, the root's, the one in `docker/`, a dev container's."""
        if self.chosen is not None:
            return self.chosen.dockerfile

        def order(path: str) -> tuple[bool, int, bool, str]:
            name = path.rsplit("/", 1)[-1]
            return (
                bool(_SIDE_IMAGE.search(path)),
                path.count("/"),
                name != "Dockerfile",
                path,
            )

        near = [path for path in self.dockerfiles if path.count("/") <= 1 and ".devcontainer" not in path]
        return self.dockerfiles[min(near, key=order)] if near else None

    def _documents(self) -> tuple[tuple[str, str], ...]:
        paths = [
            path
            for path in self.tree.matching(_INSTALL_DOCUMENT)
            if path.count("/") <= 2 and not is_vendored(path)
        ]
        paths = [
            path for path in paths if not re.search(r"[-_.](?:zh|cn|ja|ko|fr|de|es|ru|pt)\w*\.", path.lower())
        ]
        paths.sort(key=lambda path: (path.count("/"), not path.lower().startswith("readme"), path))
        return tuple((path, self.tree.text(path)) for path in paths[:25])

    def _ranking(self) -> Ranking:
        resolved: list[tuple[Seen, str | None]] = []
        for item in self.services:
            if item.seen is None or not item.fact.is_python:
                continue
            is_chosen = self.chosen is not None and item.fact == self.chosen.fact
            place = "service" if is_chosen else "other-service"
            resolved.append((replace(item.seen, place=place), item.file))
        for path, fact in self.dockerfiles.items():
            is_main = self.dockerfile is not None and path == self.dockerfile.path
            context = "." if is_main else parent(path)
            mappings = service.code_mappings(self.tree, (), fact, context)
            inside = service.Inside(
                workdir=fact.workdir, mappings=mappings, scripts=self.scripts, context=context
            )
            seen, file = service.started(self.tree, service.image_argv(fact), inside)
            if seen is not None and (file is not None or is_main):
                place = "image" if is_main and self.chosen is None else "other-image"
                if file is None and place == "image" and self.python_files:
                    continue
                resolved.append((replace(seen, place=place, source=path), file))
        first = next(iter(sorted(self._project_names())), "")
        return rank(
            self.tree,
            gather(self.tree, frozenset(self.scripts)),
            scripts=self.scripts,
            resolved=resolved,
            project=next(
                (file.name for file in self.dependency_files if file.name and "/" not in file.path), None
            )
            or first,
            is_ml=uses_accelerator(self.frameworks),
            notebooks=self.notebooks,
        )

    def _manager(self) -> Choice:
        chosen = self.chosen
        context = chosen.fact.context if chosen and chosen.fact.context else "."
        builds = [
            (path, self._context_of(path), run_lines(text)) for path, text in self.dockerfile_texts.items()
        ]
        build = None
        if self.dockerfile is not None and self.dockerfile.path in self.dockerfile_texts:
            where = context if chosen else self._context_of(self.dockerfile.path)
            build = (self.dockerfile.path, where, run_lines(self.dockerfile_texts[self.dockerfile.path]))
        return choose_manager(
            self.tree,
            self.dependency_files,
            home=context,
            entry=self.entry.file if self.entry else None,
            build=build,
            dockerfiles=builds,
            readme=self.readme,
        )

    def _context_of(self, dockerfile: str) -> str:
        for item in self.devcontainers:
            if item.dockerfile == dockerfile and item.context is not None:
                return item.context
        return (
            parent(dockerfile) if dockerfile.rsplit("/", 1)[0] not in {"docker", ".docker", "build"} else "."
        )

    def _near_devcontainer(self) -> list[DevcontainerFact]:
        """Return the dev containers, those that lie beside the program first."""
        file = self.entry.file if self.entry and self.entry.file else ""
        return sorted(
            self.devcontainers,
            key=lambda item: not file.startswith(item.path.split(".devcontainer")[0] or "\0"),
        )

    def _python(self) -> PythonFact:
        images: list[tuple[str, str | None]] = []
        weak: list[tuple[str, str]] = []
        near = [
            self.dockerfiles[item.dockerfile]
            for item in self._near_devcontainer()
            if item.dockerfile in self.dockerfiles
        ]
        for fact in [*([self.dockerfile] if self.dockerfile else []), *near]:
            image = read_image(fact.base)
            if image.system_python and image.python == fact.python:
                weak.append((fact.path, f"python {fact.python}"))
            else:
                images.append((fact.path, fact.python))
        images.extend((item.path, read_image(item.image).python) for item in self.devcontainers if item.image)
        if self.chosen is not None and self.chosen.fact.image and self.chosen.dockerfile is None:
            images.append((self.chosen.fact.file, read_image(self.chosen.fact.image).python))
        home = {".", self.chosen.fact.context if self.chosen and self.chosen.fact.context else "."}
        files = tuple(
            dict.fromkeys(
                [*self.manager.read, *(file for file in self.dependency_files if parent(file.path) in home)]
            )
        )
        pin = "\n".join(self.tree.text(name) for name in (".python-version", "runtime.txt"))
        pin += "\n".join(re.findall(r"^python\s+(\S+)", self.tree.text(".tool-versions"), re.MULTILINE))
        pin += "\n".join(re.findall(r"python_version:\s*[\"']?(3\.\d+)", self.tree.text("cog.yaml")))
        workflows = [
            (path, self.tree.text(path)) for path in self.tree.files if path.startswith(".github/workflows/")
        ]
        target = re.search(r"target-version\s*=\s*\[?\s*[\"'](py3\d+)", self.tree.text("pyproject.toml"))
        return read_python(
            images=images,
            pin_text=pin,
            files=tuple(file for file in files if file.kind != "requirements" or file in self.manager.read),
            workflows=workflows,
            documents=[*self.documents, *weak],
            tool_target=("pyproject.toml", target[1]) if target else None,
        )

    def _build_text(self) -> TextEvidence:
        if self.dockerfile is None or self.dockerfile.path not in self.dockerfile_texts:
            return TextEvidence(text="", source="")
        text = "\n".join(run_lines(self.dockerfile_texts[self.dockerfile.path]))
        return TextEvidence(text=text, source=self.dockerfile.path)

    def _torch(self, python: int) -> TorchFact | None:
        kinds = {"lock": 0}
        own = sorted(self.manager.read, key=lambda file: kinds.get(file.kind, 1))
        others = [file for file in self.dependency_files if file not in own and "/" not in file.path]
        scripts = [path for path in self.tree.files if path.endswith((".sh", ".bat")) and "/" not in path]
        cog = re.findall(r"-\s*[\"']?(torch==\S+?)[\"']?\s*$", self.tree.text("cog.yaml"), re.MULTILINE)
        documents = [*self.documents, *((path, self.tree.text(path)) for path in scripts)]
        documents += [("cog.yaml", f"pip install {pin}") for pin in cog]
        base = self.dockerfile.base if self.dockerfile else self.chosen.fact.image if self.chosen else None
        return read_torch(
            files=[*own, *others],
            base=base,
            base_source=self.dockerfile.path
            if self.dockerfile
            else self.chosen.fact.file
            if self.chosen
            else "",
            build=self._build_text(),
            documents=[TextEvidence(text=text, source=path) for path, text in documents],
            is_used="torch" in self.frameworks or bool(read_image(base or "").torch),
            python=python,
        )

    def _gpu(self) -> tuple[Gpu, str]:
        tree, entry = self.tree, self.entry
        file = entry.file if entry and entry.file and entry.file.endswith(".py") else None
        home = parent(file) if file else "."
        ordered = sorted(self.python_files, key=lambda path: (parent(path) != home, path.count("/")))
        side = re.compile(r"(?:^|/)(?:tests?|docs?|benchmarks?)/")
        sources = [(path, tree.text(path)) for path in ordered if not side.search(path)][:_MAX_SOURCES]
        if not self.python_files:
            sources += [(path, imports.notebook_code(tree, path)) for path in self.notebooks[:20]]
        configs = [
            path
            for path in tree.files
            if _CONFIG.fullmatch(path) and not path.startswith(".") and path not in self.compose_files
        ]
        packages = {item.name for found in self.manager.read if found.kind != "lock" for item in found.wanted}
        if not packages:
            packages = set(imports.distributions(self.imported))
        others = [
            (item.fact.name, item.fact.gpu)
            for item in self.services
            if item is not self.chosen and item.fact.is_python
        ]
        base = read_image(self.dockerfile.base) if self.dockerfile else None
        cuda = (
            (self.dockerfile.path, self.dockerfile.base)
            if self.dockerfile and base and (base.cuda or base.torch)
            else None
        )
        extras = {extra for found in self.dependency_files for extra in found.extras if "/" not in found.path}
        chosen = self.chosen
        return read_gpu(
            service=(chosen.fact.name, chosen.fact.gpu) if chosen else None,
            other_services=others,
            devcontainers=[(item.path, item.gpu) for item in self.devcontainers],
            base_cuda=cuda,
            entry=(file, tree.text(file)) if file else None,
            launcher=entry.launcher if entry else None,
            sources=sources,
            documents=[item for item in self.documents if parent(item[0]) in {".", "docs"}],
            configs=[(path, tree.text(path)) for path in configs[:_MAX_CONFIGS]],
            packages=frozenset(packages),
            extras=frozenset(extras),
            uses_framework=uses_accelerator(self.frameworks) or any(item.fact.gpu for item in self.services),
        )

    def _requirements(self) -> tuple[str, ...]:
        stated = installed_names(self.readme)
        own = {name.replace("_", "-") for name in self._project_names()}
        stated = tuple(name for name in stated if name not in own)
        return stated or imports.distributions(self.imported)

    def _mappings(self) -> tuple[tuple[str, str], ...]:
        if self.chosen is not None:
            return self.chosen.mappings
        if self.dockerfile is not None:
            found = service.code_mappings(
                self.tree, (), self.dockerfile, self._build_context(self.dockerfile.path)
            )
            if found:
                return found
        places = [item.workspace_folder for item in self.devcontainers if item.workspace_folder]
        return tuple((".", place) for place in places[:1] if "$" not in place)

    def _build_context(self, dockerfile: str) -> str:
        """Return the folder that a Dockerfile's copies are relative to: its own, unless they only exist from the root."""
        for item in self.devcontainers:
            if item.dockerfile == dockerfile and item.context is not None:
                return item.context
        sources = [local for local, _ in self.dockerfiles[dockerfile].copies if local != "."]
        here = parent(dockerfile)
        if here != "." and sources:
            return (
                here
                if all(
                    self.tree.has(f"{here}/{local}") or self.tree.has_dir(f"{here}/{local}")
                    for local in sources
                )
                else "."
            )
        return "." if here in {"docker", ".docker", ".devcontainer", "build", "deploy"} else here

    def _ports(self) -> tuple[int, ...]:
        found: list[int] = []
        if self.chosen is not None:
            found.extend(self.chosen.fact.ports)
        if not found and self.dockerfile is not None:
            found.extend(self.dockerfile.exposed)
        if not found and self.entry is not None:
            found.extend(_ports_of(self.entry))
        return tuple(dict.fromkeys(found))

    def _empty_submodules(self) -> tuple[str, ...]:
        paths = re.findall(r"^\s*path\s*=\s*(\S+)", self.tree.text(".gitmodules"), re.MULTILINE)
        return tuple(
            path for path in paths if not any(file.startswith(f"{path}/") for file in self.tree.files)
        )


def _ports_of(entry: EntryPoint) -> tuple[int, ...]:
    """Return the port that a command line names, or the one its launcher listens on when it names none."""
    if match := re.search(
        r"--(?!master)(?:[a-z]+[-_.])?port[= ](\d{2,5})|(?:--bind|-b)[= ]\S*:(\d{2,5})", entry.command
    ):
        return (int(match[1] or match[2]),)
    defaults = {
        "uvicorn": 8000,
        "gunicorn": 8000,
        "fastapi": 8000,
        "flask": 5000,
        "streamlit": 8501,
        "notebook": 8888,
    }
    return (defaults[entry.launcher],) if entry.launcher in defaults else ()
