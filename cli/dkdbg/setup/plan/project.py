"""Plan a project from facts and configuration, with a reason for each choice."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING

from dkdbg.core.compose_names import main_files
from dkdbg.core.facts import BY_WHEELS, PythonFact
from dkdbg.core.plan import (
    FROM_ENVIRONMENT,
    FROM_PERSON,
    PUBLISHED_ON,
    Decision,
    ImagePlan,
    Mapping,
    ProjectPlan,
)
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.launchers.lines.command_lines import Lines
from dkdbg.setup.plan import literal
from dkdbg.setup.plan.choices import choices
from dkdbg.setup.plan.image import plan_image
from dkdbg.setup.plan.service import (
    WORKSPACE,
    choose_service,
    dockerfile_of,
    plan_service,
    user_of,
    why_mapping,
    workspace_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.core.config import Config
    from dkdbg.core.facts import DockerfileFact, RepoFacts, ServiceFact
    from dkdbg.core.plan import ServicePlan

#: Variables of dkdbg, and about the image itself, its folders and its installation; names that end as those of secrets.
_OF_IMAGE = re.compile(
    r"(?:DKDBG|PIP|UV|POETRY|CONDA|MAMBA|NVIDIA|CUDA|CUDNN|NCCL|DEBIAN|LC)_\w+|\w*(?:PATH|HOME|ROOT|DIR|VERSION|PREFIX|ARCH_LIST|NVCC_FLAGS)"
    r"|PYTHON\w*|LANG|LANGUAGE|TZ|SHELL|USER|FORCE_CUDA|\w*(?:KEY|TOKEN|SECRET|PASS|PASSWORD|AUTH)"
)
#: Maximum setup.py files to name in notes.
_MAX_EXTENSIONS = 3
DEVCONTAINER = ".devcontainer/devcontainer.json"
#: Path of dkdbg's dev container if the user has one already; the editor offers both.
SECOND_DEVCONTAINER = ".devcontainer/dkdbg/devcontainer.json"
#: User of the dev container if the image has only root.
REMOTE_USER = "dev"
#: `cd` in a shell command, after which the program starts in another folder.
_CD = re.compile(r"\bcd\s")
#: Oldest Python that debugpy and the agent support.
OLDEST = (3, 8)


def plan_project(facts: RepoFacts, config: Config) -> ProjectPlan:
    """Plan all files for a repository.

    Raises:
        DkdbgError: the configuration names a service or a command that cannot be used.
    """
    seen = facts
    facts, newer = _with_a_python(facts, config)
    facts, unused = _without_useless(facts)
    image, image_why = ImagePlan(), tuple[Decision, ...]()
    base = choose_service(facts, config)
    if base is None or base.is_bare:
        image, image_why = plan_image(facts, frozenset(each.path for each in seen.dockerfiles), config.apt)
    if base is not None and base.is_bare:
        facts = _with_image(facts, base, image)
    service, mappings, service_why, notes = plan_service(facts, image, config)
    kept = _kept_environment(seen, service) if image.is_generated and service.extends is None else ()
    service = replace(service, env=(*kept, *service.env))
    dockerfile = dockerfile_of(facts, service.extends, image)
    notes = (*notes, *_of_mapping(service, mappings, dockerfile))
    service, mappings, workspace = _with_workspace(service, mappings)
    service = _with_working_dir(facts, service, workspace, dockerfile)
    mappings = _loaded(facts, service, mappings, workspace, dockerfile)
    service, copied = _with_sources(facts, service, mappings, dockerfile)
    chain, value = _compose_chain(facts, service)
    devcontainer, why = _devcontainer(facts)
    literal.check(facts, image, service, mappings, chain=chain, compose_file_value=value)
    return ProjectPlan(
        facts=seen,
        python=facts.python.version,
        image=image,
        service=service,
        mappings=mappings,
        compose_chain=chain,
        compose_file_value=value,
        devcontainer=devcontainer,
        workspace=workspace,
        remote_user=_remote_user(service, dockerfile),
        token=config.token,
        extensions=("ms-python.python", "ms-python.debugpy", *(("ms-toolsai.jupyter",) if facts.notebooks else ())),
        decisions=(
            *image_why,
            *(Decision(what=", ".join(lines), why=f"the image {base_image} sets it") for base_image, lines in facts.inherited),
            *service_why,
            *(Decision(what=f"environment {name}={value}", why=f"{seen.dockerfile} sets it") for name, value in kept),
            *(Decision(what=f"mapping {m.local} -> {m.remote}", why=why_mapping(m, service.extends, None if image.is_generated else facts.docker_run)) for m in mappings),
            Decision(what=f"port {service.port} on {PUBLISHED_ON}", why="anyone who can connect to a debug port can run code"),
            *_token_and_gpu(facts, config, service),
            Decision(what=devcontainer, why=why),
        ),
        choices=choices(facts, config, service, dockerfile, is_generated=image.is_generated and service.extends is None),
        notes=(*newer, *(unused if image.is_generated else ()), *notes, *copied, *((*_of_our_image(facts), *_of_extensions(facts, service)) if image.is_generated else ()), *_of_files(facts, value)),
    )  # fmt: skip


def _of_mapping(
    service: ServicePlan, mappings: tuple[Mapping, ...], dockerfile: DockerfileFact | None
) -> Iterator[str]:
    """Yield a note for code in the image that is in no mapped folder, and for a volume that a mount replaces."""
    for name, remote in service.extends.volumes if service.extends else ():
        if remote in {mounted for _, mounted in service.mounts}:
            yield f"your volume {name} at {remote} is replaced by the checkout: the program neither sees nor changes the volume's files"
    if not mappings:
        yield "no path mapping was found: the image contains its own code, and breakpoints bind only in mapped files"
    if dockerfile is None or not dockerfile.workdir_is_assumed:
        return
    apart = bool(mappings) and service.working_dir == WORKSPACE
    copied = (".", dockerfile.workdir) in dockerfile.copies
    if copied and (apart or not mappings or dockerfile.workdir != "/"):
        runs = f", and the program runs in {WORKSPACE}, where the repository is mounted" if apart else ""
        yield f"{dockerfile.path} has no absolute WORKDIR, so its COPY depends on {dockerfile.base}{runs}: write a WORKDIR before COPY, then run dkdbg init again"


def _with_image(facts: RepoFacts, base: ServiceFact, image: ImagePlan) -> RepoFacts:
    """Return facts with `base` built from the Dockerfile of `image`, because its own image lacks packages."""
    context = next((each.context for each in facts.dockerfiles if each.path == image.dockerfile), ".")
    release = base.image or base.dockerfile
    built = replace(base, dockerfile=image.dockerfile, context=context, release=release, image_user=None)
    services = tuple(built if each == base else each for each in facts.services)
    return replace(facts, services=services, service=built if facts.service == base else facts.service)


def _with_workspace(
    service: ServicePlan, mappings: tuple[Mapping, ...]
) -> tuple[ServicePlan, tuple[Mapping, ...], str]:
    """Return the service, the mappings, and the container folder with the whole repository for "Reopen in Container".

    If the container has only a part of the repository, mount the whole as well, so that `${workspaceFolder}/part` in
    the launch entry means the same files inside and outside.
    """
    whole = next((m for m in mappings if m.local == "."), None)
    if whole:
        return service, mappings, str(whole.remote)
    added = replace(service, mounts=(*service.mounts, (".", WORKSPACE)))
    return added, (*mappings, Mapping(local=".", remote=PurePosixPath(WORKSPACE))), WORKSPACE


def _with_working_dir(
    facts: RepoFacts, service: ServicePlan, workspace: str, image: DockerfileFact | None
) -> ServicePlan:
    """Return the service, with the working directory that its documented command expects.

    If the image has the repository in `/`, over which nothing can be mounted, that is the workspace.
    """
    entry, base = facts.entrypoint, service.extends
    begins = _begins(service, image)
    if service.working_dir is not None:
        return service
    if begins == "/" and image is not None and (".", "/") in image.copies:
        return replace(service, working_dir=workspace)
    if not service.from_entry or entry is None or entry.cwd.startswith("/"):
        return service
    # Without a service to extend, the command itself starts with `cd`.
    meant = str(PurePosixPath(workspace, entry.cwd if base else "."))
    return service if begins is None or begins == meant else replace(service, working_dir=meant)


def _begins(service: ServicePlan, image: DockerfileFact | None) -> str | None:
    """Return the working directory of the user's service, otherwise of the image; None if neither sets one."""
    return (service.extends.working_dir if service.extends else None) or (image.workdir if image else None)


def _loaded(
    facts: RepoFacts,
    service: ServicePlan,
    mappings: tuple[Mapping, ...],
    workspace: str,
    image: DockerfileFact | None,
) -> tuple[Mapping, ...]:
    """Return the mappings without copies in the image from which the program, running in the workspace, loads nothing.

    A copy stays if Python imports from it (by PYTHONPATH or an editable install) and does not find the package earlier,
    beside the script or in the working directory. The user's own mounts stay, too.
    """
    begins = service.working_dir or _begins(service, image)
    if begins is None or not PurePosixPath(begins).is_relative_to(workspace):
        return mappings
    program = _program(facts, service, begins, workspace)
    if program is None:
        return mappings
    file, is_beside = program
    is_editable = image is not None and dict(facts.installed).get(image.path) == "editable"
    path = [PurePosixPath(each) for each in _pythonpath(service, image).split(":") if each]

    def is_imported(remote: PurePosixPath) -> bool:
        return is_editable or any(
            "$" in str(each) or each.is_relative_to(remote) or remote.is_relative_to(each) for each in path
        )

    binds = service.extends.binds if service.extends else ()
    return tuple(
        m
        for m in mappings
        if m.remote.is_relative_to(workspace)
        or (m.local, str(m.remote)) in binds
        or (is_imported(m.remote) and not (is_beside and file.is_relative_to(m.local)))
    )


def _program(
    facts: RepoFacts, service: ServicePlan, begins: str, workspace: str
) -> tuple[PurePosixPath, bool] | None:
    """Return the program's file in the repository, and whether sys.path[0] is the folder with the modules beside it.

    Return None if the command does not show the file, or the file is outside the workspace.
    """
    entry = facts.entrypoint
    if service.from_entry and entry is not None:
        is_beside = entry.launcher != "console-script" and entry.home == entry.cwd
        return PurePosixPath(entry.file or ""), is_beside
    launch = None if any(map(_CD.search, service.argv)) else Lines().words(service.argv)
    name = (launch.target or "").partition(":")[0] if launch else ""
    if launch is None or not (launch.is_module or name.endswith(".py")):
        return None
    file = name.replace(".", "/") if launch.is_module else name
    path = PurePosixPath(normpath(join(begins, file)))
    return (path.relative_to(workspace), True) if path.is_relative_to(workspace) else None


def _first_on_path(service: ServicePlan, image: DockerfileFact) -> PurePosixPath | None:
    """Return sys.path[0]: the script's folder, or for `-m` the working directory; None if unknown."""
    launch = None if any(map(_CD.search, service.argv)) else Lines().words(service.argv)
    begins = service.working_dir or _begins(service, image)
    if launch is None or begins is None or not (launch.is_module or (launch.target or "").endswith(".py")):
        return None
    return PurePosixPath(begins if launch.is_module else normpath(join(begins, launch.target or "", "..")))


def _pythonpath(service: ServicePlan, image: DockerfileFact | None) -> str:
    """Return the PYTHONPATH of the debug service, otherwise the user's service's or the image's; empty if unset."""
    theirs = dict(service.env).get("PYTHONPATH", service.extends.pythonpath if service.extends else None)
    return theirs if theirs is not None else dict(image.env).get("PYTHONPATH", "") if image else ""


def _compose_chain(facts: RepoFacts, service: ServicePlan) -> tuple[tuple[str, ...], str | None]:
    """Return the compose files in merge order, and the value that COMPOSE_FILE must have (None: leave it unset)."""
    if service.merge == "COMPOSE_FILE":
        merged = main_files(facts.compose_files, facts.compose_env)
        chain = tuple(part for part in merged if part != service.included_by)
        chain = (*chain, service.included_by)
        return chain, facts.compose_separator.join(chain)
    if service.merge == "override":
        return (*main_files(facts.compose_files, None), service.included_by), None
    return (service.included_by,), None


def _devcontainer(facts: RepoFacts) -> tuple[str, str]:
    if {DEVCONTAINER, ".devcontainer.json"} & set(facts.devcontainers):
        return (
            SECOND_DEVCONTAINER,
            "the repository has a dev container already, and dkdbg leaves it unchanged",
        )
    return DEVCONTAINER, "Reopen in Container opens the debug service"


def _remote_user(service: ServicePlan, dockerfile: DockerfileFact | None) -> str:
    """Return the image's own user if it has a name; otherwise `dev`, created by the Feature beside devcontainer.json.

    The service starts as root, and the agent drops privileges. An editor that reopens in the container needs a user, or
    root would own the files that it writes on the host.
    """
    name = user_of(service.extends, dockerfile)
    # A user given as a number or variable may be missing in the image's passwd file.
    return name if name != "root" and literal.is_user(name) else REMOTE_USER


def _token_and_gpu(facts: RepoFacts, config: Config, service: ServicePlan) -> Iterator[Decision]:
    sources = {FROM_ENVIRONMENT: "DKDBG_TOKEN of the editor's environment", FROM_PERSON: "you, at each start"}
    if config.token in sources:
        what = f"a token for that port, from {sources[config.token]}"
        yield Decision(what=what, why="dkdbg.toml says so")
    if not service.gpu:
        yield Decision(what="no GPU", why=facts.gpu_source or "nothing in the repository asks for one")
        return
    needs = "it runs without one too" if facts.gpu == "optional" else "it asks for one"
    source = f" ({facts.gpu_source})" if facts.gpu_source else ""
    why = f"{needs}{source}; the kind of GPU is decided at each start"
    yield Decision(what="GPU where the machine has one", why=why)


def _of_our_image(facts: RepoFacts) -> Iterator[str]:
    """Yield notes about packages that the generated image lacks, such as imports whose package is unknown."""
    for name in facts.declared or facts.requirements:
        if not literal.is_requirement(name):
            yield f"left out: {name!r} is not a requirement that pip accepts"
    if facts.unnamed:
        more = f" and {len(facts.unnamed) - 8} more" if facts.unnamed[8:] else ""
        names = [f"{name} ({where} does)" if where else name for name, where in facts.unnamed[:8]]
        shown, files = ", ".join(names) + more, ", ".join(facts.dependency_files)
        who = facts.entrypoint.file if facts.entrypoint and facts.declared else "the code"
        what = (
            f"{files} {'do' if facts.dependency_files[1:] else 'does'} not list: {shown}; they are not installed unless another package needs them: add them there, then run dkdbg init again"
            if files
            else f"neither the README nor a requirements file lists: {shown}; they are not installed, because the package of that name on the index may be an unrelated one: put the right ones into the README's pip line, or all packages into requirements.txt"
        )
        yield f"{who} imports packages that {what}"


def _of_extensions(facts: RepoFacts, service: ServicePlan) -> Iterator[str]:
    """Yield a note per setup.py whose extension modules have to be built in the mounted sources."""
    for path, compiles_cuda, folder in facts.extensions[:_MAX_EXTENSIONS]:
        make = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
        enter = f"cd {shlex.quote(dirname(path))} && " if dirname(path) else ""
        build = f"{enter}{make}python setup.py build_ext --inplace"
        nvcc = " (it compiles CUDA, so DKDBG_BASE has to name an image with nvcc)" * compiles_cuda
        yield (
            f"{path} compiles extension modules, which the image does not contain: build them once in these sources{nvcc}:"
            f" docker compose --profile debug run --rm --no-deps --entrypoint sh {service.name} -c {shlex.quote(build)}"
        )


def _of_files(facts: RepoFacts, compose_file_value: str | None) -> Iterator[str]:
    if ":" in str(facts.root.relative_to(facts.root.anchor)):
        yield f"compose's short volume syntax, which dkdbg writes, cannot mount {facts.root}, whose path contains a colon: rename that folder"
    if compose_file_value:
        yield f"plain `docker compose` reads dkdbg's file through this line of .env: COMPOSE_FILE={compose_file_value}"
    for problem in facts.problems:
        yield f"left out: {problem}"


def _without_useless(facts: RepoFacts) -> tuple[RepoFacts, tuple[str, ...]]:
    """Drop Dockerfiles that install a release, not these sources, or whose FROM has an argument without default."""
    if facts.service is not None:  # the service may set the arguments
        return facts, ()
    released = {path for path, how in facts.installed if how == "released"}
    left = {
        each.path: f"installs a release of {facts.name} and none of these sources"
        for each in facts.dockerfiles
        if each.path in released and not each.copies
    }
    nameless = [each.path for each in facts.dockerfiles if not each.base or each.base.endswith((":", "/"))]
    left.update(
        (path, "takes its base image from a build argument that has no default")
        for path in nameless
        if not (facts.asked_dockerfile and path == facts.dockerfile)
    )
    if not left:
        return facts, ()
    kept = tuple(fact for fact in facts.dockerfiles if fact.path not in left)
    path, why = next(iter(left.items()))
    return replace(facts, dockerfiles=kept), (f"{path} {why}, so the debug service gets an image of its own",)


def _with_sources(
    facts: RepoFacts, service: ServicePlan, mappings: tuple[Mapping, ...], image: DockerfileFact | None
) -> tuple[ServicePlan, tuple[str, ...]]:
    """Put the mounted sources on PYTHONPATH before the copy installed in the image; return the service, and notes."""
    how = dict(facts.installed).get(image.path) if image else None
    if image is None or how not in {"copied", "released"} or facts.source_root is None:
        return service, ()
    remotes = {m.local: m.remote for m in reversed(mappings)}
    root = remotes.get(facts.source_root) or PurePosixPath(remotes["."], facts.source_root)
    if facts.compiled:
        first, source = _first_on_path(service, image), PurePosixPath(facts.source_root)
        beside = {
            m.remote.parent for m in mappings if m.local != "." and PurePosixPath(m.local).parent == source
        }
        if first in {root, *beside}:
            return service, ()
        text = f"{image.path} installs a copy of this repository with compiled parts: breakpoints bind only in the copy"
        return service, (f"{text}; use pip install -e in that Dockerfile to run these files",)
    before = _pythonpath(service, image)
    if before.split(":")[0] == str(root):
        return service, ()
    path = f"{root}:{before}" if before and "$" not in before else str(root)
    note = f"{image.path} installs a copy of this repository; PYTHONPATH={path} makes these files run instead"
    return replace(service, pythonpath=path), (note,)


def _with_a_python(facts: RepoFacts, config: Config) -> tuple[RepoFacts, tuple[str, ...]]:
    """Return facts with a supported Python, and notes about the change; unchanged facts if Python is supported already.

    Raises:
        DkdbgError: the user chose a service whose Python is too old.
    """
    if not _is_old(facts.python.version):
        return facts, ()
    was, where = facts.python.version, facts.python.source
    says = (
        f"the torch release that is named here has wheels for Python {was}"
        if where == BY_WHEELS
        else f"{where} says Python {was}"
    )
    images = {fact.path: fact for fact in facts.dockerfiles}
    named = next((each for each in facts.services if config.service and each.is_called(config.service)), None)
    if config.service is not None and _python_of(named, images):
        raise DkdbgError(
            f"service {config.service} runs Python {was} ({where}), which no current debugger supports (3.8 and newer)",
            hint="without --service, dkdbg init makes an image with a newer Python; or use a newer one in the service's image",
            exit_code=EXIT_USAGE,
        )
    newer = tuple(fact for fact in facts.dockerfiles if fact.python is not None and not _is_old(fact.python))
    service = next(
        (
            item
            for item in facts.services
            if item.is_python and item.dockerfile in {fact.path for fact in newer} and item != facts.service
        ),
        None,
    )
    if service is not None:
        python = PythonFact(
            version=str(images[str(service.dockerfile)].python), source=str(service.dockerfile)
        )
        left = facts.service.name if facts.service else where
        note = f"{left} runs Python {was}, which no current debugger supports; {service.name} has {python.version}, so dkdbg debugs {service.name}"
        return replace(
            facts, python=python, service=service, mappings=(), ports=service.ports, dockerfiles=newer
        ), (note,)
    python = PythonFact(
        version=".".join(map(str, OLDEST)), source=f"the oldest that debuggers support; {says}"
    )
    kept: tuple[DockerfileFact, ...] = ()
    if facts.service is None and newer:
        kept, python = newer, PythonFact(version=str(newer[0].python), source=newer[0].path)
    note = (
        f"{says}, which no current debugger supports: "
        + (
            f"{kept[0].path} has {python.version} and is used"
            if kept
            else f"the debug service gets an image of its own with {python.version}"
        )
        + f"; releases without wheels for it fail to install{_unused_settings(facts)}" * (not kept)
    )
    return replace(facts, python=python, service=None, mappings=(), dockerfiles=kept), (note,)


def _unused_settings(facts: RepoFacts) -> str:
    """Return the end of the sentence on an image of dkdbg's own: what it does without."""
    if facts.service is not None:
        return f", and no other setting of {facts.service.name} is used"
    return ", and of your Dockerfiles only ENV is used" if facts.dockerfiles else ""


def _kept_environment(facts: RepoFacts, service: ServicePlan) -> tuple[tuple[str, str], ...]:
    """Return the variables of the user's unused Dockerfile that a program may read in dkdbg's image too."""
    dockerfile = next((each for each in facts.dockerfiles if each.path == facts.dockerfile), None)
    if dockerfile is None or facts.service is not None:
        return ()
    taken = {name for name, _ in service.env}
    values = {
        name: value
        for name, value in dockerfile.env
        if name in dockerfile.kept and name not in taken and not _OF_IMAGE.fullmatch(name)
        if value and value.isprintable() and not re.search(r"^/|\$", value)
    }
    pythonpath = "" if "PYTHONPATH" in taken else dict(dockerfile.env).get("PYTHONPATH", "")
    pairs = [
        (PurePosixPath(part), local, remote)
        for part in pythonpath.split(":")
        for local, remote in facts.mappings
        if part and PurePosixPath(part).is_relative_to(remote)
    ]
    roots = dict.fromkeys(
        normpath(join(workspace_of(facts), local, part.relative_to(remote))) for part, local, remote in pairs
    )
    return (*values.items(), *((("PYTHONPATH", ":".join(roots)),) if roots else ()))


def _is_old(version: str) -> bool:
    return tuple(int(part) for part in version.split(".")[:2]) < OLDEST


def _python_of(service: ServiceFact | None, images: dict[str, DockerfileFact]) -> bool:
    """Return whether the service's Python is known, and too old."""
    image = images.get(service.dockerfile or "") if service else None
    return image is not None and image.python is not None and _is_old(image.python)
