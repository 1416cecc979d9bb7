"""Real files and real git, for the tests of sync."""

import contextlib
import os
import random
import shutil
import subprocess
from pathlib import Path

from dkdbg.sync.tree.scan import Scanner

SETTINGS = ("user.name=dkdbg", "user.email=dkdbg@example.invalid", "init.defaultBranch=main")
GIT = ("git", *(word for each in SETTINGS for word in ("-c", each)))


def git(root, *argv, stdin=None):
    """The output of a git command in `root`, bytes; nobody's own configuration counts."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run([*GIT, *argv], cwd=root, input=stdin, capture_output=True, env=env, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def fresh(root):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return root


def scanned(root, **options):
    scanner = Scanner(str(root), **options)
    return scanner, scanner.scan()


def put(root, files):
    """Write `files`, relative path to text; a path that ends in `/` is an empty folder."""
    for path, text in files.items():
        place = Path(root, path)
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


NAMES = ("a", "b", "c", "x.py", "y.log", "outputs", ".venv", "data", "e\nf")
RULES = ("*.log\n", "/a\n", "data/\n!data/x.py\n", "b/\n", "\n")


class Tree:
    """A local tree that changes at random, and the paths that a watcher would call dirty."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self.chance, self.dirty = root, chance, set()

    def path(self) -> str:
        return "/".join(self.chance.choice(NAMES) for _ in range(self.chance.randint(1, 4)))

    def any(self) -> str | None:
        found = [
            str(Path(folder, name).relative_to(self.root))
            for folder, names, files in os.walk(self.root)
            for name in [*names, *files]
        ]
        return self.chance.choice(found) if found else None

    def change(self) -> None:
        step = self.chance.choice(
            (self.write, self.write, self.write, self.remove, self.move, self.link, self.rules)
        )
        with contextlib.suppress(OSError):
            step()

    def write(self) -> None:
        self._at(self.path()).write_text(str(self.chance.random()))

    def remove(self) -> None:
        if path := self.any():
            place = self.root / path
            self.dirty.add(path)
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()

    def move(self) -> None:
        if source := self.any():
            (self.root / source).rename(self._at(self.path()))
            self.dirty.add(source)

    def link(self) -> None:
        self._at(self.path()).symlink_to(self.chance.choice(("a", "../b", "/etc", "c/x.py", ".")))

    def rules(self) -> None:
        path = self.chance.choice(("", "a/", "b/c/", "data/")) + self.chance.choice(
            (".gitignore", ".dockerignore")
        )
        self._at(path).write_text(self.chance.choice(RULES))
        if self.chance.random() < 0.2:
            self._at(self.path() + "/pyvenv.cfg").touch()

    def _at(self, path: str) -> Path:
        """The place of a path that is about to change; the folders above it are made, the first new one is dirty."""
        for folder in reversed(Path(path).parents):
            if not (self.root / folder).is_dir():
                self.dirty.add(str(folder))
                break
        place = self.root / path
        if place.is_symlink() or any((self.root / folder).is_symlink() for folder in Path(path).parents):
            raise OSError("through a link: the change would be elsewhere")
        place.parent.mkdir(parents=True, exist_ok=True)
        self.dirty.add(path)
        return place
