"""The agent's command line: `launch`, `supervise`, `restart`, `stop`, `pdb`, `ranks` and more, see _USAGE.

Run as `python -m dkdbg.agent`, or as a file with `python -I -S -B`: the package's folder is then found from
the file's own path, and the user's site-packages and working directory are not on sys.path.
"""

from __future__ import annotations

import os
import sys

if __package__ in (None, ""):
    sys.path[:1] = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]

from dkdbg.agent import console
from dkdbg.agent.supervisor import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence

_USAGE = """usage: dkdbg.agent launch [--host H] [--port P] [--wait SECONDS] [--then exit|run] [--name NAME]
                          [--runtime DIR] [--on-crash hold=TIME] [--no-compile] [--pdb [HOST:]PORT]
                          [--ranks SET] [--continue all|one] [--beats PATTERNS] [--housekeeping] [--connect HOST:PORT]
                          [--nsys|--py-spy|--torch-profile PATTERNS] [--nsys-ranks|... SET] -- COMMAND [ARGUMENT...]
       dkdbg.agent supervise [as launch] [--reload [DIR...]] [--reload-config] [--on-crash restart|wait|exit]
                             [--max-restarts N] [--interactive] -- COMMAND [ARGUMENT...]
       dkdbg.agent enter PID[,PID...] [--host H] [--port P] [--name NAME]
       dkdbg.agent restart | stop [--name NAME]
       dkdbg.agent pdb [--pid N] [--name NAME]
       dkdbg.agent where [--name NAME] [--native]
       dkdbg.agent line [--name NAME] [--also FILE] FILE LINE
       dkdbg.agent ranks [--ranks SET] [--frame N] [--limit SECONDS] [--name NAME] [--json]
                         pause | continue | stack | eval EXPRESSION
       dkdbg.agent health [--wait] | sessions [--json] | mapping | relay WORD | call
       dkdbg.agent ray list | proxy [--dashboard [HOST:]PORT]

       --ranks (DKDBG_RANKS): debug only these ranks, such as 0,3 or 0-7:2 or failing; the others run free
       --continue (DKDBG_CONTINUE): Continue and Pause in an editor act on all ranks, or on the one in focus
       --beats 'heartbeat,Lease*' (DKDBG_BEATS): threads that run on while the others of the process are held
       --connect (DKDBG_CONNECT): connect to a waiting dkdbg attach --listen, if this machine accepts no connections
       --nsys '*policy*,*vllm*', --nsys-ranks 0 (DKDBG_NSYS, DKDBG_NSYS_RANKS): profile these workers; --py-spy and
       --torch-profile do the same; files go to ./dkdbg-profiles (DKDBG_PROFILE_DIR)
       --housekeeping (DKDBG_HOUSEKEEPING=1): debug helper processes too, such as multiprocessing's resource tracker
       and forkserver, torch's compile workers and Ray's own"""

#: Modules of subcommands whose `main` takes the arguments after the subcommand.
_MODULES = {
    "line": "supervisor.line",
    "pdb": "supervisor.pdb_client",
    "ranks": "supervisor.ranks",
    "ray": "ray.main",
    "relay": "relay.stdio",
    "where": "supervisor.where",
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one subcommand and return the exit code."""
    if argv is None:
        console.open_closed_streams()
    owner.become_owner(os.environ)  # in every subcommand, because the runtime folder belongs to that owner
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments.pop(0) if arguments else ""
    if command in ("launch", "supervise"):
        return _launch(arguments, supervised=command == "supervise")
    if command == "accompany":  # run by autostart/starting.py, for programs that are already running
        from dkdbg.agent.supervisor import sidecar

        return sidecar.main(arguments, _USAGE)
    if command == "enter":
        from dkdbg.agent.inject import main as enter

        try:
            return enter.main(arguments, _USAGE)
        except ValueError as error:
            return _usage_error(str(error))
    if command in _MODULES:
        import importlib

        return int(importlib.import_module("dkdbg.agent." + _MODULES[command]).main(arguments))
    if command in ("restart", "stop"):
        from dkdbg.agent.supervisor import control

        return control.main(command, arguments)
    if command == "call":
        from dkdbg.agent.relay import calling

        return calling.main()
    if command == "health":
        return _health(wait="--wait" in arguments)
    if command == "sessions":
        return _sessions("--json" in arguments)
    if command == "mapping":
        return _mapping()
    if command in ("-h", "--help", "help"):
        print(_USAGE)
        return 0
    sys.stderr.write(_USAGE + "\n")
    return 2


def _launch(argv: List[str], *, supervised: bool) -> int:
    from dkdbg.agent.supervisor import launch, options, program_env, supervise

    try:
        argv = program_env.take_flags(argv, os.environ)
        asked = options.parse(argv, supervised=supervised, usage=_USAGE)
    except ValueError as error:
        return _usage_error(str(error))
    asked.wait = program_env.prepare(os.environ, asked.wait, asked.then)
    return supervise.run(asked) if asked.supervision is not None else launch.run(asked)


def _health(*, wait: bool) -> int:
    """Return 0 if a debugger can attach; otherwise print why not and return 1.

    With `wait`, retry for up to 20 s. For images without sh; in others, agent.sh does the same without Python.
    """
    import time

    from dkdbg.agent.state import records

    end, reason = time.monotonic() + 20.0, records.trouble()
    if wait and not reason:
        time.sleep(2.0)
        reason = records.trouble()
    while wait and reason and time.monotonic() < end:
        time.sleep(0.1)
        reason = records.trouble()
    if reason:
        print(reason)
        return 1
    return 0


def _sessions(as_json: bool) -> int:
    from dkdbg.agent.state import records

    found = [(record, records.is_live(record)) for record in records.list_records()]
    if as_json:
        import json

        print(json.dumps([dict(record, live=live) for record, live in found], indent=2))
        return 0
    for record, live in found:
        state = record["state"] if live or record["state"] == "exited" else "lost"
        print(
            "%-24s %-9s %s:%s  %s" % (record["id"], state, record["host"], record["port"], record["detail"])
        )
        for process in record["processes"] if live else ():
            if process["stopped"]:
                print("    %d %s: stopped at %s" % (process["pid"], process["name"], process["stopped"]))
    return 0


def _mapping() -> int:
    import json

    from dkdbg.agent.state import mapping

    print(json.dumps(mapping.of_this_machine(), indent=2))
    return 0


def _usage_error(text: str) -> int:
    sys.stderr.write("dkdbg: %s\n%s\n" % (text, _USAGE))
    return 2


if __name__ == "__main__":
    sys.exit(main())
