"""Podman as root and as a user; without it the tests skip on a laptop and fail in CI."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.podman.podman import Podman, rootless_user


def _need(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="module", params=["rootless", "rootful"])
def podman(request, base_image):
    """A service of Podman's; the folder is outside of pytest's, which other users may not enter."""
    if shutil.which("podman") is None:
        _need("podman is not installed (.ci/podman installs it)")
    if os.geteuid() != 0:
        _need("to run Podman as root and as another user takes root")
    user = "root" if request.param == "rootful" else rootless_user()
    folder = Path(tempfile.mkdtemp(prefix="dkdbg-podman-"))
    folder.chmod(0o755)
    made = Podman(folder, user)
    try:
        yield made.start(base_image)
    finally:
        made.stop()
