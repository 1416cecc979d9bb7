"""Random work on a tree, as people, editors and git do it, and what the two sides look like afterwards."""

import os
import random
import shutil
import stat
import subprocess
import threading
import time

NAMES = (
    "a", "A", "b.py", "B.py", "c", "ä.txt", "sp ace", "new\nline", "x", "y.sh", ".dot", "名" * 80, os.fsdecode(b"n\xff"),
)  # fmt: skip
RULE_FILES = (".gitignore", ".dockerignore")
RULES = ("a", "b.py", "c", "x", "y.sh")
OWN = ".dkdbg-sync"
WORK = (
    "create", "create", "modify", "same_size", "delete", "delete_tree", "rename", "rename", "rename_case", "chmod", "link",
    "folder", "rewrite", "save_by_rename", "turn_into_folder", "turn_into_file", "large", "burst", "append_slowly",
    "rules", "rules", "no_rules", "rules_folder", "move_away_and_back", "hard_link", "hard_link", "grow",
)  # fmt: skip


class Churn:
    """Operations on one local tree, chosen by `dice`. Each does nothing where it makes no sense."""

    def __init__(self, root: str, dice: random.Random) -> None:
        self.root = root
        self.dice = dice
        self.log: list[str] = []
        self.growing: list[threading.Thread] = []

    def rest(self) -> None:
        for thread in self.growing:
            thread.join()
        self.growing.clear()

    def step(self) -> None:
        name = self.dice.choice(WORK)
        try:
            self.log.append(f"{name} {getattr(self, name)()}")
        except OSError as error:
            self.log.append(f"{name}: {error}")

    def _folders(self):
        return [
            self.root,
            *(
                os.path.join(at, name)
                for at, names, _ in os.walk(self.root)
                for name in names
                if not os.path.islink(os.path.join(at, name))
            ),
        ]

    def _files(self):
        return [
            path
            for at, _, names in os.walk(self.root)
            for name in names
            if name not in RULE_FILES and not os.path.islink(path := os.path.join(at, name))
        ]

    def _everything(self):
        return [
            os.path.join(at, name) for at, folders, files in os.walk(self.root) for name in (*folders, *files)
        ]

    def _one(self, paths):
        if not paths:
            raise FileNotFoundError("nothing to choose from")
        return self.dice.choice(sorted(paths))

    def _free(self):
        return os.path.join(self._one(self._folders()), self.dice.choice(NAMES))

    def _bytes(self, size=None):
        return self.dice.randbytes(self.dice.randint(0, 3000) if size is None else size)

    def create(self):
        path = self._free()
        with open(path, "xb") as file:
            file.write(self._bytes())
        return path

    def modify(self):
        path = self._one(self._files())
        with open(path, "ab") as file:
            file.write(self._bytes(10))
        return path

    def same_size(self):
        path = self._one(self._files())
        with open(path, "r+b") as file:
            file.write(self._bytes(min(os.path.getsize(path), 20)))
        return path

    def delete(self):
        path = self._one(self._files())
        os.unlink(path)
        return path

    def delete_tree(self):
        path = self._one(self._folders()[1:])
        shutil.rmtree(path)
        return path

    def rename(self):
        old, new = self._one(self._everything()), self._free()
        os.rename(old, new)
        return f"{old} -> {new}"

    def rename_case(self):
        old = self._one([path for path in self._everything() if os.path.basename(path) not in RULE_FILES])
        folder, name = os.path.split(old)
        new = os.path.join(folder, name.swapcase())
        if not os.path.lexists(new):
            os.rename(old, new)
        return f"{old} -> {new}"

    def chmod(self):
        path = self._one(self._files())
        os.chmod(path, self.dice.choice((0o644, 0o755, 0o600, 0o664)))
        return path

    def link(self):
        path = self._free()
        os.symlink(self.dice.choice(("a", "x", "nowhere")), path)
        return path

    def folder(self):
        path = self._free()
        os.mkdir(path)
        return path

    def rewrite(self):
        path = self._one(self._files())
        with open(path, "wb") as file:
            file.write(self._bytes())
        return path

    def save_by_rename(self):
        path = self._one(self._files())
        with open(path + "~tmp", "wb") as file:
            file.write(self._bytes())
        os.replace(path + "~tmp", path)
        return path

    def turn_into_folder(self):
        path = self._one(self._files())
        os.unlink(path)
        os.mkdir(path)
        with open(os.path.join(path, self.dice.choice(NAMES)), "wb") as file:
            file.write(self._bytes())
        return path

    def turn_into_file(self):
        path = self._one([path for path in self._folders()[1:] if os.path.basename(path) not in RULE_FILES])
        shutil.rmtree(path)
        with open(path, "wb") as file:
            file.write(self._bytes())
        return path

    def large(self):
        path = self._one(self._files())
        with open(path, "wb") as file:
            file.write(self._bytes(self.dice.randint(1 << 20, 3 << 20)))
        return path

    def burst(self):
        folder = os.path.join(self._one(self._folders()), f"many{self.dice.randint(0, 2)}")
        os.makedirs(folder, exist_ok=True)
        for number in range(self.dice.randint(1, 60)):
            with open(os.path.join(folder, f"f{number}"), "wb") as file:
                file.write(self._bytes(30))
        return folder

    def append_slowly(self):
        path = self._one(self._files())
        for _ in range(5):
            with open(path, "ab") as file:
                file.write(self._bytes(7))
        return path

    def rules(self):
        path = os.path.join(self._one(self._folders()), ".gitignore")
        if self.dice.random() < 0.5:
            path = os.path.join(self.root, ".dockerignore")
        rule = self.dice.choice(RULES)
        with open(path, "w") as file:
            file.write(rule + "\n")
        return f"{path} {rule}"

    def no_rules(self):
        path = self._one([path for path in self._everything() if os.path.basename(path) in RULE_FILES])
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        return path

    def rules_folder(self):
        path = os.path.join(self._one(self._folders()), self.dice.choice(RULE_FILES))
        os.mkdir(path)
        return path

    def move_away_and_back(self):
        path = self._one(self._folders()[1:])
        away = os.path.join(os.path.dirname(self.root), "away")
        os.rename(path, away)
        os.rename(away, path)
        return path

    def hard_link(self):
        old, new = self._one(self._files()), self._free()
        os.link(old, new)
        return f"{old} = {new}"

    def grow(self):
        path = self._one(self._files())
        lines, end = self._bytes(1000), time.monotonic() + 0.3
        file = open(path, "ab", buffering=0)  # noqa: SIM115 - the thread closes it

        def write():
            with file:
                while time.monotonic() < end:
                    file.write(lines)
                    time.sleep(0.001)

        self.growing.append(threading.Thread(target=write))
        self.growing[-1].start()
        return path


def left_out(root: str, paths: list[str]) -> set[str]:
    """Those of `paths` that a rule of `Churn.rules` leaves out, as git itself and a plain reading of Docker's say."""
    out = set()
    try:
        with open(os.path.join(root, ".dockerignore")) as file:
            rule = file.read().strip()
        out = {path for path in paths if path == rule or path.startswith(rule + "/")}
    except (FileNotFoundError, IsADirectoryError):
        pass
    aside = root + ".git"
    if not os.path.isdir(aside):
        subprocess.run(["git", "init", "-q", "--bare", aside], check=True)
    asked = b"\0".join(os.fsencode(path) for path in paths)
    argv = ["git", f"--git-dir={aside}", f"--work-tree={root}", "-c", "core.bare=false", "check-ignore"]
    argv += ["--no-index", "-z", "--stdin"]
    done = subprocess.run(argv, cwd=root, input=asked, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise OSError(done.stderr.decode())
    return out | {os.fsdecode(path) for path in done.stdout.split(b"\0")[:-1]}


def picture(root: str) -> dict[str, tuple[object, ...]]:
    """What a tree looks like to a program: path -> kind and content; for a file its mode too."""
    seen: dict[str, tuple[object, ...]] = {}
    for at, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != OWN or at != root]
        for name in (*folders, *files):
            path = os.path.join(at, name)
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                seen[os.path.relpath(path, root)] = ("link", os.readlink(path))
            elif stat.S_ISDIR(info.st_mode):
                seen[os.path.relpath(path, root)] = ("folder",)
            else:
                with open(path, "rb") as file:
                    seen[os.path.relpath(path, root)] = ("file", info.st_mode & 0o777, file.read())
    return seen


def contents(root: str) -> set[bytes]:
    """The content of every file below `root`, what was moved aside included."""
    found = set()
    for at, _, files in os.walk(root):
        for name in files:
            path = os.path.join(at, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    found.add(file.read())
    return found
