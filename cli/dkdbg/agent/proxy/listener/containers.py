"""Detects whether the process at the other end of a local connection is in another container.

A uid is not an identity where containers share a network namespace (the host's, a pod's, `--network
container:X`): each of them has a uid 0 and a uid 1000. The kernel also reports the cgroup in which a socket was
created (Linux 5.9), and an engine puts each container into its own cgroup. A peer is refused on either of two
proofs, and accepted otherwise:

- The cgroup holds only processes of a PID namespace inside ours that share our user namespace: root made that
  container. Flatpak, toolbox and rootless containers are a user's own and have a user namespace.
- The cgroup is outside of this container, and this container's engine never connects over loopback. Rootless engines
  and the runtime of a pod do (`kubectl port-forward`), and so does every process in the host's network.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time

from dkdbg.agent.proxy.listener import local_users
from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Dict, List, Mapping, Optional

#: Files that the engines create in each container. Only root could create them on a host.
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
#: A kernel setting that only the machine's own network namespace shows (register_net_sysctl(&init_net, ...) in
#: net/core/sysctl_net_core.c, Linux 2.6.37 to now): a container that sees it has the host's network.
_HOST_NETWORK_ONLY = "/proc/sys/net/core/dev_weight"
_POD = "/var/run/secrets/kubernetes.io"
#: Seconds to wait for a process of the engine to leave a container's cgroup: each `docker exec` and health check
#: starts one there.
_ENGINE_TIMEOUT_S = 1.0
_INTERVAL_S = 0.05
#: Hint for a refused client where no token is required.
WAY_OUT = "attach from outside of that container, or run dkdbg attach in it"


def refusal(sock: socket.socket) -> str:
    """Return why a connection from another container is refused, in one line; empty without a proof.

    A client that has closed its connection is refused too, because its container is unknown.
    """
    return _proof(sock) or local_users.refusal(sock, None)


def is_on_engines_network(environment: Mapping[str, str]) -> bool:
    """Tell whether this is a container of Docker or Podman with a network of its own."""
    if environment.get("KUBERNETES_SERVICE_HOST") or os.path.exists(_POD):
        return False
    with contextlib.suppress(OSError), open("/etc/hosts", "rb") as hosts:
        if hosts.read(64).startswith(
            b"# Kubernetes-managed"
        ):  # a shell over ssh lacks KUBERNETES_SERVICE_HOST
            return False
    return any(os.path.exists(path) for path in _CONTAINER_FILES) and not os.path.exists(_HOST_NETWORK_ONLY)


def _proof(sock: socket.socket) -> str:
    with contextlib.suppress(OSError, ValueError, struct.error, AttributeError):
        peer, own = local_users.cgroups(sock)
        if peer is None or peer == own:
            return ""
        folders = _folders(peer, own)
        pids = _members(folders[peer]) if peer in folders else []
        if any(pids):
            return "it comes from another container" if _is_a_container(folders[peer]) else ""
        if own in folders and (pids or peer not in folders) and _is_reached_from_inside_only():
            return "it comes from outside of this container, by loopback"
    return ""


def _is_reached_from_inside_only() -> bool:
    """Tell whether the engine reaches our ports by the container's address, and never over loopback."""
    return is_on_engines_network(os.environ) and local_users.knows_all_users()


def _is_a_container(folder: str) -> bool:
    """Tell whether all processes of a cgroup are in a container that root made."""
    end = time.monotonic() + _ENGINE_TIMEOUT_S
    while True:
        found = {pid: _is_contained(pid) for pid in _members(folder)}
        outside = [pid for pid, inside in found.items() if inside is False]
        if not outside or not all(map(_is_engines, outside)) or time.monotonic() > end:
            return not outside and True in found.values()
        time.sleep(_INTERVAL_S)


def _is_contained(pid: int) -> Optional[bool]:
    """Tell whether a process is in a PID namespace inside ours and in our user namespace; None when it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return _depth(str(pid)) > _depth("self") and _users(str(pid)) == _users("self")
    return None


def _is_engines(pid: int) -> bool:
    """Tell whether a process runs as root or has ended: it may be the engine's, which soon leaves the cgroup."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return os.stat("/proc/%d" % pid).st_uid == 0
    return True


def _depth(pid: str) -> int:
    """Return the nesting depth of a process's PID namespace, counted from that of /proc."""
    with open("/proc/%s/status" % pid, "rb") as status:
        return next((len(line.split()) for line in status if line.startswith(b"NSpid:")), 0)


def _users(pid: str) -> str:
    with open("/proc/%s/uid_map" % pid) as table:
        return table.read()


def _members(folder: str) -> List[int]:
    """Return the pids of the processes in a cgroup; 0 for each process outside of our PID namespace."""
    with open(os.path.join(folder, "cgroup.procs")) as table:
        return [int(line) for line in table]


def _folders(*cgroups: Optional[int]) -> Dict[Optional[int], str]:
    """Return the folders of the cgroups with these ids, as far as they are visible here."""
    found: Dict[Optional[int], str] = {}
    left = [point for _, point, system in procfs.mounts() if system == "cgroup2"]
    while left and len(found) < len(cgroups):
        folder = left.pop()
        with contextlib.suppress(OSError):
            number = os.stat(folder).st_ino
            if number in cgroups:
                found.setdefault(number, folder)
            with os.scandir(folder) as entries:
                left.extend(each.path for each in entries if each.is_dir(follow_symlinks=False))
    return found
