"""The verbs of an editor, a debugger or a browser here: attach, forward, sync, pdb."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.verbs.options import values

if TYPE_CHECKING:
    import argparse

    from dkdbg.verbs.options.parser import Verbs


def add_attach(verbs: Verbs) -> None:
    """One port for the editor."""
    attach = verbs.add_parser(
        "attach",
        help="keep one port for your editor while programs come and go",
    )
    attach.add_argument(
        "targets", nargs="*", metavar="TARGET", help="where; the debug service of this repository by default"
    )
    attach.add_argument("--port", type=values.port, default=5677, metavar="PORT", help="on 127.0.0.1 (5677)")
    attach.add_argument(
        "--ports", type=values.port, metavar="BASE",
        help="also a port per process, for clients without child sessions: rank r on BASE + r",
    )  # fmt: skip
    attach.add_argument(
        "--listen", type=values.listened, metavar="[HOST:]PORT",
        help="wait here for jobs that can only connect out (DKDBG_CONNECT) and know your token",
    )  # fmt: skip
    attach.add_argument(
        "--pid", type=values.process, action="append", default=[], metavar="PID", dest="pids",
        help="enter this running Python there (repeat it for several)",
    )  # fmt: skip
    attach.add_argument("--ranks", dest="choice", metavar="SET", help=values.RANKS)
    attach.add_argument("--json", action="store_true", help="one JSON object per line for each event")
    attach.set_defaults(call=_attach)


def _attach(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.attach import attach

    return attach(
        root,
        options.targets,
        port=options.port,
        ports=options.ports,
        as_json=options.json,
        ranks=options.choice,
        listen=options.listen,
        pids=options.pids,
    )


def add_forward(verbs: Verbs) -> None:
    """Ports of a remote host."""
    forward = verbs.add_parser(
        "forward", help="forward a port of a remote host to this machine, such as TensorBoard's"
    )
    forward.add_argument("target", metavar="TARGET", help="where")
    forward.add_argument(
        "ports",
        nargs="+",
        type=values.forwarded,
        metavar="[LOCAL:]PORT",
        help="the port on its loopback; LOCAL is the port here",
    )
    forward.add_argument("--json", action="store_true", help="one JSON object per line for each event")
    forward.set_defaults(call=_forward)


def _forward(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.forward import forward

    return forward(root, options.target, options.ports, as_json=options.json)


def add_sync(verbs: Verbs) -> None:
    """Add `sync`: files to a target."""
    sync = verbs.add_parser("sync", help="copy your files to a target, and then every save")
    sync.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")
    sync.add_argument(
        "--to", metavar="PATH", help="the folder on the target (where init planned it, else WORKDIR)"
    )
    what = sync.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="stop when both sides are equal")
    what.add_argument(
        "--verify", action="store_true", help="only compare both sides; exit 1 when they differ"
    )
    what.add_argument(
        "--pull", action="append", default=[], metavar="FOLDER", help="copy a folder of the target back"
    )
    what.add_argument(
        "--explain", metavar="PATH", help="say whether PATH is synced, and which rule decides it"
    )
    sync.add_argument("--into", metavar="DIR", help="with --pull: where to (dkdbg-pulled/TARGET)")
    sync.add_argument(
        "--limit", type=values.size, metavar="SIZE", help="with --pull: copy at most this much (10GB)"
    )
    sync.add_argument("--python", metavar="PATH", help="the interpreter on the target (python3, python, ...)")
    sync.add_argument("--json", action="store_true", help="one JSON object per line for each event")
    sync.set_defaults(call=_sync)


def _sync(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs import sync

    if options.explain is not None:
        return sync.explain(root, options.explain)
    return sync.sync(
        root, options.target, to=options.to, once=options.once, verify=options.verify, pull=options.pull,
        into=options.into, python=options.python, as_json=options.json, limit=options.limit,
        folder=_folder(options, root),
    )  # fmt: skip


def _folder(options: argparse.Namespace, root: Path) -> str:
    """The folder that -C and --to together mean, relative to `root`: of that very folder, not of the repository around it."""
    named = options.to is not None and options.directory != "."
    return Path(options.directory).resolve().relative_to(root).as_posix() if named else "."


def add_pdb(verbs: Verbs) -> None:
    """pdb in a running program."""
    pdb = verbs.add_parser("pdb", help="enter the running program with pdb; q leaves it")
    pdb.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="where; by default this repository's debug service, else the only session there is",
    )
    pdb.add_argument("--pid", type=int, metavar="PID", help="which process, by its pid on the target")
    pdb.add_argument("--rank", type=int, metavar="N", help="which process, by its rank (0 by default)")
    pdb.set_defaults(call=_pdb)


def _pdb(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.pdb import pdb

    return pdb(root, options.target, pid=options.pid, rank=options.rank)
