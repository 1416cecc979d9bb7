"""Plan a project from facts and configuration, with a reason for each choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.core.compose_files import main_files
from dkdbg.core.plan import FROM_ENVIRONMENT, FROM_PERSON, Decision, ImagePlan, Mapping, ProjectPlan
from dkdbg.setup.plan import literal
from dkdbg.setup.plan.choices import choices
from dkdbg.setup.plan.image import plan_image
from dkdbg.setup.plan.old_python import with_a_python
from dkdbg.setup.plan.service import WORKSPACE, choose_service, dockerfile_of, plan_service

if TYPE_CHECKING:
    from dkdbg.core.config import Config
    from dkdbg.core.facts import RepoFacts
    from dkdbg.core.plan import ServicePlan

DEVCONTAINER = ".devcontainer/devcontainer.json"
#: Path of our dev container beside one of the user's; the editor offers both.
SECOND_DEVCONTAINER = ".devcontainer/dkdbg/devcontainer.json"
#: User of the dev container if the image has root only.
REMOTE_USER = "dev"


def plan_project(facts: RepoFacts, config: Config) -> ProjectPlan:
    """Plan all files for a repository.

    Raises:
        DkdbgError: the configuration names a service or a command that cannot be used.
    """
    seen = facts
    facts, newer = with_a_python(facts, config)
    facts, ours = without_released(facts)
    no_decisions: tuple[Decision, ...] = ()
    image, image_why = (
        (ImagePlan(), no_decisions)
        if choose_service(facts, config)
        else plan_image(facts, frozenset(each.path for each in seen.dockerfiles))
    )
    service, mappings, service_why, notes = plan_service(facts, image, config)
    if not mappings:
        notes = (
            *notes,
            "no path mapping was found: the image contains its own code, and breakpoints bind only in mapped files",
        )
    service, mappings, workspace = _with_workspace(service, mappings)
    service = _with_working_dir(facts, service, workspace, image.dockerfile)
    service, copied = with_sources(
        facts, service, mappings, service.extends.dockerfile if service.extends else image.dockerfile
    )
    chain, value = compose_chain(facts, service)
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
        remote_user=_remote_user(facts, image, service),
        token=config.token,
        extensions=_extensions(facts),
        decisions=(
            *image_why,
            *service_why,
            Decision(what=f"port {service.port} on 127.0.0.1", why="anyone who can connect to a debug port can run code"),
            *_token(config),
            *_gpu(facts, service),
            Decision(what=devcontainer, why=why),
        ),
        choices=choices(facts, config, service, dockerfile_of(facts, service.extends, image), ours=image.ours and service.extends is None),
        notes=(*newer, *ours, *notes, *copied, *_left_out(facts, image), *_unnamed(facts, image), *(_env_note(value) if value else ()), *(f"left out: {problem}" for problem in facts.problems)),
    )  # fmt: skip


def _with_workspace(
    service: ServicePlan, mappings: tuple[Mapping, ...]
) -> tuple[ServicePlan, tuple[Mapping, ...], str]:
    """Return a folder for "Reopen in Container" that contains the whole repository.

    If the image contains only a part of it, the whole repository is mounted as well, so that the launch entry's
    `${workspaceFolder}/part` is the same files inside and outside.
    """
    whole = next((m for m in mappings if m.local == "."), None)
    if whole:
        return service, mappings, str(whole.remote)
    added = replace(service, mounts=(*service.mounts, (".", WORKSPACE)))
    return added, (*mappings, Mapping(local=".", remote=PurePosixPath(WORKSPACE))), WORKSPACE


def _with_working_dir(
    facts: RepoFacts, service: ServicePlan, workspace: str, dockerfile: str | None
) -> ServicePlan:
    """Start a documented command in the folder of the repository for which it is documented.

    The same holds for an image with the repository in `/`, over which nothing can be mounted.
    """
    entry, base = facts.entrypoint, service.extends
    path = base.dockerfile if base else dockerfile
    image = next((each for each in facts.dockerfiles if each.path == path), None)
    begins = (base.working_dir if base else None) or (image.workdir if image else None)
    if service.working_dir is not None:
        return service
    if begins == "/" and image is not None and (".", "/") in image.copies:
        return replace(service, working_dir=workspace)
    if not service.from_entry or entry is None or entry.cwd.startswith("/"):
        return service
    # Without a service the command changes to its folder itself.
    meant = str(PurePosixPath(workspace, entry.cwd if base else "."))
    return service if begins is None or begins == meant else replace(service, working_dir=meant)


def compose_chain(facts: RepoFacts, service: ServicePlan) -> tuple[tuple[str, ...], str | None]:
    """Return the compose files in merge order, and the value that COMPOSE_FILE needs, if any."""
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


def _remote_user(facts: RepoFacts, image: ImagePlan, service: ServicePlan) -> str:
    """Return the image's own user if it has a name, else `dev`, which the Feature beside devcontainer.json creates.

    The service starts as root and the agent drops privileges. An editor that reopens in the container needs a user, or
    root would own the files it writes on the host.
    """
    if service.extends:
        dockerfile = next((d for d in facts.dockerfiles if d.path == service.extends.dockerfile), None)
        user = service.extends.user or (dockerfile.user if dockerfile else None)
    elif image.ours:
        user = None
    else:
        user = next((d.user for d in facts.dockerfiles if d.path == image.dockerfile), None)
    name = (user or "").split(":")[0]
    # A number or a variable may lack an entry in the image's passwd.
    return name if name != "root" and literal.is_user(name) else REMOTE_USER


def _extensions(facts: RepoFacts) -> tuple[str, ...]:
    base = ("ms-python.python", "ms-python.debugpy")
    return (*base, "ms-toolsai.jupyter") if facts.notebooks else base


def _token(config: Config) -> tuple[Decision, ...]:
    source = {
        FROM_ENVIRONMENT: "DKDBG_TOKEN of the editor's environment",
        FROM_PERSON: "you, at each start",
    }.get(config.token)
    return (
        (Decision(what=f"a token for that port, from {source}", why="dkdbg.toml says so"),) if source else ()
    )


def _gpu(facts: RepoFacts, service: ServicePlan) -> tuple[Decision, ...]:
    if not service.gpu:
        return (Decision(what="no GPU", why=facts.gpu_source or "nothing in the repository asks for one"),)
    needs = "it runs without one too" if facts.gpu == "optional" else "it asks for one"
    source = f" ({facts.gpu_source})" if facts.gpu_source else ""
    return (
        Decision(
            what="GPU where the machine has one", why=f"{needs}{source}; which kind is decided at each start"
        ),
    )


def _left_out(facts: RepoFacts, image: ImagePlan) -> tuple[str, ...]:
    names = (facts.declared or facts.requirements) if image.ours else ()
    return tuple(
        f"left out: {name!r} is not a requirement that pip accepts"
        for name in names
        if not literal.is_requirement(name)
    )


def _unnamed(facts: RepoFacts, image: ImagePlan) -> tuple[str, ...]:
    """Report imports without a known package; our image does not install them on a guess."""
    if not image.ours or not facts.unnamed or facts.entrypoint is None:
        return ()
    shown, more = (
        ", ".join(facts.unnamed[:8]),
        f" and {len(facts.unnamed) - 8} more" if facts.unnamed[8:] else "",
    )
    files = ", ".join(facts.dependency_files)
    return (
        f"{facts.entrypoint.file} imports packages that {files} does not list: {shown}{more}; add them there, unless another package installs them",
    )


def _env_note(value: str) -> tuple[str, ...]:
    return (f"plain `docker compose` reads our file through this line of .env: COMPOSE_FILE={value}",)


def without_released(facts: RepoFacts) -> tuple[RepoFacts, tuple[str, ...]]:
    """Drop the Dockerfiles that install a release of the project, in which these sources do not run."""
    released = {path for path, how in facts.installed if how == "released"}
    left = tuple(
        fact
        for fact in facts.dockerfiles
        if fact.path in released and not fact.copies and facts.service is None
    )
    if not left:
        return facts, ()
    kept = tuple(fact for fact in facts.dockerfiles if fact not in left)
    note = f"{left[0].path} installs a release of {facts.name} and none of these sources, so the debug service gets an image of its own"
    return replace(facts, dockerfiles=kept), (note,)


def with_sources(
    facts: RepoFacts, service: ServicePlan, mappings: tuple[Mapping, ...], dockerfile: str | None
) -> tuple[ServicePlan, tuple[str, ...]]:
    """Put the mounted sources before the image's installed copy on PYTHONPATH; return the service and notes."""
    how = dict(facts.installed).get(dockerfile or "")
    if how not in {"copied", "released"} or facts.source_root is None:
        return service, ()
    if facts.compiled:
        text = f"{dockerfile} installs a copy of this repository with compiled parts: breakpoints bind only in the copy"
        return service, (f"{text}; pip install -e in it makes the image run these files",)
    image = next((fact for fact in facts.dockerfiles if fact.path == dockerfile), None)
    root = next((m.remote for m in mappings if m.local == facts.source_root), None)
    if root is None:
        whole = next((m.remote for m in mappings if m.local == "."), None)
        if whole is None:
            return service, ()
        root = PurePosixPath(whole, facts.source_root)
    theirs = service.extends.pythonpath if service.extends else None
    before = theirs if theirs is not None else dict(image.env).get("PYTHONPATH", "") if image else ""
    if before.split(":")[0] == str(root):
        return service, ()
    path = f"{root}:{before}" if before and "$" not in before else str(root)
    note = f"{dockerfile} installs a copy of this repository; PYTHONPATH={path} makes these files run instead"
    return replace(service, pythonpath=path), (note,)
