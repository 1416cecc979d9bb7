"""`dkdbg init`: of a repository, a target, a cluster, OpenPAI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.verbs.options import values

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.verbs.options.parser import Parser, Verbs


def add(verbs: Verbs) -> None:
    """What it can be told."""
    init = verbs.add_parser("init", help="set up this repository: shows a plan, asks, writes")
    init.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="write only what F5 needs to run the program there and attach to it",
    )
    how = init.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="write without asking")
    how.add_argument("--diff", action="store_true", help="show the diff and write nothing")
    how.add_argument("--check", action="store_true", help="write nothing; exit 1 if something would change")
    how.add_argument("--undo", action="store_true", help="take back, to the byte, what init wrote here")
    init.add_argument(
        "--force",
        action="store_true",
        help="with --undo: files edited since too; the edits are saved beside them",
    )
    init.add_argument(
        "--command", metavar="TEXT", help="the program to debug, such as 'python train.py --epochs 1'"
    )
    init.add_argument(
        "--service",
        metavar="NAME",
        help="the compose service to debug; FILE:NAME where several files have one of that name",
    )
    init.add_argument(
        "--port",
        type=values.port,
        metavar="PORT",
        help="with TARGET: the port on this machine (5677 or the next free one)",
    )
    init.add_argument(
        "--ranks", dest="count", type=values.rank_count, metavar="N",
        help="write only a launch entry per rank and one for all, for editors that open no child sessions",
    )  # fmt: skip
    init.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_overlay(init)
    init.set_defaults(call=_init)


def _add_overlay(init: Parser) -> None:
    pai = init.add_argument_group("add only what debugs an OpenPAI job, a port and a deployment, to its YAML")
    pai.add_argument(
        "--pai", metavar="FILE", nargs="?", const="", help="the job protocol; by default the only one here"
    )
    pai.add_argument(
        "--role",
        metavar="NAME",
        default="",
        help="the task role that waits for a debugger; by default the only one",
    )
    pai.add_argument("--dap", action="store_true", help="wait for an editor instead of pdb over nc")
    pai.add_argument("--agent", metavar="PATH", default="", help="where agent.pyz is in the container")
    k8s = init.add_argument_group(
        "write only a manifest overlay that starts a workload in a cluster under the agent, and its F5"
    )
    k8s.add_argument(
        "--k8s", metavar="WORKLOAD", nargs="?", const="",
        help="deployment/NAME or the like in this repository's manifests; by default the only one",
    )  # fmt: skip
    k8s.add_argument(
        "--from", dest="source", metavar="PATH", help="the manifest, or the folder of a kustomization.yaml"
    )
    k8s.add_argument(
        "--container",
        metavar="NAME",
        default="",
        help="the container whose program is debugged (the first one)",
    )
    k8s.add_argument("--namespace", metavar="NAME", help="where it will run (the manifest's, else kubectl's)")
    k8s.add_argument(
        "--to",
        dest="folder",
        metavar="PATH",
        help="the code's folder in the container (workingDir, else WORKDIR)",
    )


def _init(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs import init

    if options.undo:
        return init.undo(root, force=options.force, as_json=options.json)
    if options.target is not None:
        from dkdbg.verbs.init_target import init_target

        return init_target(
            root, options.target, command=options.command, port=options.port, yes=options.yes, diff=options.diff, check=options.check,
            as_json=options.json,
        )  # fmt: skip
    if options.count is not None:
        from dkdbg.verbs.init_ranks import init_ranks

        return init_ranks(
            root,
            options.count,
            port=options.port,
            yes=options.yes,
            diff=options.diff,
            check=options.check,
            as_json=options.json,
        )
    if options.k8s is not None:
        from dkdbg.verbs.init_k8s import init_k8s

        return init_k8s(
            root, options.k8s, source=options.source, container=options.container, namespace=options.namespace,
            folder=options.folder, command=options.command, port=options.port, yes=options.yes, diff=options.diff,
            check=options.check, as_json=options.json,
        )  # fmt: skip
    if options.pai is not None:
        from dkdbg.verbs.init_pai import init_pai

        return init_pai(
            root, options.pai, role=options.role, command=options.command, agent=options.agent, dap=options.dap,
            yes=options.yes, diff=options.diff, check=options.check, as_json=options.json,
        )  # fmt: skip
    return init.init(
        root, command=options.command, service=options.service, yes=options.yes, diff=options.diff,
        check=options.check, as_json=options.json,
    )  # fmt: skip
