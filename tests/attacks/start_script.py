"""`.dkdbg/up.sh` as a dev container runs it, with a recorder for an agent."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def started_by(script: str, work: Path, environ: Mapping[str, str]) -> list[str]:
    """Run a start script in the folder `work`, which is made; return the words of the program that it starts."""
    (work / ".dkdbg").mkdir(parents=True, exist_ok=True)
    recorder, said, seen = work / "agent.pyz", work / "said", work / "seen"
    # It lives until its health was asked: a program that ends before is a start that failed.
    recorder.write_text(
        f'[ "$1" = health ] && {{ [ -e {said} ] && : >{seen}; exit; }}\n'
        f'printf "%s\\0" "$@" >{said}.new; mv {said}.new {said}\nwhile [ -d {work} ] && [ ! -e {seen} ]; do sleep 0.02; done\n'
    )
    text = script.replace("/opt/dkdbg/agent.pyz", str(recorder))
    text = text.replace("${TMPDIR:-/tmp}", str(work)).replace("sleep 0.2", "sleep 0.02")
    (work / ".dkdbg/up.sh").write_text(text)
    run_script(work, {"DKDBG_MAPPINGS": "[]", **environ})
    words = said.read_bytes().decode().split("\0")[:-1]
    return words[words.index("--") + 1 :]


def run_script(work: Path, environ: Mapping[str, str]) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(work), "LC_ALL": "C.UTF-8", **environ}
    run = subprocess.run(
        ["sh", ".dkdbg/up.sh"], cwd=work, env=environ, capture_output=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
