"""Prove a run: start the program anew, attach as F5 does, demand a stop in the user's code, compare both sides."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.address import is_loopback
from dkdbg.core.plan import PUBLISHED_ON
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from dkdbg.hang import query
from dkdbg.launchers.python import PYTHON
from dkdbg.printable import printable
from dkdbg.proof import file_causes, first_lines, line_answer, line_causes, program_end, stopping
from dkdbg.proof.asked import INSTALLED, Asked, below_packages
from dkdbg.proof.finding import BrokenError, Finding, silent
from dkdbg.setup.detect.files import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dkdbg.core.stacks import Frame, Session
    from dkdbg.core.target import Target
    from dkdbg.core.target_values import AtEnd, Trial
    from dkdbg.proof.asked import Entry
    from dkdbg.proof.first_lines import FirstLines
    from dkdbg.proof.line_answer import LineAnswer
    from dkdbg.proof.program_end import Around
    from dkdbg.proof.stopping import Attempt, Stopped

#: Timeouts in seconds: until a session appears; until the first stop; until a stop by function name; from the end of
#: the program, as the debugger sees it, to its exit code.
_SESSION_TIMEOUT_S, _STOP_TIMEOUT_S, _BY_NAME_TIMEOUT_S, _END_TIMEOUT_S = 20.0, 120.0, 60.0, 10.0
#: Maximum characters of a path that the image prints.
_MAX_PATH_CHARS = 200
#: Seconds after the program's imports in which its end still counts as a failure; seconds for which a module of the
#: user's may run without importing until it counts as the program itself; seconds between two reports of an import.
_AFTER_IMPORTS_S, _OWN_MODULE_S, _REPORT_EVERY_S = 1.0, 60.0, 15.0
#: Seconds between two checks of the agent's own messages while it starts.
_READY_EVERY_S = 3.0
#: Maximum files to compare on both sides; maximum files to ask the processes about.
_MAX_COMPARED, _MAX_ASKED = 100, 10
#: Causes that are certain even if the program has only just started.
_DECISIVE = frozenset(
    {
        "two-copies", "stale-copy", "symlink", "compiled-file", "frozen", "zipped", "wrong-root", "not-mapped", "rank-not-chosen",
        "child-not-attached", "hook-missing", "other-interpreter", "other-user", "other-debugger", "just-my-code", "compiled", "optimised-away",
    }
)  # fmt: skip
#: Options of Python, alone or combined (`-sE`), that make it ignore PYTHONPATH or installed packages.
_HIDES = re.compile(r"-[bBdiOqRuvx]*[EIPSs]")
#: CPU time in seconds between two polls, below which a program counts as waiting.
_IDLE_CPU_S = 0.3
#: Maximum characters of a value to show.
_WIDTH = 60
#: Timeout in seconds for torch's search for a GPU.
_GPU_TIMEOUT_S = 180.0
_GPU_CODE = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda or torch.version.hip)"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The run to prove, and what the proof needs to know about it.

    Attributes:
        root: the repository's root on this machine, symlinks resolved.
        entry: the editor's launch entry.
        start: starts a trial run, with the arguments of `Target.trial`; raises DkdbgError.
        target_at: returns the target at an address.
        around: facts of the repository that remedies name.
        gpu: what requests a GPU (a service, dkdbg.toml, ...); empty if nothing does.
        isolated: whether 127.0.0.1 of the program is not that of this machine, as in a container.
        extra: further attach arguments, such as the token.
        timeout: maximum seconds until an attach works, until the first stop, and until the imports after it have ended.
    """

    root: Path
    entry: Entry
    start: Callable[[Callable[[str], None], AtEnd], Trial]
    target_at: Callable[[str], Target]
    around: Around
    gpu: str = ""
    isolated: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)
    timeout: float = 300.0


@dataclass(kw_only=True)
class Proof:
    """The result of a proof.

    Attributes:
        links: (name, evidence) of each link that holds.
        finding: the first broken link; None if the proof succeeded.
        seconds: duration of the proof.
        stopped: the stop in the user's code.
        left: messages about trial runs that could not be removed.
    """

    links: list[tuple[str, str]] = field(default_factory=list)
    finding: Finding | None = None
    seconds: float = 0.0
    stopped: Stopped | None = None
    left: list[str] = field(default_factory=list)


def prove(subject: Subject, *, report: Callable[[str], None], on_link: Callable[[str, str], None]) -> Proof:
    """Carry out the proof, remove its trial runs, and return the result.

    Args:
        report: prints one line of progress.
        on_link: called with each link that holds, and its evidence.
    """
    began = time.monotonic()
    proof = Proof()

    def link_holds(link: str, seen: str) -> None:
        proof.links.append((link, seen))
        on_link(link, seen)

    try:
        _Run(subject, report, link_holds, proof).run()
    except BrokenError as error:
        proof.finding = error.finding
    except DkdbgError as error:
        proof.finding = program_end.of_start(error, (), subject.around)
    proof.seconds = round(time.monotonic() - began, 1)
    return proof


class _Run:
    def __init__(
        self, subject: Subject, report: Callable[[str], None], hold: Callable[[str, str], None], proof: Proof
    ) -> None:
        self._subject, self._report, self._hold, self._proof = subject, report, hold, proof
        self._session = ""
        self._asked = (Path(), 0)
        self._entry = ""  # local path of the program's file; empty if unknown
        self._files: list[FirstLines] = []  # the program's file comes first

    def run(self) -> None:
        with contextlib.ExitStack() as opened:
            trial = self._start(opened)
            try:
                self._check(trial, opened)
            except BrokenError as error:
                raise BrokenError(self._of_entrypoint(trial, error.finding)) from error

    def _check(self, trial: Trial, opened: contextlib.ExitStack) -> None:
        subject = self._subject
        _check_gpu(trial.gpu, subject.gpu)
        self._find_files(trial)
        self._ready(trial)
        self._session = trial.session()
        target = opened.enter_context(contextlib.closing(subject.target_at(trial.address)))
        answer = self._listens(trial, target)
        self._mapped(answer)
        self._proof.stopped = stopped = self._stop(trial, target)
        shown = ", ".join(f"{name} = {_short(value)}" for name, value in list(stopped.values.items())[:3])
        self._hold(
            "stop",
            f"{os.path.relpath(stopped.path, subject.root)}:{stopped.line} in {stopped.function}"
            + (f"; {shown}" if shown else ""),
        )
        if stopped.executable:
            self._hold(
                "interpreter",
                f"{stopped.executable} (Python {stopped.python}), uid {stopped.uid}, {stopped.process}"
                + self._left_out(trial),
            )
        if seen := _gpu_seen(trial.gpu, target, stopped.executable):
            self._hold("gpu", seen)
        self._check_end(trial)

    def _left_out(self, trial: Trial) -> str:
        """Return a note about an ENTRYPOINT that plain Docker would run and dkdbg does not; otherwise empty."""
        with contextlib.suppress(DkdbgError):
            if self._subject.around.inherits_entrypoint and (entrypoint := shlex.join(trial.entrypoint())):
                return f"; without the base image's ENTRYPOINT {entrypoint}"
        return ""

    def _of_entrypoint(self, trial: Trial, finding: Finding) -> Finding:
        """Return `finding`, or one that blames the skipped ENTRYPOINT if running it would prevent the cause."""
        around = self._subject.around
        if not (around.inherits_entrypoint and finding.cause in program_end.PREVENTED):
            return finding
        with contextlib.suppress(DkdbgError):
            entrypoint = trial.entrypoint()
            if script := program_end.environments(entrypoint):
                return program_end.without_entrypoint(finding, entrypoint, trial.probe(script), around)
        return finding

    def _end(self, stop: Callable[[], None]) -> None:
        try:
            stop()
        except DkdbgError as error:
            self._proof.left.append(error.message)
            self._report(error.message)

    def _start(self, opened: contextlib.ExitStack) -> Trial:
        lines: list[str] = []

        def report(line: str) -> None:
            lines.append(line)
            self._report(line)

        try:
            trial = self._subject.start(report, lambda stop: opened.callback(self._end, stop))
        except DkdbgError as error:
            raise BrokenError(program_end.of_start(error, lines, self._subject.around)) from error
        self._hold("start", f"{trial.address}: {' '.join(trial.program)}"[:200])
        return trial

    def _find_files(self, trial: Trial) -> None:
        files: dict[str, FirstLines] = {}
        for local in dict.fromkeys(
            local for local, _ in self._subject.entry.mappings if Path(local).is_dir()
        ):
            tree = Tree(Path(local))
            found = first_lines.program_of(tree, trial.program)
            self._entry = self._entry or found
            for each in first_lines.of_tree(tree, found):
                files.setdefault(each.path, each)
        self._files = sorted(files.values(), key=lambda each: each.path != self._entry)
        if not self._files:
            roots = ", ".join(local for local, _ in self._subject.entry.mappings) or "no folder"
            raise BrokenError(
                Finding(
                    link="mapping", cause="not-mapped", says=f"{self._subject.entry.source} maps {roots}, without a Python file",
                    remedy=file_causes.planned_mapping(self._subject.entry), subject=self._subject.entry.source,
                )
            )  # fmt: skip

    def _ready(self, trial: Trial) -> None:
        """Wait until an attach works. Raises BrokenError: program ended, agent failed, or timeout."""
        end = time.monotonic() + self._subject.timeout
        while not trial.ready(min(_READY_EVERY_S, max(0.1, end - time.monotonic()))):
            code, text = trial.ended(), trial.output()
            if (finding := program_end.of_agent(text)) is not None:
                raise BrokenError(finding)
            if code is not None:
                raise BrokenError(self._ended(trial, text, code))
            if time.monotonic() > end:
                raise BrokenError(
                    Finding(
                        link="agent", cause="not-listening", says=f"the debugger did not start to listen within {self._subject.timeout:g} s",
                        remedy="dkdbg doctor looks for a cause on this machine; dkdbg verify --timeout 900 waits longer", detail=tuple(text.splitlines()[-8:]),
                    )
                )  # fmt: skip

    def _listens(self, trial: Trial, target: Target) -> LineAnswer:
        """Return the agent's answer about the program's file, once its session's listener can be reached from here."""
        also = [self._subject.entry.remote_of(each.path) for each in self._files[1:_MAX_COMPARED]]
        end = time.monotonic() + _SESSION_TIMEOUT_S
        while True:
            try:
                answer = self._ask(target, self._files[0], also)
            except DkdbgError as error:
                raise BrokenError(silent(error.message, error.hint or "dkdbg ps")) from error
            if answer.sessions or time.monotonic() > end:
                break
            time.sleep(0.2)
        if not answer.sessions:
            raise BrokenError(
                Finding(
                    link="agent", cause="agent-absent", says=f"no session of the agent runs on {target.label}",
                    remedy="dkdbg init writes the agent, dkdbg up starts it",
                )
            )  # fmt: skip
        session = answer.sessions[0]
        if self._subject.isolated and is_loopback(session.host):
            raise BrokenError(line_causes.listens_inside(session))
        address = "127.0.0.1 here"
        if not trial.port:
            address = f"no port of this machine leads there: F5 works while dkdbg attach --port {self._subject.entry.port or session.port} runs"
        self._hold("listen", f"{session.host}:{session.port} there, {address}")
        return answer

    def _ask(self, target: Target, file: FirstLines, also: Sequence[str] = ()) -> LineAnswer:
        """Ask the agent about the first line of the file's first function."""
        line = file.functions[0][1] if file.functions else file.module or 1
        self._asked = (Path(file.path), line)
        remote = self._subject.entry.remote_of(file.path)
        return line_answer.ask(target, remote, line, name=self._session, also=also)

    def _mapped(self, answer: LineAnswer) -> None:
        """Compare the files on both sides, beginning with the program's; raise BrokenError at the first difference."""
        entry, session = self._subject.entry, answer.sessions[0]
        existing = [each for each in answer.files if each.exists]
        if not existing or (self._entry and not answer.files[0].exists):
            existing = [answer.files[0]]
        for each in existing:
            finding = file_causes.of_file(Path(entry.local_of(each.path)), each, entry, session)
            if finding is not None:
                raise BrokenError(finding)
        first = existing[0]
        shown = os.path.relpath(entry.local_of(first.path), self._subject.root)
        self._hold("mapping", f"{shown} is {first.path} ({first.kind})")
        self._hold(
            "digest",
            f"{first.digest[:12]} on both sides; files compared: {len(existing)}",
        )

    def _stop(self, trial: Trial, target: Target) -> Stopped:
        found: list[Finding] = []

        def check(is_last: bool, file: FirstLines | None = None) -> bool:
            with contextlib.suppress(DkdbgError):
                causes = self._causes(self._ask(target, file or self._files[0]))
                found[:] = causes if is_last else _decisive(causes)
            return bool(found)

        try:
            options = self._options(trial, target)
            attempt = stopping.stop(
                options,
                self._files,
                timeout=min(_STOP_TIMEOUT_S, self._subject.timeout),
                check=check,
                is_idle=self._idle(target),
            )
        except DkdbgError as error:
            raise BrokenError(self._refused(trial, error)) from error
        if attempt.stopped is None:
            raise BrokenError(self._why_no_stop(trial, attempt, found))
        if not attempt.stopped.is_function:
            if code := self._end_of(trial, attempt):
                raise BrokenError(self._ended(trial, trial.output(), code))
            for each in self._files[:_MAX_ASKED]:
                if check(False, each):
                    raise BrokenError(found[0])
        for module, file in attempt.loaded:
            if local := self._local_copy(file, module):
                raise BrokenError(file_causes.installed_copy(file, local))
        return attempt.stopped

    def _idle(self, target: Target) -> Callable[[], bool]:
        """Return a function that reports whether the program has used almost no CPU time since the previous call."""
        before: list[float] = []

        def is_idle() -> bool:
            with contextlib.suppress(DkdbgError):
                answer = self._ask(target, self._files[0])
                used = sum(each.cpu for session in answer.sessions for each in session.processes)
                before.append(used)
            return len(before) > 1 and before[-1] - before[-2] < _IDLE_CPU_S

        return is_idle

    def _options(self, trial: Trial, target: Target) -> AttachOptions:
        subject = self._subject
        host, port = PUBLISHED_ON, trial.port
        if not port:
            endpoint = target.endpoint()
            if endpoint.address is None:
                raise DkdbgError(endpoint.why, hint="dkdbg logs shows what the agent says")
            host, port = endpoint.address
        return AttachOptions(
            host=host, port=port, path_mappings=subject.entry.mappings, just_my_code=subject.entry.just_my_code,
            sub_process=subject.entry.sub_process, extra=dict(subject.extra),
        )  # fmt: skip

    def _causes(self, answer: LineAnswer) -> list[Finding]:
        path, line = self._asked
        if not answer.sessions:
            return []
        entry = self._subject.entry
        asked = Asked(
            path=path, line=line, entry=entry, remote=entry.remote_of(str(path)), session=answer.sessions[0],
            remote_file=answer.files[0] if answer.files else None, root=self._subject.root, isolated=self._subject.isolated,
        )  # fmt: skip
        return list(line_causes.causes(asked))

    def _local_copy(self, loaded: str, module: str = "") -> str:
        """Return the local file whose copy the program has loaded from `loaded`; empty if it is not a copy.

        Args:
            loaded: remote path of a loaded file.
            module: name of its module. A file that is neither installed nor mapped is compared only if its module is in
                a package, because top-level names are too common.
        """
        entry, parts = self._subject.entry, module.split(".")
        if "-packages/" in loaded:
            below = below_packages(loaded)
        elif (
            parts[1:]
            and all(map(str.isidentifier, parts))
            and not (INSTALLED.search(loaded) or entry.local_of(loaded))
        ):
            below = f"{'/'.join(parts)}.py"
        else:
            return ""
        for local, _ in entry.mappings:
            for folder in ("", "src"):
                path = Path(local, folder, below)
                if path.is_file() and entry.local_of(loaded) != str(path):
                    return str(path)
        return ""

    def _refused(self, trial: Trial, error: DkdbgError) -> Finding:
        code = trial.ended()
        if code is not None:
            return self._ended(trial, trial.output(), code)
        return Finding(
            link="attach", cause="attach-refused", says=f"the attach to 127.0.0.1:{trial.port} failed: {error.message}",
            remedy=error.hint or "dkdbg logs shows what the agent says",
        )  # fmt: skip

    def _ended(self, trial: Trial, text: str, code: int | None) -> Finding:
        """Return why the program ended. Look for a missing module in the image's other interpreters and folders."""
        finding = program_end.cause_of(text, code, self._subject.around)
        module = program_end.missing_module(text) if finding.cause == "module-missing" else ""
        if not module:
            return finding
        python, options = _interpreter(trial.program)
        found = _first_line(trial.probe(program_end.interpreters_with(module, python)))
        if found and found == python and options:
            return program_end.hidden_by_options(finding, module, python, options)
        if found:
            return program_end.in_other_interpreter(finding, module, found)
        folder = "" if finding.subject else _first_line(trial.probe(program_end.places_of(module)))
        return program_end.in_image(finding, module, folder) if folder else finding

    def _check_end(self, trial: Trial) -> None:
        """Raise BrokenError if the program ends soon after its imports for a known cause, such as missing arguments."""
        self._wait_for_imports(trial)
        code = self._code_within(trial, _AFTER_IMPORTS_S)
        if code is None and not any(each.processes for each in self._stacks(trial)[0]):
            code = self._code_within(trial, _END_TIMEOUT_S)
        finding = self._ended(trial, trial.output(), code) if code else None
        if finding is not None and finding.cause != "program-ends":
            raise BrokenError(replace(finding, says=f"a breakpoint stops, but then {finding.says}"))

    def _wait_for_imports(self, trial: Trial) -> None:
        """Wait until the program has ended or imports no more; raise BrokenError if it still imports at the timeout."""
        began = since = reported = time.monotonic()
        seen = first_lines.UNKNOWN
        while (frame := self._importing(trial)) and self._code_within(trial, _AFTER_IMPORTS_S) is None:
            now = time.monotonic()
            if frame is not first_lines.UNKNOWN:
                since, seen = since if frame.own and frame.path == seen.path else now, frame
            where = f"{printable(seen.path)}:{seen.line}" if seen.path else "a process that does not answer"
            if seen.own and now - since > _OWN_MODULE_S:
                self._hold("imports", f"{where}, for {_OWN_MODULE_S:g} s; later imports were not seen")
                return
            if now - began > self._subject.timeout:
                raise BrokenError(
                    Finding(
                        link="program", cause="still-importing", says=f"a breakpoint stops, but after {self._subject.timeout:g} s the program still imports (at {where}), and a later import may fail",
                        remedy=f"dkdbg verify --timeout {3 * self._subject.timeout:g} waits longer",
                    )
                )  # fmt: skip
            if now - reported > _REPORT_EVERY_S:
                reported = now
                self._report(f"the program still imports: {where}")

    def _importing(self, trial: Trial) -> Frame | None:
        sessions, missing = self._stacks(trial)
        return first_lines.UNKNOWN if missing else first_lines.importing(sessions, self._last_import)

    def _code_within(self, trial: Trial, seconds: float) -> int | None:
        """Return the program's exit code; None if it still runs after `seconds`."""
        end = time.monotonic() + seconds
        while (code := trial.ended()) is None and time.monotonic() < end:
            time.sleep(0.1)
        return code

    def _stacks(self, trial: Trial) -> tuple[list[Session], dict[str, str]]:
        target = self._subject.target_at(trial.address)
        ids = (self._session,) if self._session else ()
        return query.ask([query.Wanted(target=target, label=target.label, ids=ids)], native=False)

    def _last_import(self, remote: str) -> int:
        local = self._subject.entry.local_of(remote)
        return next((each.last_import for each in self._files if each.path == local), 0)

    def _end_of(self, trial: Trial, attempt: Attempt) -> int | None:
        """Return the program's exit code, None while it runs; wait for it only if the debugger saw the program end."""
        return self._code_within(trial, _END_TIMEOUT_S if attempt.has_ended else 0.0)

    def _why_no_stop(self, trial: Trial, attempt: Attempt, found: list[Finding]) -> Finding:
        if decisive := _decisive(found):
            return decisive[0]
        code, text = self._end_of(trial, attempt), trial.output()
        if code:
            return self._ended(trial, text, code)
        if code is None and found:
            return found[0]
        return self._by_name(code, text, attempt)

    def _by_name(self, code: int | None, text: str, attempt: Attempt) -> Finding:
        """Run the program once more, to find out why no breakpoint by line has stopped.

        This run stops at functions with the user's names, in whatever file defines them.
        """
        found: list[Finding] = []
        copies: list[str] = []
        with contextlib.suppress(DkdbgError), contextlib.ExitStack() as opened:
            trial = self._subject.start(self._report, lambda stop: opened.callback(self._end, stop))
            target = opened.enter_context(contextlib.closing(self._subject.target_at(trial.address)))

            def collect(path: str) -> None:
                copies.append(path)
                with contextlib.suppress(DkdbgError):
                    found[:] = self._causes(self._ask(target, self._files[0]))

            if trial.ready(self._subject.timeout):
                self._session = trial.session()
                stopping.copy_of(
                    self._options(trial, target), self._files, timeout=_BY_NAME_TIMEOUT_S, check=collect
                )
        if decisive := _decisive(found):
            return decisive[0]
        detail = tuple(text.splitlines()[-8:])
        if copies and copies[0] in {each.path for each in self._files}:
            return Finding(
                link="stop", cause="stop-missed",
                says=f"a line breakpoint did not stop in {os.path.relpath(copies[0], self._subject.root)}, but a function breakpoint did in a second run ({attempt.why})",
                remedy="dkdbg verify once more: the first run may have been disturbed",
                detail=detail,
            )  # fmt: skip
        if copies:
            return file_causes.installed_copy(copies[0], self._local_copy(copies[0]))
        if code == 0:
            return Finding(
                link="process", cause="no-own-code", says="the program ended with exit code 0, and none of its lines in your files ran under the agent",
                remedy="does its command start another program, or a Python without the agent (python -S, -I)? does an entrypoint script end without exec \"$@\"? "
                "dkdbg init --command 'python train.py' names the right one",
                detail=detail,
            )  # fmt: skip
        return Finding(
            link="process", cause="never-reached",
            says=f"the program runs, and none of the first lines of {len(self._files)} files was reached in time ({attempt.why})",
            remedy="does it wait for something, or for a request? dkdbg where shows where it is; dkdbg verify --timeout 600 waits longer",
            detail=detail,
        )  # fmt: skip


def _decisive(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.cause in _DECISIVE]


def _interpreter(program: Sequence[str]) -> tuple[str, list[str]]:
    """Return the Python that a command line starts, and its options that hide modules; empty for other programs."""
    if not program or not PYTHON.starts(program[0]):
        return "", []
    options = itertools.takewhile(lambda word: word.startswith("-"), program[1:])
    return program[0], [word for word in options if _HIDES.match(word)]


def _first_line(answer: str) -> str:
    """Return the path that a shell in the image printed. The image is untrusted, and may print anything."""
    return answer.partition("\n")[0].strip()[:_MAX_PATH_CHARS]


def _short(value: str) -> str:
    return value if len(value) <= _WIDTH else value[: _WIDTH - 3] + "..."


def _check_gpu(given: tuple[str, str], wish: str) -> None:
    """Raise BrokenError if `wish` (the source of a request) asks for a GPU that the container did not get.

    `given` is (kind of the container's access to a GPU, reason).
    """
    kind, why = given
    if kind == "none" and wish:
        raise BrokenError(
            Finding(
                link="gpu", cause="gpu-absent", says=f"{wish} asks for a GPU, and the container got none: {why}",
                remedy="nvidia-smi on this machine must list it; install the NVIDIA Container Toolkit, restart the engine, and run "
                "dkdbg verify again; DKDBG_GPU=nvidia forces it, and DKDBG_GPU=none proves the program without one",
            )
        )  # fmt: skip


def _gpu_seen(given: tuple[str, str], target: Target, executable: str) -> str:
    """Return as text what torch sees of the container's GPU; empty if the container has none.

    Raises:
        BrokenError: torch does not see the GPU.
    """
    kind, why = given
    if kind == "none":
        return ""
    try:
        done = process.read(
            target.wrap([executable or "python3", "-c", _GPU_CODE]), max_bytes=1 << 16, timeout=_GPU_TIMEOUT_S
        )
    except DkdbgError as error:
        return f"{kind}; torch could not be queried: {error.message}"
    fields = done.stdout.split()
    if done.code or len(fields) != 3:
        return f"{kind} ({why}); torch is not installed for {executable}"
    if fields[0] != "True":
        raise BrokenError(
            Finding(
                link="gpu", cause="gpu-unseen", says=f"the container got a GPU ({kind}: {why}), and torch sees none (built for CUDA {fields[2]})",
                remedy="install a torch build for this driver: nvidia-smi shows its CUDA version; pip install torch from the index of that version",
            )
        )  # fmt: skip
    return f"{fields[1]} seen by torch (CUDA {fields[2]})"
