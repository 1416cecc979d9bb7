"""The second way of the hook into a Python: a .pth file in the site folders of the container's Pythons.

The first is PYTHONPATH, which programs set and clear (`export PYTHONPATH=src`, `env -i`, tox, `python -I`). A .pth file
is read by every Python that is not started with -S. It is made only where the container is the session's own
(DKDBG_OWN_CONTAINER=1), never in a mounted folder of the user's. It lets in what runs below the agent, nothing else, and
is empty as soon as the agent has ended. The files are opened while the agent is root: the Pythons are mostly root's, and
the agent becomes the owner of the workspace before it knows the session.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, MutableMapping, Set

#: Descriptors of the open files, separated by commas: from the first steps of the single file to its session.
ENV_FILES = "DKDBG_SITES"
_PYTHON = re.compile(r"python[0-9.]*$")
_SITES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
#: Where virtual environments lie whose Python is on no PATH.
_ENVIRONMENTS = (
    "*/pyvenv.cfg", "*/*/pyvenv.cfg", "/*/pyvenv.cfg", "/*/*/pyvenv.cfg", "/home/*/*/pyvenv.cfg",
    "/home/*/*/*/pyvenv.cfg", "/root/.virtualenvs/*/pyvenv.cfg", "/opt/*/envs/*/conda-meta",
)  # fmt: skip
#: One line, which begins with `import`: `site` executes it. Who reads the other file trusts itself and root alone.
_LINE = (
    "import os, sys; %(hook)r in sys.path or (os.path.exists(%(file)r) and os.stat(%(file)r).st_uid in (0, os.getuid())"
    " and eval(compile(open(%(file)r).read(), %(file)r, 'exec'), {'session': %(session)r, 'agent': %(agent)d, 'hook': %(hook)r}))\n"
)


def open_files(environ: MutableMapping[str, str]) -> None:
    """Make the files, empty, and note their descriptors in the environment; where that is not possible there are none."""
    descriptors = []
    mounted = _Mounts()
    for folder in sorted(_site_folders(environ)):
        if mounted.is_of_container(folder):
            path = os.path.join(folder, "dkdbg-%d.pth" % os.getpid())
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptors.append(os.open(path, flags, 0o644))
    environ[ENV_FILES] = ",".join(map(str, descriptors))


class Sites:
    """The open files of this agent."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._descriptors = [int(word) for word in environ.pop(ENV_FILES, "").split(",") if word]

    def lead_to(self, hook: str, session: str) -> None:
        """Lead the Pythons below this agent to the hook.

        Args:
            hook: its folder. session: the session's.
        """
        file = os.path.join(os.path.dirname(hook), "site_entry.py")
        line = _LINE % {"hook": hook, "file": file, "session": session, "agent": os.getpid()}
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, line.encode(), 0)

    def close(self) -> None:
        """Lead nobody any more; a file that can be removed goes."""
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            with contextlib.suppress(OSError):
                os.unlink(os.readlink("/proc/self/fd/%d" % descriptor))
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors = []


def _site_folders(environ: Mapping[str, str]) -> Set[str]:
    found: Set[str] = set()
    for prefix in _prefixes(environ):
        for pattern in _SITES:
            found.update(map(os.path.realpath, glob.glob(os.path.join(glob.escape(prefix), pattern))))
    return found


def _prefixes(environ: Mapping[str, str]) -> Iterable[str]:
    """Return the folders that hold `bin/python`, as far as they can be found without starting one."""
    folders = [*environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin", "/opt/conda/bin"]
    found = {environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)}
    for pattern in _ENVIRONMENTS:
        found.update(os.path.dirname(each) for each in glob.glob(pattern))
    found.add(".")  # a workspace that is an environment itself
    folders += [os.path.join(each, "bin") for each in found]
    for folder in folders:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or "."):
                if _PYTHON.match(name):
                    found.add(os.path.dirname(os.path.abspath(folder)))
                    real = os.path.realpath(os.path.join(folder, name))
                    found.add(os.path.dirname(os.path.dirname(real)))
    return found


class _Mounts:
    """Tells the container's own folders, volumes of the engine among them, from those of the host that are mounted."""

    def __init__(self) -> None:
        self._roots = {}
        with open("/proc/self/mountinfo") as source:
            for line in source:
                words = line.split()
                self._roots[words[4]] = words[
                    3
                ]  # proc(5): 4 is the root within its file system, 5 the mount point

    def is_of_container(self, folder: str) -> bool:
        point = folder
        while point not in self._roots:
            point = os.path.dirname(point)
        return point == "/" or "/volumes/" in self._roots[point]
