"""The errors that users see: what is wrong with the value, what to type next, and an exit code."""

from __future__ import annotations

#: Exit codes of dkdbg. `run` and `up` return a program's own exit code unchanged.
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_ENGINE = 3
EXIT_CONFLICT = 4
EXIT_TIMEOUT = 124
EXIT_NO_PROGRAM = 127
EXIT_INTERRUPTED = 130


class DkdbgError(Exception):
    """An expected failure.

    Attributes:
        message: one or more lines: what is wrong, with the value.
        hint: what to type or change next; may be empty.
        exit_code: exit code of the process, never 0.
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message


class GoneError(DkdbgError):
    """A target that existed and is gone for good, so that waiting is pointless: an ended job, a deleted pod."""
