"""Sync beside the tools that people keep two folders equal with, all in one run, from one folder of this machine to another.

usage: python benchmarks/sync_beside.py [--smallest] [--files 10000] [--saves 20]

Of each that is installed: rsync, lsyncd, unison, syncthing (two of them, which speak to each other on loopback). Each gets
its own copy of the same files. Only ratios mean anything on a shared machine; docs/adr/0015 has a run and what it says.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

from shared.options import parse, parser, rival

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLI = str(Path(__file__).resolve().parent.parent / "cli")
#: Seconds after which a change counts as not seen.
LIMIT = 120.0


class Pair:
    """A folder here, its copy there, and a home for a tool's own files."""

    def __init__(self, folder: Path, name: str, files: int) -> None:
        self.here, self.there, self.home = (folder / name / each for each in ("here", "there", "home"))
        for each in (self.here, self.there, self.home):
            each.mkdir(parents=True)
        dice = random.Random(1)
        for number in range(files):
            path = self.here / f"pkg{number // 500}" / f"sub{number // 50 % 10}" / f"mod{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dice.randbytes(dice.randint(200, 10_000)))
        self.env = {**os.environ, "PYTHONPATH": CLI, "HOME": str(self.home), "UNISON": str(self.home)}

    def has(self, count: int) -> bool:
        """Whether as many files have arrived; what tools keep there for themselves does not count."""
        return sum(1 for _ in self.there.glob("pkg*/sub*/mod*.py")) >= count


@contextlib.contextmanager
def running(pair: Pair, *commands: list[str]) -> Iterator[None]:
    """Processes that follow changes until the block ends."""
    started = [
        subprocess.Popen(each, cwd=pair.here, env=pair.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True)
        for each in commands
    ]  # fmt: skip
    try:
        yield
    finally:
        for each in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()


def dkdbg(pair: Pair) -> list[list[str]]:
    """Ours, to a folder of this machine."""
    return [[sys.executable, "-m", "dkdbg", "-C", str(pair.here), "sync", f"local:{pair.there}"]]


def rsync_loop(pair: Pair) -> list[list[str]]:
    """rsync in a loop, as the recipes with a remote machine have it."""
    return [["sh", "-c", f"while :; do rsync -a --delete '{pair.here}/' '{pair.there}/'; sleep 1; done"]]


def lsyncd(pair: Pair) -> list[list[str]]:
    """lsyncd without the delay of 15 s that it has by default."""
    script = pair.home / "lsyncd.lua"
    script.write_text(
        f'settings {{ nodaemon = true }}\nsync {{ default.direct, source = "{pair.here}", target = "{pair.there}", delay = 0 }}\n'
    )
    return [["lsyncd", "-nodaemon", str(script)]]


def unison(pair: Pair) -> list[list[str]]:
    """unison, made one-way; it watches where its monitor is installed, and looks every second elsewhere."""
    repeat = "watch" if shutil.which("unison-fsmonitor") else "1"
    options = ["-batch", "-auto", "-force", str(pair.here), "-repeat", repeat, "-ui", "text"]
    return [["unison", str(pair.here), str(pair.there), *options]]


def syncthing(pair: Pair) -> list[list[str]]:
    """Two syncthings on loopback, send-only and receive-only, that wait 1 s (10 by default; older ones know whole seconds)."""
    homes = [pair.home / "a", pair.home / "b"]
    for home in homes:
        subprocess.run(
            ["syncthing", "generate", f"--home={home}"], env=pair.env, check=True, capture_output=True
        )
    trees = [ET.parse(home / "config.xml") for home in homes]
    ids = [str(subprocess.run(["syncthing", f"--home={home}", "--device-id"], env=pair.env, check=True, capture_output=True,
                              text=True).stdout).strip() for home in homes]  # fmt: skip
    for each in (pair.here, pair.there):
        (each / ".stfolder").mkdir()  # without its mark a folder is taken for one that is not mounted
    ports = [free_port(), free_port()]
    for side, (home, tree) in enumerate(zip(homes, trees, strict=True)):
        root = tree.getroot()
        for old in (*root.findall("folder"), *root.findall("device")):
            root.remove(old)
        folder = ET.SubElement(root, "folder", {
            "id": "code", "label": "code", "path": str((pair.here, pair.there)[side]),
            "type": ("sendonly", "receiveonly")[side], "rescanIntervalS": "3600", "fsWatcherEnabled": "true",
            "fsWatcherDelayS": "1",
        })  # fmt: skip
        for each, port in zip(ids, ports, strict=True):
            ET.SubElement(folder, "device", {"id": each})
            device = ET.SubElement(root, "device", {"id": each, "name": each[:7]})
            ET.SubElement(device, "address").text = f"tcp://127.0.0.1:{port}"
        options = root.find("options")
        assert options is not None
        wanted = {
            "listenAddress": f"tcp://127.0.0.1:{ports[side]}", "globalAnnounceEnabled": "false", "localAnnounceEnabled": "false",
            "relaysEnabled": "false", "natEnabled": "false", "startBrowser": "false", "urAccepted": "-1",
            "crashReportingEnabled": "false", "autoUpgradeIntervalH": "0", "reconnectionIntervalS": "1",
        }  # fmt: skip
        for key, value in wanted.items():
            for old in options.findall(key):
                options.remove(old)
            ET.SubElement(options, key).text = value
        gui = root.find("gui")
        assert gui is not None
        gui.set("enabled", "false")
        tree.write(home / "config.xml")
    return [
        ["syncthing", "serve", f"--home={home}", "--no-browser", "--no-upgrade", "--no-restart"]
        for home in homes
    ]


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


TOOLS: dict[str, tuple[str, Callable[[Pair], list[list[str]]]]] = {
    "dkdbg": (sys.executable, dkdbg),
    "rsync loop": ("rsync", rsync_loop),
    "lsyncd": ("lsyncd", lsyncd),
    "unison": ("unison", unison),
    "syncthing": ("syncthing", syncthing),
}


def until(condition: Callable[[], bool], pause: float) -> float:
    """Seconds until it holds; inf after LIMIT."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > LIMIT:
            return float("inf")
        time.sleep(pause)
    return time.perf_counter() - began


def measure(pair: Pair, start: Callable[[Pair], list[list[str]]], files: int, saves: int) -> dict[str, str]:
    """First copy (with the tool's own start), saves, and what becomes of files that were made or edited there."""
    commands = start(pair)
    found = {}
    with running(pair, *commands):
        took = until(lambda: pair.has(files), 0.02)
        found["first copy"] = f"{took:8.2f} s"
        if took > LIMIT:
            return found
        until(lambda: quiet(pair), 0.5)
        taken = []
        path = pair.here / "train.py"
        for number in range(saves + 1):
            token = f"run = {number:06d}\n"
            path.write_text(token)
            taken.append(1000 * until(lambda token=token: content(pair.there / "train.py") == token, 0.0005))
            time.sleep(random.uniform(0.05, 0.3))
        found["save, median"] = f"{statistics.median(taken[1:]):8.1f} ms"
        found["save, slowest"] = f"{max(taken[1:]):8.1f} ms"
        made, edited = pair.there / "made_there.txt", next(pair.there.glob("pkg*/sub*/mod*.py"))
        made.write_text("made there\n")
        edited.write_text("edited there\n")
        source = pair.here / edited.relative_to(pair.there)
        time.sleep(2)
        source.write_text("edited here\n")
        (pair.here / "last.py").write_text("x\n")
        until(lambda: (pair.there / "last.py").exists() and content(edited) == "edited here\n", 0.05)
        aside = [
            each for each in pair.there.rglob("*") if each.is_file() and content(each) == "edited there\n"
        ]
        found["made there"] = "stays" if made.exists() else "deleted"
        found["edited on both sides"] = f"{content(edited).strip()}; the other {'kept' if aside else 'lost'}"
    return found


def content(path: Path) -> str:
    """What stands in a file; empty for none."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def quiet(pair: Pair) -> bool:
    """Whether the tool follows changes by now: it brings a new file."""
    name = f"quiet{time.monotonic_ns()}"
    (pair.here / name).write_text("x")
    return until((pair.there / name).exists, 0.01) < LIMIT


def main() -> None:
    """Measure what is installed."""
    command = parser(__doc__)
    command.add_argument("--files", type=int, default=10_000)
    command.add_argument("--saves", type=int, default=20)
    command.add_argument("--only", choices=TOOLS)
    options = parse(command, files=20, saves=1)
    with tempfile.TemporaryDirectory(prefix="dkdbg-beside-") as folder:
        for name, (program, start) in TOOLS.items():
            if options.only not in (None, name):
                continue
            if not rival(program):
                continue
            pair = Pair(Path(folder), name.replace(" ", "-"), options.files)
            print(name, flush=True)
            for what, value in measure(pair, start, options.files, options.saves).items():
                print(f"  {what:22} {value}", flush=True)


if __name__ == "__main__":
    main()
