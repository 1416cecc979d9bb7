"""The verbs that start a command: run, submit."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dkdbg.verbs.options import values

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.verbs.options.parser import Parser, Verbs
    from dkdbg.verbs.profiling import Profiling


def add_run(verbs: Verbs) -> None:
    """Add `run`: a command under the debugger."""
    run = verbs.add_parser(
        "run",
        help="run a command under the debugger, here or on any target",
    )
    run.add_argument(
        "--on",
        metavar="TARGET",
        help="where; by default this repository's debug service, or this machine (local:) without one",
    )
    run.add_argument(
        "--port",
        type=values.port,
        metavar="PORT",
        help="the agent's port there (5678; behind ssh a free one)",
    )
    run.add_argument(
        "--wait", type=values.count, nargs="?", default=0, const=600, metavar="SECONDS",
        help="make the command wait for an editor (600)",
    )  # fmt: skip
    run.add_argument(
        "--sync", action="store_true", help="copy your files there first, and each save while it runs"
    )
    run.add_argument(
        "--reload",
        action="store_true",
        help="as --sync, and restart it at each save; Ctrl-C restarts it too, twice quits",
    )
    run.add_argument(
        "--attach", type=values.port, nargs="?", const=5677, metavar="PORT",
        help="also forward this port of 127.0.0.1 (5677) to it, as dkdbg attach does",
    )  # fmt: skip
    run.add_argument(
        "--workers",
        metavar="PATTERNS",
        help="in a Ray cluster: which tasks and actors, such as '*policy*,crunch' (all)",
    )
    run.add_argument("--ranks", dest="choice", metavar="SET", help=values.RANKS)
    run.add_argument(
        "--python", metavar="PATH", help="the interpreter there that runs the agent (python3, ...)"
    )
    _add_profiling(run)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the command, word by word")
    run.set_defaults(call=_run)


def _add_profiling(run: Parser) -> None:
    tools = run.add_argument_group(
        "profile chosen workers",
        "SET is 0,3 or 0-7:2; PATTERNS are '*policy*,*vllm*' and match train-rank0, train, train.py, rank0, and actors of Ray",
    )
    for flag, what in (
        ("--nsys", "Nsight Systems"),
        ("--py-spy", "py-spy"),
        ("--torch-profile", "torch's profiler"),
    ):
        tools.add_argument(flag, metavar="PATTERNS", help=f"those whose name matches, with {what}")
        tools.add_argument(f"{flag}-ranks", metavar="SET", help="these ranks")
    tools.add_argument(
        "--pull", action="store_true", help="fetch the profiles at the end, into dkdbg-pulled in this folder"
    )


def _run(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.run import run

    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return run(
        root, options.on, command, port=options.port, wait=options.wait, python=options.python, sync=options.sync,
        reload=options.reload, attach=options.attach, ranks=options.choice, workers=options.workers,
        profiling=_profiling(options),
    )  # fmt: skip


def _profiling(options: argparse.Namespace) -> Profiling | None:
    from dkdbg.verbs import profiling

    return profiling.asked(
        (options.nsys, options.nsys_ranks),
        (options.py_spy, options.py_spy_ranks),
        (options.torch_profile, options.torch_profile_ranks),
        pull=options.pull,
    )


def add_submit(verbs: Verbs) -> None:
    """A job of a batch system."""
    submit = verbs.add_parser(
        "submit",
        help="submit a Slurm or PBS job, wait for it and attach",
        usage="dkdbg submit [--on slurm://LOGIN] [options] [options of sbatch or qsub] -- CMD",
        epilog="All other options go to sbatch or qsub: dkdbg submit --on slurm://login --nodes 2 --gres gpu:4 -- python train.py",
        allow_abbrev=False,  # --no... may be sbatch's
    )
    submit.add_argument(
        "--on", metavar="TARGET", default="slurm://", help="slurm://LOGIN or pbs://LOGIN; this machine's Slurm by default"
    )  # fmt: skip
    submit.add_argument(
        "--wait", type=values.count, nargs="?", default=0, const=600, metavar="SECONDS",
        help="make each rank wait for an editor (600)",
    )  # fmt: skip
    submit.add_argument(
        "--port", type=values.port, default=5677, metavar="PORT", help="for the editor, on 127.0.0.1 (5677)"
    )
    submit.add_argument(
        "--in", dest="folder", metavar="FOLDER", default="", help="the folder it runs in there (your home)"
    )
    submit.add_argument("--no-attach", action="store_true", help="submit only; print the attach command")
    submit.add_argument(
        "--interactive", action="store_true", help="hold the nodes for a shell or CMD until it ends; nodes already held are used again"
    )  # fmt: skip
    submit.add_argument(
        "--keep", action="store_true", help="with --interactive: keep the nodes when the shell ends"
    )
    submit.add_argument("--json", action="store_true", help="one JSON object per line for each event")
    submit.set_defaults(call=_submit)


def _submit(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.submit import submit

    return submit(
        root, options.on, options.others, options.ranks, wait=options.wait, folder=options.folder, port=options.port,
        attaches=not options.no_attach, interactive=options.interactive, keep=options.keep, as_json=options.json,
    )  # fmt: skip
