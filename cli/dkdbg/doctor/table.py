"""The table of all checks."""

from __future__ import annotations

from dkdbg.doctor import engine_checks, gpu_checks, machine_checks, repository_checks, versions
from dkdbg.doctor.check import CHECKS

__all__ = ["CHECKS", "engine_checks", "gpu_checks", "machine_checks", "repository_checks", "versions"]
