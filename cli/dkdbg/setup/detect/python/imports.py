"""Map the third-party imports of a repository to distributions."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from dkdbg.setup.detect.files import is_vendored, parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dkdbg.setup.detect.files import Tree

#: Module -> distribution, if the names differ.
_DISTRIBUTIONS = {
    "cv2": "opencv-python", "PIL": "pillow", "yaml": "pyyaml", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "bs4": "beautifulsoup4", "dotenv": "python-dotenv", "dateutil": "python-dateutil", "attr": "attrs", "OpenGL": "pyopengl",
    "Crypto": "pycryptodome", "serial": "pyserial", "git": "gitpython", "usb": "pyusb", "fitz": "pymupdf", "docx": "python-docx",
    "pptx": "python-pptx", "magic": "python-magic", "jwt": "pyjwt", "google.protobuf": "protobuf", "pytorch_lightning": "pytorch-lightning",
    "hydra": "hydra-core", "clip": "openai-clip", "whisper": "openai-whisper", "umap": "umap-learn", "Levenshtein": "levenshtein",
    "faiss": "faiss-cpu", "zmq": "pyzmq", "MySQLdb": "mysqlclient", "psycopg2": "psycopg2-binary", "sentence_transformers": "sentence-transformers",
    "open_clip": "open-clip-torch", "segment_anything": "segment-anything", "gym": "gym", "mpl_toolkits": "matplotlib", "pylab": "matplotlib",
    "tensorflow_datasets": "tensorflow-datasets", "tensorflow_hub": "tensorflow-hub", "jose": "python-jose", "multipart": "python-multipart",
    "socks": "pysocks", "telegram": "python-telegram-bot", "discord": "discord-py", "ruamel": "ruamel-yaml", "IPython": "ipython",
    "lpips": "lpips", "pycocotools": "pycocotools", "torch_geometric": "torch-geometric", "torch_scatter": "torch-scatter",
    "pkg_resources": "setuptools", "community": "python-louvain", "wx": "wxpython", "gi": "pygobject", "soundfile": "soundfile",
}  # fmt: skip
#: Modules that exist only in special images, editors or hosted notebooks.
_NOT_ON_PYPI = {
    "rospy",
    "rclpy",
    "google",
    "bpy",
    "maya",
    "caffe",
    "builtins",
    "setuptools",
    "pkg_resources",
    "tkinter",
    "_typeshed",
}
_IMPORT = re.compile(
    r"^[ \t]*(?:import[ \t]+([A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*)|from[ \t]+([A-Za-z_][\w.]*)[ \t]+import)",
    re.MULTILINE,
)
#: A `try` block, up to an `except` after which the program continues.
_SURVIVED = re.compile(
    r"^([ \t]{0,16})try:[^\n]*\n(?:\1[ \t]+\S[^\n]*\n|[ \t]*\n)+?(?=\1except\b[^\n]*:(?!\s*(?:raise|(?:sys\.)?exit)\b))",
    re.MULTILINE,
)
#: Distributions that usually come as dependencies of others, above all of torch and transformers.
_COMES_ALONG = {
    "absl-py", "aiohttp", "attrs", "click", "einops", "filelock", "fsspec", "grpcio", "httpx", "huggingface-hub", "jinja2", "joblib",
    "markdown", "networkx", "numpy", "packaging", "pandas", "pillow", "protobuf", "psutil", "pydantic", "python-dateutil", "pyyaml",
    "regex", "requests", "rich", "safetensors", "scipy", "setuptools", "six", "starlette", "sympy", "tensorboard", "tokenizers", "torch",
    "tqdm", "typing-extensions", "urllib3", "omegaconf", "jaxlib", "jax", "ipython",
}  # fmt: skip
#: Modules of Python 2 or of installers, and modules whose distribution has another name.
_OLD_MODULES = {
    "cPickle",
    "urllib2",
    "urlparse",
    "ConfigParser",
    "Queue",
    "StringIO",
    "cStringIO",
    "httplib",
    "pip",
    "pyximport",
    "Cython",
    "distutils",
    "osgeo",
    "skopt",
    "imblearn",
    "prettytable",
    "decord",
}
_MAX_FILES = 600
#: Suffixes of importable files, including compiled ones.
_MODULES = (".py", ".pyx", ".so", ".pyd")
_MAX_NOTEBOOKS = 40


def third_party(tree: Tree, files: tuple[str, ...], *, optional: bool = True) -> tuple[str, ...]:
    """Return the top-level names of third-party modules that Python files import, in order of first use.

    Args:
        optional: whether to include imports whose failure the program catches.
    """
    texts = (tree.text(path) for path in files[:_MAX_FILES] if not is_vendored(path))
    return _third_party(tree, texts if optional else (_SURVIVED.sub("", text) for text in texts))


def imported_at_once(tree: Tree, program: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the top-level names of third-party modules that a program, given as (path, text), imports at module level.

    Imports inside a `try`, an `if` or a `def` do not count, because they may be optional.
    """
    lines = (line for _, text in program for line in text.splitlines())
    return _third_party(tree, (line for line in lines if line[:1] in {"i", "f"}))


def notebook_code(tree: Tree, path: str) -> str:
    """Return the code of a notebook's cells without outputs; empty if the notebook cannot be read."""
    try:
        document: Any = json.loads(tree.text(path))
    except (ValueError, RecursionError):
        # The size limit has probably cut the text: take the lines that look like imports.
        return "\n".join(re.findall(r'^[ \t]*"((?:import|from) [^"\\]+)', tree.text(path), re.MULTILINE))
    cells = document.get("cells") if isinstance(document, dict) else None
    parts: list[str] = []
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", "")
            parts.append("".join(str(line) for line in source) if isinstance(source, list) else str(source))
    return "\n".join(parts)


def notebook_pythons(tree: Tree, notebooks: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return (path, `python 3.N`) of notebooks with pinned installs: the Python on which they last ran.

    The pinned releases have wheels for that Python. Notebooks without pins are ignored.
    """
    found: dict[str, list[str]] = {}
    for path in notebooks[:_MAX_NOTEBOOKS]:
        # The metadata may come before or after the cells.
        text = tree.text(path)
        if not re.search(r"pip3? install\b[^\n]*==", text):
            continue
        for match in re.finditer(r'"version": "(3\.\d{1,2})\.\d+"', text[:4000] + text[-4000:]):
            found.setdefault(match[1], []).append(path)
    return [
        (paths[0], f"python {version}")
        for version, paths in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


def notebook_imports(tree: Tree, notebooks: tuple[str, ...]) -> tuple[str, ...]:
    """Return the top-level names of third-party modules that notebooks import."""
    return _third_party(tree, (notebook_code(tree, path) for path in notebooks[:_MAX_NOTEBOOKS]))


def distributions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the distributions that provide these modules."""
    kept = (name for name in names if name not in _NOT_ON_PYPI)
    return tuple(dict.fromkeys(canonicalize_name(_DISTRIBUTIONS.get(name, name)) for name in kept))


#: Common distributions whose module has the same name.
_SAME_NAME = {
    "accelerate", "albumentations", "ale-py", "anthropic", "bitsandbytes", "boto3", "catboost", "celery", "chex",
    "colorama", "configargparse", "cvxpy", "dask", "datasets", "deepspeed", "dgl", "diffusers", "dill", "django",
    "dm-control", "easydict", "equinox", "evaluate", "fastapi", "fire", "flash-attn", "flask", "flax", "ftfy",
    "gdown", "gensim", "geopandas", "gradio", "gunicorn", "gymnasium", "h5py", "imageio", "insightface", "jaxtyping",
    "jiwer", "jsonlines", "keras", "kornia", "langchain", "librosa", "lightgbm", "lightning", "loguru", "lxml",
    "mamba-ssm", "matplotlib", "mediapipe", "ml-collections", "mlflow", "monai", "moviepy", "mpi4py", "mujoco",
    "nibabel", "nltk", "numba", "onnx", "onnxruntime", "open3d", "openai", "optax", "optuna", "peft", "pettingzoo",
    "plotly", "polars", "procgen", "pyarrow", "pybullet", "pygame", "pymongo", "pytest", "ray", "redis", "sacrebleu",
    "seaborn", "sentencepiece", "shap", "shapely", "spacy", "sqlalchemy", "stable-baselines3", "statsmodels",
    "streamlit", "tabulate", "tenacity", "tensorboardx", "tensordict", "tensorflow", "termcolor", "tiktoken", "timm",
    "torchaudio", "torchdiffeq", "torchinfo", "torchmetrics", "torchrl", "torchsummary", "torchtext", "torchvision",
    "transformers", "trimesh", "triton", "trl", "typer", "ultralytics", "uvicorn", "visdom", "vllm", "wandb",
    "websockets", "xarray", "xformers", "xgboost", "yacs", "zarr",
}  # fmt: skip


def is_known(module: str) -> bool:
    """Return whether the distribution of a module is known, instead of guessed from the module's name."""
    return module in _DISTRIBUTIONS or canonicalize_name(module) in _COMES_ALONG | _SAME_NAME


def unnamed(modules: tuple[str, ...], named: Iterable[str], written: str) -> tuple[str, ...]:
    """Return the distributions of imported modules that no file declares and no other distribution usually brings.

    Args:
        named: declared distributions.
        written: text of the dependency files, in which a distribution's name often contains the module's (`grpcio`,
            `pyopenssl`, `apache-airflow`, `git+https://.../CLIP`).
    """
    known = {stem(name) for name in (*_COMES_ALONG, *named)}
    text = _letters(written)
    return tuple(
        name
        for module in modules
        if module not in _OLD_MODULES and _letters(module) not in text
        for name in distributions((module,))
        if stem(name) not in known and _letters(name) not in text
    )


def _letters(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.lower())


def stem(distribution: str) -> str:
    """Return the common name of variants such as `opencv-python-headless` and `pytorch-lightning`."""
    return re.sub(
        r"^(?:pytorch|python)-|-(?:headless|binary|cpu|gpu|core|full|python)\b.*$",
        "",
        canonicalize_name(distribution),
    )


def own_names(tree: Tree) -> frozenset[str]:
    """Return the names of a repository's modules, folders and links, each of which may be importable from some folder.

    A link may be a package although an unrelated one has its name on PyPI. A link or folder with the name of a known
    distribution (`datasets`, `accelerate`) usually holds data or examples. It counts only if it is a package: if it has
    an `__init__.py`, or if it has modules and is in the root or beside modules.
    """
    modules = [path for path in (*tree.files, *tree.links) if path.endswith(_MODULES)]
    names = {path.rsplit("/", 1)[-1].split(".")[0] for path in modules}
    beside = {".", *map(parent, modules)}
    for path in (*tree.dirs, *tree.links):
        name = path.rsplit("/", 1)[-1]
        if (
            not is_known(name)
            or (path in beside and parent(path) in beside)
            or (tree.root / path / "__init__.py").is_file()
        ):
            names.add(name)
    return frozenset(names)


def _third_party(tree: Tree, texts: Iterable[str]) -> tuple[str, ...]:
    own = own_names(tree)
    found: dict[str, None] = {}
    imports = (match[1] or match[2] for text in texts for match in _IMPORT.finditer(text))
    for dotted in (dotted for each in imports for dotted in re.split(r"\s*,\s*", each)):
        name = dotted.split(".")[0]
        # This module of torch needs tensorboard, which torch does not install.
        if dotted.startswith("torch.utils.tensorboard"):
            found.setdefault("tensorboard")
        if name not in own and name not in sys.stdlib_module_names and not name.startswith("_"):
            found.setdefault(name)
    return tuple(found)
