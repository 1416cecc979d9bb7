"""Detect which torch a repository requires, for which CUDA, and the file that says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from dkdbg.core.facts import TorchFact
from dkdbg.setup.detect import torch_matrix
from dkdbg.setup.detect.docker.images import read_image

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.setup.detect.python.requirements import DependencyFile, Wanted

_INSTALL = re.compile(
    r"(?:^|[\s;&|`$(])(?:pip3?|pip|conda|mamba|micromamba|uv add)(?:\s+install|\s+pip install)?\s([^\n;&|]{0,1500}?(?<![\w./-])"
    r"(?:pytorch|torch)(?![\w-])[^\n;&|]*)"
)
_PIN = re.compile(
    r"(?<![\w./-])(?:pytorch|torch)\s*(={1,2}|~=|>=|<=|<)\s*[\"']?(\d+(?:\.\d+)*(?:\.\*)?)(?:\+cu(\d{2})(\d))?"
)
#: A wheel's file, as in `.../whl/cu100/torch-1.1.0-cp36-cp36m-linux_x86_64.whl`.
_WHEEL_FILE = re.compile(r"(?<![\w.-])torch-(\d+\.\d+(?:\.\d+)?)[^\s/]{0,60}?-cp\d+[^\s/]{0,80}?\.whl")
_WHEEL_INDEX = re.compile(r"whl/(?:nightly/|test/)?cu(\d{2,3})(?!\d)|/cu(\d{2,3})/torch")
_CUDA_PACKAGE = re.compile(
    r"(?:pytorch-cuda|cudatoolkit|cuda-version|cuda-toolkit)\s*=+\s*(\d+\.\d+)|cuda-(?:nvcc|toolkit|runtime)-(\d+)-(\d+)"
)
#: Commands that install the versions of a lock file during a build.
_BY_LOCK = re.compile(r"\b(?:poetry|pdm|uv) (?:[\w-]+ )?(?:install|sync)\b")
_CPU_NAME = re.compile(r"(?:^|[._-])cpu(?:[-_]only)?(?:[._-]|$)", re.IGNORECASE)
_LOCAL_CUDA = re.compile(r"\+cu(\d{2})(\d)")


#: Optional dependency groups for developers of the project.
_SIDE_GROUP = re.compile(r"\[(?:dev|test|tests|testing|docs?|lint|ci|all)\]$")
_BRINGS = re.compile(
    r"\binstall\w*\s+\[?PyTorch[\s`*]{1,4}v?(\d+\.\d+(?:\.\d+)?)(?!\.?\d)(?!\S*\s*(?:\+|or (?:later|newer|higher|above)))",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class TextEvidence:
    """A text with possible install lines, and where it is from."""

    text: str
    source: str


@dataclass(frozen=True, kw_only=True)
class _Pin:
    version: str | None
    spec: str
    cuda: str | None
    source: str


def read_torch(
    *,
    files: Iterable[DependencyFile],
    base: str | None,
    base_source: str,
    build: TextEvidence,
    documents: Iterable[TextEvidence],
    is_used: bool,
    python: int | None,
) -> TorchFact | None:
    """Return the torch that the repository requires; None if it does not use torch.

    Args:
        files: dependency files, the strongest evidence first: lock files, other installed files, the rest.
        base: base image of the service or Dockerfile; None if unknown.
        base_source: name of the file that names this image.
        build: RUN lines of that Dockerfile.
        documents: READMEs and similar, in order.
        is_used: whether code imports torch or a library built on it.
        python: minor version of the chosen Python, which limits the versions that an unpinned install gets.
    """
    pins = [pin for file in files for pin in _file_pins(file)]
    pins.sort(key=lambda pin: bool(_SIDE_GROUP.search(pin.source)))
    image = read_image(base or "")
    build_pins = _text_pins(build)
    document_pins = [pin for document in documents for pin in _text_pins(document)]
    exact = next((pin for pin in pins if pin.version), None)
    if exact is not None and _SIDE_GROUP.search(exact.source) and not _SIDE_GROUP.search(pins[0].source):
        # A pin in a group for developers is only one of the versions that the project allows.
        exact = None
    build_exact = next((pin for pin in build_pins if pin.version), None)
    document_exact = next((pin for pin in document_pins if pin.version), None)
    ranged = next((pin for pin in pins if pin.spec), None)
    if (
        exact is not None
        and build_exact is not None
        and exact.source.endswith(".lock")
        and _BY_LOCK.search(build.text)
    ):
        exact = None  # a RUN line replaces the locked version
    version, source = None, ""
    if exact is not None:
        version, source = exact.version, exact.source
    elif build_exact is not None:
        version, source = build_exact.version, build_exact.source
    elif image.torch is not None:
        # This torch is built for the CUDA of its image, whichever CUDA the public wheels have.
        return TorchFact(version=image.torch, cuda=image.cuda, source=f"{base_source}: FROM {base}")
    elif document_exact is not None and (ranged is None or _fits(document_exact.version, ranged.spec)):
        version, source = document_exact.version, document_exact.source
    everything = [*pins, *build_pins, *document_pins]
    if version is None and not everything and not is_used:
        return None
    cuda, cuda_source = _cuda(
        [*([exact] if exact else []), *pins, *build_pins], document_pins, image.cuda, version
    )
    spec = _specifiers(ranged.spec if ranged else "")
    if version is None and ranged is not None and spec is not None and _is_bounded(ranged.spec, cuda):
        release = torch_matrix.newest(spec, cuda=cuda)
        if release is None and not _is_old(cuda):
            release = torch_matrix.newest(spec)
        version, source = (release.latest if release else None), ranged.source
    if cuda is None:
        release = torch_matrix.release_of(version) if version else torch_matrix.newest(spec, python=python)
        cuda = release.default if release else None
    source = source or cuda_source or (everything[0].source if everything else "imports")
    return TorchFact(version=version, cuda=cuda, source=source)


def _cuda(
    pins: list[_Pin], documents: list[_Pin], image: str | None, version: str | None
) -> tuple[str | None, str]:
    """Return the CUDA of a pin, else of the base image, else of a document, and its source; None if none is known."""
    stated = next((pin for pin in pins if pin.cuda), None)
    if stated is not None:
        return stated.cuda, stated.source
    if image is not None and (version is None or _has_wheel(version, image)):
        return image, ""
    for pin in documents:
        agrees = version is None or pin.version is None or _minor(pin.version) == _minor(version)
        if pin.cuda and agrees and (version is None or _has_wheel(version, pin.cuda)):
            return pin.cuda, pin.source
    return None, ""


def _has_wheel(version: str, cuda: str) -> bool:
    release = torch_matrix.release_of(version)
    return release is None or cuda in release.cuda


def _is_bounded(spec: str, cuda: str | None) -> bool:
    """Return whether a range excludes the newest release, by its bound or by a CUDA that newer releases lack."""
    newest = torch_matrix.RELEASES[-1]
    parsed = _specifiers(spec)
    return _is_old(cuda) or (parsed is not None and not parsed.contains(newest.latest))


def _is_old(cuda: str | None) -> bool:
    """Return whether the newest releases lack this CUDA."""
    return cuda is not None and not any(cuda in release.cuda for release in torch_matrix.RELEASES[-4:])


def _file_pins(file: DependencyFile) -> Iterable[_Pin]:
    wheel = next((cuda for url in file.indexes if (cuda := wheel_cuda(url))), None)
    conda_cuda = _conda_cuda(file)
    # A lock file with variants has 2.9.1+cpu and 2.9.1+cu128: prefer the one for a GPU.
    wanted = sorted(
        (item for item in file.wanted if item.name == "torch"), key=lambda item: "+cu" not in item.spec
    )
    if file.kind == "lock":
        wheel = wheel or next((_local(item.spec) for item in file.wanted if _local(item.spec)), None)
        wheel = wheel or _nvidia_cuda(file.wanted)
    for item in wanted:
        cuda = _local(item.spec) or conda_cuda or _build_cuda(item) or wheel
        yield _Pin(
            version=_exact(item.spec), spec=re.sub(r"\+[\w.]+", "", item.spec), cuda=cuda, source=item.source
        )
    if not wanted and (conda_cuda or wheel):
        yield _Pin(version=None, spec="", cuda=conda_cuda or wheel, source=file.path)


def _text_pins(evidence: TextEvidence) -> list[_Pin]:
    """Return the torch pins in install lines, such as `pip install torch==2.6.0 --index-url .../cu124`.

    For conda: `conda install pytorch=1.13 pytorch-cuda=11.7`.
    """
    text = re.sub(r"\\\s*\n", " ", evidence.text)
    found: list[_Pin] = []
    for match in _INSTALL.finditer(text):
        line = match[1]
        pin = _PIN.search(line)
        cuda = wheel_cuda(line)
        if package := _CUDA_PACKAGE.search(line):
            cuda = package[1] or f"{package[2]}.{package[3]}"
        if pin and pin[3]:
            cuda = f"{pin[3]}.{pin[4]}"
        exact = pin is not None and pin[1] in {"=", "=="} and "*" not in pin[2]
        spec = f"{'==' if pin[1] == '=' else pin[1]}{pin[2]}" if pin else ""
        found.append(
            _Pin(version=pin[2] if pin and exact else None, spec=spec, cuda=cuda, source=evidence.source)
        )
    for match in _WHEEL_FILE.finditer(text):
        cuda = wheel_cuda(text[: match.end()].split()[-1])
        found.append(_Pin(version=match[1], spec=f"=={match[1]}", cuda=cuda, source=evidence.source))
    if not found and (brought := _BRINGS.search(text)):
        # "This will also install PyTorch v2.6.0" in a README: the package that it installs depends on torch.
        found.append(_Pin(version=brought[1], spec="", cuda=None, source=evidence.source))
    return found


def wheel_cuda(text: str) -> str | None:
    """Return `12.4` for a wheel or index such as `https://download.pytorch.org/whl/cu124`; None without a CUDA."""
    match = _WHEEL_INDEX.search(text) or re.search(r"cu(\d{3})(?=/|$|-)", text)
    digits = next((group for group in match.groups() if group), None) if match else None
    if digits is None:
        return None
    return f"{digits[:2]}.{digits[2:]}" if len(digits) == 3 else f"{digits[0]}.{digits[1]}"


def _conda_cuda(file: DependencyFile) -> str | None:
    if file.kind not in {"conda", "pyproject", "pixi"}:
        return None
    for item in file.wanted:
        if item.name in {"pytorch-cuda", "cudatoolkit", "cuda-version", "cuda-toolkit", "cuda"} and (
            match := re.search(r"(\d+\.\d+)", item.spec)
        ):
            return match[1]
    return None


def _build_cuda(item: Wanted) -> str | None:
    return item.url.removeprefix("cuda:") if item.url and item.url.startswith("cuda:") else None


def _nvidia_cuda(wanted: Iterable[Wanted]) -> str | None:
    """Return the CUDA release of NVIDIA's runtime package among `wanted`; torch's default wheels depend on it."""
    for item in wanted:
        if re.fullmatch(r"nvidia-cuda-runtime(?:-cu1\d)?", item.name) and (
            match := re.search(r"==(\d+\.\d+)", item.spec)
        ):
            return match[1]
    return None


def _exact(spec: str) -> str | None:
    match = re.fullmatch(r"={2,3}\s*(\d+(?:\.\d+)*)(?:\+[\w.]+)?", spec)
    return match[1] if match else None


def _local(spec: str) -> str | None:
    match = _LOCAL_CUDA.search(spec)
    return f"{match[1]}.{match[2]}" if match else None


def _specifiers(spec: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(spec) if spec else None
    except InvalidSpecifier:
        return None


def _fits(version: str | None, spec: str) -> bool:
    parsed = _specifiers(spec)
    return version is None or parsed is None or parsed.contains(version)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def is_for_cpu(path: str, text: str) -> bool:
    """Return whether a requirements file is for machines without a GPU, by its name, torch version or index."""
    name = path.rsplit("/", 1)[-1]
    return bool(
        _CPU_NAME.search(name) or re.search(r"^[ \t]*torch\s*={2,3}\s*[\d.]+\+cpu\b", text, re.MULTILINE)
    ) or ("/whl/cpu" in text and not re.search(r"/whl/cu\d", text))


def torch_index(
    files: Iterable[DependencyFile], build: TextEvidence, documents: Iterable[str], fact: TorchFact | None
) -> str | None:
    """Return the PyTorch wheel index that the repository uses for the CUDA of `fact`; None if it uses none."""
    if fact is None or fact.cuda is None:
        return None
    urls = [url for file in files for url in file.indexes]
    for text in (build.text, *documents):
        urls.extend(re.findall(r"https://download\.pytorch\.org/whl/\w+", text))
    return next((url for url in urls if "pytorch.org" in url and wheel_cuda(url) == fact.cuda), None)
