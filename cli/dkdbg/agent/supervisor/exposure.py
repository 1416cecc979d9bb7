"""Refuses to listen without a token on addresses that other machines can reach: a debugger runs arbitrary code.

The one exception is the listener in a container on a Docker or Podman network: it has to listen on the container's own
address, where the engine forwards the port published on the host's loopback, and proxy/listener/peers.py refuses other
containers. A token is needed on a plain host, on a Slurm node, in a container with the host's network, and in a pod,
whose address the whole cluster can reach.
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
    """Return why pdb may not listen on `host:port`; empty if it may. In containers too, only a token protects it."""
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
