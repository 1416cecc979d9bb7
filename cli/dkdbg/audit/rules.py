"""The audit's rules and findings, and which files and services are only for debugging."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of the audit.

    Attributes:
        id: stable name, used in SARIF and in `dkdbg: ignore`.
        level: severity, as SARIF names it.
        title: what the rule finds.
        todo: how to correct a finding.
    """

    id: str
    level: Literal["error", "warning"]
    title: str
    todo: str


@dataclass(frozen=True, order=True, kw_only=True)
class Finding:
    """A line that breaks a rule.

    Attributes:
        path: POSIX path relative to the repository's root.
        line: counted from 1.
        rule: id of the rule.
        message: what is wrong, with the value, but never a whole secret.
        uri: absolute URI of a file outside the repository; empty for a file of the repository.
    """

    path: str
    line: int
    rule: str
    message: str
    uri: str = ""


#: A finding in one file: line, rule id, message.
Found: TypeAlias = tuple[int, str, str]

OPEN_PORT, HOST_PORT, WAITS, SHIPS = "open-debug-port", "host-debug-port", "wait-for-client", "debugger-ships"
PTRACE, PRIVILEGED, UNCONFINED = "ptrace", "privileged", "unconfined"
BUILD_SECRET, TOKEN, OLD_AGENT, UNREAD = "secret-in-build", "token-in-file", "old-agent", "unread"

#: All rules by id. Ids never change, because ignore comments and SARIF baselines name them.
RULES: dict[str, Rule] = {
    each.id: each
    for each in (
        Rule(
            id=OPEN_PORT,
            level="error",
            title="a debug port beyond loopback: anyone who reaches it can run code as the program",
            todo="publish it as 127.0.0.1:PORT:PORT, or listen on 127.0.0.1; dkdbg attach TARGET reaches it from elsewhere",
        ),
        Rule(
            id=HOST_PORT,
            level="error",
            title="a debug port in the network of its host",
            todo="remove hostPort or the host's network; dkdbg attach k8s://NAMESPACE/POD and docker://CONTAINER need neither",
        ),
        Rule(
            id=WAITS,
            level="error",
            title="a shipped program that waits for a debugger",
            todo="remove it, or move it to a service with `profiles: [debug]`; dkdbg run -- COMMAND needs no change of the code",
        ),
        Rule(
            id=SHIPS,
            level="error",
            title="a debugger in a production image or service",
            todo="remove it: dkdbg init writes a debug service beside yours, and the agent is mounted, not installed",
        ),
        Rule(
            id=PTRACE,
            level="warning",
            title="the capability SYS_PTRACE: its holder can read and change every process that it sees",
            todo="remove it: a program that was started under dkdbg needs no ptrace",
        ),
        Rule(
            id=PRIVILEGED,
            level="error",
            title="a privileged container: root in it is root on the host",
            todo="remove it, and give the container the one device or capability that it needs",
        ),
        Rule(
            id=UNCONFINED,
            level="warning",
            title="no seccomp filter: the container may make every system call",
            todo="remove it: the engine's own profile allows ptrace since Linux 4.8, and a debugger needs nothing else",
        ),
        Rule(
            id=BUILD_SECRET,
            level="error",
            title="a secret in a build argument, in ENV or in RUN: the history of the image shows it",
            todo="use a build secret (RUN --mount=type=secret,id=NAME), or set the variable when the container starts",
        ),
        Rule(
            id=TOKEN,
            level="error",
            title="a token in a file of the repository",
            todo="revoke it, then remove it from the file; its old value stays in git's history",
        ),
        Rule(
            id=OLD_AGENT,
            level="warning",
            title="an agent that is older than the installed dkdbg",
            todo="dkdbg init --yes writes the newer one; commit it",
        ),
        Rule(
            id=UNREAD,
            level="warning",
            title="files that the audit has not read",
            todo="make the file readable, smaller or valid, or accept it with the comment `dkdbg: ignore unread` in its first line",
        ),
    )
}

_WORDS = re.compile(r"[^a-z0-9]+")
_DEBUG = frozenset(
    {
        "debug",
        "debugging",
        "dkdbg",
        "dev",
        "devel",
        "development",
        "devcontainer",
        "local",
        "override",
        "vscode",
    }
)
_TESTS = frozenset({"test", "tests", "testing", "conftest"})


def is_for_debugging(text: str) -> bool:
    """Return whether a path, profile or build stage is for development or tests, judging by its name."""
    name_parts = set(_WORDS.split(text.lower()))
    return not name_parts.isdisjoint(_DEBUG) or not name_parts.isdisjoint(_TESTS)


def is_test(path: str) -> bool:
    """Return whether a file is a test, judging by its path."""
    return not _TESTS.isdisjoint(_WORDS.split(path.lower()))
