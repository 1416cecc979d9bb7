"""Choose the compose service to debug; find its program, its start scripts, and the repository's files in it."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg.core.compose_names import DEFAULT_NAMES
from dkdbg.core.facts import Rival
from dkdbg.launchers import registry
from dkdbg.launchers.launcher import MONITOR, NOTEBOOK, WORKER
from dkdbg.launchers.lines.command_lines import parse_line
from dkdbg.setup.detect.docker.dockerfile import read_dockerfile, run_lines, written_scripts
from dkdbg.setup.detect.docker.dockerfile_syntax import NAME
from dkdbg.setup.detect.docker.images import read_image
from dkdbg.setup.detect.docker.inside import Inside, Mappings, started
from dkdbg.setup.detect.files import join
from dkdbg.setup.detect.substitution import substitute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dkdbg.core.facts import DockerfileFact, ServiceFact
    from dkdbg.setup.detect.docker.compose_service import ComposeBuild
    from dkdbg.setup.detect.docker.dockerfile import Inherited
    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.launch.launches import Seen

#: Maximum number of single files to mount, because each needs a bind mount; maximum number of all mappings.
_MAX_FILES, _MAX_MAPPINGS = 40, 100
_SIDE_ROLES = re.compile(
    r"(?:^|[-_.])(?:db|database|postgres\w*|mysql|mariadb|redis|mongo\w*|rabbitmq|kafka|zookeeper|minio|nginx|traefik|caddy|proxy|"
    r"tensorboard|flower|dashboard|grafana|prometheus|adminer|pgadmin|mlflow|jupyter\w*|notebook|docs?|tests?|lint\w*|migrat\w+|"
    r"init|setup|download\w*|frontend|front|ui|node|elastic\w*|qdrant|weaviate|chroma|milvus|etcd|vault|mail\w*|beat|cron|build\w*|"
    r"pre-?commit|format|ci|prestart)(?:$|[-_.\d])",
    re.IGNORECASE,
)
_MAIN_ROLES = re.compile(
    r"(?:^|[-_.])(?:app|web|api|server|backend|train\w*|main|dev|service|webui|gui|run|core|model|inference|gpu|cuda)(?:$|[-_.\d])",
    re.IGNORECASE,
)
_WORKER_ROLES = re.compile(
    r"(?:^|[-_.])(?:workers?|celery|scheduler|consumer|queue|bot)(?:$|[-_.\d])", re.IGNORECASE
)
_PYTHON_INSTALL = re.compile(
    r"\binstall\b.*\bpython3?(?:\.\d+)?(?:-\w+)?\b|\bpip3? install\b|\buv (?:sync|pip|venv|python)\b|miniconda|micromamba|miniforge"
)
#: Base images for programs that are not Python.
_OTHER_BASE = re.compile(
    r"(?:^|/)(?:node|nginx|httpd|caddy|golang|rust|ruby|php|openjdk|eclipse-temurin|dotnet|mysql|mariadb|postgres|redis|mongo)\b"
)
_DOCKERFILE = re.compile(r"(?:Dockerfile|Containerfile)", re.IGNORECASE)
_VARIANT = re.compile(
    r"(?:^|[-_.])(?:cpu|rocm|amd|intel|xpu|arm|mac|windows|prod|production|ci|test\w*)(?:$|[-_.\d])",
    re.IGNORECASE,
)


#: `init` asks the user if another service has at most this many points less than the chosen one.
_NEAR_POINTS = 8.0
#: Names of compose files for production.
_PRODUCTION = re.compile(r"(?:^|[-_./])(?:prod|production|release)(?:$|[-_./])", re.IGNORECASE)
_SCRIPT = re.compile(r".*\.(?:sh|bash)|.*entry-?point.*|start|run", re.IGNORECASE)
#: Commands that change the user, need root, or ask which user runs them.
_ROOTS = re.compile(
    r"\b(?:gosu|su-exec|su|setpriv|runuser|sudo|chown|chroot|useradd|usermod|adduser|addgroup|groupadd|supervisord|service"
    r"|s6-[a-z]+|chpst|start-stop-daemon|apt-get|apt|apk|mount|cron|crond|sshd|nginx|ldconfig|sysctl|id|whoami|EUID|USER)\b"
)
_PASSES_ON = re.compile(r"\s*exec\s(?:[^\"';&|]*\s)?\"\$\{?@\}?\"\s*$")


@dataclass(frozen=True, kw_only=True)
class RunningService:
    """A service, and what is known about its program.

    Attributes:
        fact: the service, with `is_python` decided.
        dockerfile: as this service builds it (its arguments and target); None if it builds none of the repository's.
        seen: the program's launch; None if it is unknown or not Python.
        file: local source of the program; None if it is only in the image.
        mappings: (local, remote) of the repository's code, bind mounts before copies.
        workdir: absolute working directory in the container.
    """

    fact: ServiceFact
    dockerfile: DockerfileFact | None
    seen: Seen | None
    file: str | None
    mappings: Mappings
    workdir: str


#: Pairs (points, service).
Ranked = tuple[float, RunningService]


def read_service(
    tree: Tree,
    fact: ServiceFact,
    build: ComposeBuild,
    scripts: Mapping[str, str],
    *,
    projects: frozenset[str],
    images: Mapping[str, str],
    inherited: Inherited,
) -> RunningService:
    """Return a service with its program, its source file and its mappings.

    Args:
        scripts: console script of the repository -> its target.
        projects: names that an image of this repository may have.
        images: Dockerfile that may build a release of this repository -> its build context; the likeliest first.
        inherited: Dockerfile lines that a build inherits from each base image.
    """
    if not any(holds_code(tree, local) for local, _ in fact.binds):
        fact = _from_local_build(fact, projects, images)
    dockerfile = None
    if fact.dockerfile is not None:
        dockerfile = read_dockerfile(
            tree.text(fact.dockerfile),
            fact.dockerfile,
            args=build.args,
            target=build.target,
            inherited=inherited,
        )
        dockerfile = replace(dockerfile, code=code_mappings(tree, (), dockerfile, fact.context, projects))
    image = dockerfile or read_dockerfile(f"FROM {fact.image or ''}", "", inherited=inherited)
    workdir = fact.working_dir or image.workdir
    mappings = code_mappings(tree, fact.binds, dockerfile, fact.context, projects)
    argv = _argv(fact, dockerfile)
    inside = Inside(workdir=workdir, mappings=mappings, scripts=scripts, context=fact.context or ".")
    seen, file = started(tree, argv, inside)
    base = read_image(dockerfile.base if dockerfile else fact.image or "")
    image_name = (fact.image or "").rsplit("/", 1)[-1].split(":")[0].split("@")[0].lower()
    has_code = any(tree.has_dir(local) for local, _ in mappings)
    # A slash in the name: the image comes from a registry. If the repository has a Dockerfile, but none of its folders
    # is mapped into the service, the image is a release with its own copy of the code.
    released = "/" in (fact.image or "") and not has_code and any(tree.matching(_DOCKERFILE))
    is_own_image = fact.context is None and bool(image_name) and image_name in projects and not released
    installs = fact.dockerfile is not None and installs_python(tree.text(fact.dockerfile))
    is_python = (
        seen is not None
        or is_own_image
        or ((base.is_python or installs) and (fact.context is not None or has_code))
    )
    if seen is not None and fact.context is None and not has_code and not is_own_image:
        # Another project's image with a Python program, such as mlflow or tensorboard.
        is_python = False
    place = seen if seen is None else replace(seen, source=f"{fact.file}: service {fact.name}")
    return RunningService(
        fact=replace(fact, is_python=bool(is_python), image_user=image.user),
        dockerfile=dockerfile,
        seen=place,
        file=file,
        mappings=mappings,
        workdir=workdir,
    )


def with_only_build(tree: Tree, services: tuple[RunningService, ...]) -> tuple[RunningService, ...]:
    """Return the services. If none seems to run Python, count the one that is built from Python sources here as Python.

    Its base image and its start script may not show that it is Python.
    """
    if any(each.fact.is_python for each in services):
        return services
    built = [
        each
        for each in services
        if each.dockerfile is not None
        and any(tree.has_dir(local) or local.endswith(".py") for local, _ in each.mappings)
        and not _OTHER_BASE.search(each.dockerfile.base)
    ]
    if len({each.fact.name for each in built}) != 1:
        return services
    return tuple(
        replace(each, fact=replace(each.fact, is_python=True)) if each in built else each for each in services
    )


def _from_local_build(fact: ServiceFact, projects: frozenset[str], images: Mapping[str, str]) -> ServiceFact:
    """Turn a service that runs a released image of this repository into one that builds these sources; keep others.

    `ghcr.io/acme/chat` is a release of a project called chat; `acme/chat-api` is one that `api/Dockerfile`,
    `Dockerfile.api` or `api.Dockerfile` builds.
    """
    image = fact.image or ""
    if fact.context is not None or "/" not in image or _PRODUCTION.search(fact.file):
        return fact
    name = image.rsplit("/", 1)[-1].split(":")[0].split("@")[0].lower()
    found = next(iter(images), None) if name in projects else None
    for project in () if found else sorted(projects, key=len, reverse=True):
        part = name.removeprefix(project)
        if part != name and part[0] in "-_" and not _SIDE_ROLES.search(part):
            part = part[1:]
            found = next((path for path in images if part in _named_for(path)), None)
            break
    return fact if found is None else replace(fact, dockerfile=found, context=images[found], release=image)


def _named_for(dockerfile: str) -> set[str]:
    """Return the purposes that a Dockerfile's folder and name suggest: `api` for `api/Dockerfile`, `Dockerfile.api`."""
    *folders, name = dockerfile.lower().split("/")
    return {*folders[-1:], *_DOCKERFILE.split(name)[0].split("."), *name.split(".")[1:]} - {""}


def installs_python(dockerfile: str) -> bool:
    """Return whether the build installs Python for its program; in node images, Python is for build tools only."""
    if re.search(r"^[ \t]*FROM\s+\S*node", dockerfile, re.IGNORECASE | re.MULTILINE):
        return False
    return any(_PYTHON_INSTALL.search(line) for line in run_lines(dockerfile))


def choose(
    services: tuple[RunningService, ...], ranked: Sequence[Ranked], named: str | None = None
) -> RunningService | None:
    """Return the service to debug; None if the repository has no such service.

    It is the first of `services` called `named`, otherwise the best of `ranked`.
    """
    if named is not None and (found := next((each for each in services if each.fact.is_called(named)), None)):
        return found
    return ranked[0][1] if ranked else None


def ranked(services: tuple[RunningService, ...], preferred: str | None) -> tuple[Ranked, ...]:
    """Return the services that run this repository's Python, with their points; the best service comes first.

    The dev container's service (`preferred`) gets most; files that plain `docker compose` reads get more than others.
    """
    pairs = [
        (_points(each, preferred) - order * 0.1, each)
        for order, each in enumerate(services)
        if each.fact.is_python
    ]

    def in_file(pair: Ranked) -> float:
        name = pair[1].fact.name
        return pair[0] + 8 * bool(_MAIN_ROLES.search(name) and not _SIDE_ROLES.search(name))

    # A name such as `app` is a reason to prefer a service over others in its file, but not over those of other
    # projects.
    files = {pair[1].fact.file: pair for pair in sorted(pairs, key=in_file)}
    best = max(files.values(), key=lambda pair: pair[0], default=None)
    others = sorted((pair for pair in pairs if pair is not best), key=in_file, reverse=True)
    return tuple((in_file(pair), pair[1]) for pair in ([best] if best else []) + others)


def rivals(ranked: Sequence[Ranked], chosen: RunningService) -> tuple[Rival, ...]:
    """Return the other ranked services as alternatives to the chosen one."""
    points = next((points for points, each in ranked if each is chosen), None)
    names = [each.fact.name for _, each in ranked]
    return tuple(
        Rival(
            topic="service",
            value=each.fact.flag_value(names),
            source=f"{each.fact.file}, {each.file or (each.seen.launch.target if each.seen else '') or 'builds this repository'}",
            is_close=points is not None and points - score <= _NEAR_POINTS,
        )
        for score, each in ranked
        if each is not chosen
    )


def _points(service: RunningService, preferred: str | None) -> float:
    fact = service.fact
    name = fact.name
    started = registry.role_of(service.seen.launch.launcher) if service.seen is not None else ""
    points = (
        (60, preferred and name == preferred),
        (25, fact.context is not None),
        (15, service.mappings),
        (15, service.seen is not None),
        (15, service.file is not None),
        (-12, started == WORKER),
        (-40, started in {MONITOR, NOTEBOOK}),
        (-35, _SIDE_ROLES.search(name)),
        (-10, _WORKER_ROLES.search(name)),
        (-5, _VARIANT.search(name)),
        (-3, fact.profiles),
    )
    score = sum(each for each, applies in points if applies)
    if "/" in fact.file:
        score -= 12 + 2 * fact.file.count("/")
        if re.search(
            r"(?:^|/)(?:tests?|ci|templates?|default_\w+|\.github)/|[._-](?:tests?|ci)\.ya?ml$", fact.file
        ):
            score -= 30
        if _VARIANT.search(fact.file.rsplit("/", 2)[-2]):
            score -= 4
    elif fact.file not in DEFAULT_NAMES:
        score -= 10
        if _VARIANT.search(fact.file.rsplit(".", 1)[0]):
            score -= 4
    return score


def code_mappings(
    tree: Tree,
    binds: Mappings,
    dockerfile: DockerfileFact | None,
    context: str | None,
    projects: frozenset[str],
) -> Mappings:
    """Return (local, remote) of code in the container, also if remote is `/`: bind mounts first, then copies.

    Args:
        projects: names that this repository may have, for an image that clones it.
    """
    found = [(local, remote) for local, remote in binds if holds_code(tree, local)]
    found += [
        (".", remote)
        for name, remote in (dockerfile.clones if dockerfile else ())
        if name.lower() in projects
    ]
    for local, remote in dockerfile.copies if dockerfile else ():
        path = join(context or ".", local)
        if path is not None and "*" in path:
            found.extend(_matching(tree, path, remote))
        elif path is not None and (
            (tree.has_dir(path) and holds_code(tree, path))
            or (tree.has(path) and path.endswith(".py") and not path.endswith("setup.py"))
        ):
            found.append((path, remote))
    return tuple(dict.fromkeys(found))[:_MAX_MAPPINGS]


def _matching(tree: Tree, pattern: str, remote: str) -> list[tuple[str, str]]:
    """Return (local, remote) for each Python file that a pattern such as `COPY *.py /app/` copies.

    If the destination is a folder, `remote` ends with the pattern.
    """
    folder = remote.rsplit("/", 1)[0] if remote.endswith("/" + pattern.rsplit("/", 1)[-1]) else remote
    paths = (path for path in tree.files if path.endswith(".py") and not path.endswith("setup.py"))
    found = [
        path for path in paths if path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)
    ]
    return [(path, f"{folder}/{path.rsplit('/', 1)[-1]}") for path in found[:_MAX_FILES]]


def holds_code(tree: Tree, directory: str) -> bool:
    """Return whether a directory, or one below it, has Python or Cython sources; always True for the root."""
    if directory == ".":
        return True
    directory = tree.real_dir(directory) or directory
    return any(path.startswith(f"{directory}/") and path.endswith((".py", ".pyx")) for path in tree.files)


def _argv(fact: ServiceFact, dockerfile: DockerfileFact | None) -> tuple[str, ...]:
    """Return entrypoint and command joined as the engine does: an entrypoint of the service drops the image's CMD."""
    if fact.entrypoint is not None:
        return (*fact.entrypoint, *(fact.command or ()))
    if fact.command is not None:
        entrypoint = dockerfile.entrypoint if dockerfile else None
        return (*_filled(entrypoint, dockerfile), *fact.command)
    return image_argv(dockerfile) if dockerfile else ()


def image_argv(dockerfile: DockerfileFact) -> tuple[str, ...]:
    """Return the argv that `docker run IMAGE` starts, with ENV and ARG values from the Dockerfile filled in."""
    return (*_filled(dockerfile.entrypoint, dockerfile), *_filled(dockerfile.cmd, dockerfile))


def _filled(argv: tuple[str, ...] | None, dockerfile: DockerfileFact | None) -> tuple[str, ...]:
    values = dict(dockerfile.env) if dockerfile else {}
    return tuple(substitute(word, values, keep_unknown=True) for word in argv or ())


def shell_scripts(tree: Tree) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of each shell script in the repository, and of each that its Dockerfiles write."""
    files = [(path.rsplit("/", 1)[-1], tree.text(path)) for path in tree.matching(_SCRIPT)]
    written = [each for path in tree.matching(NAME) for each in written_scripts(tree.text(path), _SCRIPT)]
    return (*files, *written)


def harmless_scripts(scripts: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the names of scripts (from `shell_scripts`) that do not need root."""
    return _named(scripts, lambda lines: not any(map(_ROOTS.search, lines)))


def passing_scripts(scripts: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the names of scripts (from `shell_scripts`) that run their arguments, as by `exec gosu app "$@"`."""
    return _named(
        scripts, lambda lines: any(_PASSES_ON.match(each) and not parse_line(each) for each in lines)
    )


def _named(scripts: Sequence[tuple[str, str]], fits: Callable[[list[str]], bool]) -> frozenset[str]:
    """Return the names whose scripts all fit. `fits` is called with a script's lines, without comments."""
    found: dict[str, bool] = {}
    for name, text in scripts:
        lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
        is_script = "#!" in text[:100] or name.endswith("sh")
        found[name] = found.get(name, True) and is_script and fits(lines)
    return frozenset(name for name, is_fine in found.items() if is_fine)
