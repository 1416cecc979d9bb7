"""The table of all checks."""

from __future__ import annotations

from dkdbg.doctor import engine_checks, gpu_checks, machine_checks, repository_checks

CHECKS = (*machine_checks.CHECKS, *engine_checks.CHECKS, *gpu_checks.CHECKS, *repository_checks.CHECKS)
