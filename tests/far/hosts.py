"""Hosts with a real sshd, each in networks of its own: this machine reaches `login` alone, and only `login` reaches `node1`."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import docker
from tests.engine.projects import command, unique

#: Made from Debian packages once, and kept like the base images.
IMAGE = "dkdbg-test/ssh:1"
#: Where each host has a folder that this machine has too, as a shared file system; another path on each. And whose it is.
SHARED = {"login": "/export/home", "node1": "/mnt/nfs/home"}
_ME = 1000
_RECIPE = """\
FROM {base}
RUN apt-get update -qq \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \\
    openssh-server openssh-client iptables procps tcsh fish zsh >/dev/null \\
 && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && mkdir -p /run/sshd \\
 && useradd -m -s /bin/bash me && useradd -m -s /bin/bash other \\
 && useradd -m -s /usr/bin/fish fish && useradd -m -s /bin/tcsh csh && useradd -m -s /bin/zsh zsh \\
 && for each in me other fish csh zsh; do passwd -d $each >/dev/null; done
"""
_START = """\
set -e
find /tmp -mindepth 1 -delete
ssh-keygen -A >/dev/null
for each in me other fish csh zsh; do
  install -d -m 700 -o $each -g $each /home/$each/.ssh
  install -m 600 -o $each -g $each /key.pub /home/$each/.ssh/authorized_keys
done
exec /usr/sbin/sshd -D -e -o UseDNS=no -o MaxStartups=100 -o PasswordAuthentication=no
"""


def build_image(base: str, image: str = IMAGE, recipe: str = _RECIPE) -> None:
    """Have the image; the container's network is the host's, which reaches Debian's mirror."""
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode:
        docker("build", "-q", "--network", "host", "-t", image, "-", stdin=recipe.format(base=base))


class Laptop:
    """A laptop that knows the hosts in `containers` by an `ssh` in `bin`: the real one, with -F."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.run = folder / "run"  # XDG_RUNTIME_DIR
        self.containers: dict[str, str] = {}

    def make_key(self, key: Path) -> None:
        """Make the folders of the laptop, and its key for ssh."""
        for each in (self.bin, self.run):
            each.mkdir(mode=0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

    def make_ssh(self, hosts: str, key: Path, more: str = "") -> None:
        """Write the configuration of ssh, with the entries `hosts`, and the program that reads it."""
        config = self.folder / "config"
        config.write_text(
            f"{hosts}Host *\n  User me\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known\n  StrictHostKeyChecking accept-new\n{more}"
        )
        program = self.bin / "ssh"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
        program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What a shell of the laptop's has."""
        return {"PATH": f"{self.bin}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(self.run)}

    def ssh(self, *words: str) -> subprocess.CompletedProcess[str]:
        return command([str(self.bin / "ssh"), "-o", "BatchMode=yes", *words], check=False)

    def local_ssh(self) -> list[int]:
        """The processes of ssh here that use our configuration."""
        marks = (os.fsencode(str(self.folder / "config")), os.fsencode(str(self.run)))
        found = []
        for each in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                words = (each / "cmdline").read_bytes()
                if any(mark in words for mark in marks):
                    found.append(int(each.name))
        return found

    def kill_local_ssh(self) -> None:
        for pid in self.local_ssh():
            with contextlib.suppress(ProcessLookupError):  # one ends with the other
                os.kill(pid, signal.SIGKILL)

    def address(self, host: str, network: str) -> str:
        shown = '{{(index .NetworkSettings.Networks "' + network + '").IPAddress}}'
        found = docker("inspect", "-f", shown, self.containers[host])
        assert found, (host, network)
        return found

    def left(self) -> list[str]:
        """What should not be there when everything has ended."""
        raise NotImplementedError

    def wait_until_nothing_is_left(self) -> None:
        """No ssh of ours here, no process of ours there, and no file but what a runtime folder keeps."""
        wait_for(self.left, lambda left: not left)


class Hosts(Laptop):
    """`login` and `node1`, and a folder that they share with this machine."""

    def __init__(self, folder: Path, *, image: str = IMAGE) -> None:
        super().__init__(folder)
        self.image = image
        self._name = unique("dkdbg-far")
        self.networks: list[str] = []
        self.shared = folder / "shared"

    def start(self) -> "Hosts":
        """Start them; return when both answer."""
        self.shared.mkdir()
        os.chown(self.shared, _ME, _ME)
        key = self.folder / "key"
        self.make_key(key)
        outside, inside = f"{self._name}-out", f"{self._name}-in"
        for name in (outside, inside):
            docker("network", "create", "-o", "com.docker.network.bridge.enable_icc=true", name)
            self.networks.append(name)
        self._add("login", outside, inside)
        self._add("node1", inside)
        self.make_ssh(f"Host login\n  HostName {self.address('login', outside)}\n", key)
        # Docker's bridge is this machine's, too: what a laptop could not reach is closed to it.
        near = self.address("login", inside)
        self.sh("node1", f"iptables -A INPUT -p tcp --dport 22 ! -s {near} -j DROP")
        self.wait_until_up()
        return self

    def wait_until_up(self) -> None:
        wait_for(lambda: self.ssh("-J", "login", "node1", "true"), lambda done: done.returncode == 0)

    def sh(self, host: str, text: str, *, user: str = "root", check: bool = True) -> str:
        return docker("exec", "-u", user, self.containers[host], "sh", "-c", text, check=check)

    def put(self, host: str, path: str, text: str, *, user: str = "me") -> None:
        write = f'mkdir -p "$(dirname {path})"; cat >{path}'
        docker("exec", "-i", "-u", user, self.containers[host], "sh", "-c", write, stdin=text)

    def processes(self, host: str, *, user: str = "me") -> list[str]:
        return self.sh(host, f"ps -u {user} -o args=", check=False).splitlines()

    def drop(self, host: str) -> None:
        """From now on every packet from and to a host's port 22 vanishes, without a word."""
        self._packets(host, "-I")

    def undrop(self, host: str) -> None:
        self._packets(host, "-D")

    def _packets(self, host: str, change: str) -> None:
        ends = (("INPUT", "--dport"), ("OUTPUT", "--sport"))
        self.sh(host, "; ".join(f"iptables {change} {chain} -p tcp {end} 22 -j DROP" for chain, end in ends))

    def kill_sessions(self, host: str) -> None:
        """Kill what sshd has made for each connection of ours."""
        self.sh(host, "pkill -KILL -u me sshd; pkill -KILL -f 'sshd: me'", check=False)

    @contextlib.contextmanager
    def with_another_key(self) -> Iterator[None]:
        """The laptop knows another key of each host than theirs."""
        known = self.folder / "known"
        before = known.read_text()
        other = (self.folder / "key.pub").read_text().split()[1]
        known.write_text("".join(f"{line.split()[0]} ssh-ed25519 {other}\n" for line in before.splitlines()))
        try:
            yield
        finally:
            known.write_text(before)

    def left(self) -> list[str]:
        """What should not be there when everything has ended."""
        here = [f"ssh here: {each}" for each in self.local_ssh()]
        for at, folders, files in os.walk(self.run):  # which minds nothing that goes meanwhile
            here += [f"file here: {at}/{each}" for each in (*folders, *files)]
        there = [f"process: {each}" for each in self.processes("node1") + self.processes("login")]
        files = self.sh(
            "node1",
            "cd /tmp; find . -user me ! -path './dkdbg-1000*'; "
            "find ./dkdbg-1000 -maxdepth 1 -name 'agent-*' -o -name 'hook-*' -o -name 'debugpy-*' -o -name '.?*'",
            check=False,
        )  # fmt: skip
        return here + there + [f"file: {each}" for each in files.splitlines()]

    def stop(self) -> None:
        for name in self.containers.values():
            docker("rm", "-f", name, check=False)
        for name in self.networks:
            docker("network", "rm", name, check=False)

    def _add(self, host: str, *networks: str) -> None:
        name = f"{self._name}-{host}"
        docker(
            "create", "--init", "--name", name, "--hostname", host, "--cap-add", "NET_ADMIN", "--network", networks[0],
            "--network-alias", host, "-v", f"{self.shared}:{SHARED[host]}", self.image, "bash", "-c", _START,
        )  # fmt: skip
        self.containers[host] = name
        docker("cp", str(self.folder / "key.pub"), f"{name}:/key.pub")
        for each in networks[1:]:
            docker("network", "connect", "--alias", host, each, name)
        docker("start", name)
