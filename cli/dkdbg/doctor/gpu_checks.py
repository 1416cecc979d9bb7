"""Checks of the chain from a GPU to the program: driver, nvidia-smi, container toolkit, CDI, CUDA of image, torch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.doctor.check import error, note, warning
from dkdbg.doctor.engine_checks import first_line, running
from dkdbg.setup.detect.docker.compose_service import wants_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Engine, Situation

#: Major CUDA version of a driver -> the index of pytorch.org that has the newest wheels for it.
#: A driver runs each CUDA of its own major version (NVIDIA's minor version compatibility).
_WHEELS = {11: "cu118", 12: "cu126", 13: "cu130"}
_HIDDEN = frozenset({"", "-1", "NoDevFiles"})
_GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
_REFUSED = 'could not select device driver "nvidia" with capabilities: [[gpu]]'


@warning(
    "gpu-driver",
    "an NVIDIA GPU is on the PCI bus, but its driver is not loaded",
    "sudo ubuntu-drivers install (other systems: NVIDIA's driver package), reboot; then nvidia-smi lists the GPU",
)
def _no_driver(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if machine.has_nvidia and not machine.driver and not machine.smi:
        yield {}


@error(
    "gpu-driver",
    "nvidia-smi fails: {output}",
    "sudo reboot if the driver was updated; sudo dmesg | grep -i nvrm shows another cause",
)
def _broken_driver(situation: Situation) -> Iterator[Values]:
    if situation.machine.smi:
        yield {"output": situation.machine.smi}


@warning(
    "gpu-hidden",
    "CUDA_VISIBLE_DEVICES is {value}, which hides every GPU",
    "unset CUDA_VISIBLE_DEVICES",
)
def _hidden(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if machine.driver and machine.visible is not None and machine.visible.strip() in _HIDDEN:
        yield {"value": repr(machine.visible)}


@error(
    "gpu-cuda",
    "{what} needs CUDA {wanted}, but driver {driver} supports at most CUDA {cuda}: torch.cuda.is_available() is False",
    "pip install torch --index-url https://download.pytorch.org/whl/{wheels}, or a newer driver",
)
def _cuda(situation: Situation) -> Iterator[Values]:
    machine, required = situation.machine, situation.repository.torch_cuda
    has = _major(machine.cuda)
    wanted = [(machine.torch_cuda, f"torch {machine.torch}")] if not situation.is_local else []
    if required is not None:
        wanted.append((required[0], f"the torch of this repository ({required[1]})"))
    for version, what in wanted:
        if has and _major(version) > has:
            yield {
                "what": what, "wanted": version, "driver": machine.driver, "cuda": machine.cuda,
                "wheels": _WHEELS.get(has, "cpu"),
            }  # fmt: skip


def _major(version: str) -> int:
    found = re.match(r"[0-9]{1,9}", version)
    return int(found[0]) if found else 0


@note(
    "gpu-device",
    "torch {torch} is built for CUDA {cuda}, and there is no GPU: it runs on the CPU",
    "ask for one at the start: docker run --gpus all, --gres=gpu:1, limits: {{nvidia.com/gpu: 1}}",
)
def _no_device(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if not situation.is_local and machine.torch_cuda and not machine.has_device and not machine.driver:
        yield {"torch": machine.torch, "cuda": machine.torch_cuda}


@warning(
    "gpu-toolkit",
    "driver {driver} works, but engine {version} gives containers no GPU: no nvidia runtime and no CDI specification",
    "{command}",
)
def _toolkit(situation: Situation) -> Iterator[Values]:
    machine, engine, service = situation.machine, _without_gpu(situation), situation.repository.service
    if engine is None or not engine.is_local or not machine.driver:
        return
    install = "" if "nvidia-ctk" in machine.programs else "sudo apt-get install nvidia-container-toolkit && "
    configure = (
        _GENERATE
        if engine.is_podman
        else "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
    )
    yield {
        "driver": machine.driver, "version": engine.version, "command": install + configure,
        "severity": "error" if service is not None and service.gpu else "warning",
    }  # fmt: skip


def _without_gpu(situation: Situation) -> Engine | None:
    """Return the engine if it answers, but gives containers no GPU; otherwise None."""
    engine = running(situation)
    return engine if engine is not None and engine.gpu == "none" else None


@error(
    "gpu-cdi",
    "the CDI specification is for driver {made}, but driver {driver} is loaded: containers miss its libraries",
    _GENERATE,
)
def _stale_cdi(situation: Situation) -> Iterator[Values]:
    engine, driver = situation.engine, situation.machine.driver
    if engine is not None and engine.cdi_driver and driver and engine.cdi_driver != driver:
        yield {"made": engine.cdi_driver, "driver": driver}


@warning(
    "gpu-runtime",
    "the engine has a {kind}, but this machine has no working driver: a service with a GPU will not start",
    "DKDBG_GPU=none dkdbg up",
)
def _runtime_alone(situation: Situation) -> Iterator[Values]:
    machine, engine = situation.machine, situation.engine
    # A missing driver has its own check.
    if engine is not None and engine.is_local and engine.gpu in {"nvidia", "cdi"} and not machine.has_gpu:
        yield {"kind": "nvidia runtime" if engine.gpu == "nvidia" else "CDI specification"}


@warning(
    "gpu-needed",
    "the program of {service} stops without a GPU, and this engine has none",
    "dkdbg --context GPU-BOX up; docker context ls lists the engines",
)
def _needed(situation: Situation) -> Iterator[Values]:
    service = situation.repository.service
    if service is not None and service.needs_gpu and _without_gpu(situation) is not None:
        yield {"service": service.name}


@error("gpu-request", "{service}: {message}")
def _refused(situation: Situation) -> Iterator[Values]:
    if _without_gpu(situation) is None:
        return
    for name, body in situation.repository.started().items():
        if wants_gpu(body):
            yield {"service": name, **first_line(_REFUSED)}
