"""Links that show what the image alone has below the mounted checkout."""

import os
import threading
from pathlib import Path

import pytest

from dkdbg.agent.settings import ENV_IMAGE_FILES
from dkdbg.agent.supervisor.image_files import ImageFiles
from tests.agent.dap_probe import wait_for


@pytest.fixture
def folders(tmp_path):
    checkout, volume = tmp_path / "checkout", tmp_path / "volume"
    (checkout / "pkg").mkdir(parents=True)
    (checkout / "train.py").write_text("mine\n")
    (checkout / ".git" / "info").mkdir(parents=True)
    (checkout / ".git" / "info" / "exclude").write_text("*.mine")
    (volume / "pkg" / "native").mkdir(parents=True)
    for name in ("schema.py", "pkg/kernel.so", "pkg/native/one", "train.py"):
        (volume / name).write_text("image\n")
    return checkout, volume


@pytest.fixture
def files(folders):
    checkout, volume = folders
    return ImageFiles({ENV_IMAGE_FILES: str(checkout)}, str(volume))


def shown(checkout: Path) -> set[str]:
    return {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_symlink()}


def test_what_the_checkout_lacks_is_linked_while_the_session_lasts(folders, files):
    checkout, _ = folders
    files.show()
    assert shown(checkout) == {"schema.py", "pkg/kernel.so", "pkg/native/one"}
    assert {name for _, _, names in os.walk(checkout / "pkg") for name in names} == {"kernel.so", "one"}
    assert (checkout / "pkg" / "native" / "one").read_text() == "image\n"
    assert (checkout / "train.py").read_text() == "mine\n"
    lines = (checkout / ".git" / "info" / "exclude").read_text().splitlines()
    assert {"*.mine", "/schema.py", "/pkg/kernel.so", "/pkg/native/one"} <= set(lines)
    (checkout / "schema.py").unlink()
    (checkout / "schema.py").write_text("the user's own\n")
    files.hide()
    assert shown(checkout) == set()
    assert list((checkout / "pkg").iterdir()) == []
    assert (checkout / "schema.py").read_text() == "the user's own\n"
    assert (checkout / ".git" / "info" / "exclude").read_text() == "*.mine"


@pytest.mark.parametrize("name", ["src", "a=b"])
def test_what_a_mounted_folder_of_the_checkout_lacks_is_linked_and_no_git_folder_below_is_written(
    tmp_path, name
):
    app, volume = tmp_path / "app=1", tmp_path / "volume"
    (app / ".git" / "info").mkdir(parents=True)
    (app / ".git" / "info" / "exclude").write_text("*.mine")
    (volume / name / "native").mkdir(parents=True)
    (volume / name / "native" / "one").write_text("image\n")
    (volume / "other").write_text("of another folder\n")
    files = ImageFiles({ENV_IMAGE_FILES: f"{tmp_path}/none:{name}={app}"}, str(volume))
    files.show()
    assert {each: (app / each).readlink() for each in shown(app)} == {
        "native/one": volume / name / "native" / "one"
    }
    assert (app / ".git" / "info" / "exclude").read_text() == "*.mine"
    files.hide()
    assert [path.name for path in app.iterdir()] == [".git"]


def empty(folder: Path) -> None:
    (folder / "one").unlink()


def open_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def large(folder: Path) -> None:
    for number in range(1000):
        (folder / str(number)).touch()


def linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def repository(folder: Path) -> None:
    (folder / ".git").mkdir()


@pytest.mark.parametrize("changed", [empty, open_to_all, large, linked, repository])
def test_a_folder_is_one_link_if_links_in_a_folder_cannot_replace_it(folders, files, changed):
    checkout, volume = folders
    changed(volume / "pkg" / "native")
    files.show()
    assert (checkout / "pkg" / "native").readlink() == volume / "pkg" / "native"
    files.hide()
    assert list((checkout / "pkg").iterdir()) == []


def test_what_is_written_into_a_folder_of_the_image_stays_and_bytecode_is_kept_out(folders, files):
    checkout, volume = folders
    (volume / "made").mkdir()
    (volume / "made" / "part.py").write_text("N = 1\n")
    files.show()
    (checkout / "pkg" / "native" / "mine").write_text("the user's own\n")
    (checkout / "made" / "__pycache__" / "part.pyc").touch()
    files.hide()
    assert [path.name for path in (checkout / "pkg" / "native").iterdir()] == ["mine"]
    assert not (checkout / "made").exists()


@pytest.mark.parametrize("folder", ["pkg", "pkg/native"])
def test_an_empty_folder_of_the_users_stays(folders, files, folder):
    checkout, _ = folders
    (checkout / folder).mkdir(exist_ok=True)
    files.show()
    assert (checkout / "pkg" / "native" / "one").is_symlink()
    files.hide()
    assert list((checkout / folder).iterdir()) == []


def test_links_of_an_agent_that_was_killed_go_with_the_last_of_the_next_ones(folders):
    checkout, volume = folders
    killed = ImageFiles({ENV_IMAGE_FILES: str(checkout)}, str(volume))
    killed.show()
    os.close(killed._lock)  # as the kernel does
    both = [ImageFiles({ENV_IMAGE_FILES: str(checkout)}, str(volume)) for _ in range(2)]
    for each in both:
        each.show()
    both[1].hide()
    assert "schema.py" in shown(checkout)
    both[0].hide()
    assert shown(checkout) == set()
    assert (checkout / ".git" / "info" / "exclude").read_text() == "*.mine"


def test_an_agent_that_starts_while_the_last_one_ends_makes_the_links_again(folders, monkeypatch):
    checkout, volume = folders
    ending, starting = [ImageFiles({ENV_IMAGE_FILES: str(checkout)}, str(volume)) for _ in range(2)]
    ending.show()
    other = threading.Thread(target=starting.show)
    waits = f":{volume.stat().st_ino} "
    remove = os.unlink

    def unlink(path):
        if not other.ident:
            other.start()
            locks = Path("/proc/locks")
            wait_for(
                lambda: (
                    any("->" in line and waits in line for line in locks.read_text().splitlines())
                    or not other.is_alive()
                ),
                bool,
            )
        remove(path)

    monkeypatch.setattr(os, "unlink", unlink)
    ending.hide()
    other.join()
    assert shown(checkout) == {"schema.py", "pkg/kernel.so", "pkg/native/one"}
    assert "/schema.py" in (checkout / ".git" / "info" / "exclude").read_text()
    starting.hide()


@pytest.mark.parametrize("link", [".git", ".git/info", ".git/info/exclude"])
def test_nothing_is_written_behind_a_link_of_a_hostile_repository(folders, files, tmp_path, link):
    checkout, _ = folders
    (checkout / link).rename(tmp_path / "elsewhere")
    (checkout / link).symlink_to(tmp_path / "elsewhere")
    files.show()
    assert "schema.py" in shown(checkout)
    assert (checkout / ".git" / "info" / "exclude").read_text() == "*.mine"
    files.hide()


def test_a_fifo_of_a_hostile_repository_in_place_of_the_file_is_not_waited_for(folders, files):
    """`verify` and `down` change it on the host, where no signal ends them then."""
    checkout, _ = folders
    (checkout / ".git/info/exclude").unlink()
    os.mkfifo(checkout / ".git/info/exclude")
    files.show()
    assert "schema.py" in shown(checkout)
    files.hide()
    assert (checkout / ".git/info/exclude").is_fifo()


def test_a_link_of_the_users_is_neither_followed_nor_replaced(folders, files, tmp_path):
    checkout, _ = folders
    (tmp_path / "elsewhere").mkdir()
    (checkout / "pkg").rmdir()
    (checkout / "pkg").symlink_to(tmp_path / "elsewhere")
    files.show()
    files.hide()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (checkout / "pkg").is_symlink()
