"""Which program of a repository a person wants to stand in: every candidate with its evidence, best first.

A candidate's rank is the sum of where it was seen (launches.PLACES), what its name says it does (training before
serving before evaluation before data preparation, in a repository of machine learning), how plain its name is, how
often it is shown, and what its source shows. Nothing here knows any repository.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dkdbg.detect.commands import Launch, has_placeholder
from dkdbg.detect.files import is_vendored, join, parent
from dkdbg.detect.launches import PLACES, Seen
from dkdbg.detect.python_source import SourceFact, read_source
from dkdbg.model.facts import EntryPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.detect.files import Tree

_ROLES = (
    ("tool", re.compile(
        r"(?:prepare|preprocess|preproc|process|download|convert|conversion|setup|install|dataset|datasets|data|make|build|"
        r"collect|plot|vis|visualize|visualizer|export|merge|extract|crawl|scrape|config|configs|util|utils|split|clean|"
        r"benchmark|bench|profile|check|verify|migrate|seed|generate_data|tokenize|tokenizer|tok|upload|publish|release|"
        r"resize|annotate|label|stats|metrics|calc|version|docs|cache|encode|quantize|lint|format)s?"
    )),
    ("train", re.compile(r"train|training|trainer|finetune|finetuning|tune|tuning|pretrain|pretraining|sft|dpo|grpo|ppo|rlhf|fit|learn|distill")),
    ("infer", re.compile(r"eval|evaluate|evaluation|test|sample|sampling|generate|gen|inference|infer|predict|prediction|detect|score|validate|val|search|analyze|rollout|play|enjoy|simulate|render|interpolate")),
    ("app", re.compile(r"app|server|serve|serving|api|webui|ui|gui|web|wsgi|asgi|manage|bot|service|backend|worker|webservice|webapp|gateway|chatbot|webserver|runserver|webapi")),
    ("demo", re.compile(r"demo|gradio|streamlit|chat|playground|example|client|cli|repl")),
    ("main", re.compile(r"main|__main__|run|start|launch|launcher|entry|entrypoint|runner|index")),
)  # fmt: skip
_ROLE_POINTS = {
    "train": 30,
    "app": 22,
    "main": 22,
    "infer": 12,
    "demo": 12,
    "other": 8,
    "notebook": 2,
    "tool": 1,
}
_NEVER = re.compile(
    r"(?:^|/)(?:setup|conftest|noxfile|fabfile|versioneer|_version|__init__|hubconf|tasks|conf|gunicorn[_.]conf|config|configurator)\.py$"
    r"|(?:^|/)test_[^/]*\.py$|_test\.py$|(?:^|/)tests?/|(?:^|/)\.(?:github|circleci|azuredevops|ci|devcontainer)/|(?:^|/)(?:docs?|ci)/"
)
_ASIDE = re.compile(
    r"(?:^|[/_-])(?:old|legacy|deprecated|archive[sd]?|obsolete|experimental|backup|minimal|toy|mini|debug|colab|windows|submitit|slurm)(?:$|[/_.-])"
)
_EXAMPLES = re.compile(
    r"(?:^|/)(?:examples?|tutorials?|samples?|recipes|benchmarks?|notebooks?|contrib|research|projects|demos?|playground|evaluations?|baselines)/"
)
_DISTRIBUTED = {"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "composer"}
_SERVERS = {
    "uvicorn",
    "gunicorn",
    "hypercorn",
    "flask",
    "fastapi",
    "streamlit",
    "chainlit",
    "gradio",
    "daphne",
}
_WORKERS = {"celery", "flower", "rq", "dramatiq", "arq", "taskiq", "faust"}
#: The least that a script found only by its main guard must show before it is called the program.
_THRESHOLD = 16
_MAX_READ = 2500
_MAX_PARSED = 80


@dataclass(kw_only=True)
class _Candidate:
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


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The candidates, best first, and how many of them are good enough to be called the program (0 or 1)."""

    candidates: tuple[EntryPoint, ...]
    has_best: bool


def rank(
    tree: Tree,
    seen: Iterable[Seen],
    *,
    scripts: Mapping[str, str],
    resolved: Iterable[tuple[Seen, str | None]] = (),
    project: str = "",
    is_ml: bool = False,
    notebooks: tuple[str, ...] = (),
) -> Ranking:
    """Return every way to start the program, best first.

    Args:
        tree: the repository.
        seen: launch lines, the files still as typed.
        scripts: console scripts, name to `module:function`.
        resolved: launch lines of images and services with the file already found (None: only in the image).
        project: name of the project, so that a console script of the same name counts.
        is_ml: whether training is what this repository is for.
        notebooks: paths of notebooks.
    """
    found: dict[str, _Candidate] = {}
    for order, (item, file) in enumerate(resolved):
        _add(found, _Candidate(
            launch=item.launch, file=file, cwd=item.cwd, command=item.launch.command, place=item.place,
            source=item.source, order=order,
        ))  # fmt: skip
    for order, item in enumerate(seen):
        candidate = _resolve(tree, item, scripts, order)
        if candidate is not None:
            _add(found, candidate)
    for name, target in scripts.items():
        file = module_file(tree, target.split(":")[0], ".")
        if file is not None:
            place = "console-script"
            launch = Launch(command=name, launcher="console-script", target=name)
            _add(found, _Candidate(
                launch=launch, file=file, cwd=".", command=name, place=place, source="console script", order=500
            ))  # fmt: skip
    _guarded(tree, found)
    for path in notebooks[:20]:
        launch = Launch(command="jupyter lab", launcher="notebook", target=path)
        if path not in found:
            found[path] = _Candidate(
                launch=launch,
                file=path,
                cwd=".",
                command="jupyter lab",
                place="notebook",
                source=path,
                order=900,
            )
    rough = sorted(
        found.values(), key=lambda candidate: _rough(candidate, project, is_ml=is_ml), reverse=True
    )
    points: dict[int, float] = {}
    sources: dict[int, SourceFact] = {}
    for index, candidate in enumerate(rough):
        score = _rough(candidate, project, is_ml=is_ml)
        if candidate.file and candidate.file.endswith(".py") and index < _MAX_PARSED:
            fact = sources[id(candidate)] = read_source(tree.text(candidate.file))
            score += _source_points(candidate, fact, is_ml=is_ml)
        points[id(candidate)] = score
    ordered = sorted(rough, key=lambda item: (-points[id(item)], item.order, item.file or item.command))
    best = ordered[0] if ordered else None
    has_best = best is not None and (best.place == "notebook" or points[id(best)] >= _THRESHOLD)
    return Ranking(
        candidates=tuple(_entry_point(item, sources.get(id(item))) for item in ordered[:60]),
        has_best=has_best,
    )


def module_file(tree: Tree, module: str, cwd: str, *, package: bool = False) -> str | None:
    """Return the file of a dotted module, looked for in `cwd`, the root and the usual source folders."""
    steps = module.replace(".", "/")
    endings = [f"{steps}.py", f"{steps}/__main__.py", *([f"{steps}/__init__.py"] if package else [])]
    for base in dict.fromkeys((cwd, join(cwd, "src") or ".", ".", "src", "lib", "python")):
        for ending in endings:
            path = join(base, ending)
            if path is not None and tree.has(path):
                return path
    for ending in endings[:2] if "/" in steps else ():
        deeper = [
            path
            for path in tree.named(ending.rsplit("/", 1)[-1])
            if path.endswith("/" + ending) and not is_vendored(path)
        ]
        if deeper:
            return deeper[0]
    return None


def discovered(tree: Tree, launcher: str, cwd: str) -> str | None:
    """Return the file that a launcher finds by itself when it is given none (fastapi-cli `discover.py`, Flask's `wsgi.py`)."""
    names = {
        "fastapi": ("main.py", "app.py", "api.py", "app/main.py", "app/app.py", "app/api.py"),
        "flask": ("wsgi.py", "app.py"),
    }.get(launcher, ())
    paths = (join(cwd, name) for name in names)
    return next((path for path in paths if path is not None and tree.has(path)), None)


def role_of(path: str) -> str:
    """Return what the name of a program says that it does: `train`, `app`, `main`, `infer`, `demo`, `tool` or `other`."""
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0] if path.endswith(".py") else path.rsplit(".", 1)[-1]
    if stem == "__main__" and "/" in path:
        stem = parent(path).rsplit("/", 1)[-1] + "_main"
    words = [
        word for word in re.split(r"[_\-.\d]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", stem).lower()) if word
    ]
    roles = [next((role for role, pattern in _ROLES if pattern.fullmatch(word)), "other") for word in words]
    # A training word wins anywhere (train_dataset, main_pretrain); otherwise the verb, which stands first or last.
    if "train" in roles:
        return "train"
    if re.fullmatch(r"(?:run_\w+|main_\w+)", stem.lower()) and "infer" not in roles and "tool" not in roles:
        return "main"
    for role in ("tool", "infer", "app", "demo", "main"):
        if role in roles[:1]:
            return role
    return next((role for role in ("app", "demo", "infer", "main", "tool") if role in roles[-1:]), "other")


def _add(found: dict[str, _Candidate], candidate: _Candidate) -> None:
    key = candidate.file or candidate.command
    known = found.get(key)
    if known is None:
        candidate.places.add(candidate.place)
        candidate.readme_mentions = int(candidate.place == "readme")
        found[key] = candidate
        return
    known.mentions += 1
    known.readme_mentions += candidate.place == "readme"
    known.places.add(candidate.place)
    # A console script that a README shows stays a console script; a better place replaces the command line.
    if _place_points(candidate.place) > _place_points(known.place):
        candidate.mentions, candidate.places = known.mentions, known.places
        candidate.readme_mentions, candidate.order = known.readme_mentions, min(known.order, candidate.order)
        found[key] = candidate


def _resolve(tree: Tree, item: Seen, scripts: Mapping[str, str], order: int) -> _Candidate | None:
    launch = item.launch
    file, cwd, command = None, item.cwd, launch.command
    if launch.launcher == "console-script":
        file = module_file(tree, scripts.get(launch.target or "", "").split(":")[0], ".")
    elif launch.target is None:
        file = discovered(tree, launch.launcher, cwd)
    elif launch.is_module:
        file = module_file(tree, launch.target, cwd, package=launch.launcher in _SERVERS | _WORKERS)
        if file is not None and not file.startswith(f"{cwd}/") and cwd != ".":
            cwd = "."
    else:
        file, cwd, typed = find_file(tree, launch.target, cwd)
        if typed is not None and typed != launch.target:
            command = command.replace(launch.target, typed, 1)
    # `python program.py --help` shows where the program is, not how it is started.
    command = re.sub(r"\s+(?:-h|--help)(?=\s|$)", "", command)
    if file is None or _NEVER.search(file):
        return None
    return _Candidate(
        launch=launch, file=file, cwd=cwd, command=command, place=item.place, source=item.source, order=order
    )


def find_file(tree: Tree, target: str, cwd: str) -> tuple[str | None, str, str | None]:
    """Return the file that a typed path means, the directory to type it in, and the path to type there."""
    clean = re.sub(r"^(?:\./)+", "", target)
    for base in dict.fromkeys((cwd, ".")):
        path = join(base, clean)
        if path is not None and tree.has(path):
            return path, base, target
    # `/app/train.py`, `YourRepo/train.py`, or only the name of a file that lies deeper.
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


def _guarded(tree: Tree, found: dict[str, _Candidate]) -> None:
    """Add the scripts that nobody shows, but that are written to be started."""
    paths = [path for path in tree.files if path.endswith(".py") and path not in found][:_MAX_READ]
    for order, path in enumerate(paths):
        if _NEVER.search(path) or is_vendored(path) or path.count("/") > 5:
            continue
        text = tree.text(path)
        place = "guard"
        if "__main__" not in text and not path.endswith("__main__.py"):
            if "/" in path and role_of(path) != "train":
                continue
            if not text or not read_source(text).runs:
                continue
            place = "top-level"
        launch = Launch(command=f"python {path}", launcher="python", target=path)
        if path.endswith("/__main__.py"):
            module = parent(path).removeprefix("src/").replace("/", ".")
            launch = Launch(command=f"python -m {module}", launcher="python", target=module, is_module=True)
        found[path] = _Candidate(
            launch=launch,
            file=path,
            cwd=".",
            command=launch.command,
            place=place,
            source="main guard",
            order=600 + order,
        )


def _place_points(place: str) -> float:
    return PLACES.get(place, {"console-script": 16, "guard": 4, "top-level": 1}.get(place, 0))


def _rough(candidate: _Candidate, project: str, *, is_ml: bool) -> float:
    launch, file = candidate.launch, candidate.file
    name = file or launch.target or candidate.command
    role = role_of(name)
    if launch.launcher == "console-script":
        role = role_of(launch.target or "")
        role = role if role != "other" else "main"
    elif launch.launcher in _SERVERS:
        role = "app"
    elif launch.launcher == "notebook":
        role = "notebook"
    score = _place_points(candidate.place) + _ROLE_POINTS[role]
    if not is_ml and role == "train":
        score -= 6
    if is_ml and role in {"app", "demo"} and candidate.place not in {"service", "image"}:
        score -= 6
    score += min(6.0, 2 * math.log2(candidate.mentions)) + 2 * (len(candidate.places) - 1)
    if launch.launcher in _DISTRIBUTED:
        score += 6
    if any(
        re.fullmatch(
            r"-h|--(?:eval|test|help|check|version|dry[-_]run|validate|resume-eval)(?:[-_]only)?", arg
        )
        for arg in launch.args
    ):
        score -= 8
    if launch.launcher in _WORKERS:
        score -= 14
    if launch.launcher == "flower":
        score -= 60
    if launch.launcher == "console-script" and project and _same_name(launch.target or "", project):
        score += 8
    if file is not None:
        score += _path_points(file)
    if candidate.place == "readme":
        # The first example is the one that people try; the hundredth line is a corner case.
        score += max(0.0, 4 - candidate.order * 0.3)
    return score


def _path_points(file: str) -> float:
    stem = file.rsplit("/", 1)[-1].removesuffix(".py")
    words = [word for word in re.split(r"[_-]", stem) if word]
    score = 4.0 if stem in {"train", "main", "app", "run", "server"} else 3.0 - 1.2 * len(words)
    score -= 2.5 * max(0, file.count("/") - 1)
    if is_vendored(file):
        score -= 40
    if _EXAMPLES.search(file):
        score -= 6
    if _ASIDE.search(file):
        score -= 10
    return score


def _source_points(candidate: _Candidate, fact: SourceFact, *, is_ml: bool) -> float:
    score = 0.0
    if not (fact.has_guard or fact.runs) and candidate.launch.launcher == "python":
        score -= 12
    if fact.parses_args:
        score += 2
    if is_ml and fact.trains:
        score += 5
    return score


def _entry_point(candidate: _Candidate, fact: SourceFact | None) -> EntryPoint:
    args = " ".join(candidate.launch.args)
    missing = [
        name for name in (fact.required if fact else ())
        if (name.startswith("-") and name not in args) or (not name.startswith("-") and not candidate.launch.args)
    ]  # fmt: skip
    return EntryPoint(
        command=candidate.command,
        file=candidate.file,
        launcher=candidate.launch.launcher,
        cwd=candidate.cwd,
        needs_args=bool(missing) or has_placeholder(candidate.command),
        source=candidate.source,
    )


def _same_name(first: str, second: str) -> bool:
    return re.sub(r"[-_.]", "", first.lower()) == re.sub(r"[-_.]", "", second.lower())
