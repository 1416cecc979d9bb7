"""What the image alone has below the mounted checkout is there in the debug service, as in plain `docker compose up`."""

import os
import shutil
import signal
import sys
from types import SimpleNamespace

import pytest

from dkdbg.repository.artefacts import artefact
from dkdbg.targets.docker.image_build import ImageBuild, removal_of_copies
from tests.commands import executable
from tests.engine.projects import (
    MARK,
    command,
    container,
    dkdbg,
    launch_options,
    must,
    project,
    stopped_in,
    unique,
)
from tests.ports import free_port

pytestmark = pytest.mark.engine

MAIN = f"""\
import pathlib

import pkg.made
import schema

here = pathlib.Path(__file__).parent
total = schema.N + pkg.made.N + sum(len(path.read_text()) for path in here.rglob("*.bin"))
print("total", total, flush=True)  {MARK}
(here / "weights" / "log.txt").write_text("x")
"""
DOCKERFILE = """\
FROM {base}
WORKDIR /app
COPY . .
RUN echo 'N = 3' >schema.py && echo 'N = 4' >pkg/made.py && mkdir -p weights && printf 12345 >weights/w.bin
RUN chmod +x tool.sh && printf '#!/bin/sh\\nexec /app/bin/python main.py\\n' >start.sh && chmod +x start.sh
RUN python3 -m venv --without-pip /app
CMD ["./tool.sh"]
"""
FILES = {
    "main.py": MAIN,
    "pkg/__init__.py": "",
    ".gitignore": "__pycache__/\n",
    "tool.sh": "#!/bin/sh\nexec ./start.sh\n",
    "compose.yaml": "services:\n  job:\n    build: .\n",
}


def links(root):
    return [path for path in root.rglob("*") if path.is_symlink()]


def test_down_takes_the_volume_of_a_service_whose_container_cannot_be_created(base_image, tmp_path):
    compose = FILES["compose.yaml"].replace("build: .", "build: .\n    runtime: nosuch")
    files = {**FILES, "Dockerfile": DOCKERFILE.format(base=base_image), "compose.yaml": compose}
    with project(tmp_path / unique("shown"), files, "init", "--yes") as root:
        volume = ["docker", "volume", "ls", "-q", "--filter", f"name={root.name}_dkdbg-image"]
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        assert dkdbg(root, "up").returncode != 0
        assert command(volume).stdout
        must(dkdbg(root, "down"))
        assert command(volume).stdout == ""


@pytest.fixture
def image_files(base_image, tmp_path):
    """The function of the start script, for an image with files of its own; called with the folder to mount."""
    name = unique("shown")
    label = "com.docker.compose"
    (tmp_path / "Dockerfile").write_text(f"FROM {base_image}\nRUN mkdir /code && echo made >/code/made.py\n")
    labels = ("--label", f"{label}.project={name}", "--label", f"{label}.service=job")
    command(["docker", "build", "-q", "-t", name, *labels, str(tmp_path)])
    script = artefact("templates", "image_files.sh").read_text("utf-8") + '\n"$@"'
    checkout = tmp_path / "checkout"
    checkout.mkdir()

    def copied(folder=checkout, **options):
        argv = ["sh", "-c", script, "sh", "image_files", name, "job", "/code", "0", str(folder)]
        return command(argv, checkout, check=False, **options)

    yield SimpleNamespace(name=name, copied=copied)
    for argv in removal_of_copies(name):
        command(argv, check=False)
    command(["docker", "image", "rm", "--force", name], check=False)


def volumes_of(name):
    return set(
        command(["docker", "volume", "ls", "-q", "--filter", f"name={name}_dkdbg-image"]).stdout.split()
    )


def test_nothing_is_left_of_a_copy_that_fails(image_files, tmp_path):
    assert "could not be copied" in image_files.copied(tmp_path / "missing").stdout
    assert volumes_of(image_files.name) == set()


@pytest.mark.parametrize("when", ["before the copy starts", "while it runs"])
def test_a_start_waits_for_the_copy_of_one_that_was_killed(image_files, tmp_path, when):
    """The volume counted as complete, and files were missing until the image changed."""
    real = shutil.which("docker")
    (tmp_path / "bin").mkdir()
    start = f"{real} start {image_files.name}_dkdbg-image-copy; " if when == "while it runs" else ""
    executable(
        tmp_path / "bin" / "docker",
        f'[ $1 = run ] || exec {real} "$@"\nshift\n{{ {real} create "$@"; {start}kill -9 $PPID; }} >/dev/null',
    )
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    assert image_files.copied(env={"PATH": path}).returncode == -signal.SIGKILL
    assert image_files.copied().stdout == ""
    volume = f"{image_files.name}_dkdbg-image"
    shown = command(["docker", "run", "--rm", "-v", f"{volume}:/v", image_files.name, "cat", "/v/made.py"])
    assert shown.stdout == "made\n"
    assert command(["docker", "ps", "-aq", "--filter", f"name={volume}-copy"]).stdout == ""


def test_folders_with_links_alone_are_kept_out_of_a_build_and_others_stay(tmp_path):
    for name in ("data/shards/0.npy", "data/1.npy", "mine/2.npy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(f"/opt/dkdbg-image/{name}")
    (tmp_path / "mine" / "own").touch()
    script = artefact("templates", "image_files.sh").read_text("utf-8") + '\n"$@"'
    build = ("sh", "-c", "test ! -e data && test -e mine/own")
    command(["sh", "-c", script, "sh", "without_links", *build], tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in links(tmp_path)) == [
        "data/1.npy",
        "data/shards/0.npy",
        "mine/2.npy",
    ]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_a_build_that_a_signal_ends_leaves_the_links_to_the_images_files(tmp_path, end):
    """Pressing Ctrl-C during a build, or closing its terminal, took the files from the program that runs."""
    link = tmp_path / "made.py"
    build = ("sh", "-c", f"test ! -L made.py && kill -{end} $PPID")
    link.symlink_to("/opt/dkdbg-image/made.py")
    script = artefact("templates", "image_files.sh").read_text("utf-8") + '\n"$@"'
    done = command(["sh", "-c", script, "sh", "without_links", *build], tmp_path, check=False)
    assert (done.returncode, link.is_symlink()) == (1, True)

    image = ImageBuild(tmp_path, SimpleNamespace(inputs=None, image_files="/app"), None)
    former = signal.getsignal(end)

    def built():
        assert not link.is_symlink()
        os.kill(os.getpid(), end)
        pytest.fail("the build goes on")

    with pytest.raises(KeyboardInterrupt):
        image.build(built)
    assert link.is_symlink()
    assert signal.getsignal(end) is former


@pytest.mark.parametrize("moment", [1, 2])
def test_a_signal_while_the_links_are_listed_or_removed_ends_the_start_and_keeps_them(tmp_path, moment):
    """All links were removed, those of the list that was cut short came back, and the whole build ran."""
    checkout, programs = tmp_path / "checkout", tmp_path / "bin"
    checkout.mkdir()
    programs.mkdir()
    links = [checkout / name for name in "abc"]
    for each in links:
        each.symlink_to(f"/opt/dkdbg-image/{each.name}")
    calls, real = tmp_path / "calls", shutil.which("find")
    answer = f"{real} . -name a; kill -TERM 0"  # as Ctrl-C does, to all processes of the group
    executable(
        programs / "find",
        f'echo >>{calls}\n[ $(wc -l <{calls}) != {moment} ] || {{ {answer}; }}\nexec {real} "$@"',
    )
    script = artefact("templates", "image_files.sh").read_text("utf-8") + '\n"$@"'
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    argv = ("setsid", "--wait", "sh", "-c", script, "sh", "without_links", "touch", str(tmp_path / "built"))
    done = command(argv, checkout, env={"PATH": path}, check=False)
    assert (done.returncode, (tmp_path / "built").exists()) == (1, False)
    assert all(each.is_symlink() for each in links)


def test_an_image_is_built_again_while_its_files_are_shown(base_image, tmp_path):
    files = {**FILES, "Dockerfile": DOCKERFILE.format(base=base_image)}
    with project(tmp_path / unique("shown"), files, "init", "--yes", "--wait", "300") as root:
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        must(dkdbg(root, "up"))
        first = container(root)
        assert (root / "schema.py").is_symlink()

        (root / "Dockerfile").write_text(files["Dockerfile"] + "RUN exit 3\n")
        assert dkdbg(root, "up").returncode
        assert (root / "schema.py").is_symlink()
        beside = dkdbg(root, "run", "--", "python3", "-c", "import schema; print('ran', schema.N)")
        assert "ran 3" in beside.stdout
        assert "dkdbg up builds it" in beside.stdout + beside.stderr
        assert container(root) == first

        for start in ([sys.executable, "-m", "dkdbg", "up"], ["sh", ".dkdbg/up.sh"]):
            more = f"RUN rm -rf weights && echo '{start}' >made-{start[0][-3:]}\n"
            (root / "Dockerfile").write_text(files["Dockerfile"] + more)
            command(start, root)
            shown = {path.name for path in root.iterdir() if path.is_symlink()}
            assert "schema.py" in shown
            assert {each for each in shown if each.startswith("made-")} == {f"made-{start[0][-3:]}"}
            assert "weights" not in shown
        must(dkdbg(root, "down"))
        assert links(root) == []


def test_no_link_is_left_by_a_proof_or_after_a_killed_container_and_a_plain_build_works(base_image, tmp_path):
    main = f"{MAIN}import time\ntime.sleep(600)\n"  # the proof's end kills it
    files = {**FILES, "main.py": main, "Dockerfile": DOCKERFILE.format(base=base_image)}
    with project(tmp_path / unique("shown"), files) as root:
        exclude = root / ".git" / "info" / "exclude"
        before = exclude.read_bytes()
        must(dkdbg(root, "init", "--yes"))
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        must(dkdbg(root, "verify"))
        assert (links(root), exclude.read_bytes()) == ([], before)

        must(dkdbg(root, "up"))
        must(dkdbg(root, "verify"))
        assert (root / "schema.py").is_symlink()  # the running service needs it
        command(["docker", "kill", container(root)])
        assert (root / "schema.py").is_symlink()
        must(dkdbg(root, "down"))
        assert (links(root), exclude.read_bytes()) == ([], before)

        must(dkdbg(root, "up"))
        command(["docker", "rm", "--force", container(root)])
        assert (root / "schema.py").is_symlink()
        must(dkdbg(root, "init", "--undo"))
        assert (links(root), exclude.read_bytes()) == ([], before)
        command(["docker", "compose", "build", "--no-cache", "job"], root)
        command(["docker", "image", "rm", "--force", f"{root.name}-job-debug"])


@pytest.mark.parametrize("folder", ["", "job"], ids=["the checkout", "a folder of it"])
def test_files_that_only_the_image_has_are_there_and_the_checkout_stays_as_it_was(
    base_image, tmp_path, folder
):
    def status():
        return command(["git", "status", "--short", "--untracked-files=all"], root).stdout

    files = {f"{folder}/{name}".strip("/"): text for name, text in FILES.items()}
    files["compose.yaml"] = FILES["compose.yaml"]
    files["Dockerfile"] = DOCKERFILE.format(base=base_image).replace("COPY . .", f"COPY {folder or '.'} .")
    with project(tmp_path / unique("shown"), files) as root:
        assert "total 12" in command(["docker", "compose", "run", "--rm", "job"], root).stdout
        (root / ".env").write_text(f"DKDBG_PORT={free_port()}\n")
        must(dkdbg(root, "init", "--yes"))
        for start in (["sh", ".dkdbg/up.sh"], [sys.executable, "-m", "dkdbg", "up"]):
            command(start, root)
            before = status()
            with stopped_in(root / folder / "main.py", launch_options(root)) as (debugger, stop):
                assert debugger.evaluate("total", debugger.stack(stop)[0]) == "12"
                assert (root / folder / "schema.py").is_symlink()
                assert status() == before
                # The agent has no checkout with git's folder there, and the script writes none.
                assert ("schema.py" in before) == bool(folder and start[0] == "sh")
                debugger.continue_(stop)
                debugger.wait_ended(300)
            assert "total 12" in must(dkdbg(root, "logs")).stdout
            must(dkdbg(root, "down"))
            assert links(root) == []
            assert [path.name for path in (root / folder / "weights").iterdir()] == ["log.txt"]
