"""Collect the programs of a repository that the user may want to debug, with evidence; entrypoint.py ranks them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.launchers import registry
from dkdbg.launchers.launcher import SERVER, WORKER, Launch
from dkdbg.launchers.lines.blanks import blanks
from dkdbg.launchers.lines.command_lines import parse_line
from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.launch.launches import PLACES, Seen
from dkdbg.setup.detect.launch.roles import role_of
from dkdbg.setup.detect.python.python_source import parsed, read_source

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.python.python_source import SourceFact

_NEVER = re.compile(
    r"(?:^|/)(?:setup|conftest|noxfile|fabfile|versioneer|_version|__init__|hubconf|tasks|conf|gunicorn[_.]conf|config|configurator)\.py$"
    r"|(?:^|/)test_[^/]*\.py$|_test\.py$|(?:^|/)tests?/|(?:^|/)\.(?:github|circleci|azuredevops|ci|devcontainer)/|(?:^|/)(?:docs?|ci)/"
)
_MAX_READ = 2500
_MAX_PROGRAM = 40
_ANY_IMPORT = re.compile(r"^[ \t]*(?:from\s+\.*([\w.]+)\s+import|import\s+([\w.]+))", re.MULTILINE)
#: A relative path in a string of a source.
_PATH = re.compile(r"[\"']((?:\.{1,2}/)+\w[\w./-]*|\w[\w.-]*/[\w./-]+)[\"']")
#: Code after which relative paths may be relative to another folder than the working directory.
_OTHER_BASE = re.compile(r"__file__|\bchdir\(|@hydra\.main|\b(?:template|static)_folder\b")
_CHECKS = re.compile(
    r"-h|--(?:eval|evaluate|test|help|check|version|dry[-_]run|validate|resume-eval|throughput)(?:[-_]only)?"
)
#: Option of a launcher or program for a job of several machines.
_MACHINES = re.compile(r"\s--?(?:num[-_](?:machines|nodes)|nnodes|machines)[= ](?:[2-9]|\d\d)")
#: Import in a file that runs only as a module of its package: `python -m package.program`.
_RELATIVE_IMPORT = re.compile(r"^(?:from\s+\.+[\w.]*\s+import\b)", re.MULTILINE)
#: Call that creates a server app -> command line for the app; command line for a function that returns the app.
_SERVED = {
    "bind": ("serve run {}", ""),
    "FastAPI": ("uvicorn {}", "uvicorn {} --factory"),
    "Starlette": ("uvicorn {}", "uvicorn {} --factory"),
    "Flask": ("flask --app {} run", "flask --app {} run"),
}
_HINT = re.compile(r"\b(?:FastAPI|Starlette|Flask|bind)\(|\bstreamlit\b")


@dataclass(kw_only=True)
class Candidate:
    """A program, with its best evidence so far.

    Attributes:
        launch: the best command line for the program.
        file: relative to the root; None if the program is only in an image.
        cwd: directory to start it in, relative to the root.
        command: command line to type in that directory.
        place: kind of evidence: a key of launches.PLACES, or `console-script`, `guard`, `top-level`, `notebook`.
        source: where the command line was found, as text.
        order: position of the evidence among all evidence, from 0.
        mentions: number of command lines for the program.
        readme_mentions: number of those in the README.
        places: all kinds of evidence for the program.
        fact: facts of its source; None if the source was not read.
        points: its score; see entrypoint.py.
    """

    launch: Launch
    file: str | None
    cwd: str
    command: str
    place: str
    source: str
    order: int
    mentions: int = 1
    readme_mentions: int = 0
    places: set[str] = field(default_factory=set)
    fact: SourceFact | None = None
    points: float = 0.0


def module_file(tree: Tree, module: str, cwd: str, *, package: bool = False) -> str | None:
    """Return the file of a dotted module name, searched for in `cwd`, the root and the usual source folders."""
    steps = module.replace(".", "/")
    endings = [f"{steps}.py", f"{steps}/__main__.py", *([f"{steps}/__init__.py"] if package else [])]
    for base in dict.fromkeys((cwd, join(cwd, "src") or ".", ".", "src", "lib", "python")):
        for ending in endings:
            path = join(base, ending)
            if path is not None and tree.has(path):
                return path
    # In other folders accept only a package (`pip install -e src/backend`), because a single file's name is too common.
    for ending in endings if "/" in steps else endings[1:]:
        deeper = [
            path
            for path in tree.named(ending.rsplit("/", 1)[-1])
            if path.endswith("/" + ending) and not is_vendored(path)
        ]
        if deeper:
            return deeper[0]
    return None


def script_file(tree: Tree, target: str) -> str | None:
    """Return the file of a console script from its target `package.module:function`."""
    return module_file(tree, target.split(":", maxsplit=1)[0], ".", package=True)


def discovered(tree: Tree, launcher: str, cwd: str) -> str | None:
    """Return the file that a launcher runs when its command line names none."""
    by = registry.named(launcher)
    paths = (join(cwd, name) for name in (by.discovers if by else ()))
    return next((path for path in paths if path is not None and tree.has(path)), None)


def find_file(tree: Tree, target: str, cwd: str) -> tuple[str | None, str, str | None]:
    """Return the file that a typed path means (None if unknown), the directory to type it in, and the path to type."""
    clean = re.sub(r"^(?:\./)+", "", target)
    for base in dict.fromkeys((cwd, ".")):
        path = join(base, clean)
        if path is not None and tree.has(path):
            return path, base, target
    # The typed path may be one in a container (`/app/train.py`), begin with the repository's name
    # (`YourRepo/train.py`), or be only the name of a file in a subfolder.
    steps = [
        step for step in clean.split("/") if step and step != ".." and not step.startswith(("$", "<", "{"))
    ]
    if not steps or "*" in clean:
        return None, cwd, None
    for start in range(len(steps)):
        tail = "/".join(steps[start:])
        if tree.has(tail):
            return tail, ".", tail
        deeper = [
            path
            for path in tree.named(steps[-1])
            if path.endswith(f"/{tail}") and not is_vendored(path) and not _NEVER.search(path)
        ]
        if deeper and (len(steps) > 1 or len(deeper) <= 3):
            within = [path for path in deeper if cwd != "." and path.startswith(f"{cwd}/")]
            path = (within or deeper)[0]
            return path, ".", path
    return None, cwd, None


def modules_of(tree: Tree, file: str) -> dict[str, str]:
    """Return path -> text for a program and the repository's modules that it imports."""
    found = {file: tree.text(file)}
    for names in _ANY_IMPORT.findall(found[file]):
        path = module_file(tree, "".join(names).strip("."), parent(file), package=True)
        if path is not None and path not in found and len(found) < _MAX_PROGRAM:
            found[path] = tree.text(path)
    return found


def folder_of_paths(tree: Tree, file: str, words: Sequence[str]) -> str:
    """Return the folder to start `file` in, judged by the relative paths in its sources and in `words`.

    It is the only folder, from the program's own up to the root, in which these paths exist. If there is no such folder
    or several, or if the program makes its paths absolute, it is the root.
    """
    folders = list(map(str, PurePosixPath(file).parents))
    texts = [text for text in modules_of(tree, file).values() if not _OTHER_BASE.search(text)]
    named = (*words, *(path for text in texts for path in _PATH.findall(text)))
    told = {
        tuple(
            folder
            for folder in folders
            if (path := join(folder, name)) and (tree.has(path) or tree.has_dir(path))
        )
        for name in named
        if "/" in name and not name.startswith("/")
    } - {()}
    common = set(folders).intersection(*told) if told else set()
    return common.pop() if len(common) == 1 else "."


def in_its_folder(tree: Tree, candidate: Candidate) -> None:
    """If no command line says in which folder to start a program, take the one that its relative paths suggest."""
    launch, file = candidate.launch, candidate.file
    words = re.split(r"[\s=]+", candidate.command)
    if file is None or not file.endswith(".py") or candidate.cwd != "." or file not in words:
        return
    is_typed = candidate.place not in {"guard", "top-level"} and tree.has(
        (launch.target or "").removeprefix("./")
    )
    folder = "." if is_typed else folder_of_paths(tree, file, [word for word in words if word != file])
    if folder != ".":
        candidate.cwd = folder
        candidate.command = candidate.command.replace(file, file[len(folder) + 1 :], 1)


def add(found: dict[str, Candidate], candidate: Candidate) -> None:
    """Add a candidate; if one with the same file and subcommand exists, merge the evidence."""
    key = f"{candidate.file or candidate.command} {_subcommand(candidate.launch)}".rstrip()
    known = found.get(key)
    if known is None:
        candidate.places.add(candidate.place)
        candidate.readme_mentions = int(candidate.place == "readme")
        found[key] = candidate
        return
    known.mentions += 1
    known.readme_mentions += candidate.place == "readme"
    known.places.add(candidate.place)
    # A command line from better evidence replaces the known one: a line of a README outweighs the bare console script.
    # For equal evidence, a line that does the work replaces one that only checks something.
    better = place_points(candidate.place) - place_points(known.place)
    works = _worth(candidate.launch) - _worth(known.launch)
    if better > 0 or (better == 0 and works > 0):
        candidate.mentions, candidate.places = known.mentions, known.places
        candidate.readme_mentions, candidate.order = known.readme_mentions, min(known.order, candidate.order)
        found[key] = candidate


def _worth(launch: Launch) -> float:
    """Return how well a line represents its program: checks, several machines and placeholders count against it."""
    is_large = _MACHINES.search(launch.command) is not None
    return -8 * only_checks(launch) - 4 * is_large - 0.5 * blanks(launch.command)


def _subcommand(launch: Launch) -> str:
    """Return the first argument of a console script or module if it may be a subcommand: `llamafactory-cli train`."""
    word = next(iter(launch.args), "") if launch.launcher == "console-script" or launch.is_module else ""
    return word if re.fullmatch(r"[a-z][\w-]*", word) else ""


def verb_of(launch: Launch) -> str:
    """Return the role that the subcommand of a launch suggests, such as `train`."""
    return role_of(_subcommand(launch))


def only_checks(launch: Launch) -> bool:
    """Return whether a command line only prints help or evaluates, instead of doing the program's main work."""
    return any(_CHECKS.fullmatch(arg) for arg in launch.args)


def resolve(tree: Tree, item: Seen, scripts: Mapping[str, str], order: int) -> Candidate | None:
    """Return the candidate for a launch; None if the repository has no such program."""
    launch = item.launch
    file, cwd, command = None, item.cwd, launch.command
    if launch.launcher == "console-script":
        file = script_file(tree, scripts.get(launch.target or "", ""))
    elif launch.target is None:
        file = discovered(tree, launch.launcher, cwd)
    elif launch.is_module:
        file = module_file(
            tree, launch.target, cwd, package=registry.role_of(launch.launcher) in {SERVER, WORKER}
        )
        if file is not None and not file.startswith(f"{cwd}/") and cwd != ".":
            cwd = "."
    else:
        file, cwd, typed = find_file(tree, launch.target, cwd)
        if typed is not None and typed != launch.target:
            command = command.replace(launch.target, typed, 1)
    # Drop `--help`: the line shows where the program is, but not how it is started.
    command = re.sub(r"\s+(?:-h|--help)(?=\s|$)", "", command)
    # For a console script, or a package with a server's app, the file's name does not matter.
    is_named = launch.launcher == "console-script" or (
        launch.is_module and (file or "").endswith("/__init__.py")
    )
    if file is None or (_NEVER.search(file) and not is_named):
        return None
    return Candidate(
        launch=launch, file=file, cwd=cwd, command=command, place=item.place, source=item.source, order=order
    )


def add_guarded(tree: Tree, found: dict[str, Candidate]) -> None:
    """Add Python programs that no command line starts (files with a `__main__` guard or top-level code)."""
    known = {candidate.file for candidate in found.values()}
    paths = [path for path in tree.files if path.endswith(".py") and path not in known][:_MAX_READ]
    for order, path in enumerate(paths):
        if _NEVER.search(path) or is_vendored(path) or path.count("/") > 5:
            continue
        text = tree.text(path)
        app, place = served(tree, path, text), "guard"
        if app is None and "__main__" not in text and not path.endswith("__main__.py"):
            if "/" in path and role_of(path) != "train":
                continue
            fact = read_source(text)
            # If a file cannot be parsed, its name decides.
            is_named = fact.error and role_of(path) in {"train", "main", "app"}
            if not text or not (fact.runs or is_named):
                continue
            place = "top-level"
        launch, cwd = Launch(command=f"python {path}", launcher="python", target=path), "."
        if app is not None:
            launch, cwd = app
        elif path.endswith("/__main__.py"):
            module = parent(path).removeprefix("src/").replace("/", ".")
            launch = Launch(command=f"python -m {module}", launcher="python", target=module, is_module=True)
        elif (inside := as_module(tree, path, text)) is not None:
            cwd, module = inside
            launch = Launch(command=f"python -m {module}", launcher="python", target=module, is_module=True)
        found[path] = Candidate(
            launch=launch, file=path, cwd=cwd, command=launch.command, place=place, source="its own code",
            order=600 + order,
        )  # fmt: skip


def place_points(place: str) -> float:
    """Return the points for a kind of evidence."""
    return PLACES.get(place, {"console-script": 16, "guard": 4, "top-level": 1}.get(place, 0))


def served(tree: Tree, path: str, text: str) -> tuple[Launch, str] | None:
    """Return how and in which folder to start the app in a file; None if it has no app, or starts it itself."""
    fact = read_source(text) if _HINT.search(text) else None
    if fact is None or fact.error:
        return None
    command, cwd = "", "."
    if "streamlit" in fact.imports:  # `python app.py` would show an empty page
        command = f"streamlit run {path}" if fact.has_guard or fact.runs else ""
    elif not fact.has_guard and fact.listens is None and (app := _app(text, fact.imports)) is not None:
        cwd, module = as_module(tree, path, text) or _importable(tree, path, fact.imports)
        command = app[0].format(f"{module}:{app[1]}")
    launches = parse_line(command)
    return (launches[0], cwd) if launches else None


def _app(text: str, imports: Collection[str]) -> tuple[str, str] | None:
    """Return a command line template for a file's app, and the name of the app or of a factory without arguments."""
    apps: dict[str, str] = {}
    factories: dict[str, str] = {}
    for node in parsed(text).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            made = _made(node.value)
            if made and isinstance(target, ast.Name):
                apps.setdefault(made, target.id)
        elif isinstance(node, ast.FunctionDef) and len(node.args.defaults) == len(node.args.args):
            made = next((name for each in ast.walk(node) if (name := _made(each))), None)
            if made and re.search("create|make|build|get", node.name):
                factories.setdefault(made, node.name)
    # Ray Serve comes first: a FastAPI app in the same file is part of the deployment.
    found = [(line, apps[name]) for name, (line, _) in _SERVED.items() if name in apps]
    found += [(line, factories[name]) for name, (_, line) in _SERVED.items() if name in factories and line]
    return next((each for each in found if "serve run" not in each[0] or "ray" in imports), None)


def _made(node: ast.AST) -> str | None:
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    return name if name in _SERVED else None


def _importable(tree: Tree, path: str, imports: Collection[str]) -> tuple[str, str]:
    """Return the outermost directory from which most of a file's imports work, and the file's dotted name there."""
    steps = path.removesuffix("/__init__.py").removesuffix(".py").split("/")

    def found(depth: int) -> int:
        base = "".join(f"{step}/" for step in steps[:depth])
        return sum(tree.has(f"{base}{name}.py") or tree.has_dir(f"{base}{name}") for name in imports)

    depths = [depth for depth in range(len(steps)) if all(step.isidentifier() for step in steps[depth:])]
    best = max(depths or [len(steps) - 1], key=lambda depth: (found(depth), -depth))
    return "/".join(steps[:best]) or ".", ".".join(steps[best:])


def as_module(tree: Tree, path: str, text: str) -> tuple[str, str] | None:
    """Return (working directory, dotted name) of a package's file with relative imports; None for other files."""
    top = parent(path)
    if not _RELATIVE_IMPORT.search(text) or not tree.has(f"{top}/__init__.py"):
        return None
    while tree.has(f"{parent(top)}/__init__.py"):
        top = parent(top)
    home = parent(top)
    steps = path.removesuffix(".py").split("/")[0 if home == "." else home.count("/") + 1 :]
    return (home, ".".join(steps)) if all(step.isidentifier() for step in steps) else None
