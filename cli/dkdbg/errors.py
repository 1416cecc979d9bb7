"""The one error that a user meets: what went wrong with the value, what to type next, an exit code."""

from __future__ import annotations

#: Exit codes of dkdbg itself. A program's own exit code passes through `run` and `up` unchanged.
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_ENGINE = 3
EXIT_CONFLICT = 4
EXIT_TIMEOUT = 124
EXIT_INTERRUPTED = 130


class DkdbgError(Exception):
    """An expected failure.

    Attributes:
        message: one or more lines: what went wrong, with the value that was wrong.
        hint: what to type or change next; may be empty when there is nothing to add.
        exit_code: what the process exits with, never 0.
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message


class GoneError(DkdbgError):
    """What was found before is no more, and nothing is waited for: a job that has ended, a pod that was deleted."""
