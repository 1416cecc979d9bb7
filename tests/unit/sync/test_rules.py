"""What takes part: git and Docker decide what their files mean, we only have to say the same."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.tree.scan import Scanner
from tests.unit.sync.trees import fresh, git, put, scanned

NAMES = ("a", "b", "c", "ab", "foo", "bar.py", "x.pyc", "data", "A", " ", "a b")
PARTS = (
    *NAMES, "*", "**", "?", "*.py", "*.py[co]", "[ab]", "[!a]", "[^a]", "[a-c]*", "f*o", "**a", "a**b", "***", "\\a",
    "\\*", "[[:alpha:]]", "[[:digit:]a]", "x\\ ", "[]a]", "[!]a]", "*b", "?b", "[a-]", "[\\a]", "a\\", "",
)  # fmt: skip


@st.composite
def patterns(draw, parts=PARTS):
    body = "/".join(draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3)))
    start = draw(st.sampled_from(("", "", "", "/", "!", "!/", "#", "\\!")))
    return start + body + draw(st.sampled_from(("", "", "", "/", "  ", "//")))


trees = st.recursive(
    st.none(), lambda below: st.dictionaries(st.sampled_from(NAMES), below, max_size=4), max_leaves=20
)
rule_files = st.lists(patterns(), min_size=1, max_size=4).map("\n".join)


def _build(folder, tree, texts):
    for name, below in tree.items():
        if below is None:
            (folder / name).touch()
        else:
            (folder / name).mkdir()
            _build(folder / name, below, texts)
    if texts:
        (folder / ".gitignore").write_text(texts.pop())


def _all_paths(root):
    found = []
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        found += [str(Path(folder, name).relative_to(root)) for name in [*names, *files]]
    return found


def _ignored_by_git(root, paths):
    said = git(root, "check-ignore", "-znv", "--stdin", stdin="\0".join(paths).encode())
    fields = said.decode().split("\0")
    rows = zip(fields[2::4], fields[3::4], strict=False)
    return {path for pattern, path in rows if pattern and not pattern.startswith("!")}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(NAMES), trees, min_size=1, max_size=5),
    st.lists(rule_files, max_size=4),
    rule_files,
)
def test_git_and_we_ignore_the_same(tree, texts, exclude):
    """Whatever trees and patterns: the names that our own defaults do not take are out exactly when git says so."""
    root = Path(tempfile.mkdtemp())
    try:
        git(root, "init", "-q")
        _build(root, tree, list(texts))
        (root / ".git/info/exclude").write_text(exclude)
        paths = [path for path in _all_paths(root) if "x.pyc" not in path]
        if not paths:
            return
        ignored = _ignored_by_git(root, paths)
        entries = Scanner(str(root)).scan().entries
        assert {path for path in paths if path not in entries} == ignored
        rules = Rules(str(root))
        assert {path for path in paths if not rules.why(path).takes_part} == ignored
    finally:
        shutil.rmtree(root)


def test_rules_above_a_root_and_the_exclude_file_of_a_worktrees_repository_count(root):
    git(root, "init", "-q")
    put(root, {".gitignore": "*.log\n/work/out\n/out2\n", "work/a.log": "", "work/out": "", "work/out2": ""})
    assert set(Scanner(str(root / "work")).scan().entries) == {"out2"}
    put(fresh(root), {"main/a.py": ""})
    git(root / "main", "init", "-q")
    git(root / "main", "add", ".")
    git(root / "main", "commit", "-qm", "x")
    git(root / "main", "worktree", "add", "-q", "../other")
    put(root, {"main/.git/info/exclude": "*.tmp\n", "other/x.tmp": ""})
    assert set(Scanner(str(root / "other")).scan().entries) == {"a.py"}


@pytest.mark.parametrize("setting", ["", "ignored", "~/ignored"])
def test_the_users_own_excludes_file_counts_as_the_weakest_of_gits(root, tmp_path, monkeypatch, setting):
    """core.excludesFile, by default ~/.config/git/ignore."""
    home, config = tmp_path / "home", tmp_path / "config"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    file = (
        home / ".config/git/ignore" if not setting else home / "ignored" if "~" in setting else root / setting
    )
    put(file.parent, {"dotfile": "*.scratch\nnotes/\n/ignored\n/dotfile\n"})
    file.symlink_to("dotfile")
    config.write_text(f"[core]\n\texcludesFile = {setting}\n" if setting else "")
    put(root, {"a.py": "", "b.scratch": "", "notes/n": "", "d/c.scratch": "", "d/.gitignore": "!c.scratch\n"})
    assert "b.scratch" in Scanner(str(root)).scan().entries  # no repository
    git(root, "init", "-q")
    ignored = subprocess.run(
        ["git", "check-ignore", "b.scratch", "notes/n", "d/c.scratch"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    assert ignored.stdout == b"b.scratch\nnotes/n\n"
    scanner, index = scanned(root)
    assert set(index.entries) == {"a.py", "d", "d/c.scratch", "d/.gitignore"}
    assert str(file) in scanner.rules.files
    assert f"{file}:1" in scanner.rules.why("b.scratch").reason


def test_a_repository_within_has_rules_of_its_own_and_not_those_around_it(root):
    """A submodule, or a clone below the root: the `lib/` of a Python .gitignore kept its sources out."""
    git(root, "init", "-q")
    put(
        root,
        {
            ".gitignore": "lib/\n*.json\n/third/no/\n",
            ".git/info/exclude": "*.top\n",
            "lib/a": "",
            "third/no/a": "",
        },
    )
    inside = {
        "lib/core.py": "",
        "a.json": "",
        "b.top": "",
        "outputs/base.yaml": "",
        "net.pth": "",
        "kept.tmp": "",
        ".gitignore": "*.tmp\n",
    }
    put(root / "third/sm", inside)
    git(root / "third/sm", "init", "-q")
    git(root / "third/sm", "add", "-f", ".")
    put(root / "third/sm", {"x.tmp": "", "y.mine": "", "other.pth": "", ".git/info/exclude": "*.mine\n"})
    put(root, {"none/.git": "not a repository", "none/b.json": ""})
    scanner, index = scanned(root)
    files = {path for path, entry in index.entries.items() if entry.kind == "f"}
    assert files == {".gitignore", *(f"third/sm/{name}" for name in inside)}
    for path in index.entries:
        assert scanner.rules.why(path).takes_part, path
    assert "third/sm/.git/info/exclude:1" in scanner.rules.why("third/sm/y.mine").reason
    assert str(root / "third/sm/.git/index") in scanner.rules.files


DOCKER_CASES = [
    # pattern lines, then what of the tree is in
    ("*\n!src", {"src", "src/a.py", "src/deep", "src/deep/b.py"}),
    ("src\n!src/deep/b.py", {"src", "src/deep", "src/deep/b.py", "top.py", "x", "x/src", "x/src/c.py"}),
    ("**/src", {"top.py", "x"}),
    ("/src/", {"top.py", "x", "x/src", "x/src/c.py"}),
    ("./src/../x", {"src", "src/a.py", "src/deep", "src/deep/b.py", "top.py"}),
    ("src/*", {"src", "top.py", "x", "x/src", "x/src/c.py"}),
    ("# x\n\n  top.py  \nsrc\nx", set()),
    ("!top.py\n*.py", {"src", "src/a.py", "src/deep", "src/deep/b.py", "x", "x/src", "x/src/c.py"}),
    ("**\n!**/*.py", {"src", "src/a.py", "src/deep", "src/deep/b.py", "top.py", "x", "x/src", "x/src/c.py"}),
]


@pytest.mark.parametrize(("text", "inside"), DOCKER_CASES)
def test_dockerignore_means_what_docker_means(root, text, inside):
    put(root, {"src/a.py": "", "src/deep/b.py": "", "top.py": "", "x/src/c.py": "", ".dockerignore": text})
    assert set(Scanner(str(root)).scan().entries) - {".dockerignore"} == inside


@settings(max_examples=80, deadline=None)
@given(st.lists(patterns(("a", "b", "c", "foo", "*", "?", "[ab]", "f*o", "*b")), min_size=1, max_size=4))
def test_the_docker_sdk_and_we_ignore_the_same(lines):
    """Without `**`, where the SDK knowingly differs from the engine: it does not take what is below a match."""
    from docker.utils.build import PatternMatcher

    lines = [line for line in lines if not line.startswith(("#", "\\"))]
    oracle = PatternMatcher(list(lines))
    paths = ["a/b/c", "a/c", "b/foo/a", "ab", "foo", "c/a/foo", "b/b/b", "f/c"]
    with tempfile.TemporaryDirectory() as folder:
        put(folder, dict.fromkeys(paths, ""))
        Path(folder, ".dockerignore").write_text("\n".join(lines))
        entries = Scanner(folder).scan().entries
    assert {path for path in paths if path in entries} == {path for path in paths if not oracle.matches(path)}


def test_environments_caches_and_checkpoints_are_out_by_default_and_python_files_beside_them_are_source(root):
    names = """
        train.py .git/config .venv/bin/python myenv/pyvenv.cfg myenv/lib/x.py conda/conda-meta/history conda/bin/python
        pkg/__pycache__/x.cpython-311.pyc node_modules/x/y.js .pytest_cache/v model.pt outputs/2024/log.txt
        checkpoints/step-1/optimizer.bin wandb/run/x.wandb .dkdbg-sync/ledger .train.py.swp
    """
    put(root, dict.fromkeys(names.split(), ""))
    assert set(Scanner(str(root)).scan().entries) == {"train.py", "pkg"}
    put(fresh(root), {"pkg/checkpoints/io.py": "", "pkg/checkpoints/weights.bin": "", "outputs/a/b.txt": ""})
    entries = Scanner(str(root)).scan().entries
    assert set(entries) == {"pkg", "pkg/checkpoints", "pkg/checkpoints/io.py"}


def test_what_git_tracks_or_gitignore_brings_back_is_in_and_gitignore_counts_without_a_repository(root):
    git(root, "init", "-q")
    tracked = ("tiny.pt", "outputs/README.md", "data/keep.csv", "node_modules/patched.js", ".gitignore")
    others = ("big.pt", "outputs/new.txt", "data/raw.csv", "node_modules/x.js")
    put(root, dict.fromkeys((*tracked, *others), "") | {".gitignore": "data/\n"})
    git(root, "add", "-f", *tracked)
    scanner = Scanner(str(root))
    inside = {*tracked, "outputs", "outputs/new.txt", "data", "node_modules"}
    assert set(scanner.scan().entries) == inside
    assert "git tracks it" in scanner.rules.why("data/keep.csv").reason
    git(fresh(root), "init", "-q")
    put(root, {".gitignore": "!tiny.pt\n", "tiny.pt": "", "big.pt": ""})
    assert set(Scanner(str(root)).scan().entries) == {".gitignore", "tiny.pt"}
    put(fresh(root), {".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    assert set(Scanner(str(root)).scan().entries) == {".gitignore", "a.py"}


def test_the_repository_of_a_git_hook_that_we_run_in_does_not_count(root, monkeypatch):
    put(root, {"here/m.pt": "", "other/x": ""})
    for folder in ("here", "other"):
        git(root / folder, "init", "-q")
        git(root / folder, "add", "-f", ".")
    monkeypatch.setenv("GIT_DIR", str(root / "other/.git"))
    assert set(Scanner(str(root / "here")).scan().entries) == {"m.pt"}


@pytest.mark.parametrize(
    ("ignore", "inside"),
    [
        (["*.py"], {"data", "data/big.csv"}),
        (["!logs/x.log"], {"a.py", "data", "data/big.csv", "logs", "logs/x.log"}),
        (["data/*", "!data/big.csv"], {"a.py", "data", "data/big.csv"}),
        (["data/", "!data/big.csv"], {"a.py", "data", "data/big.csv"}),
        (["!*.pt"], {"a.py", "data", "data/big.csv", "m.pt"}),
        (["!docker/*.txt"], {"a.py", "data", "data/big.csv", "docker", "docker/d.txt"}),
        (["!.venv/lib/**"], {"a.py", "data", "data/big.csv", ".venv", ".venv/lib", ".venv/lib/y.py"}),
    ],
)
def test_sync_ignore_has_the_last_word(root, ignore, inside):
    names = "a.py data/big.csv logs/x.log m.pt docker/d.txt .venv/lib/y.py"
    put(root, dict.fromkeys(names.split(), "") | {".gitignore": "logs/\n", ".dockerignore": "docker\n"})
    entries = Scanner(str(root), rules=lambda where: Rules(where, ignore=ignore)).scan().entries
    assert set(entries) - {".gitignore", ".dockerignore"} == inside


@pytest.mark.parametrize(
    ("path", "takes_part", "words"),
    [
        ("a.py", True, "no rule"),
        ("src/x.log", False, "'*.log' in src/.gitignore:2"),
        ("docker/deep/y", False, "'/docker' in .dockerignore:1, which keeps docker/ out"),
        ("m.pt", False, "'*.pt' in defaults"),
        ("kept.pt", True, "included again by '!kept.pt' in [sync] ignore of dkdbg.toml"),
        ("env/lib/x.py", False, "virtual environments, which keeps env/ out"),
        ("env", False, "virtual environments"),
        ("nothing/here.txt", True, "no rule"),
    ],
)
def test_why_names_the_rule_its_file_and_line(root, path, takes_part, words):
    put(root, {"src/.gitignore": "# logs\n*.log\n", ".dockerignore": "docker\n", "env/pyvenv.cfg": ""})
    verdict = Rules(str(root), ignore=["!kept.pt"]).why(path)
    assert (verdict.takes_part, words in verdict.reason) == (takes_part, True), verdict


def test_a_gitignore_that_is_a_symlink_is_not_read_as_git_does_not(root):
    put(root, {"rules": "*.py\n", "a.py": ""})
    (root / ".gitignore").symlink_to("rules")
    assert "a.py" in Scanner(str(root)).scan().entries


@pytest.mark.parametrize("name", [".gitignore", ".dockerignore", "pkg/.gitignore"])
def test_a_folder_where_a_rule_file_should_be_has_no_rules_and_stops_nothing(root, name):
    put(root, {f"{name}/inside": "", "a.py": "", "pkg/b.py": ""})
    assert {f"{name}/inside", "a.py", "pkg/b.py"} <= set(Scanner(str(root)).scan().entries)
