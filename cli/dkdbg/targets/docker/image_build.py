"""Decide whether to build a service's image, and remove replaced images, and volumes with folders of a former image.

`.dkdbg/up.sh` does the same where dkdbg is not installed, and both share one record of the last build.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg import process, signals
from dkdbg.agent.settings import IMAGE_FILES
from dkdbg.agent.supervisor.image_files import exclude
from dkdbg.core import compose_names
from dkdbg.repository.artefacts import artefact
from dkdbg.targets.docker import client, containers
from dkdbg.targets.docker.container import PROJECT_NAME, SERVICE
from dkdbg.targets.docker.engine_errors import check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dkdbg.core.plan import DebugService
    from dkdbg.targets.docker.compose import ComposeService
    from dkdbg.targets.docker.container import Container

#: Volume that templates/image_files.sh creates in a project, for files of the image that the checkout lacks.
IMAGE_VOLUME = "dkdbg-image"
#: Names of anonymous volumes, and of a project's `dkdbg-image`.
_OWN_VOLUME = re.compile(rf"[0-9a-f]{{64}}|.+_{IMAGE_VOLUME}")


class ImageBuild:
    """The image build before one start.

    Args:
        root: the compose project's folder.
        service: the service that is started.
    """

    def __init__(self, root: Path, service: DebugService, target: ComposeService) -> None:
        self._root, self._service, self._target = root, service, target
        self._inputs, self._stamp = self._read_inputs()

    @property
    def is_needed(self) -> bool:
        """Return whether an input of the image has changed, or the image was replaced."""
        if not self._inputs or self._stamp is None:
            return True
        try:
            inputs, image, id_ = self._stamp.read_text("utf-8").split()
        except (OSError, ValueError):
            return True
        return inputs != self._inputs or self._id_of(image) != id_

    def done(self) -> None:
        """Record the build, and remove the images that it replaced: unnamed images of this service."""
        found = containers.inspected_service(self._target, self._root)
        if found is None:
            return
        if self._inputs and self._stamp:
            record = f"{self._inputs} {found['Config']['Image']} {found['Image']}\n"
            with contextlib.suppress(OSError):  # the next start builds again: slower, but correct
                self._stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._stamp.write_text(record, "utf-8")
        project = found["Config"]["Labels"].get(PROJECT_NAME)
        if project:
            filters = (f"label={PROJECT_NAME}={project}", f"label={SERVICE}={self._service.name}")
            options = (word for each in filters for word in ("--filter", each))
            process.run(("docker", "image", "prune", "--force", *options), cwd=self._root)

    def remove_stale(self) -> None:
        """Remove a container of a replaced image, and its volumes with image folders, which compose would keep."""
        found = containers.inspected_service(self._target, self._root) if self._service.masks else None
        if found is not None and self._id_of(found["Config"]["Image"]) != found["Image"]:
            remove_with_volumes(self._root, self._target, self._service.masks)

    @property
    def is_shown(self) -> bool:
        """Return whether the checkout contains links to the image's own files, which a running program may need."""
        return bool(self._service.image_files and _run_script(self._root, "links").stdout)

    def build(self, run: Callable[[], None]) -> None:
        """Run a build, without the links to the image's own files in the checkout, which is the build's context."""
        away = _run_script(self._root, "links").stdout if self._service.image_files else ""
        if not away:
            run()
            return
        with signals.handled(signals.interrupt_once):
            try:
                _run_script(self._root, "links_away")
                run()
            finally:
                with signals.ignored():
                    _run_script(self._root, "links_back", stdin_text=away)

    def copy_files(self, project: str, report: Callable[[str], None]) -> None:
        """Copy files below the mount that only the image has to the volume `dkdbg-image`, once for each image.

        Args:
            project: compose's name of the project.
        """
        service = self._service
        if service.image_files:
            checkout = os.path.realpath(self._root) if client.endpoint().is_local else ""
            arguments = (
                project,
                service.name,
                service.image_files,
                "1" if service.as_owner else "0",
                checkout,
            )
            done = _run_script(self._root, "image_files", *arguments, *service.masks)
            if text := (done.stdout + done.stderr).strip():
                report(f"files that only the image has: {text.splitlines()[-1]}")

    def exclude_links(self) -> None:
        """Hide the links to the image's own files from git, if only folders of the checkout are mounted.

        If the whole checkout is mounted, the agent hides them.
        """
        if "=" in self._service.image_files:
            shown = _run_script(self._root, "links").stdout.splitlines()
            exclude(str(self._root), [each.removeprefix("./") for each in shown])

    def _read_inputs(self) -> tuple[str, Path | None]:
        if self._service.inputs is None:
            return "", None
        script = artefact("templates", "image_inputs.sh").read_text("utf-8")
        script += '\nimage_stamp "$1"\nshift\nimage_inputs "$@"'
        argv = ("sh", "-c", script, "sh", self._service.name, *self._service.inputs)
        lines = process.run(argv, cwd=self._root).stdout.splitlines()
        return (lines[1], Path(lines[0])) if len(lines) == 2 else ("", None)

    def _id_of(self, image: str) -> str:
        argv = ("docker", "image", "inspect", "--format", "{{.Id}}", image)
        return process.run(argv, cwd=self._root).stdout.strip()


def _run_script(root: Path, *arguments: str, stdin_text: str = "") -> process.Result:
    script = artefact("templates", "image_files.sh").read_text("utf-8") + '\n"$@"'
    return process.run(("sh", "-c", script, "sh", *arguments), cwd=root, timeout=None, stdin_text=stdin_text)


def remove_links(root: Path, service: DebugService) -> None:
    """Remove the links to the image's own files from the checkout, and their lines in `.git/info/exclude`."""
    if service.image_files:
        _run_script(root, "links_away")
        exclude(str(root), [])


@signals.ignored()
def remove_dead_links(root: Path, service: DebugService) -> None:
    """Remove the image file links of a killed agent, unless a running container of the project needs them.

    Raises:
        DkdbgError: the engine does not answer.
    """
    if service.image_files and client.endpoint().is_local:
        listed = process.run(("docker", "ps", "--quiet", "--no-trunc", "--filter", f"volume={IMAGE_FILES}"))
        running = set(check(listed).stdout.split())
        if not running & {each.id for each in containers.of_project(root)}:
            remove_links(root, service)


def removal_of_copies(project: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands that remove the copies of the image's files, and the container that may still copy them."""
    volume = f"{project}_{IMAGE_VOLUME}"
    return ("docker", "rm", "--force", f"{volume}-copy"), ("docker", "volume", "rm", "--force", volume)


def masked_volumes(found: Mapping[str, Any], masks: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a container's anonymous and `dkdbg-image` volumes that are mounted at `masks`."""
    mounts = [each for each in found.get("Mounts") or () if _OWN_VOLUME.fullmatch(str(each.get("Name")))]
    return tuple(each["Name"] for each in mounts if each.get("Destination") in masks)


def remove_with_volumes(root: Path, target: ComposeService, masks: Sequence[str]) -> process.Result:
    """Stop and remove the service's container, and its volumes that contain only the image's folders."""
    found = containers.inspected_service(target, root) if masks else None
    result = process.run(target.down(), cwd=root, timeout=120.0)
    volumes = masked_volumes(found, masks) if found else ()
    if volumes and not result.code:
        process.run(("docker", "volume", "rm", *volumes), cwd=root)
    return result


def remove_project(root: Path, target: ComposeService, service: DebugService) -> process.Result:
    """Remove the whole project, and the volumes of dkdbg's services in it that contain only the image's folders."""
    existing = containers.of_project(root)
    volumes = [name for each in _of_service(existing, service) for name in _masked(each, service)]
    # Debug services with a former name are missing from the compose files, so `down` leaves them. Other
    # containers unknown to compose do not belong to dkdbg.
    former = [each.id for each in existing if each.label and not each.one_off]
    result = process.run(target.down_project(), cwd=root, timeout=120.0)
    if former and not result.code:
        process.run(("docker", "rm", "--force", *former), cwd=root, timeout=120.0)
    if volumes and not result.code:
        process.run(("docker", "volume", "rm", *volumes), cwd=root)
    return result


def _of_service(present: Sequence[Container], service: DebugService) -> list[Container]:
    """Return the containers of the debug service, and of the service that Reopen in Container starts."""
    names = {service.name, compose_names.devcontainer(service.name)}
    return [each for each in present if each.label in names]


def _masked(container: Container, service: DebugService) -> tuple[str, ...]:
    return (
        masked_volumes(containers.inspected(container.id), service.image_volumes)
        if service.image_volumes
        else ()
    )


def lines_to_remove(root: Path, service: DebugService) -> list[str]:
    """Return shell commands that remove the service's containers and volumes without compose, one line per container.

    Raises:
        DkdbgError: no docker command, no engine, no permission.
    """
    lines = []
    for each in _of_service(containers.of_project(root), service):
        volumes = _masked(each, service)
        removed = f" && docker volume rm {' '.join(volumes)}" if volumes else ""
        lines.append(f"docker rm --force {each.name}{removed}")
    return lines
