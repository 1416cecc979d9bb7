"""A Podman behind its Docker API, as root or as a user, with a folder of its own for all that it keeps."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from tests import leftovers
from tests.agent.dap_probe import wait_for

ROOT = Path(__file__).resolve().parents[2]

#: Where this machine's kernel or container allows less than Podman asks for by itself.
_SETTINGS = """\
[containers]
default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
"""
_USER = "dkdbg-podman"


class Podman:
    """One service of Podman's.

    Args:
        folder: that this user may enter; for its storage, its socket and the repositories.
        user: who runs it, and dkdbg too.
    """

    def __init__(self, folder: Path, user: str) -> None:
        self.folder, self.user = folder, user
        found = pwd.getpwnam(user)
        self._as: dict[str, object] = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
        self.uid = found.pw_uid
        self._service: subprocess.Popen[bytes] | None = None
        self._code = [ROOT / "cli", next(Path(each) for each in sys.path if each.endswith("site-packages"))]

    @property
    def environment(self) -> dict[str, str]:
        """What a shell of the user's has. Who is not root cannot read the virtual environment of these tests."""
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "DOCKER_HOST": f"unix://{self.folder}/podman.sock",
            "PYTHONPATH": ":".join(map(str, self._code)),
            "PYTHONDONTWRITEBYTECODE": "1",
            leftovers.VARIABLE: str(leftovers.run_pid()),
        }

    def start(self, image: str) -> "Podman":
        """Start it with an image of the Docker engine's; return when it answers."""
        run = self.folder / "run"
        for each in (run, self.folder / "bin"):
            each.mkdir(mode=0o700)
            os.chown(each, self.uid, -1)
        (self.folder / "containers.conf").write_text(_SETTINGS)
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver="overlay"\ngraphroot="{self.folder}/storage"\nrunroot="{run}/containers"\n'
        )
        self._code = [self._readable(each) for each in self._code]
        program = self.folder / "bin/dkdbg"
        program.write_text('#!/bin/sh\nexec /usr/bin/python3 -m dkdbg "$@"\n')
        program.chmod(0o755)
        os.chown(self.folder, self.uid, -1)
        self._service = subprocess.Popen(
            ["podman", "system", "service", "--time=0", self.environment["DOCKER_HOST"]], env=self.environment,
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as,
        )  # fmt: skip
        wait_for(lambda: self.run("docker", "version"), lambda done: done.returncode == 0)
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
            loaded = subprocess.run(
                ["podman", "load", "-q"], stdin=saving.stdout, env=self.environment, cwd=self.folder, check=False,
                capture_output=True, timeout=300, **self._as,
            )  # fmt: skip
        assert loaded.returncode == 0, loaded.stderr
        return self

    def _readable(self, code: Path) -> Path:
        """A folder of code, or a copy where the user may not read it: a checkout may lie in somebody's home."""
        if not self.run("ls", str(code)).returncode:
            return code
        made = self.folder / "code"
        beside = ("cli", "templates", "compose", "devcontainer") if code.parent == ROOT else (code.name,)
        for each in beside:
            shutil.copytree(
                code.parent / each, made / each, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        return made / code.name

    def run(
        self, *argv: str, cwd: Path | None = None, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the user, at this engine."""
        return subprocess.run(
            argv, env=self.environment, cwd=cwd or self.folder, input=text or "", capture_output=True, text=True,
            check=False, timeout=400, **self._as,
        )  # fmt: skip

    def start_dkdbg(self, *words: str, cwd: Path, **streams: int) -> subprocess.Popen[str]:
        """Start dkdbg as the user, at this engine; what it says goes nowhere unless `streams` say so."""
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        return subprocess.Popen(
            ["dkdbg", *words], executable=str(self.folder / "bin/dkdbg"), env=self.environment, cwd=cwd, text=True,
            **nowhere | streams, **self._as,
        )  # fmt: skip

    def stop(self) -> None:
        """End it, and take away all that it kept."""
        self.run("podman", "rm", "-f", "-a", "-t", "0")
        self.run("podman", "system", "reset", "-f")
        if self._service is not None:
            self._service.terminate()
            self._service.wait(300)
        shutil.rmtree(self.folder, ignore_errors=True)


def rootless_user() -> str:
    """An ordinary user with numbers for containers of its own, made where there is none; it stays."""
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", _USER], check=True)
    for device in (Path("/dev/net/tun"), Path("/dev/fuse")):
        if device.exists() and device.stat().st_mode & 0o666 != 0o666:
            device.chmod(0o666)  # as udev has it, which does not run in a container
    return _USER
