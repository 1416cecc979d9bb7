"""The verbs that look at what runs, all at once: ps, where, ranks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dkdbg.verbs.options import values

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.verbs.options.parser import Verbs


def add_ps(verbs: Verbs) -> None:
    """The sessions."""
    ps = verbs.add_parser("ps", help="list the debug sessions in containers and on this machine")
    ps.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="look only there; hosts behind ssh are asked only when named",
    )
    ps.add_argument("--all", action="store_true", help="show those that have ended too")
    ps.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    ps.set_defaults(call=_ps)


def _ps(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.ps import ps

    return ps(root, options.targets, everything=options.all, as_json=options.json)


def add_where(verbs: Verbs) -> None:
    """Where each process is."""
    where = verbs.add_parser(
        "where",
        help="show where each process of a job is, the odd one out first",
    )
    where.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="look only there; hosts behind ssh are asked only when named",
    )
    where.add_argument("--ranks", dest="set", metavar="SET", default="all", help="0,3 or 0-7:2 (all)")
    where.add_argument("--watch", action="store_true", help="repeat every 2 seconds until Ctrl-C")
    where.add_argument("--html", metavar="FILE", help="write a page for a browser, with a grid of the ranks")
    where.add_argument("--json", action="store_true", help="one JSON object instead of text")
    where.add_argument(
        "--native",
        action="store_true",
        help="with native frames; needs py-spy there, and permission to use it",
    )
    where.set_defaults(call=_where)


def _where(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.where import Shown, where

    return where(
        root, options.targets,
        Shown(
            ranks=options.set, watch=options.watch, as_json=options.json, native=options.native,
            html=None if options.html is None else root / options.html,
        ),
    )  # fmt: skip


def add_ranks(verbs: Verbs) -> None:
    """Ranks side by side."""
    ranks = verbs.add_parser("ranks", help="pause, continue or compare all ranks, side by side")
    ranks.add_argument("--ranks", dest="set", metavar="SET", default="all", help="0,3 or 0-7:2 (all)")
    ranks.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="TARGET",
        help="where, several times for more; by default this repository's debug service, else the only session there is",
    )
    ranks.add_argument(
        "--frame", type=values.count, default=0, metavar="N", help="evaluate N callers further up (0)"
    )
    ranks.add_argument(
        "--limit",
        type=values.seconds,
        default=10,
        metavar="SECONDS",
        help="how long to wait for answers (10)",
    )
    ranks.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    what = ranks.add_subparsers(dest="what", required=True, metavar="pause | continue | stack | eval")
    for name, text in (
        ("pause", "hold the ranks of an attached editor"),
        ("continue", "let them continue"),
        ("stack", "show where each is held"),
    ):
        _add_on(what.add_parser(name, help=text)).set_defaults(expression="")
    value = _add_on(what.add_parser("eval", help="show a value of each rank that is held"))
    value.add_argument("expression", metavar="EXPR")
    value.add_argument(
        "--plot", action="store_true", help="write a PNG: each tensor as a picture and a histogram"
    )
    value.add_argument("--out", metavar="FILE.png", help="with --plot: where to (EXPR.png)")
    ranks.set_defaults(call=_ranks)


def _add_on(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Take `--on` behind the verb too, where those of other verbs stand."""
    parser.add_argument("--on", dest="on_behind", action="append", default=[], help=argparse.SUPPRESS)
    return parser


def _ranks(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.ranks import ranks

    return ranks(
        root, options.what, options.expression, targets=options.on + options.on_behind, chosen=options.set, frame=options.frame,
        limit=options.limit, as_json=options.json, plot=getattr(options, "plot", False), out=getattr(options, "out", None),
    )  # fmt: skip
