"""Profilers requested by flags and variables: checks the tools at the start, reports the profiles at the end."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shlex
import shutil
import subprocess
import time

from dkdbg.agent import settings
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.inprocess.profilers import profiling, tools
from dkdbg.agent.state import procfs
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, MutableMapping, Optional, Tuple

#: Tool -> its variables: patterns, ranks, further options.
_VARIABLES = {
    "nsys": (settings.ENV_NSYS, settings.ENV_NSYS_RANKS, settings.ENV_NSYS_OPTIONS),
    "py-spy": (settings.ENV_PY_SPY, settings.ENV_PY_SPY_RANKS, settings.ENV_PY_SPY_OPTIONS),
    "torch": (settings.ENV_TORCH_PROFILE, settings.ENV_TORCH_PROFILE_RANKS, ""),
}
#: Flag -> variable.
FLAGS = {
    "--nsys": settings.ENV_NSYS,
    "--nsys-ranks": settings.ENV_NSYS_RANKS,
    "--nsys-options": settings.ENV_NSYS_OPTIONS,
    "--py-spy": settings.ENV_PY_SPY,
    "--py-spy-ranks": settings.ENV_PY_SPY_RANKS,
    "--py-spy-options": settings.ENV_PY_SPY_OPTIONS,
    "--torch-profile": settings.ENV_TORCH_PROFILE,
    "--torch-profile-ranks": settings.ENV_TORCH_PROFILE_RANKS,
    "--torch-profile-steps": settings.ENV_TORCH_PROFILE_STEPS,
}
_FOLDER = "dkdbg-profiles"
_STEPS = "2:12"
#: Seconds to wait after the program's end for py-spy to finish its file.
_WRITE_TIMEOUT_S = 60.0
_HINTS = {
    "nsys": "install Nsight Systems there (apt-get install nsight-systems-cli from NVIDIA's repository), put its folder on PATH, or "
    "use --py-spy or --torch-profile",
    "py-spy": "pip install py-spy there, or use --torch-profile",
}


def prepare(environment: MutableMapping[str, str], log: Callable[[str], None]) -> None:
    """Write the profiler requests, as JSON, into the environment of the program's processes.

    Args:
        log: takes a line for the user.

    Raises:
        ValueError: ranks, steps or options are invalid, or a tool is not installed here.
    """
    environment.pop(profiling.ENV, None)
    environment.pop(profiling.ENV_PROFILED, None)
    wanted = [tool for name in _VARIABLES for tool in [_tool(name, environment, log)] if tool is not None]
    if not wanted:
        return
    folder = os.path.abspath(environment.get(settings.ENV_PROFILE_DIR) or _FOLDER)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ValueError(
            "profiles cannot be written to %s: %s; set another folder with %s"
            % (folder, error.strerror, settings.ENV_PROFILE_DIR)
        ) from error
    environment[profiling.ENV] = json.dumps({"folder": folder, "tools": wanted})


def report(
    directory: str,
    environment: Mapping[str, str],
    log: Callable[[str], None],
    pause: Callable[[float], bool],
) -> None:
    """Report at the end which processes were profiled, and which requests matched none.

    Args:
        directory: the session's folder, with the processes' notes.
        environment: the one that `prepare` has written the requests into.
        log: takes a line for the user.
        pause: waits for this many seconds; returns True to stop waiting for profiles.
    """
    if profiling.ENV not in environment:
        return
    entries = _entries(directory)
    wanted = json.loads(environment[profiling.ENV])
    asked: List[Dict[str, Any]] = wanted["tools"]
    of_ray = [entry for entry in entries if "tool" in entry and is_of_ray(entry)]
    for entry in entries:
        if "tool" in entry and entry not in of_ray:
            _wait_for(entry["by"], pause)
            log("%s of %s: %s" % (entry["tool"], entry["worker"], _file(entry)))
    if of_ray:
        log("fetching %d profiles from the nodes of the cluster" % len(of_ray))
        for entry, text in zip(of_ray, fetch(of_ray, wanted["folder"], environment, pause)):
            log("%s of %s: %s" % (entry["tool"], entry["worker"], text))
    for tool in asked:
        # NeMo RL's own variable makes NeMo RL wrap Ray's actors: which ones matched is not visible here.
        if tool["is_ours"] and not any(entry.get("tool") == tool["tool"] for entry in entries):
            seen = sorted({entry["worker"] for entry in entries})[:10]
            summary = "the processes were: %s" % ", ".join(seen) if seen else "no Python process was seen"
            log("%s: nothing matched %s; %s" % (tool["tool"], _asked(tool), summary))


def _tool(name: str, environment: Mapping[str, str], log: Callable[[str], None]) -> Optional[Dict[str, Any]]:
    """Return the request for a tool, None if it was not requested. Raises ValueError, see `prepare`."""
    of_names, of_ranks, of_options = _VARIABLES[name]
    wanted = tools.parse_patterns(environment.get(of_names, ""))
    is_nemos = name == "nsys" and not wanted and not environment.get(of_ranks)
    if is_nemos:
        wanted = tools.parse_patterns(environment.get(settings.ENV_NEMO_RL_NSYS, ""))
    chosen = environment.get(of_ranks, "").strip()
    if not wanted and not chosen:
        return None
    try:
        chosen = str(ranks.parse(chosen)) if chosen else ""
        options = shlex.split(environment.get(of_options, "")) if of_options else []
    except ranks.RankSetError as error:
        raise ValueError("%s: %s; %s" % (of_ranks, error, error.hint)) from error
    except ValueError as error:
        raise ValueError("%s: %s" % (of_options, error)) from error
    tool: Dict[str, Any] = {
        "tool": name,
        "patterns": wanted,
        "ranks": chosen,
        "options": options,
        "path": "",
        "is_ours": not is_nemos,
    }
    if name == "torch":
        tool["steps"] = _steps(environment.get(settings.ENV_TORCH_PROFILE_STEPS) or _STEPS)
        return tool
    tool["path"] = _found(name, environment)
    if not tool["path"]:
        text = "%s is not installed here, and %s asks for it: %s" % (name, _asked(tool), _HINTS[name])
        if profiling.RAY in environment and not chosen:
            log("%s is not installed on this node; looking for it on the actors' nodes" % name)
            return tool
        if not is_nemos:
            raise ValueError(text)
        log("%s (%s)" % (text, settings.ENV_NEMO_RL_NSYS))
        return None
    return tool


def _asked(tool: Mapping[str, Any]) -> str:
    options = ["--%s %s" % (_flag(tool), shlex.quote(",".join(tool["patterns"])))] if tool["patterns"] else []
    return " ".join(options + (["--%s-ranks %s" % (_flag(tool), tool["ranks"])] if tool["ranks"] else []))


def _flag(tool: Mapping[str, Any]) -> str:
    return "torch-profile" if tool["tool"] == "torch" else str(tool["tool"])


def _found(name: str, environment: Mapping[str, str]) -> str:
    """Return a program's absolute path; empty when missing."""
    found = shutil.which(name, path=environment.get("PATH"))
    if found is None and name == "nsys":
        others = sorted(
            path for pattern in tools.NSYS_PLACES for path in glob.glob(pattern) if os.access(path, os.X_OK)
        )
        found = others[-1] if others else None
    return os.path.abspath(found) if found else ""


def _steps(text: str) -> List[int]:
    first, last = (whole_number(each) or 0 for each in text.partition(":")[::2])
    if not 0 < first < last:
        raise ValueError(
            "%s takes FIRST:END, counted from 1, END excluded, such as %s, not %r"
            % (settings.ENV_TORCH_PROFILE_STEPS, _STEPS, text)
        )
    return [first, last]


def _entries(directory: str) -> List[Dict[str, Any]]:
    """Return the processes' notes about their profiles; skip malformed ones, as the program may write there too."""
    found = []
    path = os.path.join(directory, profiling.NAME)
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as source:
        for line in source:
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if _is_entry(entry):
                    found.append(entry)
    return found


def _is_entry(entry: Any) -> bool:  # noqa: ANN401 - whatever was read
    if not isinstance(entry, dict):
        return False
    texts, numbers = (
        (("worker", "tool", "path", "base"), ("pid", "by")) if "tool" in entry else (("worker",), ("pid",))
    )
    return all(isinstance(entry.get(key), str) for key in texts) and all(
        isinstance(entry.get(key), int) for key in numbers
    )


def _file(entry: Mapping[str, Any]) -> str:
    """Return a profile's path and size. nsys names the file by the pid of its child, which the note does not have."""
    paths = [entry["path"]]
    if entry["base"]:
        endings = (profiling.ENDINGS[entry["tool"]], tools.NSYS_RAW)
        paths = [path for each in endings for path in glob.glob(glob.escape(entry["base"]) + "_*" + each)]
    existing = [path for path in paths if os.path.exists(path)]
    if not existing:
        return "no file was written (%s)" % entry["path"]
    return ", ".join("%s (%.1f MB)" % (path, os.path.getsize(path) / 1e6) for path in sorted(existing))


def _wait_for(pid: int, pause: Callable[[float], bool]) -> None:
    """Wait until py-spy (`pid`) has written its file, which it does after the process that it profiles has ended."""
    end = time.monotonic() + _WRITE_TIMEOUT_S
    while pid and time.monotonic() < end and "record" in procfs.command_line(pid):
        if pause(0.05):
            return


#: Seconds to fetch all files of a Ray cluster.
_TIMEOUT_S = 1800.0
#: Seconds between two checks for a signal.
_POLL_S = 0.1
_KEYS = ("node", "node_id", "python", "cluster")


def is_of_ray(entry: Mapping[str, Any]) -> bool:
    """Tell whether a note describes the profile of a Ray worker.

    Any node of the cluster can write notes, so one that names a file of another kind is rejected.
    """
    endings = (*profiling.ENDINGS.values(), tools.NSYS_RAW)
    return (
        all(isinstance(entry.get(key), str) and entry[key] for key in _KEYS)
        and isinstance(entry.get("paths"), list)
        and all(isinstance(each, str) and each.endswith(endings) for each in entry["paths"])
        and isinstance(entry.get("pids"), list)
        and all(isinstance(each, int) for each in entry["pids"])
    )


def fetch(
    entries: List[Dict[str, Any]], folder: str, environment: Mapping[str, str], pause: Callable[[float], bool]
) -> List[str]:
    """Copy profiles of Ray workers from the cluster's nodes into a local folder; return a message for each note.

    Args:
        entries: notes about workers of one Ray cluster.
        folder: destination, where the driver's own profiles are.
        pause: see `report`.
    """
    import tempfile

    lost = ["not fetched, it is on %s: %s" % (each["node"], each["path"]) for each in entries]
    asked = {"cluster": entries[0]["cluster"], "folder": folder, "files": entries}
    program = os.path.join(os.path.dirname(os.path.abspath(profiling.__file__)), "ray_collect.py")
    own = {
        key: value
        for key, value in environment.items()
        if not key.startswith(("DKDBG_", "RAY_RUNTIME_ENV_HOOK"))
    }
    try:
        # A file instead of a pipe: up to Python 3.13 communicate() does not resume writing to a pipe after a timeout.
        with tempfile.TemporaryFile() as source:
            source.write(json.dumps(asked).encode())
            source.seek(0)
            with subprocess.Popen(
                [entries[0]["python"], program], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own,
            ) as running:  # fmt: skip
                said, why = _answer(running, pause)
    except OSError as error:
        return ["%s (%s)" % (each, error) for each in lost]
    found = dict(filter(None, map(_read, said.decode("utf-8", "replace").splitlines())))
    return [found.get(number) or each + why for number, each in enumerate(lost)]


def _answer(running: subprocess.Popen[bytes], pause: Callable[[float], bool]) -> Tuple[bytes, str]:
    """Return a process's output, and why that is incomplete (empty if complete); kill it at the timeout or a signal."""
    end = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            out, err = running.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired as error:
            is_hurried = pause(0.0)
            if not is_hurried and time.monotonic() < end:
                continue
            running.kill()
            why = "a signal ended the fetch" if is_hurried else "not complete within %d s" % _TIMEOUT_S
            return error.output or b"", ": " + why
        lines = err.decode("utf-8", "replace").strip().splitlines()
        return out, ": " + lines[-1][:300] if running.returncode and lines else ""


def _read(line: str) -> Optional[Tuple[int, str]]:
    try:
        answer = json.loads(line)
        at = answer.get("at")
        text = (
            "%s (%.1f MB, from %s)" % (at, os.path.getsize(at) / 1e6, answer["node"])
            if at
            else str(answer["why"])
        )
        return int(answer["number"]), text
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
