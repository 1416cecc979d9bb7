"""Collect facts about a machine with one POSIX shell script, here or on any target that can run a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dkdbg.doctor.situation import Disk, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Programs whose absence a check reports.
PROGRAMS = ("docker", "git", "ssh", "nvidia-smi", "nvidia-ctk", "podman")
_PYTHONS = ("python3", "python", *(f"python3.{minor}" for minor in range(15, 7, -1)))
#: Maximum bytes of the script's output, and its timeout in seconds: a network file system may hang.
MAX_BYTES, TIMEOUT_S = 1 << 20, 60.0
#: Keys of the script's output that become attributes of `Machine` with the same name, as text or as numbers.
_TEXTS = ("system", "release", "user", "folder", "driver", "cuda", "smi", "visible")
_NUMBERS = ("uid", "owner", "files", "watchers", "ptrace_scope")

#: Script that prints `KEY<TAB>VALUE` lines and changes nothing. It does not import torch, which would take seconds.
#: It runs no program and imports no module from the working directory, which may be an untrusted repository.
SCRIPT = (
    r"""
path=; set -f; IFS=:
for each in $PATH; do case "$each" in /*) path="$path:$each";; esac; done
unset IFS; set +f; path="${path#:}"; PATH="${path:-/usr/bin:/bin}"
say() { printf '%s\t%s\n' "$1" "$2"; }
say system "$(uname -s)"; say release "$(uname -r)"; say time "$(date +%s)"
say uid "$(id -u)"; say user "$(id -un 2>/dev/null)"; say umask "$(umask)"; say files "$(ulimit -n)"
say folder "$(pwd -P)"; say owner "$(ls -ldn . | { read -r _ _ uid _; echo "$uid"; })"
[ -w . ] || say unwritable 1
[ -z "${CUDA_VISIBLE_DEVICES+x}" ] || say visible "$CUDA_VISIBLE_DEVICES"
for each in . "$HOME" "${TMPDIR:-/tmp}"; do
  df -Pk "$each" 2>/dev/null | { read -r _; read -r _ total _ free _ at; say disk "$total $free $each	$at"; }
done
[ ! -d /dev/shm ] || df -Pk /dev/shm 2>/dev/null | { read -r _; read -r _ total _ free _ at; say shm "$total $free /dev/shm	$at"; }
for name in fs/inotify/max_user_watches fs/inotify/max_user_instances user/max_inotify_watches user/max_inotify_instances; do
  [ ! -r "/proc/sys/$name" ] || say limit "$name $(cat "/proc/sys/$name")"
done
[ ! -r /proc/sys/kernel/yama/ptrace_scope ] || say ptrace_scope "$(cat /proc/sys/kernel/yama/ptrace_scope)"
[ ! -r /proc/self/mounts ] || head -n 2000 /proc/self/mounts | while read -r _ at kind _; do say mount "$at $kind"; done
if command -v find >/dev/null; then
  say watchers "$(find /proc/[0-9]*/fd -user "$(id -u)" -lname 'anon_inode:*inotify*' 2>/dev/null | wc -l)"
fi
for each in /sys/bus/pci/devices/*; do
  [ -r "$each/vendor" ] && [ "$(cat "$each/vendor")" = 0x10de ] && case "$(cat "$each/class")" in 0x03*) say nvidia 1; break;; esac
done
[ ! -e /dev/nvidia0 ] || say device 1
"""
    f"for each in {' '.join(PROGRAMS)}; do command -v $each >/dev/null && say program $each; done\n"
    r"""
if command -v nvidia-smi >/dev/null; then
  answer="$(nvidia-smi 2>&1)" && {
    say driver "$(printf '%s' "$answer" | sed -n 's/.*Driver Version: \([0-9.]*\).*/\1/p' | head -n 1)"
    say cuda "$(printf '%s' "$answer" | sed -n 's/.*CUDA Version: \([0-9.]*\).*/\1/p' | head -n 1)"
  } || say smi "$(printf '%s' "$answer" | tr '\n\t' '  ' | cut -c1-300)"
fi
first=
"""
    f'for each in "${{DKDBG_PYTHON:-}}" {" ".join(_PYTHONS)}; do\n'
    r"""  [ -n "$each" ] && command -v "$each" >/dev/null || continue
  version="$("$each" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)" || continue
  say python "$each $version"
  case "$version" in 2.*|3.[0-7].*) continue;; esac
  first="$each"; break
done
[ -z "$first" ] || say torch "$("$first" -c '
import os, sys
sys.path[:] = [each for each in sys.path if os.path.realpath(each) != os.getcwd()]
import re
for folder in sys.path:
    path = os.path.join(folder, "torch", "version.py")
    if os.path.isfile(path):
        text = open(path).read(10000)
        found = [re.search(r"^%s\b.*?= *(?:\x27|\")([^\x27\"]+)" % name, text, re.M) for name in ("__version__", "cuda")]
        print(" ".join(each.group(1) if each else "-" for each in found))
        break
' 2>/dev/null)"
exit 0
"""
)


def machine(answer: str, *, label: str, asked: float, answered: float) -> Machine:
    """Return the machine that the script's output describes; the output is untrusted.

    Args:
        answer: standard output of SCRIPT.
        label: name of the target, empty for this machine.
        asked, answered: this machine's clock in seconds before and after the script.
    """
    found: dict[str, list[str]] = {}
    for line in answer.splitlines():
        key, tab, value = line.partition("\t")
        if tab:
            found.setdefault(key, []).append(value.strip(" "))

    def pairs(key: str) -> Iterator[tuple[str, str]]:
        """Yield the `NAME VALUE` pairs of a key."""
        for name, _, value in (each.rpartition(" ") for each in found.get(key, ())):
            if name and value:
                yield name, value

    one = {key: values[0] for key, values in found.items()}
    as_is: dict[str, Any] = {key: one[key] for key in _TEXTS if key in one}
    as_is |= {key: _number(one.get(key)) for key in _NUMBERS}
    mounts = dict(pairs("mount"))
    torch = one.get("torch", "").split(" ")
    disks = [_disk(each, mounts, {".": one.get("folder", "")}) for each in found.get("disk", ())]
    return Machine(
        **as_is,
        label=label,
        skew=_skew(one.get("time", ""), asked, answered),
        is_writable="unwritable" not in one,
        umask=int(one["umask"], 8) if re.fullmatch(r"[0-7]{1,5}", one.get("umask", "")) else None,
        pythons=tuple(pairs("python")),
        programs=frozenset(found.get("program", ())),
        disks=tuple(each for each in disks if each is not None),
        shm=_disk(one["shm"], mounts, {}) if "shm" in one else None,
        limits={
            name.replace("/", "."): number
            for name, text in pairs("limit")
            if (number := _number(text)) is not None
        },
        has_nvidia="nvidia" in one,
        has_device="device" in one,
        torch=torch[0].strip("-"),
        torch_cuda=torch[1].strip("-") if len(torch) > 1 else "",
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text.strip()) else None


def _skew(text: str, asked: float, answered: float) -> float:
    """Return by how many seconds a clock is ahead of this machine's (negative: behind).

    The tolerance is the duration of the query, plus one second because `date` prints whole seconds.
    """
    remote_time = _number(text)
    if remote_time is None:
        return 0.0
    return remote_time - answered if remote_time > answered else min(0.0, remote_time + 1 - asked)


def _disk(text: str, mounts: Mapping[str, str], names: Mapping[str, str]) -> Disk | None:
    """Parse `TOTAL FREE PATH<TAB>MOUNT` (sizes in KiB) as a file system; return None if the text is malformed."""
    found = re.fullmatch(r"(\d{1,15}) (\d{1,15}) ([^\t]*)\t(.*)", text)
    if not found:
        return None
    return Disk(
        path=names.get(found[3], found[3]),
        total=int(found[1]) * 1024,
        free=int(found[2]) * 1024,
        kind=mounts.get(found[4].replace(" ", "\\040"), ""),
    )
