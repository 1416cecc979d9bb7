"""`dkdbg init --k8s`: write an overlay that starts this repository's workload under the agent, and a launch entry."""

from __future__ import annotations

import json
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg.agent.settings import ENV_MAPPINGS
from dkdbg.core import config as configuration
from dkdbg.core.mapping import described, workspace_of
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.repository.transaction import read
from dkdbg.setup.detect import manifests
from dkdbg.setup.detect.repo import inspect
from dkdbg.setup.plan import editor
from dkdbg.setup.render.changes import FileWanted
from dkdbg.setup.render.editor_files import target_files, target_port
from dkdbg.targets.kubernetes import overlay as overlay_of
from dkdbg.targets.kubernetes import overlays
from dkdbg.targets.kubernetes.pod import BadPod, object_of, objects_of
from dkdbg.targets.kubernetes.pod_address import is_name
from dkdbg.targets.kubernetes.pod_copy import AGENT_FILE, copy_of
from dkdbg.targets.kubernetes.workload import TITLE, templates
from dkdbg.verbs.parts.offer import changes_json, next_steps, offer
from dkdbg.verbs.parts.repository import check_root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.setup.detect.manifests import Manifests, ManifestWorkload
    from dkdbg.targets.kubernetes.pod_copy import PodCopy

#: Seconds for which the program waits for an editor.
WAIT = 600
#: Names of folders to prefer if several build a manifest: environments in which users debug.
_PREFERRED = ("dev", "development", "local", "debug", "sandbox", "staging", "test")
_SHOWN = 12


def init_k8s(root: Path, options: argparse.Namespace) -> int:
    """Plan, show and write the overlay, the launch entry and its task; return the exit code.

    Without --port, an existing entry keeps its port, and a new one gets the next port that no entry uses.

    Raises:
        DkdbgError: the workload is missing, kustomize cannot build it, or a file cannot be written.
    """
    check_root(root)
    found, source = manifests.find(root), _inside(root, options.source)
    container, namespace, command = options.container, options.namespace, options.command
    chosen = _chosen(found, options.k8s, source)
    base = _base(found, chosen, source)
    rendered = _rendered(root, chosen, base)
    kind, name = chosen.kind, str(object_of(rendered["metadata"])["name"])
    space = namespace or object_of(rendered["metadata"]).get("namespace") or overlays.namespace()
    if not is_name(str(space)):
        raise DkdbgError(f"{space} is not a valid namespace", hint="--namespace ml", exit_code=EXIT_USAGE)
    facts = inspect(root, ignore=frozenset())
    argv = configuration.shell_argv(command) if command else ()

    def copied(environment: dict[str, str]) -> PodCopy:
        try:
            return copy_of(
                kind, rendered, container=container, command=argv, command_from="as you typed it", wait=WAIT,
                environment=environment,
            )  # fmt: skip
        except BadPod as error:
            raise DkdbgError(f"{chosen.file}: {kind}/{name} is not a usable manifest: {error}") from error

    copied({})  # reports problems of the workload first
    remote, why = _code(rendered, kind, container, options.folder, facts.dockerfiles)
    mappings = described([(".", remote)])
    copy = copied({ENV_MAPPINGS: json.dumps(mappings, separators=(",", ":"))})
    follows = bool(base) and not _renames(found, base) and not _holds_overlays(base)
    overlay = overlay_of.Overlay(
        kind=kind,
        name=name,
        base=base if follows else "",
        source=base or chosen.file,
        rendered=rendered,
        copy=copy,
    )
    python = tuple(int(part) for part in facts.python.version.split(".")[:2])
    files: dict[str, FileWanted | None] = {
        path: FileWanted(content=text.encode(), reason="the overlay")
        for path, text in overlay.files().items()
    }
    files[f"{overlay_of.AGENT_FOLDER}/{AGENT_FILE}"] = FileWanted(
        content=single_file.build(python), reason="the agent and its debugpy, for the cluster"
    )
    target = f"k8s://{space}/{kind}/{name}" + (f"/{container}" if container else "")
    entry_name = editor.TARGET_NAME + target
    port = options.port or target_port(root, entry_name)
    entry = {**editor.target_entry(target, port, mappings), "redirectOutput": True}
    files |= target_files(root, entry, editor.copy_task(target, port, overlay.folder))
    decisions = [
        (f"{kind}/{name}", f"in {chosen.file}" + (f", as {base} builds it" if base else "")),
        *copy.decisions,
        (f"the code is at {remote}", why),
        (f"the namespace {space}", "as you typed it" if namespace else "the manifest's, or else kubectl's"),
        _following(overlay, base),
    ]
    heading = "\n".join(
        [f"{what}  ({why})" for what, why in decisions] + [f"note: {each}" for each in copy.notes]
    )
    return offer(
        root, files, heading, options,
        next_steps=lambda: next_steps(
            entry_name, f"or manually: kubectl apply --server-side -k {shlex.quote(str(overlay.folder))}, then dkdbg attach {target}"
        ),
        as_json=lambda todo, kept, written: {
            "place": target, "workload": f"{kind}/{name}", "source": overlay.source, "overlay": overlay.folder, "folder": remote,
            "port": port, "plan": [{"what": what, "why": why} for what, why in decisions], "notes": list(copy.notes),
            **changes_json(todo, kept, written=written),
        },
    )  # fmt: skip


def _renames(found: Manifests, base: str) -> bool:
    """Return whether kustomize renames the objects that it builds from the folder `base`."""
    return any(each.renames for path, each in found.kustomizations.items() if path in found.built_in(base))


def _holds_overlays(base: str) -> bool:
    """Return whether `base` contains dkdbg's overlays: kustomize refuses a base that is a parent of the overlay."""
    return base == "." or PurePosixPath(overlay_of.FOLDER).is_relative_to(base)


def _following(overlay: overlay_of.Overlay, base: str) -> tuple[str, str]:
    if overlay.base:
        return (
            f"it builds on {base}",
            "it follows your changes there, except a new program, which kustomize then rejects",
        )
    again = "after a change there, run dkdbg init --k8s again; --check tells whether it is needed"
    if base:
        return (
            f"a snapshot of the object that {base} builds",
            f"an overlay cannot build on that folder; {again}",
        )
    return (f"a snapshot of the object in {overlay.source}", f"no kustomization.yaml builds it; {again}")


def _inside(root: Path, source: str | None) -> str | None:
    if source is None:
        return None
    path = (root / source).resolve()
    if not path.exists() or not path.is_relative_to(root):
        raise DkdbgError(
            f"there is no {source} in this repository",
            hint="--from k8s/overlays/dev, or --from k8s/train.yaml",
            exit_code=EXIT_USAGE,
        )
    return path.relative_to(root).as_posix()


def _chosen(found: Manifests, which: str, source: str | None) -> ManifestWorkload:
    within = found.workloads
    if source is not None:
        built = found.built_in(source)
        within = tuple(each for each in within if each.file in built)
    kind, _, name = which.rpartition("/")
    fitting = {
        (each.kind, each.name): each
        for each in reversed(within)
        if name in {"", each.name} and kind in {"", each.kind}
    }
    if len(fitting) == 1:
        return fitting.popitem()[1]
    if fitting or within:
        shown = sorted(f"{each.kind}/{each.name} ({each.file})" for each in (fitting.values() or within))
        asked = (
            f"no workload here is called {printable(which)}"
            if not fitting
            else f"{len(fitting)} workloads match"
        )
        more = f" and {len(shown) - _SHOWN} more" if shown[_SHOWN:] else ""
        raise DkdbgError(
            f"{asked}: {', '.join(shown[:_SHOWN])}{more}",
            hint=f"name one: dkdbg init --k8s {shown[0].partition(' ')[0]}{f' --from {shlex.quote(source)}' if source else ''}", exit_code=EXIT_USAGE,
        )  # fmt: skip
    beneath = sorted(
        {each.file for each in found.workloads if source and PurePosixPath(each.file).is_relative_to(source)}
    )
    if source not in found.kustomizations and beneath:
        raise DkdbgError(
            f"{source} has no kustomization.yaml; manifests below it: {', '.join(beneath[:_SHOWN])}",
            hint=f"--from takes a file, or a folder with kustomization.yaml: --from {shlex.quote(beneath[0])}",
            exit_code=EXIT_USAGE,
        )
    titles = ", ".join(TITLE.values())
    lines = [f"  {each}" for each in found.problems[:_SHOWN]]
    if found.charts:
        lines.append(
            f"  {found.charts[0]} is a Helm chart: its templates become manifests only when helm renders them"
        )
        hint = (
            f"helm template RELEASE {shlex.quote(found.charts[0])} > k8s.yaml, with the RELEASE that helm list shows; "
            "then dkdbg init --k8s --from k8s.yaml"
        )
    else:
        hint = "a workload that already runs needs no manifests: dkdbg up k8s://NAMESPACE/deployment/NAME"
    raise DkdbgError(
        "\n".join([f"no manifest {'below ' + source if source else 'in this repository'} has one of: {titles}", *lines]),
        hint=hint, exit_code=EXIT_USAGE,
    )  # fmt: skip


def _base(found: Manifests, chosen: ManifestWorkload, source: str | None) -> str:
    """Return the folder from which kustomize builds the workload; empty if no folder builds it."""
    if source is not None:
        return source if source in found.kustomizations else ""
    building = found.builders(chosen.file)
    if len(building) < 2:
        return building[0] if building else ""
    for name in _PREFERRED:
        for each in building:
            if PurePosixPath(each).name == name:
                return each
    raise DkdbgError(
        f"{len(building)} folders build {chosen.kind}/{chosen.name}: {', '.join(building[:_SHOWN])}",
        hint=f"name one: dkdbg init --k8s {chosen.kind}/{chosen.name} --from {shlex.quote(building[0])}",
        exit_code=EXIT_USAGE,
    )


def _rendered(root: Path, chosen: ManifestWorkload, base: str) -> dict[str, Any]:
    """Return the workload as kustomize builds it."""
    if base:
        documents = overlays.render(root / base, base)
    else:
        documents = overlays.render_file(read(root, PurePosixPath(chosen.file)) or b"", chosen.file)
    fitting = [each for each in documents if each.get("kind") == TITLE[chosen.kind]]
    same = [each for each in fitting if object_of(each.get("metadata")).get("name") == chosen.name]
    if not same:  # kustomize added a prefix or suffix to the name
        same = [each for each in fitting if chosen.name in str(object_of(each.get("metadata")).get("name"))]
    if len(same) != 1:
        raise DkdbgError(
            f"{base or chosen.file} builds {len(same) or 'no'} objects {chosen.kind}/{chosen.name}",
            hint=f"kubectl kustomize {shlex.quote(base)} shows what it builds"
            if base
            else "give each object a name of its own",
        )
    return same[0]


def _code(
    rendered: dict[str, Any], kind: str, container: str, folder: str | None, dockerfiles: Sequence[Any]
) -> tuple[str, str]:
    """Return the folder of the code in the container, and what names it."""
    if folder is not None:
        if not folder.startswith("/"):
            raise DkdbgError(
                f"{folder} is not an absolute path", hint="--to /workspace", exit_code=EXIT_USAGE
            )
        return folder, "as you typed it"
    try:
        for template in templates(kind, rendered).values():
            for each in objects_of(object_of(template["spec"]).get("containers")):
                if container not in {"", each.get("name")}:
                    continue
                for variable in objects_of(each.get("env")):
                    if variable.get("name") == ENV_MAPPINGS and (
                        planned := workspace_of(str(variable.get("value", "")))
                    ):
                        return planned.remote, f"{ENV_MAPPINGS} of the manifest"
                if isinstance(each.get("workingDir"), str):
                    return each["workingDir"], "workingDir of the manifest"
    except BadPod as error:
        raise DkdbgError(f"the manifest is not usable: {error}") from error
    folders = {each.workdir: each.path for each in dockerfiles if each.workdir != "/"}
    if len(folders) == 1:
        ((remote, path),) = folders.items()
        return remote, f"WORKDIR of {path}"
    raise DkdbgError(
        "the code's folder in the container is unknown: the manifest has no workingDir, and the Dockerfiles have no WORKDIR, or different ones",
        hint="name the folder: --to /workspace", exit_code=EXIT_USAGE,
    )  # fmt: skip
