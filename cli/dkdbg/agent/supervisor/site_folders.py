"""Second way to load the hook into a Python: a .pth file in each site-packages folder of the container.

The first is PYTHONPATH, which programs set, clear or ignore (`export PYTHONPATH=src`, `env -i`, tox,
`python -I`). Every Python without -S reads .pth files. They are written only if the container is there for the session
alone (DKDBG_OWN_CONTAINER=1), and never in a folder that the user has mounted. They affect only processes below the
agent, which empties them when it ends. They are opened while the agent is still root, because the folders mostly belong
to root; they are filled later, when the agent has become the workspace's owner and knows the session.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re

from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, MutableMapping, Set

#: Variable with the descriptors of the open files, separated by commas: unpack.py opens them, the session fills them.
ENV_FILES = "DKDBG_SITES"
#: Mount roots of volumes of Docker, Podman and a kubelet (emptyDir), in /proc/self/mountinfo.
_VOLUME = re.compile(r"/volumes/[^/]+/_data|kubernetes\.io~empty-dir")
#: Maximum subfolders of a folder to search.
_MAX_SUBFOLDERS = 200
_PYTHON = re.compile(r"python[0-9.]*$")
_SITES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
#: Folders to search for virtual environments whose Python is not on PATH, up to two levels below each.
_ABOVE = (
    "",
    "/",
    "/opt",
    "/srv",
    "/usr/src",
    "/usr/local",
    "/home",
    "/root",
    "/root/.virtualenvs",
    "/opt/conda/envs",
    "/var/lib",
)
#: Content of a .pth file: the `site` module executes a line that begins with `import`. It runs site_entry.py, but only
#: if the process's user or root owns that file.
_LINE = (
    "import os, sys; %(hook)r in sys.path or (os.path.exists(%(file)r) and os.stat(%(file)r).st_uid in (0, os.getuid())"
    " and eval(compile(open(%(file)r).read(), %(file)r, 'exec'), {'session': %(session)r, 'agent': %(agent)d, 'hook': %(hook)r}))\n"
)


def open_files(environ: MutableMapping[str, str]) -> None:
    """Create empty .pth files, and record their descriptors in the environment. Raises OSError: there is no /proc."""
    descriptors = []
    mounted = _Mounts()
    for folder in sorted(_site_folders(environ, mounted)):
        if mounted.is_of_container(folder):
            path = os.path.join(folder, "dkdbg-%d.pth" % os.getpid())
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptors.append(os.open(path, flags, 0o644))
    environ[ENV_FILES] = ",".join(map(str, descriptors))


class Sites:
    """The open .pth files of this agent."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._descriptors = [int(word) for word in environ.pop(ENV_FILES, "").split(",") if word]

    def lead_to(self, hook: str, session: str) -> None:
        """Make Python processes below this agent load the hook; both arguments are folders."""
        file = os.path.join(os.path.dirname(hook), "site_entry.py")
        line = _LINE % {"hook": hook, "file": file, "session": session, "agent": os.getpid()}
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, line.encode(), 0)

    def close(self) -> None:
        """Empty the files, and remove those that this user may remove."""
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            with contextlib.suppress(OSError):
                os.unlink(os.readlink("/proc/self/fd/%d" % descriptor))
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors = []


def _site_folders(environ: Mapping[str, str], mounted: _Mounts) -> Set[str]:
    found: Set[str] = set()
    for prefix in _prefixes(environ, mounted):
        for pattern in _SITES:
            found.update(map(os.path.realpath, glob.glob(os.path.join(glob.escape(prefix), pattern))))
    return found


def _prefixes(environ: Mapping[str, str], mounted: _Mounts) -> Iterable[str]:
    """Return the folders whose `bin` has a Python (sys.prefix), as far as they can be found without starting one."""
    folders = [*environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin", "/opt/conda/bin"]
    found = {environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)}
    found.update(filter(_is_environment, mounted.volumes()))
    for folder in filter(mounted.is_of_container, map(os.path.abspath, _ABOVE)):
        for below in (folder, *_folders(folder, mounted)):
            found.update(each for each in (below, *_folders(below, mounted)) if _is_environment(each))
    found.add(".")  # the working directory may be a virtual environment itself
    folders += [os.path.join(each, "bin") for each in found]
    for folder in filter(mounted.is_of_container, map(os.path.abspath, folders)):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if _PYTHON.match(name) and mounted.is_of_container(os.path.realpath(folder)):
                    found.add(os.path.dirname(os.path.abspath(folder)))
                    real = os.path.realpath(os.path.join(folder, name))
                    found.add(os.path.dirname(os.path.dirname(real)))
    return found


def _folders(folder: str, mounted: _Mounts) -> Iterable[str]:
    """Return the subfolders that are not mounted: a network mount whose server is gone would block."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            paths = [each.path for each in entries if each.is_dir(follow_symlinks=False)][:_MAX_SUBFOLDERS]
        return [path for path in paths if mounted.is_of_container(path)]
    return []


def _is_environment(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta"))


class _Mounts:
    """Tells folders of the container and of the engine's volumes from folders that are mounted from the host."""

    def __init__(self) -> None:
        self._roots = {point: root for root, point, _ in procfs.mounts()}

    def volumes(self) -> Iterable[str]:
        """Return the mount points of the engine's volumes."""
        return [point for point, root in self._roots.items() if _VOLUME.search(root)]

    def is_of_container(self, folder: str) -> bool:
        """Tell whether an absolute path without links is in the container's root file system or an engine's volume."""
        point = folder
        while point not in self._roots and point != "/":
            point = os.path.dirname(point)
        return point == "/" or _VOLUME.search(self._roots[point]) is not None
