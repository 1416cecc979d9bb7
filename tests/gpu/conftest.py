"""A real GPU for the tests here: `pytest tests/gpu` on a machine that has one; elsewhere they are skipped, in CI too.

They run under the Python of this process, or DKDBG_TEST_GPU_PYTHON: one whose PyTorch sees a GPU.
"""

import functools
import os
import subprocess
import sys

import pytest

from tests.agent.conftest import launch, layout, old_layout, program, runtime

__all__ = ["launch", "layout", "old_layout", "program", "runtime"]

PYTHON = os.environ.get("DKDBG_TEST_GPU_PYTHON") or sys.executable


@functools.cache
def _sees_a_gpu() -> bool:
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def gpu_python():
    if not _sees_a_gpu():
        pytest.skip(f"the PyTorch of {PYTHON} sees no GPU")
    return PYTHON


@pytest.fixture
def on_gpu(gpu_python, program):
    """Launch a program that consists of this text and waits for an editor."""
    return lambda text, **more: program(text, python=gpu_python, **{"wait": "300", **more})
