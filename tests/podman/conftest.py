"""Podman as root and as a user; without it the tests skip on a laptop and fail in CI."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.needs import give_up
from tests.podman.podman import Podman, rootless_user


@pytest.fixture(scope="module", params=["rootless", "rootful"])
def podman(request, base_image):
    """A service of Podman's; the folder is outside of pytest's, which other users may not enter."""
    if shutil.which("podman") is None:
        give_up("podman is not installed (.ci/podman installs it)")
    if os.geteuid() != 0:
        give_up("to run Podman as root and as another user takes root")
    user = "root" if request.param == "rootful" else rootless_user()
    folder = Path(tempfile.mkdtemp(prefix="dkdbg-podman-"))
    folder.chmod(0o755)
    made = Podman(folder, user)
    try:
        yield made.start(base_image)
    finally:
        made.stop()
