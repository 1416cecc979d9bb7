"""A program that becomes the owner of the workspace writes where it writes in plain `docker compose up`."""

import os

import pytest

from tests.engine.projects import command, dkdbg, must, project, unique
from tests.ports import free_port

pytestmark = pytest.mark.engine

#: Writes into a volume, beside its home's cache and into /srv, all of which belong to the user of the image.
PROGRAM = """
import os, pathlib
cache = pathlib.Path.home() / ".cache" / "model"
print("cache", cache.read_text())
for path in (cache, pathlib.Path("/data/step"), pathlib.Path("/srv/x.log")):
    print(os.access(path if path.exists() else path.parent, os.W_OK))
    path.write_text("new")
    print(path, path.read_text())
if {is_root}:
    os.chmod("/srv/x.log", 0o600)
pathlib.Path("mine").write_text("x")
pathlib.Path("yours").write_text("x")
try:
    os.chown("yours", 0, 0)
    print("chown")
except PermissionError:
    print("no chown")
print("done", flush=True)
"""
DOCKERFILE = """
    FROM {base}
    RUN useradd -u 4242 -m svc && mkdir -p /data /root/.cache ~svc/.cache
    RUN echo root > /root/.cache/model && echo svc > ~svc/.cache/model && touch /srv/x.log
    RUN {own}
    WORKDIR /app
    COPY train.py .
    {user}
    CMD ["python3", "train.py"]
    """
COMPOSE = "services:\n  job:\n    build: .\n    volumes: ['data:/data', '.:/app']\nvolumes: {data: }\n"
USERS = {"": "true", "USER svc": "chown -R svc /srv /data ~svc"}


@pytest.mark.parametrize("user", USERS, ids=["root", "svc"])
def test_a_program_that_is_not_the_owner_elsewhere_writes_and_finds_its_home_as_in_plain_compose(
    base_image, tmp_path, user
):
    files = {
        "Dockerfile": DOCKERFILE.format(base=base_image, user=user, own=USERS[user]),
        "train.py": PROGRAM.replace("{is_root}", str(not user)),
    }
    with project(tmp_path / unique("owner"), {**files, "compose.yaml": COMPOSE}) as root:
        root.chmod(0o777)
        command(["docker", "compose", "build", "job"], root)
        plain = command(["docker", "compose", "run", "--rm", "job"], root).stdout
        assert plain.endswith("done\n")
        (root / "mine").unlink()
        for path in (root, *root.iterdir()):  # a developer's, whose uid nobody in the container has
            os.chown(path, 1001, 1001)
        must(dkdbg(root, "init", "--yes", "--wait", "0"))
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        dkdbg(root, "up")
        command(["docker", "compose", "--profile", "debug", "wait", "job-debug"], root, check=False)
        ran = must(dkdbg(root, "logs"))
        assert ran.stdout == plain, ran.stderr
        assert (root / "mine").stat().st_uid == 1001
