"""Addresses that others can reach: without a token nobody listens there, for a debugger is a way to run code.

A container on a network of Docker's or Podman's is the exception for the front: the engine publishes its port to the
host's loopback by way of the container's own address, and front/peers.py keeps the neighbours out. Nothing else is:
a plain host, a Slurm node, a container with the host's network, and a pod, whose address the whole cluster reaches.
"""

from __future__ import annotations

import os

from dkdbg.agent import contract
from dkdbg.agent.front import tokens
from dkdbg.agent.program import loopback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

#: What the engines put into each container. Only root could put it on a host.
_MARKS = ("/.dockerenv", "/run/.containerenv")
#: A setting of the kernel that only the machine's own network namespace shows (register_net_sysctl(&init_net, ...) in
#: net/core/sysctl_net_core.c, Linux 2.6.37 to now): a container that sees it has the host's network.
_OF_THE_HOST = "/proc/sys/net/core/dev_weight"
_POD = "/var/run/secrets/kubernetes.io"


def refusal(host: str, environment: Mapping[str, str]) -> str:
    """Return why a debugger's port may not be opened on this address, and what to do; empty when it may.

    Args:
        host: as the user wrote it.
        environment: the agent's.
    """
    if _has_token(environment) or loopback.is_loopback(host) or is_on_engines_network(environment):
        return ""
    return (
        "--host (%s) %s can be reached by others, who could run code here: set %s to a secret, which an editor sends as "
        "dkdbgToken, or listen on 127.0.0.1 and come through ssh -L or kubectl port-forward"
        % (contract.ENV_HOST, host or "''", contract.ENV_TOKEN)
    )


def pdb_refusal(address: str, environment: Mapping[str, str]) -> str:
    """The same for pdb on `host:port`; nobody but the token looks at who comes there, in a container neither."""
    host = address.rpartition(":")[0]
    if _has_token(environment) or loopback.is_loopback(host):
        return ""
    return (
        "--pdb (%s) %s can be reached by others, who could run code here: set %s to a secret, which is then the first "
        "line to type, or listen on 127.0.0.1" % (contract.ENV_PDB, address, contract.ENV_TOKEN)
    )


def is_on_engines_network(environment: Mapping[str, str]) -> bool:
    """Tell whether this is a container of Docker or Podman with a network of its own.

    Args:
        environment: of the agent; Kubernetes names its services there.
    """
    if environment.get("KUBERNETES_SERVICE_HOST") or os.path.exists(_POD):
        return False
    return any(os.path.exists(mark) for mark in _MARKS) and not os.path.exists(_OF_THE_HOST)


def _has_token(environment: Mapping[str, str]) -> bool:
    try:
        return bool(tokens.read(environment))
    except ValueError:  # the session does not start, and says why
        return True
