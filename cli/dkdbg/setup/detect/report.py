"""Convert facts to the JSON that `dkdbg init --json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dkdbg.core.facts import RepoFacts


def facts_json(facts: RepoFacts) -> dict[str, object]:
    """Return the facts as plain values: strings, numbers, lists and maps, paths relative to the repository."""
    entry = facts.entrypoint
    return {
        "python": facts.python.version,
        "python_source": facts.python.source,
        "package_manager": facts.package_manager,
        "dependency_files": list(facts.dependency_files),
        "frameworks": list(facts.frameworks),
        "torch": None
        if facts.torch is None
        else {"version": facts.torch.version, "cuda": facts.torch.cuda, "source": facts.torch.source},
        "entrypoint": None
        if entry is None
        else {
            "command": entry.command,
            "file": entry.file,
            "cwd": entry.cwd,
            "needs_args": entry.needs_args,
            "source": entry.source,
        },
        "launcher": entry.launcher if entry is not None else None,
        "candidates": [
            {"command": item.command, "file": item.file, "launcher": item.launcher}
            for item in facts.candidates[:10]
        ],
        "service": None
        if facts.service is None
        else {
            "name": facts.service.name,
            "file": facts.service.file,
        },
        "needs": list(facts.strictest.needs) if facts.strictest else [],
        "needs_files": [name for name, _ in facts.strictest.needs_files] if facts.strictest else [],
        "mappings": [{"local": local, "remote": remote} for local, remote in facts.mappings],
        "ports": list(facts.ports),
        "gpu": facts.gpu,
        "gpu_source": facts.gpu_source,
        "apt": list(facts.apt),
        "build_apt": list(facts.build_apt),
        "requirements": list(facts.requirements),
        "notebooks": facts.notebooks,
        "devcontainers": list(facts.devcontainers),
        "problems": list(facts.problems),
    }
