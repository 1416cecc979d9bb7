"""A launcher starts what is documented, as far as the machine can; a person's number stands before both."""

import os

import pytest

from dkdbg.core.plan import DebugService
from dkdbg.setup.render import manifest
from dkdbg.targets.docker.host import HostFacts, choose_processes
from tests.checkout import checkout, run_dkdbg
from tests.commands import command, executable

SERVICE = {"name": "app-debug", "compose_file": "compose.yaml", "port": 5678, "gpu": True}


def chosen(root, documented, *, gpu="none", needs_gpu=False, gpus=0, cores=2):
    """DKDBG_PROCESSES as a start sets it, and the lines that are said."""
    service = DebugService(
        **SERVICE, host_network=False, token="none", processes=documented, needs_gpu=needs_gpu
    )
    host = HostFacts(version="1", gpu="none", gpu_source="", gpus=gpus, cores=cores)
    said: list[str] = []
    return choose_processes(root, service, gpu, host, report=said.append).get("DKDBG_PROCESSES"), " ".join(
        said
    )


@pytest.mark.parametrize(
    ("machine", "count", "said"),
    [
        ({"gpu": "nvidia", "gpus": 4}, "4", "as documented"),
        ({"gpu": "nvidia", "gpus": 2}, "2", "has 4, and this machine has 2 GPUs"),
        ({"gpu": "amd", "gpus": 8}, "4", "as documented"),
        ({"cores": 16}, "4", "as documented"),
        ({"cores": 2}, "2", "has 4, and this machine has no GPU and 2 cores"),
        ({"cores": 16, "needs_gpu": True}, "1", "has 4, and this machine has no GPU)"),
    ],
)
def test_as_many_processes_as_documented_start_where_possible(tmp_path, machine, count, said):
    found, text = chosen(tmp_path, 4, **machine)
    assert found == count
    assert said in text


def test_the_number_of_a_person_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("DKDBG_PROCESSES", "3")
    assert chosen(tmp_path, 4, cores=16) == (None, "")
    monkeypatch.delenv("DKDBG_PROCESSES")
    (tmp_path / ".env").write_text("DKDBG_PROCESSES=2\n")
    assert chosen(tmp_path, 4, cores=16) == (None, "")
    assert chosen(tmp_path, 0, cores=16) == (None, "")


def test_what_f5_runs_chooses_the_number_as_dkdbg_up_does(tmp_path):
    """STAND-INS for docker and nvidia-smi; the script is the one that init wrote."""
    line = "    torchrun --nproc_per_node=4 train.py\n"
    train = "import torch\nprint(torch.cuda.is_available())\n"
    root = checkout(tmp_path / "spread", {"train.py": train, "README.md": line})
    made = run_dkdbg(root, "init", "--yes")
    assert made.returncode == 0, made.stderr
    service = manifest.debug_service(root)
    assert service.processes == 4
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {
        "docker": 'case "$*" in *NCPU*) echo 3 ;; *" up "*) echo "started with ${DKDBG_PROCESSES:-}"; exit 7 ;; esac',
        "nvidia-smi": "echo 'GPU 0: a'; echo 'GPU 1: b'",
    }.items():
        executable(tools / name, text)
    path = f"{tools}:{os.environ['PATH']}"
    for said, count in (({}, "3"), ({"DKDBG_GPU": "nvidia"}, "2"), ({"DKDBG_PROCESSES": "6"}, "6")):
        done = command(["sh", ".dkdbg/up.sh"], root, env={"PATH": path, **said}, check=False)
        assert f"started with {count}\n" in done.stdout, done.stdout + done.stderr
