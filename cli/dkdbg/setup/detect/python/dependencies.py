"""Find the dependency files of a repository, and read setup.py and setup.cfg without running them."""

from __future__ import annotations

import ast
import configparser
import re
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.python.conda import read_conda, read_python_env
from dkdbg.setup.detect.python.pyproject import read_lock, read_pipfile, read_pixi, read_pyproject
from dkdbg.setup.detect.python.python_source import parsed
from dkdbg.setup.detect.python.requirements import DependencyFile, items_of, read_requirements
from dkdbg.setup.detect.values import Value, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dkdbg.setup.detect.files import Tree

_USUAL_CONDA = re.compile(r"(?:conda[-_]?)?env(?:ironment)?(?:[-_.][\w.-]+)?\.ya?ml|conda\.ya?ml")
#: Maximum YAML files with unusual names to check for conda environments; maximum characters of all conda environments.
_MAX_UNUSUAL, _MAX_CONDA_CHARS = 100, 300_000
REQUIREMENT_FILES = re.compile(
    r"(?:pip[-_])?requirements?(?:[-_.][\w.-]+)?\.(?:txt|in)|[\w.-]*[-_.]requirements\.txt"
)
#: Names of requirements files that are not for running the program on Linux.
_SIDE_FILES = re.compile(
    r"dev|test|doc|lint|ci\b|style|quality|build|windows|macos|mac_|darwin|rocm|ipex|xpu|runpod|colab|optional|extra|npu|amd|"
    r"example|tensorboard|notebook|lock",
    re.IGNORECASE,
)


def read_dependency_files(tree: Tree) -> tuple[DependencyFile, ...]:
    """Return all dependency files of the repository except third-party code, those near the root first."""
    found: list[DependencyFile] = []
    yaml = tree.matching(re.compile(r".*\.ya?ml"))
    unusual = [path for path in yaml if path.count("/") < 2 and not path.startswith(".")][:_MAX_UNUSUAL]
    conda_files, left = {path for path in unusual if _is_conda(tree.text(path))}, _MAX_CONDA_CHARS
    for path in tree.files:
        name = path.rsplit("/", 1)[-1]
        if is_vendored(path) or path.count("/") > 4:
            continue
        if read := _READERS.get(name):
            found.append(read(tree, path))
        elif path in conda_files or _USUAL_CONDA.fullmatch(name):
            left -= len(tree.text(path))
            conda = read_conda(tree, path) if left >= 0 else None
            if left < 0:
                tree.add_problem(
                    f"{path}: not read: the conda environments have more than {_MAX_CONDA_CHARS // 1000} KB"
                )
            if conda is not None:
                found.append(conda)
        elif name in {"python_env.yaml", "python_env.yml"}:  # conda's files may have this name, too
            found.append(read_python_env(tree, path))
        elif REQUIREMENT_FILES.fullmatch(name) or (
            parent(path).rsplit("/", 1)[-1] == "requirements" and name.endswith((".txt", ".in"))
        ):
            found.append(read_requirements(tree, path))
    return tuple(found)


def _is_conda(text: str) -> bool:
    """Return whether a YAML file is a conda environment, by its keys."""
    return all(f"\n{key}:" in f"\n{text}" for key in ("channels", "dependencies"))


def named_in(files: Sequence[DependencyFile]) -> dict[str, str]:
    """Return distribution -> the first place (as text) where a dependency file names it."""
    stated = [item for file in files if file.kind != "lock" for item in file.wanted]
    return {item.name: item.source for item in reversed(stated)}


def is_side_file(path: str) -> bool:
    """Return whether a requirements file is for tests, another platform or similar, judging by its name."""
    name = path.rsplit("/", 1)[-1]
    return bool(_SIDE_FILES.search(name)) or bool(re.search(r"(?:^|/)(?:tests?|docs?)/", path))


def read_setup_py(tree: Tree, path: str) -> DependencyFile:
    """Return the arguments of the `setup()` call in a setup.py, read without running it."""
    try:
        module = parsed(tree.text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        tree.add_problem(f"{path}: not valid Python: {error}")
        return DependencyFile(path=path, kind="setup.py")
    values: dict[str, ast.expr] = {}
    call: ast.Call | None = None
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, node.value)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "setup" and node.keywords:
                call = node
    arguments = {word.arg: word.value for word in call.keywords if word.arg} if call else {}
    for word in call.keywords if call else ():
        # `setup(**settings)`: read the dict `settings`.
        if (
            word.arg is None
            and isinstance(word.value, ast.Name)
            and isinstance(values.get(word.value.id), ast.Dict)
        ):
            settings = values[word.value.id]
            if isinstance(settings, ast.Dict):
                pairs = zip(settings.keys, settings.values, strict=True)
                arguments.update(
                    {
                        key.value: item
                        for key, item in pairs
                        if isinstance(key, ast.Constant) and isinstance(key.value, str)
                    }
                )
    wanted = list(items_of(_literal(arguments.get("install_requires"), values), path))
    if not wanted and "install_requires" in arguments and "requirements" in tree.text(path):
        beside = join(parent(path), "requirements.txt")
        if beside and tree.has(beside):
            wanted.extend(read_requirements(tree, beside).wanted)
    extras = table(_literal(arguments.get("extras_require"), values))
    for name, items in extras.items():
        wanted.extend(items_of(items, f"{path} [{name}]", str(name)))
    python = _literal(arguments.get("python_requires"), values)
    entry_points = _literal(arguments.get("entry_points"), values)
    lines = entry_points.get("console_scripts", []) if isinstance(entry_points, dict) else []
    name = _literal(arguments.get("name"), values)
    return DependencyFile(
        path=path,
        kind="setup.py",
        wanted=tuple(wanted),
        python=((python, "python_requires"),) if isinstance(python, str) else (),
        scripts=tuple(_script_lines(lines)),
        extras=tuple(str(key) for key in extras),
        name=name if isinstance(name, str) else None,
        # Without a `setup()` call it is an installation script of the project's own.
        tables=("setup",) if call else (),
    )


def _literal(node: ast.expr | None, values: dict[str, ast.expr], depth: int = 0) -> Value:
    """Return the literal parts of an expression: names are resolved, and parts that are not literals left out."""
    if node is None or depth > 6:
        return None
    if isinstance(node, ast.Name):
        return _literal(values.get(node.id), values, depth + 1)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [
            item for item in (_literal(part, values, depth + 1) for part in node.elts) if item is not None
        ]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            str(_literal(key, values, depth + 1)): _literal(value, values, depth + 1)
            for key, value in pairs
            if key is not None
        }
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        # `deps["torch"]` from a table of all pins, as in Hugging Face's setup.py.
        pins = _literal(values.get("_deps") or values.get("deps"), values, depth + 1)
        wanted = canonicalize_name(str(node.slice.value))
        named = [
            str(pin) for pin in pins or () if canonicalize_name(re.split(r"[^\w.-]", str(pin))[0]) == wanted
        ]
        return named[0] if named else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left, values, depth + 1), _literal(node.right, values, depth + 1)
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        return left if right is None else right
    return None


def _script_lines(lines: Value) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines() if isinstance(lines, str) else lines if isinstance(lines, list) else ():
        name, equals, target = str(line).partition("=")
        if equals and ":" in target:
            yield name.strip(), target.split("[")[0].strip()


def read_setup_cfg(tree: Tree, path: str) -> DependencyFile:
    """Return the metadata in a setup.cfg."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(tree.text(path))
    except configparser.Error as error:
        tree.add_problem(f"{path}: {str(error).splitlines()[0]}")
        return DependencyFile(path=path, kind="setup.cfg")
    lines = parser.get("options", "install_requires", fallback="").splitlines()
    python = parser.get("options", "python_requires", fallback="").strip()
    scripts = parser.get("options.entry_points", "console_scripts", fallback="")
    return DependencyFile(
        path=path,
        kind="setup.cfg",
        wanted=tuple(items_of([line.strip() for line in lines if line.strip()], path)),
        python=((python, "python_requires"),) if python else (),
        scripts=tuple(_script_lines(scripts)),
        name=parser.get("metadata", "name", fallback=None),
        tables=("project",) if parser.has_option("metadata", "name") else (),
    )


#: Name of a dependency file -> its reader.
_READERS: dict[str, Callable[[Tree, str], DependencyFile]] = {
    "pyproject.toml": read_pyproject,
    "setup.py": read_setup_py,
    "setup.cfg": read_setup_cfg,
    "Pipfile": read_pipfile,
    "pixi.toml": read_pixi,
    **dict.fromkeys(("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock"), read_lock),
}
