"""Checkouts of distant commits of real repositories while `dkdbg sync` follows, and whether both sides are equal then.

usage: python benchmarks/sync_checkouts.py [--smallest] REPO... [--count 50] [--seed 1] [--submodules]

REPO is a repository of yours with its history; it is cloned into a temporary folder and not touched (`--smallest` alone
makes a repository of four commits). Between the checkouts
lie files that no commit has, which the rules of some commits leave out and those of others do not. Each round waits until a
last file has arrived and sync has been quiet for a while, then compares the two trees by itself: kinds, bytes, modes, and
where links lead. What the rules leave out is asked of git, and of `docker build` where there is a .dockerignore; nothing of
dkdbg's own code decides it. Prints each divergence; the exit code is 1 when there was one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from shared.options import parse, parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CLI = str(Path(__file__).resolve().parent.parent / "cli")
NEEDS = ("git",)
OWN = ".dkdbg-sync"
#: Seconds without a word after which sync counts as done: longer than it lets a file rest that was read too soon. And how
#: long it may take in all.
QUIET, LIMIT = 2.5, 180.0
#: What README.md says is out by default unless git tracks it, as far as such names are in the repositories or in `LITTER`.
DEFAULTS = (
    ".git", ".venv", "venv", "__pycache__", "*.pyc", "node_modules", ".cache", ".DS_Store", "*.swp", "*~", "*.ckpt", "*.pt",
    "*.pth", "*.safetensors",
)  # fmt: skip
RUNS = ("checkpoints", "outputs", "wandb", "mlruns", "lightning_logs")
#: The last file of each round; dkdbg.toml has it take part whatever a repository's rules say.
MARKER = "checkouts.marker"
MAX_SIZE = 100_000_000
#: Names of files that lie around and are in no commit.
LITTER = (
    "build/lib/a.py", "dist/b.whl", "docs/_build/index.html", "data/set.bin", "logs/run.log", "output/model.bin", ".env",
    "notes.txt", "tmp/x", "cache/y", "models/m.onnx", "a.egg-info/PKG-INFO", "htmlcov/z.html", "test/results/r.xml",
    ".vscode/settings.json", "config.toml", "dataset/img.png", "src/new.py", "lib/deep/er/n.txt",
)  # fmt: skip


def git(folder: Path, *words: str, stdin: bytes | None = None) -> bytes:
    """What git says in `folder`; it has to succeed (1 is check-ignore's "none")."""
    done = subprocess.run(["git", *words], cwd=folder, input=stdin, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"git {' '.join(words)} in {folder}: {os.fsdecode(done.stderr).strip()}")
    return done.stdout


class Sync:
    """A running `dkdbg sync` from one folder to another."""

    def __init__(self, here: Path, there: Path) -> None:
        self.events: list[dict[str, object]] = []
        self.heard = self.done = 0.0
        words = [sys.executable, "-m", "dkdbg", "-C", str(here), "sync", f"local:{there}", "--json"]
        env = {**os.environ, "PYTHONPATH": CLI}
        self.child = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.events.append(json.loads(line))
            self.heard = time.time()
            if self.events[-1]["event"] in {"in_sync", "changed"}:
                self.done = self.heard

    def settle(self, text: str, marker: Path) -> None:
        """Return when sync has said that it is done since `text` came into `marker`, and nothing more for a while."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                raise SystemExit(f"sync ended with {self.child.returncode}: {self.events[-3:]}")
            arrived = marker.stat().st_ctime if marker.exists() and marker.read_text() == text else None
            if arrived is not None and self.done >= arrived and time.time() - self.heard >= QUIET:
                return
            time.sleep(0.05)
        raise SystemExit(f"not in sync after {LIMIT:g} s; the last it said: {self.events[-5:]}")

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            self.child.terminate()
        self.child.wait(30)
        self._reader.join(5)


@dataclass
class Found:
    """What a round, or all of them, came to."""

    rounds: int = 0
    paths: int = 0
    links: int = 0
    out: int = 0
    divergences: list[str] = field(default_factory=list)


def walk(root: Path) -> dict[str, os.stat_result]:
    """lstat of everything below `root` but sync's own folder."""
    found = {}
    for at, folders, files in os.walk(os.fsencode(root)):
        if at == os.fsencode(root):
            folders[:] = [name for name in folders if name != OWN.encode()]
        for name in (*folders, *files):
            path = at + b"/" + name
            found[os.fsdecode(os.path.relpath(path, os.fsencode(root)))] = os.lstat(path)
    return found


def above(path: str) -> Iterator[str]:
    """`path` and the folders above it, the nearest first."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def left_out(root: Path, here: dict[str, os.stat_result]) -> set[str]:
    """Those paths of `here` that the rules leave out, as git, docker and README.md say."""
    tracked: set[str] = set()
    out: set[str] = set()
    repositories: dict[str, list[str]] = {}
    for path in here:
        inside = (each for each in above(path) if each != path and f"{each}/.git" in here)
        repositories.setdefault(next(inside, ""), []).append(path)
    for top, paths in repositories.items():
        start = f"{top}/" if top else ""
        names = [os.fsencode(path[len(start) :]) for path in paths if ".git" not in path.split("/")]
        ignored = git(root / top, "check-ignore", "-z", "--stdin", stdin=b"\0".join(names))
        out |= {start + os.fsdecode(each) for each in ignored.split(b"\0") if each}
        tracked |= {
            start + os.fsdecode(each) for each in git(root / top, "ls-files", "-z").split(b"\0") if each
        }
    out |= {path for top, paths in repositories.items() if out.intersection(above(top)) for path in paths}
    tracked_folders = {folder for path in tracked for folder in above(path)} - tracked
    for path, status in here.items():
        large = stat.S_ISREG(status.st_mode) and status.st_size > MAX_SIZE
        away = stat.S_ISLNK(status.st_mode) and not os.path.realpath(root / path).startswith(f"{root}/")
        if (
            large
            or away
            or ".git" in path.split("/")
            or (path not in tracked and by_default(path, tracked_folders))
        ):
            out.add(path)
    if (root / ".dockerignore").is_file():
        out |= here.keys() - docker_context(root, here)
    out.discard(MARKER)
    # a folder takes part with what is in it
    return out - {folder for path in here if path not in out for folder in above(path)}


def by_default(path: str, tracked_folders: set[str]) -> bool:
    """Whether a path that git does not track is out by default."""
    if any(fnmatch(part, each) for part in path.split("/") for each in DEFAULTS):
        return True
    runs = any(each.rpartition("/")[2] in RUNS and each not in tracked_folders for each in above(path))
    return runs and not path.endswith((".py", ".pyi"))


def docker_context(root: Path, paths: Iterable[str]) -> set[str]:
    """Those of `paths` that `docker build` copies from `root`: names decide, so it gets them as empty files."""
    with tempfile.TemporaryDirectory() as folder:
        context, recipe = Path(folder, "context"), Path(folder, "recipe")
        context.mkdir()
        recipe.write_text("FROM scratch\nCOPY . /\n")
        (context / ".dockerignore").write_bytes((root / ".dockerignore").read_bytes())
        for path in sorted(path for path in paths if path != ".dockerignore"):
            if (root / path).is_dir() and not (root / path).is_symlink():
                (context / path).mkdir()
            else:
                (context / path).touch()
        words = ["docker", "build", "-q", "--output", "type=tar,dest=-", "-f", str(recipe), str(context)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"docker build, which knows .dockerignore: {os.fsdecode(done.stderr).strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        return {member.name.removeprefix("./").strip("/") for member in tar}


def compare(here_root: Path, there_root: Path) -> Found:
    """Both trees as they are now."""
    here, there = walk(here_root), walk(there_root)
    here = {path: status for path, status in here.items() if path.split("/")[0] != ".git"}
    out = left_out(here_root, here)
    found = Found(rounds=1, paths=len(here) - len(out), out=len(out))
    for path, status in here.items():
        if path in out:
            continue
        found.links += stat.S_ISLNK(status.st_mode)
        problem = (
            "is missing there"
            if path not in there
            else differs(here_root, there_root, path, status, there[path])
        )
        if problem:
            found.divergences.append(f"{path!r} {problem}")
    for path in there.keys() - here.keys():
        where = ", in a folder that is left out" if out.intersection(above(path)) else ""
        found.divergences.append(f"{path!r} is only there{where}")
    return found


def differs(here: Path, there: Path, path: str, mine: os.stat_result, its: os.stat_result) -> str:
    """What differs at one path, or nothing."""
    wanted = mine.st_mode | (0o700 if stat.S_ISDIR(mine.st_mode) else 0)
    if stat.S_IFMT(wanted) != stat.S_IFMT(its.st_mode):
        return f"is {stat.filemode(wanted)} here and {stat.filemode(its.st_mode)} there"
    if stat.S_ISLNK(wanted):  # an absolute link within the root becomes a relative one
        texts = (here / path).readlink(), (there / path).readlink()
        leads = [os.path.relpath(os.path.realpath(root / path), root) for root in (here, there)]
        return (
            ""
            if texts[0] == texts[1] or leads[0] == leads[1]
            else f"leads to {texts[0]}, and to {texts[1]} there"
        )
    if (wanted ^ its.st_mode) & 0o777:
        return f"is {stat.filemode(wanted)} here and {stat.filemode(its.st_mode)} there"
    same = not stat.S_ISREG(wanted) or (here / path).read_bytes() == (there / path).read_bytes()
    return "" if same else "has other bytes there"


def strew(root: Path, dice: random.Random) -> None:
    """Make, change and remove some of what lies around and no commit has."""
    for name in dice.sample(LITTER, 5):
        path = root / name
        with contextlib.suppress(OSError):  # a commit has a file where we want a folder
            if path.exists() and dice.random() < 0.4:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{dice.random()}\n" * dice.randint(0, 50))


def choose(clone: Path, count: int, dice: random.Random) -> list[str]:
    """`count` commits, each far from the one before: a quarter of the history at least."""
    commits = git(clone, "rev-list", "--all").decode().split()
    chosen = [dice.randrange(len(commits))]
    while len(chosen) <= count:
        number = dice.randrange(len(commits))
        if abs(number - chosen[-1]) >= len(commits) // 4:
            chosen.append(number)
    return [commits[number] for number in chosen]


def torture(repository: Path, folder: Path, count: int, dice: random.Random, *, submodules: bool) -> Found:
    """`count` checkouts of one repository."""
    here, there = folder / "here", folder / "there"
    there.mkdir()
    git(folder, "clone", "-q", "--no-checkout", str(repository), str(here))
    first, *commits = choose(here, count, dice)
    checkout(here, first, submodules=submodules)
    (here / "dkdbg.toml").write_text(f'[sync]\nignore = ["!{MARKER}"]\n')
    (here / MARKER).touch()
    total = Found()
    sync = Sync(here, there)
    try:
        sync.settle("", there / MARKER)
        for number, commit in enumerate(commits):
            before = len(sync.events)
            strew(here, dice)
            checkout(here, commit, submodules=submodules)
            (here / MARKER).write_text(commit)
            sync.settle(commit, there / MARKER)
            found = compare(here, there)
            if found.divergences:
                time.sleep(10)
                late = compare(here, there)
                how = "" if late.divergences else " (gone 10 s later)"
                print(f"  {number}: {len(found.divergences)} divergences at {commit[:12]}{how}:")
                print(*(f"    {each}" for each in found.divergences[:20]), sep="\n")
                print(*(f"    said: {each}" for each in sync.events[before:][-20:]), sep="\n", flush=True)
            total.rounds += 1
            total.paths += found.paths
            total.links += found.links
            total.out += found.out
            total.divergences += [f"{commit[:12]}: {each}" for each in found.divergences]
    finally:
        sync.close()
    return total


def checkout(clone: Path, commit: str, *, submodules: bool) -> None:
    """Check `commit` out, whatever is in the way."""
    git(clone, "checkout", "-q", "-f", "--detach", commit)
    if submodules:
        words = ["git", "submodule", "-q", "update", "--init", "--force"]
        subprocess.run(words, cwd=clone, capture_output=True, check=False)  # a commit may be nowhere any more


def small_repository(root: Path) -> Path:
    """Make a repository of four commits: a file that changes, one that comes and goes, and a link."""
    root.mkdir()
    git(root, "init", "-q")
    who = ("-c", "user.name=b", "-c", "user.email=b@b", "-c", "commit.gpgsign=false")
    (root / ".gitignore").write_text("build/\n*.log\n")
    (root / "link").symlink_to("train.py")
    for number in range(4):
        (root / "train.py").write_text(f"run = {number}\n")
        if number % 2:
            (root / "odd.py").unlink()
        else:
            (root / "odd.py").write_text(f"{number}\n")
        git(root, "add", "-A")
        git(root, *who, "commit", "-q", "-m", str(number))
    return root


def main() -> int:
    command = parser(__doc__)
    command.add_argument("repo", nargs="*", type=Path)
    command.add_argument("--count", type=int, default=50, help="checkouts of each repository")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument(
        "--submodules", action="store_true", help="update those that git can reach after each checkout"
    )
    asked = parse(command, NEEDS, count=1)
    if not asked.repo and not asked.smallest:
        command.error("name a repository")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that sync is ended and the folders go
    diverged = 0
    for repository in asked.repo or [None]:
        with tempfile.TemporaryDirectory(prefix="dkdbg-checkouts-") as folder:
            dice = random.Random(asked.seed)
            began = time.monotonic()
            found = torture(
                repository or small_repository(Path(folder, "small")),
                Path(folder).resolve(),
                asked.count,
                dice,
                submodules=asked.submodules,
            )
        diverged += len(found.divergences)
        print(
            f"{repository or 'small'}: {found.rounds} checkouts in {time.monotonic() - began:.1f} s, {found.paths:,} paths compared ({found.links:,} links, "
            f"{found.out:,} left out), {len(found.divergences)} divergences", flush=True,
        )  # fmt: skip
    return 1 if diverged else 0


if __name__ == "__main__":
    sys.exit(main())
