"""A stand-in for nsys: it records its command line, runs the program, and writes a file where the real one would.

It knows `profile`, options with and without a value, `-o` with %p for the program's pid, and ends as the program does.
"""

import sys
from pathlib import Path

_TEXT = """\
#!{python}
import json, os, subprocess, sys
words, at = sys.argv[1:], 1
assert words[0] == "profile", words
while words[at].startswith("-"):
    output = words[at + 1] if words[at] == "-o" else ""
    at += 1 if words[at].startswith("--") and "=" in words[at] else 2
program = subprocess.Popen(words[at:])
with open(output.replace("%%", "%").replace("%p", str(program.pid)) + ".nsys-rep", "w") as report:
    json.dump({{"argv": words, "program": words[at:], "pid": os.getpid()}}, report)
code = program.wait()
sys.exit(code if code >= 0 else 128 - code)
"""


def install(folder: Path, python: str = f"{sys.executable} -I") -> Path:
    """Put it into a folder as `nsys`, run by this Python; returns the folder, for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "nsys"
    file.write_text(_TEXT.format(python=python))
    file.chmod(0o755)
    return folder
