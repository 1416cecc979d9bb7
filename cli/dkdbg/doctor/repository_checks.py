"""Checks of this repository: its files, debug port and builds, and the agent in `.dkdbg/`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dkdbg.delivery import single_file
from dkdbg.doctor.check import error, warning
from dkdbg.doctor.engine_checks import values_of
from dkdbg.doctor.machine_checks import sized
from dkdbg.setup.detect.docker.compose_service import wants_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Situation

_MAX_CONTEXT_BYTES = 500 << 20


@error("files")
def _files(situation: Situation) -> Iterator[Values]:
    yield from map(values_of, situation.repository.errors)


@warning(
    "agent",
    ".dkdbg/agent.pyz is from dkdbg {agent}, but {installed} is installed",
    "dkdbg init",
    safe=True,
)
def _old_agent(situation: Situation) -> Iterator[Values]:
    repository = situation.repository
    if repository.agent is not None and single_file.is_older(repository.agent, repository.installed):
        yield {"agent": repository.agent, "installed": repository.installed}


@warning(
    "port",
    "port {port}, which launch.json attaches to, is taken by {holder}",
    "dkdbg up takes the next free port and writes it to launch.json",
)
def _port(situation: Situation) -> Iterator[Values]:
    repository = situation.repository
    if repository.holder:
        yield {"port": repository.port, "holder": repository.holder}


@warning(
    "shm",
    "{service} asks for a GPU and has Docker's 64 MB of /dev/shm: DataLoader workers end with a bus error",
    "shm_size: 8gb for {service}, in your compose file or an override file",
)
def _shm(situation: Situation) -> Iterator[Values]:
    for name, body in situation.repository.started().items():
        if wants_gpu(body) and not body.get("shm_size") and body.get("ipc") != "host":
            yield {"service": name}


@warning(
    "build-context",
    "each build of {service} reads {size} from {folder}, of which {name} has {of}",
    "{command}",
)
def _context(situation: Situation) -> Iterator[Values]:
    for each in situation.repository.contexts:
        if each.size > _MAX_CONTEXT_BYTES:
            name, size = each.largest
            yield {
                "service": each.service, "folder": each.folder, "size": sized(each.size), "name": name, "of": sized(size),
                "command": f"printf '\\n%s\\n' {shlex.quote('/' + name)} >> {shlex.quote(each.ignore)}",
            }  # fmt: skip


@warning(
    "umask",
    "umask {umask} makes files that {user}, the USER of {dockerfile}, cannot read in the image",
    "chmod -R go+rX . && umask 022",
)
def _closed_umask(situation: Situation) -> Iterator[Values]:
    umask, images_user = situation.machine.umask, situation.repository.images_user
    if images_user and umask is not None and umask & 0o004:
        user, dockerfile = images_user
        yield {"umask": f"{umask:03o}", "user": user, "dockerfile": dockerfile}


@warning(
    "git",
    "this is a git repository, but git is not installed: dkdbg cannot tell which files are yours",
    "sudo apt-get install git",
)
def _git(situation: Situation) -> Iterator[Values]:
    if situation.repository.is_git and "git" not in situation.machine.programs:
        yield {}
