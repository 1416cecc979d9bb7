"""Refuses to listen without a token on addresses that others can reach: a debugger runs arbitrary code.

The one exception is the listener in a container on a Docker or Podman network: the engine publishes its port
to the host's loopback through the container's own address, and proxy/listener/peers.py refuses neighbours. A
plain host, a Slurm node, a container with the host's network and a pod, whose address the whole cluster
reaches, need a token.
"""

from __future__ import annotations

from dkdbg.agent import settings
from dkdbg.agent.inprocess.pdb import loopback
from dkdbg.agent.proxy.listener import containers, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping


def refusal(host: str, environment: Mapping[str, str]) -> str:
    """Return why a debugger's port may not be opened on this address, and what to do; empty when it may."""
    if _has_token(environment) or loopback.is_loopback(host) or containers.is_on_engines_network(environment):
        return ""
    return (
        "--host (%s) %s can be reached by others, who could run code here: set %s to a secret, which an editor sends as "
        "dkdbgToken, or listen on 127.0.0.1 and connect through ssh -L or kubectl port-forward"
        % (settings.ENV_HOST, host or "''", settings.ENV_TOKEN)
    )


def pdb_refusal(address: str, environment: Mapping[str, str]) -> str:
    """Return why pdb may not listen on `host:port`; empty when it may. Only the token protects it, in containers too."""
    host = address.rpartition(":")[0]
    if _has_token(environment) or loopback.is_loopback(host):
        return ""
    return (
        "--pdb (%s) %s can be reached by others, who could run code here: set %s to a secret, which is then the first "
        "line to type, or listen on 127.0.0.1" % (settings.ENV_PDB, address, settings.ENV_TOKEN)
    )


def _has_token(environment: Mapping[str, str]) -> bool:
    try:
        return bool(tokens.read(environment))
    except ValueError:  # the session reports the invalid token and does not start
        return True
