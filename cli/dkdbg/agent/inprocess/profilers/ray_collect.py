"""Fetches the profiles from a Ray cluster's nodes into one local folder, by Ray tasks. Runs as a separate program.

supervisor/profiles.py starts it after a driver has ended, with the driver's interpreter. Standard input is JSON:
`cluster` (its address), `folder` (the destination) and `files` (notes of ray_profile.py). The output is a line of JSON
for each file, with its new path as `at`, or the reason as `why` if it was not fetched.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_PART_BYTES = 8 << 20
#: Seconds that a profiler has to write its file after the driver's end.
_WRITE_TIMEOUT_S = 120.0


def find(paths: List[str], pids: List[int], limit: float) -> Any:
    """Wait until the processes `pids` have ended; return the file's path and size, or why it is missing."""
    import os as system
    import time

    def lives(pid: int) -> bool:
        try:
            with open("/proc/%d/stat" % pid) as source:
                return source.read().rpartition(")")[2].split()[0] not in "ZX"
        except (OSError, IndexError):
            return False

    end = time.monotonic() + limit
    while time.monotonic() < end and any(map(lives, pids)):
        time.sleep(0.1)
    for path in paths:
        if system.path.isfile(path):
            return path, system.path.getsize(path)
    return "no file was written on %s (%s)" % (system.uname().nodename, paths[0])


def read(path: str, offset: int, size: int) -> bytes:
    """Return a part of a file. Runs on the node."""
    with open(path, "rb") as source:
        source.seek(offset)
        return source.read(size)


def fetch(files: List[Dict[str, Any]], folder: str) -> None:
    """Fetch each file from its node, and report the result."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    def run_on(function: Any, node: str, *arguments: Any) -> Any:
        task = ray.remote(function).options(
            num_cpus=0, scheduling_strategy=On(node, soft=False), max_retries=0
        )
        return task.remote(*arguments)

    found = [run_on(find, each["node_id"], each["paths"], each["pids"], _WRITE_TIMEOUT_S) for each in files]
    for number, (file, waited) in enumerate(zip(files, found)):
        try:
            text = ray.get(waited)
            if isinstance(text, str):
                print(json.dumps({"number": number, "why": text}), flush=True)
                continue
            path, size = text
            at = _free(folder, os.path.basename(path), file["node"])
            with open(at + ".part", "wb") as out:
                while out.tell() < size:
                    part = ray.get(run_on(read, file["node_id"], path, out.tell(), _PART_BYTES))
                    if not part:
                        break
                    out.write(part)
            os.replace(at + ".part", at)
            print(json.dumps({"number": number, "at": at, "node": file["node"]}), flush=True)
        except Exception as error:
            why = "%s on %s cannot be fetched: %s" % (
                file["path"],
                file["node"],
                str(error).strip().splitlines()[-1:],
            )
            print(json.dumps({"number": number, "why": why}), flush=True)


def _has_ended(cluster: str) -> bool:
    """Return whether nothing listens at a cluster's address, because the driver had started the cluster itself."""
    host, _, port = cluster.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 30).close()
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):  # Ray's own error will say more
        pass
    return False


def take(files: List[Dict[str, Any]], folder: str) -> None:
    """Copy those files that are on this machine, after the cluster has ended; report the result for each."""
    for number, file in enumerate(files):
        found = find(file["paths"], file["pids"], _WRITE_TIMEOUT_S)
        answer = {"number": number, "node": file["node"]}
        if isinstance(found, str):
            answer["why"] = "%s; the cluster has ended" % found
        else:
            answer["at"] = found[0]
            if os.path.dirname(found[0]) != os.path.realpath(folder):
                answer["at"] = _free(folder, os.path.basename(found[0]), file["node"])
                shutil.copyfile(found[0], answer["at"])
        print(json.dumps(answer), flush=True)


def _free(folder: str, name: str, node: str) -> str:
    """Return an unused path for a file of a node: the pid in its name may be the same on two nodes, or in two runs."""
    stem, _, ending = name.partition(".")
    known = "".join(c if c.isalnum() else "_" for c in node)
    at, number = os.path.join(folder, name), 1
    while os.path.exists(at):
        more = "-%d" % number if number > 1 else ""
        at, number = os.path.join(folder, "%s-%s%s.%s" % (stem, known, more, ending)), number + 1
    return at


def main() -> int:
    """Fetch the files named on standard input; return the exit code."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the agent, which has started this, blocks signals
    asked = json.load(sys.stdin)
    if _has_ended(asked["cluster"]):
        os.makedirs(asked["folder"], exist_ok=True)
        take(asked["files"], asked["folder"])
        return 0
    import ray

    ray.init(address=asked["cluster"], log_to_driver=False, logging_level="ERROR", namespace="dkdbg")
    os.makedirs(asked["folder"], exist_ok=True)
    fetch(asked["files"], asked["folder"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
