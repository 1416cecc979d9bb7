"""List Debian packages that Python distributions need besides their wheels, at run time and for a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.setup.detect.python.requirements import Wanted

#: Distribution -> Debian packages at run time (names of bookworm; trixie and Ubuntu 24.04 have them as aliases).
_RUN = {
    "opencv-python": ("libgl1", "libglib2.0-0"),
    "opencv-contrib-python": ("libgl1", "libglib2.0-0"),
    "open3d": ("libgl1", "libgomp1", "libx11-6"),
    "mediapipe": ("libgl1", "libglib2.0-0"),
    "easyocr": ("libgl1", "libglib2.0-0"),
    "ultralytics": ("libgl1", "libglib2.0-0"),
    "insightface": ("libgl1", "libglib2.0-0"),
    "soundfile": ("libsndfile1",),
    "pysoundfile": ("libsndfile1",),
    "librosa": ("libsndfile1", "ffmpeg"),
    "pyaudio": ("libportaudio2",),
    "sounddevice": ("libportaudio2",),
    "pydub": ("ffmpeg",),
    "ffmpeg-python": ("ffmpeg",),
    "openai-whisper": ("ffmpeg",),
    "moviepy": ("ffmpeg",),
    "graphviz": ("graphviz",),
    "pygraphviz": ("graphviz",),
    "pydot": ("graphviz",),
    "pytesseract": ("tesseract-ocr",),
    "pdf2image": ("poppler-utils",),
    "mpi4py": ("openmpi-bin",),
    "psycopg2": ("libpq5",),
    "mujoco-py": ("libosmesa6", "libglfw3", "patchelf"),
    "mujoco": ("libgl1", "libegl1", "libosmesa6"),
    "dm-control": ("libgl1", "libegl1", "libosmesa6"),
    "pyrender": ("libgl1", "libegl1", "libosmesa6"),
    "pyopengl": ("libgl1",),
    "glfw": ("libglfw3",),
    "vtk": ("libgl1", "libxrender1"),
    "pyvista": ("libgl1", "libxrender1"),
    "pygame": ("libgl1", "libglib2.0-0"),
    "weasyprint": ("libpango-1.0-0", "libpangoft2-1.0-0"),
    "tk": ("python3-tk",),
    "lightgbm": ("libgomp1",),
    "pyzbar": ("libzbar0",),
    "python-magic": ("libmagic1",),
    "selenium": ("chromium",),
    "phonemizer": ("espeak-ng",),
    "pycairo": ("libcairo2",),
    "cairosvg": ("libcairo2",),
    "wand": ("libmagickwand-6.q16-6",),
}
#: Shared library, as the loader names it but without version -> Debian package (names of bookworm).
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
_COMPILER = ("build-essential",)
#: Distribution without Linux wheels -> Debian packages for its build.
_BUILD = {
    "mpi4py": ("build-essential", "libopenmpi-dev"),
    "psycopg2": ("build-essential", "libpq-dev"),
    "mysqlclient": ("build-essential", "default-libmysqlclient-dev", "pkg-config"),
    "pygraphviz": ("build-essential", "libgraphviz-dev"),
    "pyaudio": ("build-essential", "portaudio19-dev"),
    "pycairo": ("build-essential", "libcairo2-dev", "pkg-config"),
    "python-ldap": ("build-essential", "libldap2-dev", "libsasl2-dev"),
    "mujoco-py": ("build-essential", "libosmesa6-dev"),
    "flash-attn": ("build-essential", "git", "ninja-build"),
    "apex": ("build-essential", "git", "ninja-build"),
    "pycocotools": _COMPILER,
    "insightface": _COMPILER,
    "cython-bbox": _COMPILER,
    "detectron2": ("build-essential", "git"),
    "fairseq": ("build-essential", "git"),
    "deepspeed": ("build-essential", "ninja-build"),
    "llama-cpp-python": ("build-essential", "cmake"),
    "dlib": ("build-essential", "cmake"),
    "box2d-py": ("build-essential", "swig"),
    "hnswlib": _COMPILER,
    "annoy": _COMPILER,
    "pyopenjtalk": ("build-essential", "cmake"),
    "webrtcvad": _COMPILER,
    "triton": _COMPILER,
}


def package_of_library(library: str) -> str:
    """Return the Debian package of a shared library, such as `libGL.so.1`; empty if unknown."""
    return _LIBRARIES.get(library.partition(".so")[0] + ".so", "")


def system_packages(
    wanted: Iterable[Wanted], names: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return Debian packages for run time and for the build, each sorted.

    Args:
        wanted: requirements of the installed files.
        names: further distribution names, from README lines and imports.
    """
    items = list(wanted)
    known = {item.name for item in items} | set(names)
    run = {package for name in known for package in _RUN.get(name, ())}
    build = {package for name in known for package in _BUILD.get(name, ())}
    if any((item.url or "").startswith("git+") for item in items):
        build.add("git")
    return tuple(sorted(run)), tuple(sorted(build))
