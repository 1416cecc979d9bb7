"""Checks of this repository: its files, its port, its builds, and the agent in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dkdbg.delivery import single_file
from dkdbg.doctor.check import Check
from dkdbg.doctor.engine_checks import values_of
from dkdbg.doctor.machine_checks import sized
from dkdbg.setup.detect.docker.compose_service import wants_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Situation

_MAX_CONTEXT_BYTES = 500 << 20


def _files(situation: Situation) -> Iterator[Values]:
    for error in situation.repository.errors if situation.repository is not None else ():
        yield values_of(error)


def _old_agent(situation: Situation) -> Iterator[Values]:
    repository = situation.repository
    if repository is None or repository.agent is None:
        return
    if single_file.is_older(repository.agent, repository.installed):
        yield {"agent": repository.agent, "installed": repository.installed}


def _port(situation: Situation) -> Iterator[Values]:
    repository = situation.repository
    if repository is not None and repository.holder:
        yield {"port": repository.port, "holder": repository.holder}


def _shm(situation: Situation) -> Iterator[Values]:
    for name, body in situation.repository.started().items() if situation.repository is not None else ():
        if wants_gpu(body) and not body.get("shm_size") and body.get("ipc") != "host":
            yield {"service": name}


def _context(situation: Situation) -> Iterator[Values]:
    for each in situation.repository.contexts if situation.repository is not None else ():
        if each.size > _MAX_CONTEXT_BYTES:
            name, size = each.largest
            yield {
                "service": each.service, "folder": each.folder, "size": sized(each.size), "name": name, "of": sized(size),
                "command": f"echo {shlex.quote('/' + name)} >> {shlex.quote(each.ignore)}",
            }  # fmt: skip


def _closed_umask(situation: Situation) -> Iterator[Values]:
    machine, repository = situation.machine, situation.repository
    if (
        repository is not None
        and repository.images_user
        and machine.umask is not None
        and machine.umask & 0o004
    ):
        user, dockerfile = repository.images_user
        yield {"umask": f"{machine.umask:03o}", "user": user, "dockerfile": dockerfile}


def _git(situation: Situation) -> Iterator[Values]:
    if (
        situation.repository is not None
        and situation.repository.is_git
        and "git" not in situation.machine.programs
    ):
        yield {}


CHECKS = (
    Check(name="files", severity="error", read=_files, cause="{message}", next="{hint}"),
    Check(
        name="agent",
        severity="warning",
        read=_old_agent,
        cause=".dkdbg/agent.pyz is of dkdbg {agent}, and {installed} is installed",
        next="dkdbg init",
        safe=True,
    ),
    Check(
        name="port",
        severity="warning",
        read=_port,
        cause="port {port}, which launch.json attaches to, is taken by {holder}",
        next="dkdbg up takes the next free port and writes it to launch.json",
    ),
    Check(
        name="shm",
        severity="warning",
        read=_shm,
        cause="{service} asks for a GPU and has Docker's 64 MB of /dev/shm: DataLoader workers end with a bus error",
        next="shm_size: 8gb for {service}, in your compose file or an override file",
    ),
    Check(
        name="build-context",
        severity="warning",
        read=_context,
        cause="each build of {service} reads {size} from {folder}, {of} of it {name}",
        next="{command}",
    ),
    Check(
        name="umask",
        severity="warning",
        read=_closed_umask,
        cause="umask {umask} makes files that {user}, the USER of {dockerfile}, cannot read in the image",
        next="chmod -R go+rX . && umask 022",
    ),
    Check(
        name="git",
        severity="warning",
        read=_git,
        cause="this is a git repository, and there is no git: dkdbg cannot tell which files are yours",
        next="sudo apt-get install git",
    ),
)
