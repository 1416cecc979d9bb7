"""A real Slurm: slurmctld and sshd on `login`, a slurmd each on `node-12` and `node-22`, one shared /home; this machine reaches `login` alone."""

import os
import posixpath
import secrets
from pathlib import Path

from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import docker
from tests.engine.projects import unique
from tests.far.hosts import Laptop

#: Made from Debian packages once, and kept like the base images.
IMAGE = "dkdbg-test/slurm:1"
NODES = ("node-12", "node-22")
RECIPE = """\
FROM {base}
RUN apt-get update -qq \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \\
    slurm-wlm slurm-wlm-torque munge libpam-slurm-adopt openssh-server openssh-client procps >/dev/null \\
 && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && mkdir -p /run/sshd \\
 && useradd -M -u 1000 -s /bin/bash me && useradd -M -u 1001 -s /bin/bash other && passwd -d me && passwd -d other
"""
_CONFIG = """\
ClusterName=ci
SlurmctldHost=login
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=defer_batch,sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd-%n.log
PrologFlags=Contain
KillWait=15
GresTypes=gpu
MailProg=/bin/true
NodeName=node-[12,22] CPUs=8 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""
_START = """\
set -e
munge() { install -m 400 -o munge -g munge /cfg/munge.key /etc/munge/munge.key; mkdir -p /run/munge
  chown munge:munge /run/munge; su -s /bin/sh munge -c /usr/sbin/munged; }
cp /cfg/slurm.conf /cfg/gres.conf /cfg/cgroup.conf /etc/slurm/
munge
ssh-keygen -A >/dev/null
if [ "$(hostname)" = login ]; then
  mkdir -p /var/spool/slurmctld; chown slurm:slurm /var/spool/slurmctld
  for each in me other; do
    install -d -m 700 -o $each -g $each /home/$each /home/$each/.ssh
    install -m 600 -o $each -g $each /cfg/key.pub /home/$each/.ssh/authorized_keys
    install -m 600 -o $each -g $each /cfg/key /home/$each/.ssh/id_ed25519
    printf 'Host node-*\\n  StrictHostKeyChecking accept-new\\n' >/home/$each/.ssh/config
    chown $each:$each /home/$each/.ssh/config
  done
  slurmctld
else
  sed -i 's/^@include common-account/account required pam_slurm_adopt.so action_no_jobs=deny\\n&/' /etc/pam.d/sshd
  mkdir -p "/var/spool/slurmd-$(hostname)"
  slurmd -N "$(hostname)"
fi
printf 'UseDNS no\\nMaxStartups 100\\nPasswordAuthentication no\\nUsePAM yes\\n' >/etc/ssh/sshd_config.d/test.conf
/usr/sbin/sshd
exec sleep infinity
"""


class Cluster(Laptop):
    """The hosts.

    Args:
        mounts: of each host, as `docker -v` has them.
    """

    def __init__(self, folder: Path, mounts: tuple[str, ...] = ()) -> None:
        super().__init__(folder)
        self.mounts = mounts
        self.name = unique("dkdbg-slurm")
        self.is_closed = False

    def start(self) -> "Cluster":
        cfg = self.folder / "cfg"
        cfg.mkdir()
        key = cfg / "key"
        self.make_key(key)
        (cfg / "munge.key").write_bytes(secrets.token_bytes(256))
        (cfg / "slurm.conf").write_text(_CONFIG)
        (cfg / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        (cfg / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (cfg / "start.sh").write_text(_START)
        docker("network", "create", self.name)
        docker("volume", "create", self.name)
        for host in ("login", *NODES):
            self._add(host)
        self.make_ssh(f"Host login\n  HostName {self.address('login', self.name)}\n", key)
        self.until(lambda: "node-[12,22]" in self.sh("login", "sinfo -h -t idle -o %N", check=False))
        self.until(lambda: self.ssh("login", "true").returncode == 0)
        return self

    def sh(self, host: str, text: str, *, user: str = "root", check: bool = True) -> str:
        home = "/root" if user == "root" else f"/home/{user}"
        return docker(
            "exec", "-u", user, "-w", home, "-e", f"HOME={home}", "-e", f"USER={user}", self.containers[host],
            "sh", "-c", text, check=check,
        )  # fmt: skip

    def put(self, path: str, text: str, *, user: str = "me") -> None:
        docker(
            "exec", "-i", "-u", user, self.containers["login"], "sh", "-c",
            f'mkdir -p "$(dirname {path})"; cat >{path}', stdin=text,
        )  # fmt: skip

    def job(self, *, nodes: int = 1, options: str = "", user: str = "me", line: str = "sleep 1000") -> str:
        """Submit a job that sleeps, past dkdbg, and return its number when it runs, or at once with --hold."""
        script = f"#!/bin/sh\n{line}\n"
        self.put(f"/home/{user}/job.sh", script, user=user)
        found = self.sh(
            "login", f"cd ~; sbatch --parsable -N{nodes} -D ~ -o /dev/null {options} job.sh", user=user
        )
        if "--hold" not in options:
            self.until(lambda: self.state(found) == "RUNNING")
        return found

    def state(self, job: str) -> str:
        return self.sh("login", f"squeue -h -t all -j {job} -o %T", check=False)

    def close_ssh(self) -> None:
        """No ssh to nodes from now on."""
        self.is_closed = True
        for each in NODES:
            self.sh(each, "pkill -x sshd", check=False)

    def open_ssh(self) -> None:
        """Ssh to nodes, for who has a job there."""
        self.is_closed = False
        for each in NODES:
            self.sh(each, "pgrep -x sshd >/dev/null || /usr/sbin/sshd")

    def cancel_all(self) -> None:
        # A cancelled script leaves its folder, which the next submit would remove after an hour.
        scripts = self.sh("login", "squeue -h -u me -o %o | grep /dkdbg/job-", check=False).split()
        self.sh("login", "scancel -u me; scancel -u other", check=False)
        self.until(lambda: not self.sh("login", "squeue -h"))
        for each in scripts:
            self.sh("login", f"rm -rf {posixpath.dirname(each)}", user="me")

    @staticmethod
    def until(holds) -> None:
        wait_for(holds, bool)

    def left(self) -> list[str]:
        """What should not be there when everything has ended."""
        found = [f"ssh here: {each}" for each in self.local_ssh()]
        found += [f"file here: {each}" for each in self.files_here()]
        look = (
            "ps -u me -o args=; cd /tmp; find . -user me ! -path './dkdbg-1000*'; "
            "find ./dkdbg-1000 -maxdepth 1 -name 'agent-*' -o -name 'hook-*' -o -name 'debugpy-*'; "
            "find /home/me/.cache -type f -path '*dkdbg*'"
        )
        for host in self.containers:
            found += [
                f"{host}: {each}" for each in self.sh(host, f"{look} 2>/dev/null", check=False).splitlines()
            ]
        return found

    def files_here(self) -> list[Path]:
        """The files of our runtime folder; what goes while we look is none of them."""
        return [Path(at, each) for at, _, files in os.walk(self.run) for each in files]

    def stop(self) -> None:
        for name in self.containers.values():
            docker("rm", "-f", name, check=False)
        docker("network", "rm", self.name, check=False)
        docker("volume", "rm", self.name, check=False)

    def _add(self, host: str) -> None:
        name = f"{self.name}-{host}"
        docker(
            "create", "--init", "--name", name, "--hostname", host, "--network", self.name, "--network-alias", host,
            "-v", f"{self.name}:/home", *(word for each in self.mounts for word in ("-v", each)), "--shm-size", "256m", IMAGE, "bash", "/cfg/start.sh",
        )  # fmt: skip
        self.containers[host] = name
        docker("cp", str(self.folder / "cfg"), f"{name}:/cfg")
        docker("start", name)
