"""Containers in which little may be written, or somebody was there first: a job that starts the agent by its environment."""

import hashlib
import io
import json
import subprocess
import tarfile

import pytest

from dkdbg.core import again
from tests.engine.attach_proxies import docker, lay_out
from tests.engine.projects import unique

pytestmark = pytest.mark.engine

PROGRAM = (
    'import os, sys; print(os.environ.get("DKDBG_SESSION_DIR"), "DKDBG_TOKEN" in os.environ); sys.exit(5)\n'
)
BOTH = 'a=$(python3 /w/job.py); b=$(python3 /w/job.py); echo "$a $b"'
SQUATTED = "setpriv --reuid 1000 --clear-groups mkdir /tmp/dkdbg-0; exec python3 /w/job.py"


@pytest.mark.parametrize(
    ("options", "command", "sessions", "code"),
    [
        (("--user", "1234:1234", "--cap-drop", "ALL"), "exec python3 /w/job.py", {"/tmp/dkdbg-1234/"}, 5),
        # An emptyDir, which is /tmp where the rest cannot be written, may be written by all, without a sticky bit.
        (("--read-only", "-v", "EMPTY:/tmp"), BOTH, {"/dev/shm/dkdbg-0-"}, 0),
        ((), SQUATTED, {"None"}, 5),
        (("--read-only", "--tmpfs", "/dev/shm:ro"), "exec python3 /w/job.py", {"None"}, 5),
    ],
    ids=["another-user", "empty-dir", "squatted", "nothing-to-write"],
)
def test_a_program_runs_with_the_agent_where_it_is_safe_and_else_without(
    tmp_path, start_container, *, options, command, sessions, code
):
    root = lay_out(tmp_path, job=PROGRAM)
    for path in (root, root / ".dkdbg", root / ".dkdbg" / "agent.pyz", root / "job.py"):
        path.chmod(0o755)
    empty = root / "empty"
    empty.mkdir()
    empty.chmod(0o777)
    words = [each.replace("EMPTY", str(empty)) for each in options]
    settings = [
        "PYTHONPATH=/w/.dkdbg/agent.pyz", "DKDBG_LISTEN=0", "DKDBG_TOKEN=a-secret-that-nobody-else-knows",
    ]  # fmt: skip
    flags = [word for each in settings for word in ("-e", each)]
    name = start_container("-v", f"{root}:/w:ro", *flags, *words, words=("sh", "-c", command))
    assert int(docker("wait", name)) == code
    done = subprocess.run(["docker", "logs", name], capture_output=True, text=True, check=True)
    said = done.stdout.split()
    (session,) = set(said[::2])  # of one session, where there are two programs
    assert {each for each in sessions if session.startswith(each)}, done
    # Untouched, or out of sight.
    assert set(said[1::2]) == {"True" if session == "None" else "False"}, done


def test_an_image_with_a_variable_without_a_value_gets_none_from_who_makes_its_container_again(tmp_path):
    """`docker create --env-file` fills in such a line from the environment of whoever runs it."""
    name = unique("dkdbg-test-greedy")
    (tmp_path / "empty.tar").write_bytes(b"\0" * 10240)
    docker("import", "--change", "ENV KNOWN=1", str(tmp_path / "empty.tar"), name)
    try:
        docker("save", "--output", str(tmp_path / "plain.tar"), name)
        docker("rmi", name)
        greedy(tmp_path / "plain.tar", tmp_path / "greedy.tar", "SECRET_OF_YOURS")
        docker("load", "--input", str(tmp_path / "greedy.tar"))
        docker("create", "--name", name, name, "sleep")
        assert "SECRET_OF_YOURS" in docker("inspect", "--format", "{{json .Config.Env}}", name)
        assert docker("inspect", "--format", again.ENVIRONMENT, name).split() == ["KNOWN=1"]
    finally:
        docker("rm", "--force", name, check=False)
        docker("rmi", "--force", name, check=False)


def greedy(source, wanted, variable):
    """Write a saved image anew with a variable without a value among those of its configuration."""
    with tarfile.open(source) as saved:
        files = {each.name: saved.extractfile(each) for each in saved if each.isfile()}
        texts = {name: file.read() for name, file in files.items() if file}
    manifest = json.loads(texts["manifest.json"])
    config = json.loads(texts.pop(manifest[0]["Config"]))
    config["config"]["Env"].append(variable)
    changed = json.dumps(config).encode()
    manifest[0]["Config"] = f"{hashlib.sha256(changed).hexdigest()}.json"
    texts = {name: text for name, text in texts.items() if name not in {"index.json", "oci-layout"}}
    texts |= {manifest[0]["Config"]: changed, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(wanted, "w") as made:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text))
