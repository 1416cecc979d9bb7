"""Whether the process at the other end of a local connection is in our PID and user namespaces.

A uid alone is no identity where containers share a network namespace (host network, a pod, `--network container:X`):
each of them has a uid 0 and a uid 1000. One of three proofs is enough:

- A process of our namespaces holds the socket. /proc/PID/fd shows it for our user's processes; to root for all.
- The socket was created in the cgroup of a process of our PID namespace (INET_DIAG_CGROUP_ID, Linux 5.9). This is for
  processes that hide their descriptors from us: sshd's for a user (`ssh -L`), one of root's by `docker exec`.
- No process of the machine is in another PID namespace.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Mapping, Optional

#: PROC_PID_INIT_INO in linux/proc_ns.h: the inode of the machine's first PID namespace, which shows all processes.
_FIRST = 0xEFFFFFFC
_CGROUP_FOLDERS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
#: The cgroup of everything on a machine whose engine makes no cgroups of version 2.
_ROOT_CGROUP = 1
#: Docker and Podman put these into each container; on a host only root could.
_DOCKER, _PODMAN = "/.dockerenv", "/run/.containerenv"
_POD = "/var/run/secrets/kubernetes.io"
#: A setting of the kernel that only the machine's own network namespace shows (register_net_sysctl(&init_net, ...) in
#: net/core/sysctl_net_core.c, Linux 2.6.37 to now): a container that sees it has the host's network.
_OF_THE_HOST = "/proc/sys/net/core/dev_weight"


def has_host_network() -> bool:
    """Tell whether our network namespace is the machine's own."""
    return os.path.exists(_OF_THE_HOST)


def is_engines_container(environment: Mapping[str, str]) -> bool:
    """Tell whether this is a container of Docker or Podman, and not one of a pod.

    Args:
        environment: of the agent; Kubernetes names its services there.
    """
    if environment.get("KUBERNETES_SERVICE_HOST") or os.path.exists(_POD):
        return False
    return os.path.exists(_DOCKER) or os.path.exists(_PODMAN)


def users_come_from_outside(environment: Mapping[str, str]) -> bool:
    """Tell whether an editor outside of this container reaches it over loopback, so that only its uid is known.

    With the host's network it is a process of the host. Rootless Podman connects to a published port inside the
    container's network namespace.

    Args:
        environment: see `is_engines_container`.
    """
    if _is_first_pid_namespace() or not is_engines_container(environment):
        return False
    return has_host_network() or (os.path.exists(_PODMAN) and not is_first_user_namespace())


def is_first_user_namespace() -> bool:
    """Tell whether this is the machine's own user namespace, which knows all users."""
    with open("/proc/self/uid_map") as table:
        return table.read().split() == ["0", "0", "4294967295"]


def are_shared(inode: int, cgroup: Optional[int], own_cgroup: Optional[int]) -> bool:
    """Return whether a socket belongs to a process in our namespaces; False where nothing proves it.

    Args:
        inode: of the socket.
        cgroup, own_cgroup: in which it and our end of the connection were created; None where the kernel does not tell.
    """
    held = _is_held_here(inode)
    if held is not None:
        return held
    return _is_cgroup_of_ours(cgroup, own_cgroup) or _sees_no_other()


def _is_cgroup_of_ours(cgroup: Optional[int], own_cgroup: Optional[int]) -> bool:
    if cgroup in (None, _ROOT_CGROUP) or not _has_one_path("self"):
        return False
    return cgroup == own_cgroup or cgroup in map(_cgroup, _processes_here())


def _is_held_here(inode: int) -> Optional[bool]:
    """Return whether a process that holds the socket is in our namespaces; None when none shows that it holds it."""
    link, found = "socket:[%d]" % inode, None
    for pid in ("self", *_pids()):
        with contextlib.suppress(OSError):
            folder = "/proc/%s/fd/" % pid
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    if os.readlink(folder + name) == link:
                        found = _has_our_namespaces(pid)
                        break
        if found:
            return True
    return found


def _has_our_namespaces(pid: str) -> bool:
    return all(
        os.stat("/proc/%s/ns/%s" % (pid, kind)).st_ino == os.stat("/proc/self/ns/" + kind).st_ino
        for kind in ("pid", "user")
    )


def _pids() -> Iterator[str]:
    return filter(str.isdigit, os.listdir("/proc"))


def _processes_here() -> Iterator[str]:
    return (pid for pid in _pids() if _depth(pid) == 1)


def _depth(pid: str) -> Optional[int]:
    """Return how many PID namespaces a process is in, counted from ours; None when that is hidden from us."""
    with contextlib.suppress(OSError), open("/proc/%s/status" % pid, "rb") as status:
        for line in status:
            if line.startswith(b"NSpid:"):
                return len(line.split()) - 1
    return None


def _has_one_path(pid: str) -> bool:
    """Tell whether a process is at the same place in all hierarchies: else an engine may have left version 2 alone."""
    with contextlib.suppress(OSError), open("/proc/%s/cgroup" % pid) as table:
        lines = [line.rstrip("\n").split(":", 2) for line in table]
        return any(line[0] == "0" for line in lines) and len({line[2] for line in lines}) == 1
    return False


def _cgroup(pid: str) -> Optional[int]:
    """Return the identity of a process's cgroup of version 2; None where it is not known."""
    if not _has_one_path(pid):
        return None
    with contextlib.suppress(OSError), open("/proc/%s/cgroup" % pid) as table:
        path = next(line for line in table if line.startswith("0::"))[3:].rstrip("\n")
        for folder in _CGROUP_FOLDERS:
            with contextlib.suppress(OSError):
                return os.stat(folder + path).st_ino
    return None


def _sees_no_other() -> bool:
    """Tell whether all processes of the machine are shown to us, and all are in our PID namespace."""
    if not _is_first_pid_namespace() or not os.path.exists("/proc/1"):
        return False
    return all(_depth(pid) == 1 for pid in _pids())


def _is_first_pid_namespace() -> bool:
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST
    return False
