"""The root folder of a sync on the target: opened once, made on request, rejected when it is not a folder."""

from __future__ import annotations

import os

from dkdbg.sync.receiver import paths
from dkdbg.sync.receiver.problems import CutError, Fatal, explain, user_name
from dkdbg.sync.receiver.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

_FOLDER_MODE = 0o755


def open_root(name: str, *, create: bool) -> Tuple[Tree, str]:
    """Return the tree below a folder, and the folder's real path. Symlinks on the way to it are the user's.

    Args:
        name: absolute path on the target.
        create: make it, and missing parents, with the owner of the nearest existing folder.

    Raises:
        Fatal: it is not an absolute path, is missing, cannot be entered, or is the whole file system.
    """
    if "\0" in name or not name.startswith("/"):
        raise Fatal("the root must be an absolute path on the target, not %.200r" % name)
    try:
        path = name.encode("utf-8", "surrogateescape")
        if create and not os.path.lexists(path):
            _make(os.path.normpath(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except UnicodeEncodeError:
        raise Fatal("the root's path holds a surrogate that stands for no byte") from None
    except OSError as error:
        raise _unopened(name, error) from None
    info, top = os.fstat(descriptor), os.stat("/")
    if (info.st_dev, info.st_ino) == (top.st_dev, top.st_ino):
        raise Fatal("the root is the target's whole file system (/)", "name the folder of the workspace")
    return Tree(descriptor), paths.decode(os.path.realpath(path))


def check_root(tree: Tree, *names: str) -> None:
    """Check that the open root is still the folder at its path: writes elsewhere would be lost.

    Args:
        tree: tree of the root.
        names: the root as the user named it, and its real path; the second counts when the first is gone.

    Raises:
        CutError: another folder is there now: connect again to sync that one.
        Fatal: no folder is there any more.
    """
    mine = os.fstat(tree.root)
    for name in names:
        try:
            found = os.stat(name.encode("utf-8", "surrogateescape"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return  # no longer accessible
        if (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino):
            raise CutError("the root on the target was replaced by another folder")
        return
    raise Fatal("the root folder was removed from the target", "make it again, then start sync again")


def _unopened(name: str, error: OSError) -> Fatal:
    if isinstance(error, FileNotFoundError):
        return Fatal("%s does not exist on the target" % name, "make it there, or let sync make it")
    if isinstance(error, NotADirectoryError):
        return Fatal("%s is not a folder on the target" % name)
    if isinstance(error, PermissionError):
        return Fatal(
            "%s cannot be opened or made: sync runs as %s there" % (name, user_name(os.geteuid())),
            "run sync as the user who owns it",
        )
    reason, hint = explain(error)
    return Fatal("%s cannot be opened: %s" % (name, reason), hint)


def _make(path: bytes) -> None:
    """Make a folder and its missing parents. Raises OSError."""
    missing = []
    while path and not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    owner = os.stat(path)
    for one in reversed(missing):
        os.mkdir(one, _FOLDER_MODE)
        if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
            made = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.fchown(made, owner.st_uid, owner.st_gid)
            os.close(made)
