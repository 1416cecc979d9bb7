"""The agent's command line: `launch`, `health`, `sessions`, `mapping`.

Run as `python -m dkdbg.agent`, or as a file with `python -I -S -B`: then the folder of the package is found from the
file's own path, and nothing of the user's site-packages or working directory can get in the way.
"""

from __future__ import annotations

import os
import sys

if __package__ in (None, ""):
    sys.path[:1] = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]

from dkdbg.agent import contract, owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import List, Optional, Sequence

_USAGE = """usage: dkdbg.agent launch [--host H] [--port P] [--wait SECONDS] [--then exit|run] [--name NAME]
                          [--runtime DIR] [--on-crash hold=TIME] [--no-compile] [--pdb [HOST:]PORT]
                          -- COMMAND [ARGUMENT...]
       dkdbg.agent pdb [--pid N] [--name NAME]
       dkdbg.agent health | sessions [--json] | mapping"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one sub-command and return the exit code."""
    owner.become_owner(os.environ)  # for every sub-command: the runtime folder is the owner's
    words = list(sys.argv[1:] if argv is None else argv)
    command = words.pop(0) if words else ""
    if command == "launch":
        return _launch(words)
    if command == "pdb":
        from dkdbg.agent import pdb_client

        return pdb_client.main(words)
    if command == "health":
        return _health()
    if command == "sessions":
        return _sessions("--json" in words)
    if command == "mapping":
        return _mapping()
    if command in ("-h", "--help", "help"):
        print(_USAGE)
        return 0
    sys.stderr.write(_USAGE + "\n")
    return 2


def _launch(words: List[str]) -> int:
    from dkdbg.agent import launch, program_env

    try:
        words = program_env.take_flags(words, os.environ)
    except ValueError as error:
        return _usage_error(str(error))
    if "--" not in words:
        return _usage_error("write -- before the command")
    cut = words.index("--")
    command = words[cut + 1 :]
    if not command:
        return _usage_error("no command after --")
    try:
        given = _parse_launch(words[:cut])
        options = launch.Options(
            command,
            host=given.host,
            port=_port(given.port),
            wait=_seconds(given.wait),
            then=given.then,
            name=given.name,
            runtime=given.runtime,
        )
    except ValueError as error:
        return _usage_error(str(error))
    if options.then not in ("exit", "run"):
        return _usage_error("--then (%s) is exit or run, not %r" % (contract.ENV_THEN, options.then))
    options.wait = program_env.prepare(os.environ, options.wait, options.then)
    return launch.run(options)


def _parse_launch(words: List[str]) -> argparse.Namespace:
    import argparse

    environment = os.environ
    wait = environment.get(contract.ENV_WAIT) or environment.get(contract.ENV_WAIT_OPENPAI) or "0"
    name = environment.get(contract.ENV_NAME) or os.uname().nodename
    parser = argparse.ArgumentParser(prog="dkdbg.agent launch", usage=_USAGE)
    parser.add_argument("--host", default=environment.get(contract.ENV_HOST) or contract.DEFAULT_HOST)
    parser.add_argument("--port", default=environment.get(contract.ENV_PORT) or str(contract.DEFAULT_PORT))
    parser.add_argument("--wait", default=wait)
    parser.add_argument("--then", default=environment.get(contract.ENV_THEN) or "exit")
    parser.add_argument("--name", default=name)
    parser.add_argument("--runtime", default=None)
    return parser.parse_args(words)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise ValueError("a port (%s) is a number up to 65535, not %r" % (contract.ENV_PORT, text))
    return int(text)


def _seconds(text: str) -> float:
    if text == "forever":
        return float("inf")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(
            "a time to wait (%s) is a number of seconds or `forever`, not %r" % (contract.ENV_WAIT, text)
        )
    return seconds


def _health() -> int:
    from dkdbg.agent import health

    reason = health.trouble()
    if reason:
        print(reason)
        return 1
    return 0


def _sessions(as_json: bool) -> int:
    from dkdbg.agent import records

    known = records.list_records()
    found = [dict(record, live=records.is_live(record)) for record in known]
    if as_json:
        import json

        print(json.dumps(found, indent=2))
        return 0
    for record, read in zip(found, known):
        state = record["state"] if record["live"] or record["state"] == "exited" else "lost"
        print(
            "%-24s %-9s %s:%s  %s" % (record["id"], state, record["host"], record["port"], record["detail"])
        )
        for process in read["processes"] if record["live"] else ():
            if process.get("stopped"):  # an older agent's record has none
                print("    %d %s: stopped at %s" % (process["pid"], process["name"], process["stopped"]))
    return 0


def _mapping() -> int:
    import json

    from dkdbg.agent import mapping

    print(json.dumps(mapping.here(), indent=2))
    return 0


def _usage_error(text: str) -> int:
    sys.stderr.write("dkdbg: %s\n%s\n" % (text, _USAGE))
    return 2


if __name__ == "__main__":
    sys.exit(main())
