"""A machine with a Docker engine of its own, reached by the real ssh: a dockerd and a sshd in a privileged container.

Its network and its files are not this machine's: what is published on its loopback is not here, and what is mounted
there is what lies there.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.agent.dap_probe import wait_for
from tests.engine.projects import command, unique
from tests.far.hosts import IMAGE, Laptop

#: What Debian's engine is made of, beside what the image of the ssh hosts has.
PROGRAMS = (
    "dockerd", "docker-init", "docker-proxy", "containerd", "containerd-shim-runc-v2", "runc", "docker",
)  # fmt: skip
_START = """\
set -e
ssh-keygen -A >/dev/null
groupadd docker
usermod -aG docker me
for each in me other; do
  install -d -m 700 -o $each -g $each /home/$each/.ssh
  install -m 600 -o $each -g $each /key.pub /home/$each/.ssh/authorized_keys
done
until [ -e /tls/ready ]; do sleep 0.1; done
dockerd --storage-driver overlay2 --default-address-pool base=172.30.0.0/21,size=24 -H unix:///var/run/docker.sock -H tcp://0.0.0.0:2376 --tlsverify \
  --tlscacert /tls/ca.pem --tlscert /tls/server-cert.pem --tlskey /tls/server-key.pem >/var/log/dockerd.log 2>&1 &
echo $! >/run/dockerd.pid.of.test
exec /usr/sbin/sshd -D -e -o UseDNS=no -o MaxStartups=100 -o PasswordAuthentication=no
"""


def make_certificates(folder: Path, address: str) -> None:
    """An authority in `folder`, the engine's certificate for its address from it, and in `client` a user's, as docker has them."""
    client = folder / "client"
    client.mkdir(parents=True)

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=300)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *new, "-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    signed = ("-CA", "ca.pem", "-CAkey", "ca-key.pem")
    openssl(
        "req", "-x509", *new, *signed, "-subj", "/CN=box", "-addext", f"subjectAltName=IP:{address}",
        "-addext", "extendedKeyUsage=serverAuth", "-keyout", "server-key.pem", "-out", "server-cert.pem",
    )  # fmt: skip
    openssl(
        "req", "-x509", *new, *signed, "-subj", "/CN=me", "-addext", "extendedKeyUsage=clientAuth",
        "-keyout", "client/key.pem", "-out", "client/cert.pem",
    )  # fmt: skip
    shutil.copy(folder / "ca.pem", client)


class Box(Laptop):
    """`box`, and a docker configuration without contexts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.name = unique("dkdbg-box")
        self._here = dict(os.environ)  # a test's own points to the engine over there

    def start(self, images: tuple[str, ...]) -> "Box":
        """Start it with these images; return when its engine answers through ssh."""
        key = self.folder / "key"
        self.make_key(key)
        mounts = []
        for each in PROGRAMS:
            found = shutil.which(each)
            assert found, f"the engine of this machine has no {each}"
            mounts += ["-v", f"{Path(found).resolve()}:/usr/bin/{each}:ro"]
        self.here(
            "create", "--privileged", "--name", self.name, "--hostname", "box", "-v", "/var/lib/docker", *mounts,
            IMAGE, "bash", "-c", _START,
        )  # fmt: skip
        self.here("cp", f"{key}.pub", f"{self.name}:/key.pub")
        self.here("start", self.name)
        self.address = address = self.here("inspect", "-f", "{{.NetworkSettings.IPAddress}}", self.name)
        make_certificates(self.folder / "tls", address)
        self.here("cp", str(self.folder / "tls"), f"{self.name}:/tls")
        self.sh("touch /tls/ready")
        master = f"  ControlMaster auto\n  ControlPath {self.folder}/m-%C\n  ControlPersist 30\n"
        self.make_ssh(f"Host box gpu-box\n  HostName {address}\n", key, master)
        self.wait_until_up()
        for each in images:
            self.load(each)
        return self

    @property
    def environment(self) -> dict[str, str]:
        """What a shell of the laptop's has that talks to this engine."""
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "DOCKER_CONFIG": str(self.folder / "docker"),
            "DOCKER_HOST": "ssh://box",
        }

    def wait_until_up(self) -> None:
        wait_for(lambda: self.docker("info"), lambda done: done.returncode == 0)

    def load(self, image: str) -> None:
        """Bring an image of this machine's engine there, past ssh."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
            subprocess.run(
                ["docker", "exec", "-i", self.name, "docker", "load", "-q"], stdin=saving.stdout, check=True,
                capture_output=True, timeout=300,
            )  # fmt: skip

    def docker(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The docker command of the laptop, at the engine there."""
        return command(["docker", *words], env=self.environment, check=False)

    def here(self, *words: str, check: bool = True) -> str:
        """The docker command of this machine, at its own engine."""
        done = subprocess.run(
            ["docker", *words], env=self._here, capture_output=True, text=True, check=False, timeout=300
        )
        assert not check or done.returncode == 0, f"docker {words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def sh(self, text: str, *, check: bool = True) -> str:
        """Run a text for sh there as root, past ssh."""
        return self.here("exec", self.name, "sh", "-c", text, check=check)

    def forget(self) -> None:
        """End the connection that is shared."""
        subprocess.run([str(self.bin / "ssh"), "-O", "exit", "box"], capture_output=True, check=False)

    def stop(self) -> None:
        self.forget()
        self.here("rm", "-f", "-v", self.name, check=False)
