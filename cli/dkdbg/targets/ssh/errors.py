"""Explain OpenSSH's connection errors, and how to fix them. The texts are those of OpenSSH 7 to 10."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.core.known_errors import Known, first, last_line, shortened
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable

if TYPE_CHECKING:
    from dkdbg.targets.ssh.command import SshHosts

#: A known host shows another key: OpenSSH cannot tell a new key from an attack.
_CHANGED_KEY = (
    "the host key of {who} has changed: the machine was reinstalled, or another machine answers in its place"
)

#: (pattern of a line, problem, hint). `{0}` and `{1}` stand for the pattern's groups, `{way}` for the hosts' names. The
#: first match counts, so a cause comes before its consequences.
_KNOWN = (
    (
        r"Offending \S+ key in (\S+):\d+\r?\n(?:[^\n]*\n){0,4}?Host key for (\S+) has changed",
        _CHANGED_KEY,
        hints.HOST_KEY(file="{0}", host="{1}"),
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        _CHANGED_KEY,
        "ask the administrator; if the new key is right: ssh-keygen -R HOSTNAME (ssh -G {who} shows it), then connect once: {ssh}",
    ),
    (
        r"No (\S+) host key is known for (\S+)",
        "{1} is not known yet, and there is no terminal here to confirm its host key",
        "connect once in a terminal and compare the key: {ssh}",
    ),
    (r"Host key verification failed", "you have not accepted the host key of {who} yet", "connect once in a terminal and compare it: {ssh}"),
    (
        r"(\S+): Permission denied \(([^)]*)\)",
        "{0} accepts none of the keys that ssh offers (methods: {1})",
        "add your public key (~/.ssh/*.pub on this machine) to ~/.ssh/authorized_keys on {0}{keys}; ssh-add -l shows your keys; try: {ssh}",
    ),
    (
        r"Too many authentication failures",
        "ssh has offered too many keys",
        "name the key for this host in ~/.ssh/config: IdentityFile and IdentitiesOnly yes",
    ),
    (
        r"Could not resolve hostname (\S+): (.*)",
        "there is no host {0}: {1}",
        "is the name right? if it is an alias, is it in ~/.ssh/config? ssh -G {0} shows how ssh reads it",
    ),
    (
        r"open failed: administratively prohibited",
        "{hop} does not allow ssh connections through it (AllowTcpForwarding in its sshd_config)",
        "ask the administrator of {hop}, or run the program on it: ssh://{hop}",
    ),
    (
        r"open failed: connect failed: (?:Name or service not known|Temporary failure in name resolution)",
        "{hop} cannot resolve the host name {who}",
        "is that its name on {hop}?",
    ),
    (r"open failed: connect failed: (.*)", "{hop} cannot reach {who}: {0}", "is it running? try: {ssh}"),
    (
        r"connect to host (\S+) port (\d+): Connection refused",
        "nothing listens for ssh at {0}, port {1}",
        "is it running, and is the port right? {ssh} -v says more",
    ),
    (
        r"connect to host (\S+) port (\d+): (.*)",
        "{0} cannot be reached at port {1}: {2}",
        "is the network or the VPN up? try: {ssh}",
    ),
    (r"Connection timed out during banner exchange|Connection to \S+ timed out", "{way} does not answer", "try: {ssh}"),
    (r"Bad owner or permissions on (\S+)", "ssh rejects {0}: other users can write to it", "chmod go-w {0}"),
    (r"(\S+ line \d+: .*|.*: terminating, \d+ bad configuration options)", "ssh's configuration is wrong: {0}", "ssh -G {target} shows it"),
    (r"unix_listener: .*", "ssh cannot make its socket: {0}", "set XDG_RUNTIME_DIR to another folder that you own"),
)  # fmt: skip


def explain(hosts: SshHosts, stderr: str) -> DkdbgError:
    """Return the error for a message of ssh.

    Args:
        stderr: ssh's standard error, partly written by the remote side.
    """
    stderr = shortened(stderr)
    way, target = hosts.name, hosts.hops[-1]
    who = target.rpartition("@")[2]
    more = {
        "way": way, "target": target, "who": who, "hop": hosts.hops[-2] if len(hosts.hops) > 1 else target,
        "keys": f", not only on {hosts.hops[-2]}" if len(hosts.hops) > 1 and f"{who}: " in stderr else "",
        "ssh": "ssh " + " ".join(each for each in hosts.destination() if each != "--"),
    }  # fmt: skip
    if (found := first((Known(*each) for each in _KNOWN), stderr)) is None:
        last = last_line(stderr) or "no output"
        return DkdbgError(f"ssh://{way} cannot be reached: {last}", hint=f"try: {more['ssh']}")
    (_, problem, hint, _), match = found
    groups = [printable((each or "").strip()) for each in match.groups() or (match[0],)]
    # Quote the groups in the hint: the remote side may have written them, and users type what a hint suggests.
    typed = map(shlex.quote, groups)
    return DkdbgError(f"ssh://{way}: {problem.format(*groups, **more)}", hint=hint.format(*typed, **more))
