"""List the Debian packages that Python distributions need, at run time and to be built."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.setup.detect.python.requirements import Wanted

#: Debian packages at run time (names in bookworm, aliases in trixie and Ubuntu 24.04) -> distributions.
_RUN = {
    "libgl1 libglib2.0-0": "opencv-python opencv-contrib-python mediapipe easyocr ultralytics insightface pygame",
    "libgl1 libgomp1 libx11-6": "open3d",
    "libsndfile1": "soundfile pysoundfile",
    "libsndfile1 ffmpeg": "librosa",
    "libportaudio2": "pyaudio sounddevice",
    "ffmpeg": "pydub ffmpeg-python openai-whisper moviepy",
    "graphviz": "graphviz pygraphviz pydot",
    "tesseract-ocr": "pytesseract",
    "poppler-utils": "pdf2image",
    "openmpi-bin": "mpi4py",
    "libpq5": "psycopg2",
    "libosmesa6 libglfw3 patchelf": "mujoco-py",
    "libgl1 libegl1 libosmesa6": "mujoco dm-control pyrender",
    "libgl1": "pyopengl",
    "libglfw3": "glfw",
    "libgl1 libxrender1": "vtk pyvista",
    "libpango-1.0-0 libpangoft2-1.0-0": "weasyprint",
    "python3-tk": "tk",
    "libgomp1": "lightgbm",
    "libzbar0": "pyzbar",
    "libmagic1": "python-magic",
    "chromium": "selenium",
    "espeak-ng": "phonemizer",
    "libcairo2": "pycairo cairosvg",
    "libmagickwand-6.q16-6": "wand",
}
#: Name of a shared library without version -> Debian package (names in bookworm).
_LIBRARIES = {
    "libGL.so": "libgl1", "libEGL.so": "libegl1", "libgthread-2.0.so": "libglib2.0-0", "libglib-2.0.so": "libglib2.0-0",
    "libSM.so": "libsm6", "libXext.so": "libxext6", "libXrender.so": "libxrender1", "libX11.so": "libx11-6", "libICE.so": "libice6",
    "libxcb.so": "libxcb1", "libgomp.so": "libgomp1", "libsndfile.so": "libsndfile1", "libportaudio.so": "libportaudio2",
    "libpq.so": "libpq5", "libmagic.so": "libmagic1", "libzbar.so": "libzbar0", "libcairo.so": "libcairo2",
    "libpango-1.0.so": "libpango-1.0-0", "libOSMesa.so": "libosmesa6", "libglfw.so": "libglfw3", "libusb-1.0.so": "libusb-1.0-0",
    "libmpi.so": "libopenmpi3", "libstdc++.so": "libstdc++6", "libgfortran.so": "libgfortran5", "libopenblas.so": "libopenblas0",
    "libxml2.so": "libxml2", "libssl.so": "libssl3", "libnuma.so": "libnuma1", "libibverbs.so": "libibverbs1",
    "libtcmalloc.so": "libgoogle-perftools4", "libjemalloc.so": "libjemalloc2", "libaio.so": "libaio1", "libmysqlclient.so": "libmysqlclient21",
    "libmariadb.so": "libmariadb3", "libgdal.so": "libgdal32", "libgeos_c.so": "libgeos-c1v5", "libhdf5.so": "libhdf5-103-1",
}  # fmt: skip
#: Debian packages, besides the compiler, to build distributions without Linux wheels -> distributions.
_BUILD = {
    "libopenmpi-dev": "mpi4py",
    "libpq-dev": "psycopg2",
    "default-libmysqlclient-dev pkg-config": "mysqlclient",
    "libgraphviz-dev": "pygraphviz",
    "portaudio19-dev": "pyaudio",
    "libcairo2-dev pkg-config": "pycairo",
    "libldap2-dev libsasl2-dev": "python-ldap",
    "libosmesa6-dev": "mujoco-py",
    "git ninja-build": "flash-attn apex",
    "": "pycocotools insightface cython-bbox hnswlib annoy webrtcvad triton",
    "git": "detectron2 fairseq",
    "ninja-build": "deepspeed",
    "cmake": "llama-cpp-python dlib pyopenjtalk",
    "swig": "box2d-py",
}


def package_of_library(library: str) -> str:
    """Return the Debian package with a shared library such as `libGL.so.1`; empty if unknown."""
    return _LIBRARIES.get(library.partition(".so")[0] + ".so", "")


def system_packages(
    wanted: Iterable[Wanted], names: Iterable[str], *, compiles: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the Debian packages for run time, and those for the build; each sorted.

    Args:
        wanted: requirements of the installed files.
        names: further distribution names, from README lines and imports.
        compiles: whether the repository has extension modules of its own.
    """
    items = list(wanted)
    known = {item.name for item in items} | set(names)
    run, build = _needed(_RUN, known), _needed(_BUILD, known)
    if compiles or not known.isdisjoint(" ".join(_BUILD.values()).split()):
        build.add("build-essential")
    if any((item.url or "").startswith("git+") for item in items):
        build.add("git")
    return tuple(sorted(run)), tuple(sorted(build))


def _needed(packages: Mapping[str, str], known: set[str]) -> set[str]:
    named = (debian for debian, names in packages.items() if not known.isdisjoint(names.split()))
    return {package for debian in named for package in debian.split()}
