"""Render a project's plan as files for the user's repository."""

from __future__ import annotations

import hashlib
import json
import posixpath
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.agent.settings import SERVICE
from dkdbg.core import compose_names
from dkdbg.core import config as configuration
from dkdbg.core.facts import PROJECT_FILES
from dkdbg.core.plan import FETCHED, FROM_NOWHERE, PUBLISHED_ON, mount_points
from dkdbg.core.settings import SETTINGS, toml_template
from dkdbg.delivery import single_file
from dkdbg.repository import dotenv
from dkdbg.repository.artefacts import artefact, for_compose, quoted, render
from dkdbg.repository.transaction import read
from dkdbg.setup.plan import editor
from dkdbg.setup.plan.image import conda_environment
from dkdbg.setup.render import fetched_agent, manifest
from dkdbg.setup.render.changes import FileWanted
from dkdbg.setup.render.editor_files import editor_files, project_id

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.agent.settings import Setting
    from dkdbg.core.config import Config
    from dkdbg.core.plan import ProjectPlan, ServicePlan

#: Id of the dev container Feature that dkdbg writes beside devcontainer.json, and name of its folder.
OWNER_FEATURE = "dkdbg-owner"
#: Added to the program's ports on the host, because a service of the user's may use the original ports.
APP_PORT_SHIFT = 10000


def wanted_files(
    root: Path, plan: ProjectPlan, config: Config, *, local_port: int
) -> dict[str, FileWanted | None]:
    """Return all files that `init` wants, by path relative to `root`, in the order in which they are shown.

    Args:
        config: command line options and dkdbg.toml; settings missing in dkdbg.toml are added there.
        local_port: port on 127.0.0.1 in the launch entry.

    Raises:
        DkdbgError: a JSON file of the user's is malformed.
    """
    files: dict[str, FileWanted | None] = {}
    choices, project = _config(root, config), project_id(root)
    files[configuration.FILE_NAME] = FileWanted(content=choices, reason="your choices", owned=False)
    if plan.image.is_generated:
        files.update(_image(plan))
    files[plan.service.included_by] = _text(_including(plan), "compose reads the debug service")
    files[plan.service.compose_file] = FileWanted(
        content=_service(plan, project).encode(),
        reason="the debug service",
        metadata=manifest.service_metadata(
            plan.debug_service,
            choices,
            included_by=plan.service.included_by,
            reads=_reads(root, plan),
            inherited=dict(plan.facts.inherited),
        ),
    )
    if plan.compose_file_value:
        env = dotenv.with_value(
            dotenv.decode(read(root, PurePosixPath(".env"))), "COMPOSE_FILE", plan.compose_file_value
        )
        files[".env"] = FileWanted(
            content=dotenv.encode(env), reason="compose reads one more file", owned=False
        )
    files.update(editor_files(root, plan, local_port, project))
    files.update(_devcontainer(plan))
    files.update(_payload(root, plan, config))
    return files


def _text(text: str, reason: str, *, executable: bool = False) -> FileWanted:
    return FileWanted(content=text.encode(), reason=reason, executable=executable)


def _config(root: Path, config: Config) -> bytes:
    data = read(root, PurePosixPath(configuration.FILE_NAME))
    before = toml_template() if data is None else configuration.decode(data)
    values = {key: getattr(config, key) for key in configuration.ANSWERS}
    return configuration.with_values(before, **values, apt=list(config.apt) or None).encode()


def _image(plan: ProjectPlan) -> dict[str, FileWanted]:
    image = plan.image
    copied = image.context or tuple(
        dict.fromkeys(name for install in image.installs for name in install.copy)
    )
    text = render(
        "templates/Dockerfile.j2",
        base=image.base,
        comment=image.comment,
        conda=conda_environment(plan.facts) is not None,
        cuda=plan.facts.torch.cuda if plan.facts.torch and plan.facts.gpu != "none" else None,
        apt=image.apt,
        optional_apt=image.optional_apt,
        system_site=image.base.startswith("pytorch/"),
        # Not if the image has packages such as torch: uv ignores those outside its virtual environment.
        uv=not image.base.startswith("pytorch/")
        and any(each.run.startswith("pip ") for each in image.installs),
        installs=[(_copies(install.copy), install.run) for install in image.installs],
        sklearn="scikit-learn" in plan.facts.undeclared,
        git_protocol="git" in image.apt
        and any("git://github.com/" in each for each in (*plan.facts.declared, *plan.facts.requirements)),
        pth=_source_roots(plan),
        installs_project=image.installs_project,
        workspace=plan.workspace,
        command=json.dumps(plan.service.argv),
    )
    ignore = render("templates/dockerignore.j2", dockerfile=image.dockerfile, files=copied)
    return {
        str(image.dockerfile): _text(text, "the environment"),
        f"{image.dockerfile}.dockerignore": _text(ignore, "keeps the build context small"),
    }


def _copies(names: tuple[str, ...]) -> list[str]:
    """Return the arguments of COPY, a list for each folder, because one COPY would flatten several folders."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(posixpath.dirname(name), []).append(name)
    return [json.dumps([*files, f"./{folder}/" if folder else "./"]) for folder, files in folders.items()]


def _source_roots(plan: ProjectPlan) -> tuple[str, ...]:
    """Return the folders in the container that an editable install would add to sys.path."""
    packaged = set(PROJECT_FILES) & set(plan.facts.dependency_files)
    roots = []
    if packaged or plan.facts.package_manager in {"setuptools", "poetry", "uv"}:
        roots = [".", *(["src"] if (plan.facts.root / "src").is_dir() else [])]
    entry = plan.facts.entrypoint
    if entry is not None and entry.home not in {
        entry.cwd,
        *roots,
    }:  # the command expects `pip install -e` of this folder
        roots.append(entry.home)
    for folder in plan.facts.local_packages:
        roots.append(f"{folder}/src" if (plan.facts.root / folder / "src").is_dir() else folder)
    return tuple(shlex.quote(posixpath.normpath(f"{plan.workspace}/{root}")) for root in roots)


def _including(plan: ProjectPlan) -> str:
    """Return a compose file that includes the debug service; paths are relative to the first compose file's folder."""
    home, base = posixpath.dirname(plan.compose_chain[0]) or ".", plan.service.extends
    values = {
        **vars(plan.service),
        "file": posixpath.relpath(plan.service.compose_file, home),
        "project_directory": posixpath.relpath(".", home),
        "environment": [posixpath.relpath(each, home) for each in base.include_env] if base else [],
    }
    return render("compose/include.yaml.j2", **values)


def _service(plan: ProjectPlan, project: str) -> str:
    service, image, first = plan.service, plan.image, len(plan.service.entrypoint)
    workspace = (
        next((remote for local, remote in service.mounts if set(local) <= set("./")), None) or plan.workspace
    )
    context = next((each.context for each in plan.facts.dockerfiles if each.path == image.dockerfile), ".")
    dockerfile = posixpath.relpath(image.dockerfile, context) if image.dockerfile else None
    released = service.extends if service.extends and service.extends.release else None
    if released is not None:
        context = released.context or "."
        dockerfile = posixpath.relpath(released.dockerfile or "Dockerfile", context)
    values = {
        **vars(service),
        "project": project,
        "devcontainer": compose_names.devcontainer(plan.service.name),
        "parts": {
            section: [(name, json.loads(body)) for part, name, body in service.parts if part == section]
            for section in ("networks", "volumes", "configs", "secrets")
        },
        "build": released is not None or service.extends is None,
        "release": released is not None,
        "context": context,
        "dockerfile": dockerfile,
        "generated": image.is_generated,
        "base": image.base,
        "says": service.extends.says if service.extends else frozenset(),
        "env": tuple(
            (name, value) for name, value in service.env if not (name == "PYTHONPATH" and service.pythonpath)
        ),
        "entrypoint": quoted([*service.agent, "launch", "--", *_compose_argv(service)[:first]]),
        "health": quoted(["CMD", *service.agent, "health", "--wait"]),
        "command": "" if service.inherits_command else quoted(_compose_argv(service)[first:]),
        "app_ports": _app_ports(service),
        "published_on": PUBLISHED_ON,
        "settings": _settings(plan),
        "token": plan.token != FROM_NOWHERE,
        "owner": workspace if service.as_owner else None,
        "workspace": workspace,
        "aliases": _aliases(service),
        "mappings": quoted(for_compose(json.dumps(editor.path_mappings(plan.mappings)))),
        "volumes": [_bind(*mount) for mount in service.mounts],
        "protected": [_bind(str(manifest.FOLDER), each, read_only=True) for each in _own_folders(plan)],
        "masks": [mask if ":" not in mask else {"type": "volume", "target": mask} for mask in service.masks],
    }
    return render("compose/service.yaml.j2", **values)


def _settings(plan: ProjectPlan) -> list[tuple[Setting, object]]:
    """Return the debug service's settings that apply to this repository, each with its default."""
    service = plan.service
    planned = {
        **dict(service.settings),
        "DKDBG_PORT": service.port,
        "DKDBG_WAIT": service.wait,
        "DKDBG_RELOAD": service.reload,
        "DKDBG_BASE": plan.image.base,
    }
    unused = {
        "DKDBG_PROCESSES": not any("DKDBG_PROCESSES" in word for word in _compose_argv(service)),
        "DKDBG_BASE": not plan.image.is_generated,
        "DKDBG_CA": not plan.image.is_generated,
        "DKDBG_TOKEN": plan.token == FROM_NOWHERE,
        "DKDBG_GPU": not service.gpu,
        "DKDBG_APP_PORT_": True,
    }
    found = [each for each in SETTINGS if SERVICE in each.where.split() and not unused.get(each.env)]
    values = [(each, planned.get(each.env, each.default)) for each in found]
    return [(each, int(value) if isinstance(value, bool) else value) for each, value in values]


def _aliases(service: ServicePlan) -> tuple[str, ...]:
    """Return the extended service's names as network aliases for the debug service; empty without a network."""
    base = service.extends
    alone = base is None or "network_mode" in base.says or not compose_names.is_name(base.name)
    return () if base is None or alone else tuple(dict.fromkeys((base.name, *base.called)))


def _compose_argv(service: ServicePlan) -> list[str]:
    """Return argv for the compose file: `$` is doubled, except in words that take their value from .env."""
    written = dict(service.from_env)
    return [written.get(index, word.replace("$", "$$")) for index, word in enumerate(service.argv)]


def _shell_command(service: ServicePlan) -> str:
    """Return the command for a shell in the container; words from .env become variables `DKDBG_ARG_<index>`."""
    from_env = dict(service.from_env)
    return " ".join(
        f'"$DKDBG_ARG_{index}"' if index in from_env else shlex.quote(word)
        for index, word in enumerate(service.argv)
    )


def _own_folders(plan: ProjectPlan) -> tuple[str, ...]:
    """Return the paths in the container at which mounts of the repository, or of its parents, show its `.dkdbg`."""
    base, below = plan.service.extends, PurePosixPath(plan.facts.below).parts
    theirs = () if base is None else base.binds if base.mounted is None else base.mounted
    found = []
    for local, remote in (*plan.service.mounts, *theirs):
        up = PurePosixPath(local).parts
        if set(up) <= {".."} and len(up) <= len(below):
            found.append(str(PurePosixPath(remote, *below[len(below) - len(up) :], manifest.FOLDER)))
    return tuple(dict.fromkeys(found))


def _bind(local: str, remote: str, *, read_only: bool = False) -> str | dict[str, str | bool]:
    """Return a bind mount in compose's syntax, in the long form if a path contains a colon."""
    source = local if local.split("/", maxsplit=1)[0] in {".", ".."} else f"./{local}"
    if ":" in local + remote:
        long: dict[str, str | bool] = {"type": "bind", "source": source, "target": remote}
        return {**long, "read_only": True} if read_only else long
    return f"{source}:{remote}{':ro' if read_only else ''}"


def _app_ports(service: ServicePlan) -> tuple[tuple[int, int], ...]:
    """Return (port in the container, default port on the host) for each port of the program."""
    if service.extends is None:
        return tuple((port, port) for port in service.app_ports)
    # A service of the user's may use the original ports.
    shift = APP_PORT_SHIFT
    return tuple((port, port + shift if port + shift < 65536 else port - shift) for port in service.app_ports)


def _devcontainer(plan: ProjectPlan) -> dict[str, FileWanted | None]:
    folder, service = posixpath.dirname(plan.devcontainer), plan.service
    values = {
        **vars(service),
        "title": f"dkdbg: {service.name}",
        "files": [posixpath.relpath(name, folder) for name in plan.compose_chain],
        "name": compose_names.devcontainer(service.name),
        "workspace": plan.workspace,
        "remote_user": plan.remote_user,
        "owner_feature": OWNER_FEATURE,
        "extensions": plan.extensions,
    }
    text = render("devcontainer/devcontainer.json.j2", **values)
    # A local Feature must be below .devcontainer/. This one makes the remote user the owner of its files.
    feature = {
        f"{folder}/{OWNER_FEATURE}/{name}": FileWanted(
            content=artefact("devcontainer", f"owner/{name}").read_bytes(),
            reason="your files stay yours in the dev container",
            executable=name.endswith(".sh"),
        )
        for name in ("devcontainer-feature.json", "install.sh")
    }
    return {plan.devcontainer: _text(text, "Reopen in Container"), **feature}


def _reads(root: Path, plan: ProjectPlan) -> dict[str, str]:
    """Return the user's files that define the image, each with its digest, so that later changes are noticed."""
    service, image = plan.service, plan.image
    if service.inputs is None:
        return {}
    base = service.extends
    built = () if image.is_generated else (image.dockerfile, base.dockerfile if base else None)
    names = (*built, *((base.layers or (base.file,)) if base else ()))
    texts = {name: read(root, PurePosixPath(name)) for name in names if name}
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items() if text is not None}


def _payload(root: Path, plan: ProjectPlan, config: Config) -> dict[str, FileWanted]:
    values = {
        **vars(plan.service),
        "attach_name": editor.ATTACH_NAME,
        "reads": _reads(root, plan),
        "files_script": artefact("templates", "image_files.sh").read_text("utf-8").rstrip(),
        "inputs_script": artefact("templates", "image_inputs.sh").read_text("utf-8").rstrip(),
        "masks": [mask for mask in plan.service.masks if ":" not in mask],
        "mount_points": [
            f"./{PurePosixPath(local, below)}"
            for local, below in mount_points(plan.service.masks, plan.service.mounts)
        ],
        "app_ports": () if plan.service.host_network else _app_ports(plan.service),
        "token": plan.token,
        "stands_for": next(iter(_aliases(plan.service)), ""),
        "command_sh": _shell_command(plan.service),
        "agent": shlex.join(plan.service.agent),
        "is_fetched": config.agent == FETCHED,
    }
    python = tuple(int(part) for part in plan.python.split(".")[:2])
    agent = single_file.build(python)
    files = {
        ".dkdbg/up.sh": _text(render("templates/up.sh.j2", **values), "what F5 runs first", executable=True),
        f".dkdbg/{single_file.NAME}": FileWanted(
            content=agent, reason="the agent and its debugpy, mounted read-only"
        ),
    }
    return {**files, **(fetched_agent.files(agent, python) if config.agent == FETCHED else {})}
