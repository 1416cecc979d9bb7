"""The Python and CUDA versions of each torch release's wheels, and the CUDA of the wheel on the default index.

Sources: PyTorch's RELEASE.md compatibility matrix and the metadata of the wheels (torch 2.0 and later), and the page
"Previous versions" of pytorch.org (1.x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


@dataclass(frozen=True, kw_only=True)
class TorchRelease:
    """A minor release of torch, such as 2.9.

    Attributes:
        torch: the release, such as `2.9`.
        latest: its last patch release.
        python: lowest and highest Python minor version (10 for 3.10).
        cuda: CUDA versions of its Linux wheels.
        default: CUDA version of the wheel on the default index.
    """

    torch: str
    latest: str
    python: tuple[int, int]
    cuda: tuple[str, ...]
    default: str


def _release(torch: str, latest: str, python: tuple[int, int], cuda: str, default: str) -> TorchRelease:
    return TorchRelease(torch=torch, latest=latest, python=python, cuda=tuple(cuda.split()), default=default)


#: All known releases, oldest first.
RELEASES = (
    _release("0.4", "0.4.1", (5, 7), "8.0 9.0 9.1 9.2", "9.0"),
    _release("1.0", "1.0.1", (5, 7), "8.0 9.0 10.0", "9.0"),
    _release("1.1", "1.1.0", (5, 7), "9.0 10.0", "9.0"),
    _release("1.2", "1.2.0", (5, 7), "9.2 10.0", "10.0"),
    _release("1.3", "1.3.1", (5, 7), "9.2 10.0 10.1", "10.1"),
    _release("1.4", "1.4.0", (5, 8), "9.2 10.0 10.1", "10.1"),
    _release("1.5", "1.5.1", (5, 8), "9.2 10.1 10.2", "10.2"),
    _release("1.6", "1.6.0", (6, 8), "9.2 10.1 10.2", "10.2"),
    _release("1.7", "1.7.1", (6, 9), "9.2 10.1 10.2 11.0", "10.2"),
    _release("1.8", "1.8.1", (6, 9), "10.1 10.2 11.1", "10.2"),
    _release("1.9", "1.9.1", (6, 9), "10.2 11.1", "10.2"),
    _release("1.10", "1.10.2", (6, 9), "10.2 11.1 11.3", "10.2"),
    _release("1.11", "1.11.0", (7, 10), "10.2 11.3 11.5", "10.2"),
    _release("1.12", "1.12.1", (7, 10), "10.2 11.3 11.6", "10.2"),
    _release("1.13", "1.13.1", (7, 11), "11.6 11.7", "11.7"),
    _release("2.0", "2.0.1", (8, 11), "11.7 11.8", "11.7"),
    _release("2.1", "2.1.2", (8, 11), "11.8 12.1", "12.1"),
    _release("2.2", "2.2.2", (8, 12), "11.8 12.1", "12.1"),
    _release("2.3", "2.3.1", (8, 12), "11.8 12.1", "12.1"),
    _release("2.4", "2.4.1", (8, 12), "11.8 12.1 12.4", "12.1"),
    _release("2.5", "2.5.1", (9, 13), "11.8 12.1 12.4", "12.4"),
    _release("2.6", "2.6.0", (9, 13), "11.8 12.4 12.6", "12.4"),
    _release("2.7", "2.7.1", (9, 13), "11.8 12.6 12.8", "12.6"),
    _release("2.8", "2.8.0", (9, 13), "12.6 12.8 12.9", "12.8"),
    _release("2.9", "2.9.1", (10, 14), "12.6 12.8 13.0", "12.8"),
    _release("2.10", "2.10.0", (10, 14), "12.6 12.8 13.0", "12.8"),
    _release("2.11", "2.11.0", (10, 14), "12.6 12.8 12.9 13.0", "13.0"),
    _release("2.12", "2.12.0", (10, 14), "12.6 13.0 13.2", "13.0"),
    _release("2.13", "2.13.0", (10, 15), "12.6 13.0 13.2", "13.0"),
    _release("2.14", "2.14.0", (10, 15), "12.6 13.0 13.2", "13.0"),
    _release("2.15", "2.15.0", (11, 15), "13.0 13.2", "13.2"),
)


def release_of(version: str) -> TorchRelease | None:
    """Return the release of a torch version such as `2.9.1+cu128` or `2.9`; None if unknown."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    minor = f"{parsed.major}.{parsed.minor}"
    return next((release for release in RELEASES if release.torch == minor), None)


def newest(
    spec: SpecifierSet | None = None, *, cuda: str | None = None, python: int | None = None
) -> TorchRelease | None:
    """Return the newest release that fits the given limits: specifier, CUDA version, Python minor version."""
    for release in reversed(RELEASES):
        fits_spec = spec is None or any(
            spec.contains(text) for text in (release.latest, f"{release.torch}.0")
        )
        fits_cuda = cuda is None or cuda in release.cuda
        fits_python = python is None or release.python[0] <= python <= release.python[1]
        if fits_spec and fits_cuda and fits_python:
            return release
    return None
