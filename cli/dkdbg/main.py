"""Parse the command line, run one verb, turn errors into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from dkdbg import __version__, console
from dkdbg.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, DkdbgError


def main(argv: list[str] | None = None) -> int:
    """Run `dkdbg` with `argv` (default: the process's) and return the exit code."""
    words, command = _submitted(sys.argv[1:] if argv is None else argv)
    try:
        parser = _parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next
            from dkdbg.commands.completion import answer

            answer(parser)
        options, others = parser.parse_known_args(words)
        if others and options.verb != "submit":
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        options.others, options.ranks = others, command
        return _run(options)
    except DkdbgError as error:
        console.failure(error)
        return error.exit_code
    except KeyboardInterrupt:
        console.warn("dkdbg: interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence writes a report instead of a traceback
        return _unexpected(error)


def _run(options: argparse.Namespace) -> int:
    root = _root(options.directory)
    if options.context is not None:
        from dkdbg.commands import context

        context.choose(options.context)
    if options.verb == "init":
        from dkdbg.commands import init

        if options.undo:
            return init.undo(root, force=options.force, as_json=options.json)
        if options.on is not None:
            from dkdbg.commands.init_place import init_place

            return init_place(
                root, options.on, command=options.command, port=options.port, yes=options.yes, diff=options.diff, check=options.check,
                as_json=options.json,
            )  # fmt: skip
        return init.init(
            root, command=options.command, service=options.service, yes=options.yes, diff=options.diff,
            check=options.check, as_json=options.json,
        )  # fmt: skip
    if options.verb in {"up", "down"} and options.on:
        from dkdbg.commands import debug_copy

        if options.verb == "down":
            return debug_copy.down(root, options.on)
        return debug_copy.up(
            root, options.on, command=options.command, wait=options.wait, yes=options.yes, diff=options.diff,
            wait_timeout=options.wait_timeout,
        )  # fmt: skip
    if options.verb == "up":
        from dkdbg.commands.up import up

        code = up(root, as_json=options.json, wait_timeout=options.wait_timeout)
        if code or not options.sync:
            return code
        from dkdbg.commands.sync import after_up

        return after_up(root, as_json=options.json)
    if options.verb == "restart":
        from dkdbg.commands.restart import restart

        return restart(root, options.target)
    if options.verb == "attach":
        from dkdbg.commands.attach import attach

        return attach(root, options.targets, port=options.port, ports=options.ports, as_json=options.json)
    if options.verb == "forward":
        from dkdbg.commands.forward import forward

        return forward(root, options.target, options.ports, as_json=options.json)
    if options.verb == "sync":
        from dkdbg.commands import sync

        if options.explain is not None:
            return sync.explain(root, options.explain)
        return sync.sync(
            root, options.target, to=options.to, once=options.once, verify=options.verify, pull=options.pull,
            into=options.into, python=options.python, as_json=options.json, limit=options.limit,
        )  # fmt: skip
    if options.verb == "down":
        from dkdbg.commands.down import down

        return down(root, everything=options.all)
    if options.verb == "ps":
        from dkdbg.commands.ps import ps

        return ps(root, options.targets, everything=options.all, as_json=options.json)
    if options.verb == "run":
        from dkdbg.commands.run import run

        command = options.command[1:] if options.command[:1] == ["--"] else options.command
        return run(
            root, options.on, command, port=options.port, wait=options.wait, python=options.python, sync=options.sync,
            reload=options.reload, attach=options.attach,
        )  # fmt: skip
    if options.verb == "submit":
        from dkdbg.commands.submit import submit

        return submit(
            root, options.on, options.others, options.ranks, wait=options.wait, folder=options.folder, port=options.port,
            attaches=not options.no_attach, interactive=options.interactive, keep=options.keep, as_json=options.json,
        )  # fmt: skip
    if options.verb == "pdb":
        from dkdbg.commands.pdb import pdb

        return pdb(root, options.target, pid=options.pid, rank=options.rank)
    if options.verb == "completion":
        from dkdbg.commands.completion import completion

        return completion(options.shell)
    from dkdbg.commands.demo import demo

    return demo(target=options.on, as_json=options.json)


def _submitted(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut off what `dkdbg submit ... --` runs: before it stand options of a batch system, which nobody here knows."""
    verb = words[2:3] if words[:1] == ["-C"] else words[:1]
    if verb != ["submit"] or "--" not in words:
        return words, []
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def _root(directory: str) -> Path:
    try:
        return Path(directory).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise DkdbgError(
            f"cannot go to {directory}: {reason}",
            hint="go to the repository's folder, or name it: dkdbg -C PATH init",
            exit_code=EXIT_USAGE,
        ) from error


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of seconds above 0")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port number")
    return int(text)


def _forwarded(text: str) -> tuple[int | None, int]:
    """`6006`, or `8006:6006`: here and there."""
    here, colon, there = text.rpartition(":")
    return (_port(here) if colon else None), _port(there)


def _size(text: str) -> int:
    from dkdbg.model import config

    found = config.size(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 20GB")
    return found


class _Parser(argparse.ArgumentParser):
    """Refuses a command line in the form of all our errors."""

    def error(self, message: str) -> NoReturn:
        raise DkdbgError(message, hint=f"{self.prog} --help", exit_code=EXIT_USAGE)

    def format_help(self) -> str:
        """The usual help, and what a TARGET may be; the kinds of places are loaded for this text alone."""
        if any(action.metavar == "TARGET" for action in self._actions):
            from dkdbg.places import registry

            self.epilog = f"TARGET is the name of a place of dkdbg.toml, a service, a container or a session, or {registry.forms()}."
        return super().format_help()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dkdbg",
        description="Set a breakpoint, press F5 and stand inside the training job.",
        epilog="Start with `dkdbg demo`, then `dkdbg init` in your repository.",
    )
    parser.add_argument("--version", action="version", version=f"dkdbg {__version__}")
    parser.add_argument("-C", dest="directory", metavar="PATH", default=".", help="run as if started in PATH")
    parser.add_argument(
        "--context",
        metavar="NAME",
        help="the Docker engine of this context (docker context ls), as docker's own option",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    init = verbs.add_parser(
        "init", help="make this repository debuggable: plan, diff, and after a yes the files"
    )
    how = init.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="write without asking")
    how.add_argument("--diff", action="store_true", help="show the diff and write nothing")
    how.add_argument("--check", action="store_true", help="exit 1 if something would change; write nothing")
    how.add_argument("--undo", action="store_true", help="take back, to the byte, what init wrote here")
    init.add_argument(
        "--force",
        action="store_true",
        help="with --undo: also files edited since, whose edits are saved beside them",
    )
    init.add_argument(
        "--command", metavar="TEXT", help="the program to debug, such as 'python train.py --epochs 1'"
    )
    init.add_argument("--service", metavar="NAME", help="the compose service to debug")
    init.add_argument(
        "--on", metavar="PLACE", help="only what F5 needs to run the program there and attach to it"
    )
    init.add_argument(
        "--port", type=_port, metavar="PORT", help="with --on: of this machine, for the entry (5677, ...)"
    )
    init.add_argument("--json", action="store_true", help="one JSON object instead of text")

    up = verbs.add_parser("up", help="start the debug service; return when an attach will work")
    up.add_argument(
        "--wait-timeout", type=_seconds, default=300, metavar="SECONDS", help="how long to wait for it (300)"
    )
    up.add_argument(
        "--sync", action="store_true", help="then sync until Ctrl-C, when the workspace is not mounted"
    )
    up.add_argument("--json", action="store_true", help="one JSON object instead of text")

    copy = up.add_argument_group("a copy of what runs elsewhere, with the agent under its program")
    copy.add_argument(
        "--on",
        metavar="PLACE",
        help="k8s://NAMESPACE/deployment/NAME, job/NAME or pytorchjob/NAME; stays as it is",
    )
    copy.add_argument("--yes", action="store_true", help="start it without asking")
    copy.add_argument("--diff", action="store_true", help="only show it")
    copy.add_argument("--command", metavar="TEXT", default="", help="another program than the original's")
    copy.add_argument(
        "--wait",
        type=_seconds,
        default=600,
        metavar="SECONDS",
        help="let the program wait for an editor (600)",
    )

    _add_verbs_with_target(verbs)
    _add_submit(verbs)

    down = verbs.add_parser("down", help="stop and remove the debug service")
    down.add_argument(
        "--all", action="store_true", help="the whole compose project, profiled services included"
    )

    down.add_argument("--on", metavar="PLACE", help="the debug copy that dkdbg up --on has made there")

    ps = verbs.add_parser(
        "ps", help="every session in containers and on this machine: state, where to attach, age"
    )
    ps.add_argument(
        "targets", nargs="*", metavar="TARGET", help="only there; hosts behind ssh are asked when named"
    )
    ps.add_argument("--all", action="store_true", help="those that have ended too")
    ps.add_argument("--json", action="store_true", help="one JSON object instead of a table")

    demo = verbs.add_parser("demo", help="the whole path on a bundled example, in a temporary copy")
    demo.add_argument(
        "--on",
        choices=("auto", "compose", "local"),
        default="auto",
        help="where to run it (auto: compose if an engine answers)",
    )
    demo.add_argument("--json", action="store_true", help="one JSON object at the end")

    completion = verbs.add_parser("completion", help="what completes command lines, for a shell's start file")
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help='eval "$(dkdbg completion bash)", ... fish | source'
    )
    parser.set_defaults(force=False)
    return parser


def _add_verbs_with_target(verbs: argparse._SubParsersAction[_Parser]) -> None:
    """The verbs whose TARGET is a place; a name means the same in all of them."""
    restart = verbs.add_parser("restart", help="start the program again; container, port and editor stay")
    restart.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")

    run = verbs.add_parser(
        "run",
        help="start a command under the agent, here or in any container; nothing is set up there before",
    )
    run.add_argument("--on", metavar="PLACE", help="where; this machine by default")
    run.add_argument(
        "--port", type=_port, metavar="PORT", help="of the agent there (5678; behind ssh a free one)"
    )
    run.add_argument(
        "--wait", type=_seconds, nargs="?", default=0, const=600, metavar="SECONDS",
        help="let the command wait for an editor (600)",
    )  # fmt: skip
    run.add_argument(
        "--sync", action="store_true", help="have your files there first, and what you save while it runs"
    )
    run.add_argument(
        "--reload",
        action="store_true",
        help="--sync, and start it again at each save; Ctrl-C restarts it too, twice leaves",
    )
    run.add_argument(
        "--attach", type=_port, nargs="?", const=5677, metavar="PORT",
        help="lead an editor there too, from this port of 127.0.0.1 (5677), as dkdbg attach does",
    )  # fmt: skip
    run.add_argument("--python", metavar="PATH", help="interpreter there that runs the agent (python3, ...)")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the command, word by word")

    attach = verbs.add_parser(
        "attach",
        help="one port to attach to once: containers may come, go and restart behind it; until Ctrl-C",
    )
    attach.add_argument(
        "targets", nargs="*", metavar="TARGET", help="where; the debug service of this repository by default"
    )
    attach.add_argument("--port", type=_port, default=5677, metavar="PORT", help="on 127.0.0.1 (5677)")
    attach.add_argument(
        "--ports", type=_port, metavar="BASE",
        help="a port for each process too, for clients without child sessions: rank r on BASE + r",
    )  # fmt: skip
    attach.add_argument("--json", action="store_true", help="one JSON object a line for what happens")

    forward = verbs.add_parser(
        "forward", help="ports of a host behind ssh on this machine, such as TensorBoard's; until Ctrl-C"
    )
    forward.add_argument("target", metavar="TARGET", help="where")
    forward.add_argument(
        "ports",
        nargs="+",
        type=_forwarded,
        metavar="[LOCAL:]PORT",
        help="on its loopback; LOCAL is the port here",
    )
    forward.add_argument("--json", action="store_true", help="one JSON object a line for what happens")

    sync = verbs.add_parser(
        "sync", help="make the target's files those that you see, and keep them so until Ctrl-C"
    )
    sync.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")
    sync.add_argument(
        "--to", metavar="PATH", help="folder on the target (where init planned it, else WORKDIR)"
    )
    what = sync.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="end when both sides are equal")
    what.add_argument(
        "--verify", action="store_true", help="only compare both sides; exit 1 when they differ"
    )
    what.add_argument(
        "--pull", action="append", default=[], metavar="FOLDER", help="copy a folder of the target back"
    )
    what.add_argument(
        "--explain", metavar="PATH", help="say whether PATH takes part, and which rule decides it"
    )
    sync.add_argument("--into", metavar="DIR", help="with --pull: where to (dkdbg-pulled/TARGET)")
    sync.add_argument(
        "--limit", type=_size, metavar="SIZE", help="with --pull: the most that is copied (10GB)"
    )
    sync.add_argument("--python", metavar="PATH", help="interpreter on the target (python3, python, ...)")
    sync.add_argument("--json", action="store_true", help="one JSON object a line for what happens")

    pdb = verbs.add_parser("pdb", help="enter the running program with pdb, without an editor; q leaves it")
    pdb.add_argument(
        "target", nargs="?", metavar="TARGET", help="where; the only session there is by default"
    )
    pdb.add_argument("--pid", type=int, metavar="PID", help="which process, as the target numbers them")
    pdb.add_argument("--rank", type=int, metavar="N", help="which process, by its rank (0 by default)")


def _add_submit(verbs: argparse._SubParsersAction[_Parser]) -> None:
    submit = verbs.add_parser(
        "submit",
        help="a Slurm or PBS job whose ranks come up under the agent: submitted, waited for, attached to",
        usage="dkdbg submit [--on slurm://LOGIN] [options] [options of sbatch or qsub] -- CMD",
        epilog="All other options go to sbatch or qsub: dkdbg submit --on slurm://login --nodes 2 --gres gpu:4 -- python train.py",
        allow_abbrev=False,  # --no... may be sbatch's
    )
    submit.add_argument(
        "--on", metavar="SYSTEM", default="slurm://", help="slurm://LOGIN or pbs://LOGIN; this machine's Slurm by default"
    )  # fmt: skip
    submit.add_argument(
        "--wait", type=_seconds, nargs="?", default=0, const=600, metavar="SECONDS",
        help="let each rank wait for an editor (600)",
    )  # fmt: skip
    submit.add_argument(
        "--port", type=_port, default=5677, metavar="PORT", help="for the editor, on 127.0.0.1 (5677)"
    )
    submit.add_argument(
        "--in", dest="folder", metavar="FOLDER", default="", help="where it runs there (the home)"
    )
    submit.add_argument("--no-attach", action="store_true", help="only submit, and say how to attach later")
    submit.add_argument(
        "--interactive", action="store_true", help="hold the nodes for a shell, or for CMD, until it ends; used again if held"
    )  # fmt: skip
    submit.add_argument(
        "--keep", action="store_true", help="with --interactive: keep the nodes when the shell ends"
    )
    submit.add_argument("--json", action="store_true", help="one JSON object a line for what happens")


def _unexpected(error: Exception) -> int:
    """Write a report that can be attached to an issue, and say where it is."""
    import platform
    import tempfile
    import traceback

    report = "".join(traceback.format_exception(error))
    versions = f"dkdbg {__version__}, Python {platform.python_version()}, {platform.platform()}\nargv: {sys.argv}\n\n"
    with tempfile.NamedTemporaryFile(
        "w", prefix="dkdbg-report-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(versions + report)
    console.failure(
        DkdbgError(
            f"unexpected {type(error).__name__}: {error}",
            hint=f"this is a bug of dkdbg; the report is {file.name}",
        )
    )
    return EXIT_ERROR


__all__ = ["EXIT_USAGE", "main"]
