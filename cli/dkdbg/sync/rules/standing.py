"""The result of the rules for one entry, and the default exclusions."""

from __future__ import annotations

from typing import NamedTuple

from dkdbg.sync.rules.patterns import Rule, matcher

OUT = (
    ".git", ".hg", ".svn", ".dkdbg-sync/", "dkdbg-pulled/",
    ".venv/", "venv/", "conda-meta/",
    "__pycache__/", "*.pyc", "*.pyo", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".tox/", ".nox/", ".cache/",
    "node_modules/", ".ipynb_checkpoints/", ".DS_Store",
    "*.swp", "*.swx", "*~", ".#*", "#*#",
    "*.ckpt", "*.pt", "*.pth", "*.safetensors",
)  # fmt: skip
#: Folders of runs. Source can live under these names: Python files stay in, and a folder with tracked files
#: is source.
RUNS = ("checkpoints/", "outputs/", "wandb/", "mlruns/", "lightning_logs/")
SOURCE = (".py", ".pyi")
RUN_FOLDERS = "defaults for run folders"
ENVIRONMENT = Rule(
    "pyvenv.cfg, conda-meta",
    "defaults for virtual environments",
    0,
    0,
    False,
    True,
    False,
    matcher(""),
)


class Standing(NamedTuple):
    """The result of the rules for one entry, with which entries below it start.

    Attributes:
        git: the default or the rule of git that keeps it out.
        docker: the last rule of .dockerignore that matched it or a folder above; a negated one keeps it in.
        sync: the pattern of `[sync] ignore` that keeps it out.
        kept: the pattern of `[sync] ignore` that brought this very entry back.
    """

    git: Rule | None = None
    docker: Rule | None = None
    sync: Rule | None = None
    kept: Rule | None = None

    @property
    def out(self) -> Rule | None:
        """Return the rule that keeps it out, None when it takes part."""
        docker = self.docker if self.docker and not self.docker.negated else None
        return self.sync or self.git or docker


#: Standing of an entry that takes part without a matching rule.
IN = Standing()
