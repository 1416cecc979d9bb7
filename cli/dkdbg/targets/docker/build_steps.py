"""Parse the plain log of an image build line by line: the current step, and the lines that a user must see.

BuildKit writes `#5 [service stage 2/3] RUN ...`, `#5 1.152 OUTPUT`, `#5 DONE 1.2s`, `#5 CACHED` or `#5 ERROR: ...`
(moby/buildkit, util/progress/progressui). Podman writes `STEP 2/3: RUN ...`, then the command's output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BUILDKIT = re.compile(
    r"#(\d+) (?:\[(?P<of>[^\]]*?)(?: ?(?P<at>\d{1,9})/(?P<last>\d{1,9}))?\] )?(?P<rest>.*)"
)
_ENDED = re.compile(r"(?:DONE [\d.]+s|CACHED|CANCELED)$")
_SECONDS = re.compile(r"\d+\.\d+ ")
_PODMAN = re.compile(r"(?:\[\d+/\d+\] )?STEP (?P<at>\d{1,9})/(?P<last>\d{1,9}): (?P<rest>.*)")
#: Lines of a step to keep in case it fails.
_MAX_KEPT_LINES = 200
#: Maximum characters of a step's command, to leave space for its output.
_NAME = 48


@dataclass(frozen=True)
class BuildStep:
    """The progress to show after one line of the log.

    Attributes:
        text: the step, and the last output of its command.
        share: completed part of the known steps, from 0 to 1.
        log: previously withheld lines of a step that has failed.
    """

    text: str
    share: float
    log: tuple[str, ...] = ()


class BuildSteps:
    """Parser of the log of one or several builds, whose lines may be interleaved."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._logs: dict[str, list[str]] = {}
        self._last: dict[str, int] = {}
        self._numbered: set[str] = set()
        self._done: set[str] = set()
        self._podman = ""
        self._share = 0.0

    def read(self, line: str) -> BuildStep | None:
        """Parse one line; return None if it does not belong to a build."""
        begins = _PODMAN.fullmatch(line)
        if begins:
            return self._podman_step(begins)
        found = _BUILDKIT.fullmatch(line)
        if found and (found["of"] is not None or found[1] in {"0", *self._names}):
            return self._buildkit(found, line)
        if self._podman and line.startswith("Error: "):
            step, self._podman = self._podman, ""
            return BuildStep(self._text(step, ""), self._share, (*self._logs.pop(step, ()), line))
        if self._podman and not line.startswith(("COMMIT ", "Successfully tagged ")):
            self._add_line(self._podman, line)
            return self._shown(self._podman, line if not line.startswith("-->") else "")
        self._podman = ""
        return None if line.strip() else BuildStep("", self._share)

    def left(self) -> tuple[str, ...]:
        """Return the lines of a step that ended without a message, as after an interrupt."""
        return tuple(self._logs.get(self._podman, ()))

    def _podman_step(self, found: re.Match[str]) -> BuildStep:
        self._podman = f"STEP {found['at']}"
        self._logs[self._podman] = []
        self._names[self._podman] = f"{found['at']}/{found['last']}: {found['rest']}"
        self._share = (int(found["at"]) - 1) / max(1, int(found["last"]))
        return self._shown(self._podman, "")

    def _buildkit(self, found: re.Match[str], line: str) -> BuildStep:
        number, rest = found[1], found["rest"]
        if found["of"] is not None:
            at = f"{found['at']}/{found['last']}" if found["at"] else ""
            self._names[number] = ": ".join(part for part in (at, rest) if part)
            if at:
                self._numbered.add(number)
                self._last[found["of"]] = int(found["last"])
            return self._shown(number, "")
        if _ENDED.fullmatch(rest):
            self._done.add(number)
            self._logs.pop(number, None)
        elif rest.startswith("ERROR"):
            return BuildStep(self._text(number, ""), self._share, (*self._logs.pop(number, ()), line))
        else:
            self._add_line(number, line)
        known = sum(self._last.values())
        if known:  # a stage that begins late increases `known`; the share must not fall
            self._share = max(self._share, min(1.0, len(self._done & self._numbered) / known))
        return self._shown(number, _SECONDS.sub("", rest, count=1) if _SECONDS.match(rest) else "")

    def _add_line(self, number: str, line: str) -> None:
        log = self._logs.setdefault(number, [])
        log.append(line)
        del log[:-_MAX_KEPT_LINES]

    def _text(self, number: str, printed: str) -> str:
        if number not in self._names:
            return ""
        name = self._names[number]
        if not printed:
            return f"building {name}"
        return f"building {name if len(name) <= _NAME else name[: _NAME - 3] + '...'} | {printed}"

    def _shown(self, number: str, printed: str) -> BuildStep:
        return BuildStep(self._text(number, printed), self._share)
