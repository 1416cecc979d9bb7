"""Links the image's own files (generated modules, weights) into the checkout that is mounted over them.

`dkdbg up` and F5 have copied the image's folders into a volume (templates/image_files.sh). Each name that the checkout
lacks becomes a symbolic link into that volume while the session lasts, and `.git/info/exclude` hides it from git. A
small folder becomes a folder of links, because `os.walk` and `rglob` skip a link to a folder. Existing files are not
touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

from dkdbg.agent import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Mapping, Tuple

#: Maximum links up to which folders of links are created; a folder with more files becomes one link.
_MAX_LINKS = 1000
_BEGIN, _END = b"\n# dkdbg: of the image, while it is debugged\n", b"# dkdbg: end\n"


def hides(path: str, environ: Mapping[str, str]) -> str:
    """Return a message if a missing file may exist in the image and the volume has no copies; else an empty text."""
    absolute = os.path.abspath(path)
    inside = any(absolute.startswith(folder.rstrip("/") + "/") for _, folder in _folders(environ))
    with contextlib.suppress(OSError):
        if inside and not os.listdir(settings.IMAGE_FILES):
            return "; if the image has it, your mounted files hide it: dkdbg up, or F5, makes it visible"
    return ""


def _folders(environ: Mapping[str, str]) -> List[Tuple[str, str]]:
    """Return pairs: a folder within the checkout ("" for all of it), and the folder of the image that it hides."""
    named = environ.get(settings.ENV_IMAGE_FILES, "").split(":")
    pairs = [("=" + each if each.startswith("/") else each).partition("=/") for each in named if each]
    return [(local, "/" + folder) for local, _, folder in pairs]


class ImageFiles:
    """The links of this session.

    Args:
        environ: names the hidden folders (ENV_IMAGE_FILES); without it there are no links.
        volume: mount point of the volume with the copies.
    """

    def __init__(self, environ: Mapping[str, str], volume: str = settings.IMAGE_FILES) -> None:
        self._folders = _folders(environ)
        self._volume = volume
        #: Path and target of each link.
        self._links: List[Tuple[str, str]] = []
        #: Folders that stay when they are empty: mounted ones, and those that were empty before.
        self._kept = {folder for _, folder in self._folders}
        self._lock = -1

    def show(self) -> None:
        """Create the links, and adopt those that a killed agent has left."""
        if not self._folders or not os.path.isdir(self._volume):
            return
        # Agents in one container share the links: the last one to end, which gets the exclusive lock, removes them.
        self._lock = os.open(self._volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        for local, folder in self._folders:
            with contextlib.suppress(OSError):
                for link, target in self._missing(folder, os.path.join(self._volume, local)):
                    if not os.path.islink(link):
                        os.symlink(target, link)
                    self._links.append((link, target))
        self._exclude()

    def hide(self) -> None:
        """Remove the links, unless another agent needs them."""
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._remove()
        finally:
            os.close(lock)  # last: `show` of another agent waits until the links are gone

    def _remove(self) -> None:
        for link, target in self._links:
            with contextlib.suppress(OSError):
                if os.readlink(link) == target:
                    os.unlink(link)
                    self._remove_empty(os.path.dirname(link))
        self._links = []
        self._exclude()

    def _exclude(self) -> None:
        for local, folder in self._folders:
            if not local:  # only the whole checkout contains .git
                exclude(folder, [os.path.relpath(target, self._volume) for _, target in self._links])

    def _remove_empty(self, folder: str) -> None:
        while folder not in self._kept:
            os.rmdir(folder)
            folder = os.path.dirname(folder)

    def _missing(self, folder: str, volume: str) -> Iterator[Tuple[str, str]]:
        """Yield path and target of each link below a folder, existing or to be created.

        Create small missing folders as folders of links.
        """
        above = os.stat(folder)
        for name in sorted(os.listdir(volume)):
            in_folder, in_volume = os.path.join(folder, name), os.path.join(volume, name)
            is_own_link = os.path.islink(in_folder) and os.readlink(in_folder) == in_volume
            is_missing = not os.path.lexists(in_folder)
            if is_missing and _can_be_created(in_volume, above, _MAX_LINKS - len(self._links)):
                _create(in_folder, above)
                if any(each.endswith(".py") for each in os.listdir(in_volume)):
                    with contextlib.suppress(OSError):  # linked too: the checkout gets no bytecode
                        os.mkdir(os.path.join(in_volume, "__pycache__"))
                yield from self._missing(in_folder, in_volume)
            elif is_missing or is_own_link:
                yield in_folder, in_volume
            elif (
                not os.path.islink(in_folder)
                and os.path.isdir(in_folder)
                and os.path.isdir(in_volume)
                and not os.path.ismount(in_folder)
            ):
                if not os.listdir(in_folder):
                    self._kept.add(in_folder)
                yield from self._missing(in_folder, in_volume)


def _can_be_created(folder: str, above: os.stat_result, room: int) -> bool:
    """Tell whether to create a folder of links for this folder of the volume, instead of one link to it.

    Refuse a folder that others than root and the checkout's owner may write to, because a folder of links does not
    allow that. Refuse an empty folder: the next start could not tell it from an empty folder of the user. Refuse .git,
    and names with line breaks: templates/image_files.sh, which removes links too, does not find those.

    Args:
        above: the status of the checkout's folder.
        room: maximum number of entries.
    """
    if os.path.islink(folder) or os.path.basename(folder) == "__pycache__":
        return False
    files = False
    unreadable: List[OSError] = []
    for each, folders, names in os.walk(folder, onerror=unreadable.append):
        info = os.stat(each)
        files = files or bool(names)
        room -= len(folders) + len(names)
        is_open = stat.S_IMODE(info.st_mode) != 0o755 or info.st_uid not in (0, above.st_uid)
        if room < 0 or is_open or any(name == ".git" or "\n" in name for name in folders + names):
            return False
    return files and not unreadable


def _create(folder: str, above: os.stat_result) -> None:
    """Create a folder whose links the owner of the checkout can remove."""
    os.mkdir(folder)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(number, 0o755)
        with contextlib.suppress(OSError):
            os.fchown(number, above.st_uid, above.st_gid)
    finally:
        os.close(number)


def exclude(folder: str, names: List[str]) -> None:
    """Write these names into dkdbg's section of a checkout's .git/info/exclude, without following a link."""
    with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as opened:
        above = None
        for name in (os.path.realpath(folder), ".git", "info"):
            above = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            opened.callback(os.close, above)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO would block
        number = os.open("exclude", flags, dir_fd=above)
        file = opened.enter_context(open(number, "r+b"))
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return
        former = text = file.read()
        if _BEGIN in text:
            text = text[: text.index(_BEGIN)] + text[text.index(_END) + len(_END) :]
        if names:
            text += _BEGIN + b"".join(b"/%s\n" % os.fsencode(name) for name in names) + _END
        if text != former:
            file.seek(0)
            file.write(text)
            file.truncate()
