"""docs/recipes/remote-engine.md and remote-gpu-box.md, command by command, with a machine that has an engine and a sshd."""

import pytest

from tests.engine.attach_proxies import proxy_of
from tests.engine.projects import LOOP, at, command, must, project, repo, stop_in, unique, write
from tests.pages import Page, begun, environment
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("box")]

#: Seconds that a loaded machine may take for anything.
TIMEOUT_S = 300.0


def stop(root, port, remote):
    return stop_in(root, "train.py", at(port, root, remote)).values


def door_words(page):
    """The page's attach, told to be read by a program, and on a port that is free here."""
    words = page.words("dkdbg attach")
    words[-1] = words[-1].removesuffix(" --port 5678") + f" --json --port {free_port()}"
    return words


@pytest.mark.usefixtures("laptop")
def test_each_command_of_the_recipe_for_a_remote_engine_does_what_it_says(tmp_path, monkeypatch):
    page = Page.of("recipes/remote-engine.md")
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with project(tmp_path / unique("recipe"), {"train.py": LOOP}) as root, page.all_run():
        for each in ("docker context create", "docker context use", "dkdbg init", "dkdbg up"):
            must(page.run(each, cwd=root))
        with proxy_of(door_words(page), root, environment()) as proxy:
            proxy.wait("target", TIMEOUT_S)
            assert float(stop(root, proxy.port, "/workspace")["loss"]) > 0
            with begun(page.words("dkdbg sync"), root) as following:
                assert any("in sync" in line for line in iter(following.stdout.readline, ""))
                # At once: of a file that is empty for a moment that would be said first.
                write(tmp_path, **{"new.py": LOOP.replace("1.0 /", "-7.0 /")})
                (tmp_path / "new.py").replace(root / "train.py")
                assert any("train.py" in line for line in iter(following.stdout.readline, ""))
            assert "app-debug" in must(page.run("dkdbg ps", cwd=root)).stdout
            must(page.run("dkdbg restart", cwd=root))
            assert float(stop(root, proxy.port, "/workspace")["loss"]) < 0
        name = f"{root.name}-app-debug-1"
        write_there = ["sh", "-c", "mkdir -p runs; echo loss >runs/log.txt"]
        command(["docker", "exec", "-w", "/workspace", name, *write_there])
        must(page.run("dkdbg sync --pull", cwd=root))
        assert [each.read_text() for each in (root / "dkdbg-pulled").rglob("log.txt")] == ["loss\n"]
        assert "docker volume rm" in must(page.run("dkdbg down", cwd=root)).stdout


def test_each_command_of_the_recipe_for_a_gpu_box_does_what_the_page_says(laptop, tmp_path, monkeypatch):
    page = Page.of("recipes/remote-gpu-box.md")
    monkeypatch.delenv("DOCKER_HOST")
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    root = repo(tmp_path / "code", {"train.py": LOOP})
    laptop.sh("install -d -o me /home/me/code")
    with page.all_run(), begun(page.words("dkdbg run --reload"), root) as run:
        assert any("waiting for a debugger" in line for line in iter(run.stdout.readline, ""))
        with proxy_of(door_words(page), root, environment()) as proxy:
            proxy.wait("target", TIMEOUT_S)
            assert "loss" in stop(root, proxy.port, "/home/me/code")
            assert "train.py" in must(page.run("dkdbg ps", cwd=root)).stdout
            assert "restarted" in must(page.run("dkdbg restart", cwd=root)).stdout
            assert "no difference" in must(page.run("dkdbg sync", cwd=root)).stdout
