#!/usr/bin/env python3
"""Score `dkdbg init` on public repositories against their true facts.

    tests/corpus/score.py [LIST.jsonl ...] [--from FOLDER] [--trees FOLDER] [--dkdbg COMMAND] [--only NAME] [--facts] [--json]

Without a list: seen.jsonl and once.jsonl beside this file. Each repository is fetched by git at the commit that its line
names, from GitHub or from FOLDER (bare repositories `owner+name`, `owner+name/repo` or `owner/name`), and kept in the
folder of trees; a blob that a mirror lacks becomes an empty file, a submodule an empty folder. Nothing of it is run.

Per repository, on a fresh copy with an empty history:

1. `init --json --diff` exits 0, says its facts, and writes nothing (with `--facts` this alone): which facts are right
   at once, which among the first three candidates of their choice, and how many questions a terminal would get. The
   program is the one of the command that is written;
2. `init --yes` exits 0, and no file that was there changes but those that may grow (`.vscode`, `.devcontainer`, `.env`);
3. `docker compose config` accepts what was written, with and without the profile `debug`; variables and
   environment files that `init` said the repository's compose file needs are there for it;
4. a second `init --yes` changes nothing, and `init --undo` brings back every byte.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LISTS = (HERE / "seen.jsonl", HERE / "once.jsonl")
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dkdbg-tests" / "corpus"
GROW = (".vscode/*.json", "*/.vscode/*.json", ".devcontainer/*.json", ".gitignore", ".env")


@dataclass
class Score:
    """What held and what did not in one repository, fact by fact and rule by rule."""

    repo: str
    facts: dict[str, bool] = field(default_factory=dict)
    first_three: dict[str, bool] = field(default_factory=dict)
    questions: int = 0
    does: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [name for name, held in {**self.facts, **self.does}.items() if not held]


def git(folder: Path, *arguments: str) -> bytes:
    """Run git on a bare repository; its standard output.

    Raises:
        subprocess.CalledProcessError: git refused.
    """
    argv = ["git", "--git-dir", str(folder), *arguments]
    return subprocess.run(argv, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout


def tree_of(repo: str, commit: str, trees: Path, source: Path | None) -> Path:
    """Return the folder with the files of `repo` at `commit`; fetched where it is not kept yet.

    Raises:
        OSError, subprocess.CalledProcessError: it cannot be had.
    """
    name = repo.replace("/", "+")
    tree = trees / f"{name}@{commit[:12]}"
    if tree.is_dir():
        return tree
    trees.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=trees) as temporary:
        if source is not None:
            found = [
                path
                for path in (source / name / "repo", source / name, source / repo)
                if (path / "HEAD").is_file()
            ]
            if not found:
                raise FileNotFoundError(f"{source} has no {name}")
            bare = found[0]
        else:
            bare = Path(temporary) / "bare"
            subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
            git(bare, "fetch", "-q", "--depth=1", f"https://github.com/{repo}", commit)
        out = Path(temporary) / "tree"
        write_tree(bare, commit, out)
        out.rename(tree)
    return tree


def write_tree(bare: Path, commit: str, out: Path) -> None:
    """Write the files of `commit` into `out` byte by byte: no filter, no hook and no attribute of theirs has a say."""
    out.mkdir(parents=True)
    with subprocess.Popen(
        ["git", "--git-dir", str(bare), "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as cat:
        for entry in git(bare, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            if not entry:
                continue
            about, _, named = entry.partition(b"\t")
            mode, kind, digest = about.decode().split()
            path = out / os.fsdecode(named)
            if {"..", ".git"} & set(path.relative_to(out).parts) or not _inside(path, out):
                raise OSError(f"a file of the repository lies outside of it: {path}")
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "commit":
                path.mkdir(exist_ok=True)
                continue
            cat.stdin.write(digest.encode() + b"\n")
            cat.stdin.flush()
            head = cat.stdout.readline().split()
            data = b""
            if head[1] != b"missing":
                data = cat.stdout.read(int(head[2]))
                cat.stdout.read(1)
            if mode == "120000" and data:
                path.symlink_to(os.fsdecode(data))
            else:
                path.write_bytes(data)
                path.chmod(0o755 if mode == "100755" else 0o644)


def _inside(path: Path, out: Path) -> bool:
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(out))


def snapshot(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/", maxsplit=1)[0] == ".git":
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def run(
    command: list[str], folder: Path, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        settings = {"cwd": folder, "env": {**os.environ, **(variables or {})}, "stdin": subprocess.DEVNULL}
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **settings)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "timed out")


def minor(version: str | None) -> str | None:
    text = (version or "").split("+")[0].lstrip("=<>~!^ ")
    return ".".join(text.split(".")[:2]) if text else None


#: Questions that `init` asks at most.
MAX_QUESTIONS = 3


def written(answer: dict) -> dict:
    """Return the facts, with the program of the command that is written."""
    facts, chosen = answer["facts"], choice(answer, "command")[:1]
    if not chosen:  # before there were choices
        return facts
    program = {"command": chosen[0]["value"], "file": chosen[0].get("file")}
    idles = answer["command"] == ["sleep", "infinity"]
    return {
        **facts,
        "entrypoint": None if idles else program,
        "launcher": chosen[0].get("launcher", facts["launcher"]),
    }


def choice(answer: dict, topic: str) -> list[dict]:
    """Return the first three candidates of a choice."""
    found = (each["candidates"] for each in answer.get("choices", ()) if each["what"] == topic)
    return next(found, [])[:3]


def variants(answer: dict) -> list[dict]:
    """Return the facts as they would be with each of the first three candidates of each choice."""
    facts = written(answer)
    made = [facts]
    made += [{**facts, topic: each["value"]} for topic in ("python", "gpu") for each in choice(answer, topic)]
    made += [
        {**facts, "service": {"name": each["value"].rpartition(":")[2], "file": each["value"]}}
        for each in choice(answer, "service")
    ]
    made += [
        {
            **facts,
            "entrypoint": {"command": each["value"], "file": each.get("file")},
            "launcher": each.get("launcher"),
        }
        for each in choice(answer, "command")
    ]
    return made


def right_facts(said: dict, true: dict) -> dict[str, bool]:
    """Fact by fact, whether what `init` says is among what is true; a fact that nobody wrote down is not asked."""
    got = {
        "python": minor(said.get("python")) in true["python"]["accept"],
        "package_manager": said.get("package_manager") in true["accept_package_managers"],
    }
    torch, wanted = said.get("torch") or {}, true.get("torch") or {}
    if wanted.get("version"):
        got["torch"] = minor(torch.get("version")) in set(re.findall(r"\b(\d+\.\d+)", wanted["version"]))
    if wanted.get("cuda_accept"):
        got["cuda"] = minor(torch.get("cuda")) in wanted["cuda_accept"]
    got["entrypoint"] = _right_entry(said.get("entrypoint") or {}, true)
    words = {true["launcher"], *(word.split()[0] for word in true.get("launchers") or [])}
    got["launcher"] = said.get("launcher") in words
    service, seen = true.get("debug_service"), said.get("service") or {}
    if not service:
        got["service"] = seen.get("file") is None
    elif not service.get("accept_any_example"):
        names = {
            service["name"],
            service.get("cpu_name"),
            *(service.get("accept") or []),
            *(service.get("also") or []),
        } - {None}
        got["service"] = seen.get("name") in names
    if true.get("path_mappings"):
        pairs = {_pair(mapping) for mapping in said.get("mappings") or []}
        got["mappings"] = all(_pair(mapping) in pairs for mapping in true["path_mappings"])
    got["gpu"] = said.get("gpu") == true["gpu"]
    return got


def _pair(mapping: dict) -> tuple[str, str]:
    return mapping["local"].strip("./") or ".", mapping["remote"].rstrip("/")


def _right_entry(entry: dict, true: dict) -> bool:
    primary = [known for known in true.get("entrypoints") or [] if known.get("primary")]
    if not primary:
        return not entry
    file, command = entry.get("file"), entry.get("command") or ""
    globs = true.get("primary_accept_glob") or []
    globs = [globs] if isinstance(globs, str) else globs
    accepted = {known["file"] for known in primary if known.get("file")} | set(
        true.get("primary_accept") or []
    )
    accepted |= {known["cmd"] for known in primary if known.get("cmd")}
    return (
        file in accepted
        or command in accepted
        or any(fnmatch.fnmatch(file or "", glob) for glob in globs)
        or any(known.get("cmd") and _starts(known["cmd"]) == _starts(command) for known in primary)
    )


def _starts(command: str) -> list[str]:
    """What a command line starts: its words up to the program, without the program's own."""
    words = command.split()
    return words[: 3 if words[1:2] in (["-m"], ["run"]) else 2]


def score(line: dict, tree: Path, dkdbg: list[str], *, facts_alone: bool) -> Score:
    """Run `init` on a copy of the tree, and compare."""
    result = Score(repo=line["repo"])
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / line["repo"].split("/")[1]
        # Nothing writes there for the facts alone, so links are enough.
        shutil.copytree(tree, root, symlinks=True, copy_function=os.link if facts_alone else shutil.copy2)
        run(["git", "init", "-q"], root)
        before = {} if facts_alone else snapshot(root)
        shown = run([*dkdbg, "init", "--json", "--diff"], root)
        needs: dict[str, str] = {}
        needs_files: list[Path] = []
        try:
            answer = json.loads(shown.stdout)
            result.facts = right_facts(written(answer), line["facts"])
            each_right = [right_facts(said, line["facts"]) for said in variants(answer)]
            result.first_three = {name: any(right[name] for right in each_right) for name in result.facts}
            asked = sum(each["close"] > 1 for each in answer.get("choices", ()))
            result.questions = min(asked, MAX_QUESTIONS)
            needs = {name: "8080" if "PORT" in name else "./x" for name in answer["facts"]["needs"]}
            needs_files = [root / name for name in answer["facts"]["needs_files"]]
        except (ValueError, KeyError, TypeError):
            result.facts = {"facts": False}
            result.notes.append(f"no facts: {_end(shown)}")
        result.does["diff exits 0"] = shown.returncode == 0
        if facts_alone:
            return result
        result.does["diff writes nothing"] = snapshot(root) == before
        made = run([*dkdbg, "init", "--yes"], root)
        result.does["init exits 0"] = made.returncode == 0
        if made.returncode:
            result.notes.append(f"init: {_end(made)}")
        after = snapshot(root)
        touched = [
            name
            for name in before
            if after.get(name) != before[name] and not any(fnmatch.fnmatch(name, glob) for glob in GROW)
        ]
        result.does["your files untouched"] = not touched
        result.notes += [f"touched {name}" for name in touched[:5]]
        for file in needs_files:
            file.touch()
        for flags, rule in ((["--profile", "debug"], "compose with debug"), ([], "compose without")):
            read = run(["docker", "compose", *flags, "config", "-q"], root, needs)
            result.does[rule] = read.returncode == 0
            if read.returncode:
                result.notes.append(f"{rule}: {_end(read)}")
        for file in needs_files:
            file.unlink()
        again = run([*dkdbg, "init", "--yes"], root)
        result.does["second run changes nothing"] = again.returncode == 0 and snapshot(root) == after
        undone = run([*dkdbg, "init", "--undo"], root)
        result.does["undo restores every byte"] = undone.returncode == 0 and snapshot(root) == before
    return result


def _end(of: subprocess.CompletedProcess[str]) -> str:
    return (of.stderr or of.stdout).strip()[-200:]


def share(held: int, all_of: int) -> str:
    return f"{held}/{all_of} ({100 * held / all_of:.1f} %)" if all_of else "-"


def table(name: str, scores: list[Score]) -> str:
    """A corpus as a table: a line a repository, then the sums."""
    width = max([len(one.repo) for one in scores] + [len(name)])
    lines = [f"{name:{width}}  facts  of 3   behaviour  asked  wrong"]
    sums = {"facts": [0, 0], "first_three": [0, 0], "does": [0, 0]}
    for one in scores:
        told = []
        for kind, held in (("facts", one.facts), ("first_three", one.first_three), ("does", one.does)):
            sums[kind][0] += sum(held.values())
            sums[kind][1] += len(held)
            told.append(f"{sum(held.values())}/{len(held)}")
        wrong = [f"{each} (of 3)" if one.first_three.get(each) else each for each in one.wrong]
        lines.append(
            f"{one.repo:{width}}  {told[0]:5}  {told[1]:5}  {told[2]:9}  {one.questions:5}  {', '.join(wrong)}".rstrip()
        )
        lines += [f"{'':{width}}    {' '.join(note.split())}" for note in one.notes]
    asked = sorted(one.questions for one in scores) or [0]
    lines.append(
        f"{name}: facts at once {share(*sums['facts'])}, among the first three {share(*sums['first_three'])},"
        f" questions {statistics.median(asked)} (median), {statistics.mean(asked):.2f} (mean), {asked[-1]} (most), behaviour {share(*sums['does'])}, {len(scores)} repositories"
    )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the tables; 1 when something is wrong, 2 when a repository could not be had."""
    parser = argparse.ArgumentParser(description="Score `dkdbg init` on public repositories.")
    parser.add_argument("lists", nargs="*", type=Path, default=list(LISTS), metavar="LIST.jsonl")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FOLDER", help="bare repositories instead of GitHub"
    )
    parser.add_argument(
        "--trees", type=Path, default=KEPT, metavar="FOLDER", help=f"where files are kept (default {KEPT})"
    )
    parser.add_argument(
        "--dkdbg", default=str(HERE.parents[1] / ".venv" / "bin" / "dkdbg"), metavar="COMMAND"
    )
    parser.add_argument("--only", metavar="NAME", help="repositories whose name has this in it")
    parser.add_argument("--facts", action="store_true", help="the facts alone, without writing anything")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args(arguments)
    worst, told = 0, []
    for listing in options.lists:
        scores = []
        for line in map(json.loads, listing.read_text("utf-8").splitlines()):
            if options.only and options.only not in line["repo"]:
                continue
            try:
                tree = tree_of(line["repo"], line["commit"], options.trees, options.source)
            except (OSError, subprocess.CalledProcessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                said = said.decode(errors="replace") if isinstance(said, bytes) else said
                scores.append(
                    Score(repo=line["repo"], facts={"files": False}, notes=[f"not scored: {said.strip()}"])
                )
                worst = 2
                continue
            scores.append(score(line, tree, shlex.split(options.dkdbg), facts_alone=options.facts))
            if scores[-1].wrong:
                worst = max(worst, 1)
        told.append({"list": listing.name, "repositories": [vars(one) for one in scores]})
        if not options.as_json:
            print(table(listing.name, scores), flush=True)
    if options.as_json:
        print(json.dumps(told, indent=1))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
