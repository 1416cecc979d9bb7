"""Parse the command line, run one verb, turn errors into exit codes."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import __version__, console, signals
from dkdbg.agent.console import open_closed_streams
from dkdbg.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.verbs import command_line

if TYPE_CHECKING:
    import argparse


def main(argv: list[str] | None = None) -> int:
    """Run `dkdbg` with `argv` (default: the process's) and return the exit code."""
    try:
        if argv is None:
            open_closed_streams()
            signals.handle_promptly()
            console.escape_what_cannot_be_shown()
        parser = command_line.parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell requests completions
            from dkdbg.verbs.completion import answer

            answer(parser)
        try:
            code = _run(command_line.parsed(sys.argv[1:] if argv is None else argv, parser))
        except SystemExit:  # --help and --version
            console.finish()
            raise
        console.finish()
        return code
    except DkdbgError as error:
        console.failure(error)
        return error.exit_code
    except KeyboardInterrupt:
        if argv is None:  # a second Ctrl-C while Python shuts down ends it at once, without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        console.warn("dkdbg: interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence writes a report instead of a traceback
        return _unexpected(error)


def _run(options: argparse.Namespace) -> int:
    root = _root(options.directory, options.verb or "")
    if options.context is not None:
        # Like `docker --context`: applies to every process that this one starts.
        unset = "unset DOCKER_HOST; " if os.environ.pop("DOCKER_HOST", None) else ""
        os.environ["DOCKER_CONTEXT"] = options.context
        shown = printable(shlex.quote(options.context))
        console.warn(
            f"dkdbg: using the engine {shown}; before you run a command printed below, type: {unset}export DOCKER_CONTEXT={shown}"
        )
    if options.verb is None:
        from dkdbg.verbs.status import status

        return status(root)
    return int(options.call(options, root))


def _root(directory: str, verb: str) -> Path:
    """Return the folder to work in: as with git, the nearest initialised repository at or above `directory`.

    Without one, return `directory` itself.

    Args:
        directory: value of -C; `.` without -C.
        verb: the verb; empty without one. `init` works in `directory` itself if -C is given or it is a project.
    """
    from dkdbg.setup.detect.around import initialised, is_project, no_way_to

    try:
        folder = Path(directory).resolve(strict=True)
        above = (
            initialised(folder)
            if folder.is_dir() and not (verb == "init" and (directory != "." or is_project(folder)))
            else None
        )
        if above not in {None, folder}:
            console.warn(f"dkdbg: in {above}; relative paths in messages start there")
        return above or folder
    except (OSError, RuntimeError) as error:
        raise no_way_to(directory, error, verb) from error


def _unexpected(error: Exception) -> int:
    """Write a report to attach to an issue, and print its path."""
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
            hint=f"this is a bug in dkdbg; attach this report to an issue: {file.name}",
        )
    )
    return EXIT_ERROR


__all__ = ["EXIT_USAGE", "main"]
