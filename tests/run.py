"""Run the tests, then what failed once more: alone, one after the other. What passes then is flaky, and is listed so.

usage: python -m tests.run [ARGUMENTS OF PYTEST]

Exits with 0 if all tests passed, or if at most MAX_FLAKY failed first and passed alone; else with pytest's exit code.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: More failures than this are not a matter of timing; they are not run again.
MAX_RERUN = 10
MAX_FLAKY = 3


def main(arguments: list[str]) -> int:
    code, failed = _pytest(arguments)
    if code != 1 or not 0 < len(failed) <= MAX_RERUN:
        return code
    print(f"\n{len(failed)} failed; each runs once more, alone", flush=True)
    code, failures = _pytest(["-n", "0", *failed])
    flaky = {test: text for test, text in failed.items() if test not in failures}
    if flaky and code in (0, 1):
        print(f"\nFLAKY ({len(flaky)}): failed beside others, passed alone")
        for test, text in flaky.items():
            print(f"\n{test}\n{text}")
        if len(flaky) > MAX_FLAKY:
            print(f"\nfailed: more than {MAX_FLAKY} tests are flaky", flush=True)
            return 1
    return code


def _pytest(arguments: list[str]) -> tuple[int, dict[str, str]]:
    """Run pytest; return its exit code, and of each failed test the node id and what was printed (see conftest.py)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "failures")
        command = [sys.executable, "-m", "pytest", *arguments]
        code = subprocess.run(
            command, env={**os.environ, "DKDBG_TEST_FAILURES": str(file)}, check=False
        ).returncode
        return code, json.loads(file.read_text()) if file.exists() else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
