"""Each row of doctor's table: the situation that it finds, the value that it names, and the next command."""

from dataclasses import replace
from pathlib import Path

import pytest

from dkdbg.core.plan import DebugService
from dkdbg.doctor import probe
from dkdbg.doctor.check import examine
from dkdbg.doctor.engine import _skew
from dkdbg.doctor.situation import Context, Disk, Engine, Machine, Repository, Situation
from dkdbg.doctor.table import CHECKS
from dkdbg.errors import DkdbgError

GIB = 1 << 30
SERVICE = DebugService(
    name="app-debug", compose_file="compose.yaml", port=5678, gpu=True, host_network=False, token="none"
)
GPU = {
    "deploy": {"resources": {"reservations": {"devices": [{"driver": "nvidia", "capabilities": ["gpu"]}]}}}
}
MODEL = {"services": {"app-debug": {"shm_size": "2gb"}}}
MACHINE = Machine(
    system="Linux", release="6.8.0", uid=1000, user="ada", owner=1000, folder="/home/ada/x", umask=0o022, files=1024,
    pythons=(("python3", "3.11.7"),), programs=frozenset({"docker", "git", "nvidia-ctk"}), driver="550.54", cuda="12.4",
    disks=(Disk(path="/home/ada/x", total=500 * GIB, free=90 * GIB, kind="ext4"),), has_device=True, has_nvidia=True,
    shm=Disk(path="/dev/shm", total=16 * GIB, free=16 * GIB), watchers=3, ptrace_scope=0,
    limits={"fs.inotify.max_user_watches": 8192, "fs.inotify.max_user_instances": 128},
)  # fmt: skip
ENGINE = Engine(
    info={"ServerVersion": "28.3.0", "Runtimes": {"nvidia": {}}, "CDISpecDirs": ["/etc/cdi"]}, compose="v2.38.1",
    buildx="0.25.0", gpu="nvidia", disk=Disk(path="/var/lib/docker", total=500 * GIB, free=90 * GIB),
)  # fmt: skip
REPOSITORY = Repository(
    root=Path("/home/ada/x"), service=SERVICE, model=MODEL, agent="0.2", installed="0.2", port=5678, folders=900, is_git=True,
)  # fmt: skip
HEALTHY = Situation(machine=MACHINE, engine=ENGINE, repository=REPOSITORY)
THERE = Situation(machine=replace(MACHINE, label="k8s://ml/train", torch="2.4.0", torch_cuda="12.1"))


def machine(**values):
    return replace(HEALTHY, machine=replace(MACHINE, **values))


def engine(**values):
    return replace(HEALTHY, engine=replace(ENGINE, **values))


def repository(**values):
    return replace(HEALTHY, repository=replace(REPOSITORY, **values))


def there(**values):
    return replace(THERE, machine=replace(THERE.machine, **values))


def services(**bodies):
    return repository(model={"services": {**MODEL["services"], **bodies}})


def without_gpu(**values):
    found = machine(driver="", cuda="", has_device=False, has_nvidia=False)
    return replace(found, engine=replace(ENGINE, gpu="none"), repository=replace(REPOSITORY, **values))


DISK = MACHINE.disks[0]
DOWN = DkdbgError("no Docker engine answers", hint="start it")
#: Situation, then the severity and name of its only finding, and fragments of its two texts.
CASES = [
    (machine(system="Linux", release="4.4.0-19041-Microsoft"), "error system", "WSL 1", "wsl --set-version"),
    (machine(is_writable=False, owner=0), "error workspace-owner", "ada may not write to /home/ada/x, which belongs to uid 0", "sudo chown"),
    (machine(uid=0, user="root"), "warning root", "belongs to uid 1000", "usermod"),
    (machine(umask=0), "warning umask", "umask 000", "umask 022"),
    (machine(disks=(replace(DISK, free=1 << 20),)), "error disk", "1 MB are left", "df -h /home/ada/x"),
    (machine(disks=(replace(DISK, free=500 << 20),)), "warning disk", "500 MB are left", "df -h /home/ada/x"),
    (machine(disks=(replace(DISK, path="/mnt/my disk", free=1 << 20),)), "error disk", "the disk of /mnt/my disk", "df -h '/mnt/my disk'; du -xhd1 '/mnt/my disk'"),
    (there(shm=Disk(path="/dev/shm", total=64 << 20, free=64 << 20)), "warning shm", "/dev/shm has 64 MB", "shm_size"),
    (machine(shm=Disk(path="/dev/shm", total=GIB, free=0)), "warning shm", "0 MB of 1.0 GB", "ls -lS /dev/shm"),
    (machine(files=256), "warning open-files", "256 files", "ulimit -n 4096"),
    (there(skew=-40.4), "warning clock", "40 s behind", "timedatectl"),
    (repository(folders=9000), "warning inotify", "there are 9000 folders to watch, but fs.inotify.max_user_watches is 8192", "sudo sysctl fs.inotify.max_user_watches=524288"),
    (machine(watchers=128), "warning inotify", "your programs use 128 inotify instances", "sudo sysctl fs.inotify.max_user_instances=512"),
    (machine(ptrace_scope=2), "warning ptrace", "ptrace_scope is 2", "sudo sysctl kernel.yama.ptrace_scope=0"),
    (machine(ptrace_scope=1), "note ptrace", "ptrace_scope is 1", "sudo sysctl kernel.yama.ptrace_scope=0"),
    (there(pythons=(("python", "2.7.18"), ("python3", "3.6.9"))), "error python", "python 2.7.18, python3 3.6.9", "DKDBG_PYTHON"),
    (machine(disks=(replace(DISK, kind="nfs4"),)), "warning workspace-mount", "(nfs4)", "dkdbg run --on ssh://HOST"),
    (machine(disks=(replace(DISK, kind="9p"),)), "warning workspace-mount", "a Windows drive (9p)", "git clone"),
    (engine(error=DOWN), "error engine", "no Docker engine answers", "start it"),
    (replace(engine(error=DOWN), repository=Repository()), "note engine", "no Docker engine answers", "start it"),
    (engine(compose=None), "error compose", "no compose plugin", "docker-compose-plugin"),
    (replace(engine(buildx=None), repository=Repository()), "error buildx", "no buildx plugin", "docker-buildx"),
    (replace(engine(buildx=None), repository=replace(REPOSITORY, model={"services": {"app-debug": {"shm_size": "2gb", "build": {}}}})), "error buildx", "no buildx plugin", "docker-buildx"),
    (engine(is_podman=True, buildx=None), "error podman", "Podman 28.3.0", "install podman"),
    (engine(host="tcp://a:2376", context="gpu-box"), "warning context", "DOCKER_HOST (tcp://a:2376) overrides the context gpu-box", "unset DOCKER_HOST"),
    (engine(api="1.40"), "warning api", "1.40", "unset DOCKER_API_VERSION"),
    (engine(skew=31.0), "warning clock", "31 s ahead of", "hwclock"),
    (engine(disk=Disk(path="/var/lib/docker", total=GIB, free=GIB)), "warning engine-disk", "1.0 GB are left", "docker system df"),
    (replace(services(db={"ulimits": {"memlock": -1}}), engine=replace(ENGINE, info={**ENGINE.info, "SecurityOptions": ["name=rootless"]})), "warning rootless", "the ulimits", "override file"),
    (engine(compose="2.20.3"), "error version", "compose 2.20.3: it does not support !override", "docker-compose-plugin"),
    (replace(services(db={"gpus": [{"count": -1}], "shm_size": 1}), engine=replace(ENGINE, compose="2.26.1-4")), "error version", "compose 2.26.1-4: it ignores or rejects `gpus:`", "deploy"),
    (replace(services(db={"devices": [{"source": "nvidia.com/gpu=all"}]}), engine=replace(ENGINE, compose="2.29.7")), "error version", "a CDI device name under `devices:`", "driver: cdi"),
    (engine(info={**ENGINE.info, "ServerVersion": "20.10.24+dfsg1"}), "error version", "engine 20.10.24+dfsg1: it does not build with BuildKit", "Docker 23"),
    (replace(without_gpu(), engine=replace(ENGINE, is_local=False, gpu="none", info={"ServerVersion": "26.1.5"})), "warning version", "CDI is switched off", "daemon.json"),
    (replace(engine(is_podman=True, info={"ServerVersion": "4.0.2"}), machine=replace(MACHINE, programs=frozenset({"git", "podman"}))), "warning version", "podman 4.0.2", "Podman 4.1"),
    (engine(info={**ENGINE.info, "ServerVersion": "29.0.1"}), "note version", "1024 files", "nofile"),
    (machine(driver="", cuda=""), "warning gpu-driver", "its driver is not loaded", "nvidia-smi"),
    (machine(smi="Failed to initialize NVML: Driver/library version mismatch"), "error gpu-driver", "version mismatch", "sudo reboot"),
    (machine(visible=""), "warning gpu-hidden", "CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES"),
    (repository(torch_cuda=("13.0", "requirements.txt:3")), "error gpu-cuda", "(requirements.txt:3) needs CUDA 13.0, but driver 550.54 supports at most CUDA 12.4", "whl/cu126"),
    (there(torch_cuda="13.0", torch="2.9.0"), "error gpu-cuda", "torch 2.9.0 needs CUDA 13.0", "whl/cu126"),
    (there(has_device=False, driver="", has_nvidia=False), "note gpu-device", "torch 2.4.0 is built for CUDA 12.1", "limits: {nvidia.com/gpu: 1}"),
    (engine(gpu="none", info={"ServerVersion": "28.3.0"}), "error gpu-toolkit", "engine 28.3.0 gives containers no GPU", "sudo nvidia-ctk runtime configure"),
    (replace(engine(gpu="none"), repository=Repository()), "warning gpu-toolkit", "driver 550.54 works", "sudo nvidia-ctk runtime configure"),
    (engine(cdi_driver="535.104"), "error gpu-cdi", "for driver 535.104", "nvidia-ctk cdi generate"),
    (machine(driver="", cuda="", has_nvidia=False), "warning gpu-runtime", "nvidia runtime", "DKDBG_GPU=none dkdbg up"),
    (without_gpu(service=replace(SERVICE, needs_gpu=True)), "warning gpu-needed", "app-debug stops without a GPU", "dkdbg --context"),
    (without_gpu(model={"services": {"app-debug": {"depends_on": {"db": {}}}, "db": {**GPU, "shm_size": 1}}}), "error gpu-request", "db: the service asks for a GPU", "DKDBG_GPU=none"),
    (repository(errors=(DkdbgError("dkdbg.toml:3: bad", hint="change it"),)), "error files", "dkdbg.toml:3: bad", "change it"),
    (repository(agent="0.1.9"), "warning agent", "from dkdbg 0.1.9, but 0.2 is installed", "dkdbg init"),
    (repository(holder="node (PID 7)"), "warning port", "port 5678, which launch.json attaches to, is taken by node (PID 7)", "dkdbg up"),
    (services(**{"app-debug": GPU}), "warning shm", "app-debug asks for a GPU and has Docker's 64 MB", "shm_size: 8gb"),
    (repository(contexts=(Context(service="app-debug", folder=".", ignore="docker/Dockerfile.dockerignore", size=3 * GIB, largest=("my data", 2 * GIB)),)), "warning build-context", "reads 3.0 GB from ., of which my data has 2.0 GB", "printf '\\n%s\\n' '/my data' >> docker/Dockerfile.dockerignore"),
    (replace(repository(images_user=("app", "Dockerfile")), machine=replace(MACHINE, umask=0o077)), "warning umask", "umask 077 makes files that app", "chmod -R go+rX"),
    (machine(programs=frozenset({"docker"})), "warning git", "git is not installed", "install git"),
]  # fmt: skip


@pytest.mark.parametrize(
    "situation",
    [
        HEALTHY,
        THERE,
        without_gpu(),
        replace(without_gpu(), engine=replace(ENGINE, gpu="none", info={"ServerVersion": "26.1.5"})),
        replace(HEALTHY, repository=Repository()),
        Situation(machine=Machine()),
        engine(buildx=None),
    ],
    ids=[
        "here",
        "a pod",
        "without a GPU",
        "without a GPU, and an engine with CDI switched off",
        "no repository",
        "nothing known",
        "no buildx, and an image that is not built",
    ],
)
def test_a_healthy_situation_has_no_finding(situation):
    assert examine(CHECKS, situation) == []


@pytest.mark.parametrize(
    ("situation", "found", "cause", "following"), CASES, ids=[f"{each[1]}: {each[2]}" for each in CASES]
)
def test_a_row_names_the_cause_and_the_next_command(situation, found, cause, following):
    (finding,) = examine(CHECKS, situation)
    assert f"{finding.severity} {finding.check}" == found
    assert cause in finding.cause
    assert following in finding.next
    assert not {"{", "}"} & set(finding.cause.replace("{nofile", "").replace("!", ""))


def test_each_row_has_a_case():
    assert [each for each in CHECKS if not any([*each.read(situation)] for situation, *_ in CASES)] == []


def test_errors_come_first_and_only_what_asks_itself_is_safe():
    worse = replace(engine(error=DOWN), machine=replace(MACHINE, umask=0, ptrace_scope=1))
    assert [each.severity for each in examine(CHECKS, worse)] == ["error", "warning", "note"]
    assert {each.next for each in CHECKS if each.safe} == {"dkdbg init"}


def test_versions_and_times_of_an_engine_may_be_anything():
    digits = "9" * 5_000
    assert examine(CHECKS, engine(info={**ENGINE.info, "ServerVersion": digits}, compose=digits))
    assert _skew("2024-02-30T10:00:00Z", 1.0, 2.0) == 0.0


SAID = """\
system\tLinux
release\t6.8.0
time\t1000
uid\t1000
umask\t0022
folder\t/w w
disk\t100 50 .\t/w w
disk\t100 50 /tmp\t/
shm\t64 64 /dev/shm\t/dev/shm
mount\t/ ext4
mount\t/w\\040w nfs4
mount\t/dev/shm tmpfs
limit\tfs/inotify/max_user_watches 8192
python\tpython3 3.11.7
program\tgit
torch\t2.4.0+cu121 12.1
visible\t
"""


def test_the_answer_of_the_script_is_read():
    seen = probe.machine(SAID, label="x", asked=990.0, answered=994.0)
    assert seen.disks == (
        Disk(path="/w w", total=102400, free=51200, kind="nfs4"),
        Disk(path="/tmp", total=102400, free=51200, kind="ext4"),
    )
    assert (seen.skew, seen.umask, seen.visible) == (6.0, 0o022, "")
    assert (seen.torch, seen.torch_cuda) == ("2.4.0+cu121", "12.1")
    assert seen.limits == {"fs.inotify.max_user_watches": 8192}
    assert probe.machine(SAID, label="x", asked=999.5, answered=1000.5).skew == 0.0
    assert probe.machine(SAID, label="x", asked=1007.0, answered=1009.0).skew == -6.0


@pytest.mark.parametrize(
    "said", ["", "\0\n\t\n", "time\t" + "9" * 400, "umask\t9999\ndisk\tx\nlimit\tx\nmount\tx\npython\tx", "shm\t1 1 /dev/shm\nlimit\ta " + "9" * 30,
             "mount\ta b\n" * 20_000 + "disk\t1 1 x\tc\n" * 20_000, "\n".join(f"{key}\tx {'9' * 5_000}.1" for key in ("python", "torch")) + "\ncuda\t" + "9" * 5_000],
    ids=["nothing", "a NUL", "a time", "no numbers", "a limit", "mounts", "digits"],
)  # fmt: skip
def test_a_hostile_answer_gives_a_machine_and_findings(said):
    seen = probe.machine(said, label="x", asked=1.0, answered=2.0)
    assert seen.label == "x"
    assert all(each.cause for each in examine(CHECKS, Situation(machine=seen)))
