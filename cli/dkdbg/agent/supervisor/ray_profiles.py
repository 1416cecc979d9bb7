"""Fetches profiles of Ray's workers from their nodes once the driver has ended, before the nodes disappear."""

from __future__ import annotations

import json
import os
import subprocess

from dkdbg.agent.inprocess.profilers import profiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Tuple

#: Seconds for all files together.
_TIMEOUT_S = 1800.0
_KEYS = ("node", "node_id", "python", "cluster")


def is_of_ray(note: Mapping[str, Any]) -> bool:
    """Tell whether a note describes a worker's file on another node."""
    return (
        all(isinstance(note.get(key), str) and note[key] for key in _KEYS)
        and isinstance(note.get("paths"), list)
        and all(isinstance(each, str) for each in note["paths"])
        and isinstance(note.get("pids"), list)
        and all(isinstance(each, int) for each in note["pids"])
    )


def fetch(notes: List[Dict[str, Any]], folder: str, environment: Mapping[str, str]) -> List[str]:
    """Copy the files into a local folder; return a message for each note, in their order.

    Args:
        notes: of one driver's cluster.
        folder: where the driver's own profiles are.
    """
    lost = ["not fetched, it is on %s: %s" % (each["node"], each["path"]) for each in notes]
    asked = {"cluster": notes[0]["cluster"], "folder": folder, "files": notes}
    program = os.path.join(os.path.dirname(os.path.abspath(profiling.__file__)), "ray_collect.py")
    own = {
        key: value
        for key, value in environment.items()
        if not key.startswith(("DKDBG_", "RAY_RUNTIME_ENV_HOOK"))
    }
    try:
        done = subprocess.run(
            [notes[0]["python"], program], input=json.dumps(asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            check=False, timeout=_TIMEOUT_S, env=own, universal_newlines=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return ["%s (%s)" % (each, error) for each in lost]
    why = (
        (": " + done.stderr.strip().splitlines()[-1][:300]) if done.returncode and done.stderr.strip() else ""
    )
    found = dict(filter(None, map(_read, done.stdout.splitlines())))
    return [found.get(number) or each + why for number, each in enumerate(lost)]


def _read(line: str) -> Optional[Tuple[int, str]]:
    try:
        said = json.loads(line)
        at = said.get("at")
        text = (
            "%s (%.1f MB, from %s)" % (at, os.path.getsize(at) / 1e6, said["node"])
            if at
            else str(said["why"])
        )
        return int(said["number"]), text
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
