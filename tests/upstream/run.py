"""Runs debugpy's own tests through the agent; started manually: what passes on stock debugpy should pass here.

    git clone https://github.com/microsoft/debugpy /tmp/debugpy
    python3.11 -m venv /tmp/venv
    /tmp/venv/bin/pip install debugpy -r /tmp/debugpy/tests/requirements.txt
    .venv/bin/python tests/upstream/run.py /tmp/debugpy /tmp/venv/bin/python -n 2 tests/debugpy/test_exception.py
    .venv/bin/python tests/upstream/run.py --stock /tmp/debugpy /tmp/venv/bin/python -n 2

The tests of the runner `attach_connect["cli"]` are run, 386 of them; all that follows the Python goes to pytest. Results are
in docs/compatibility.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dkdbg.delivery import single_file


def main() -> int:
    """Build the single file, and run upstream's pytest with our plugin."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stock", action="store_true", help="without the agent, to compare")
    parser.add_argument("checkout", type=Path, help="of microsoft/debugpy")
    parser.add_argument("python", help="with debugpy and upstream's tests/requirements.txt installed")
    parser.add_argument("pytest", nargs=argparse.REMAINDER, help="arguments for pytest")
    options = parser.parse_args()
    here = Path(__file__).resolve().parent
    words = ["-p", "no:cacheprovider", "-rfEs", "-k", "attach_connect and cli"]
    command = [options.python, "-m", "pytest", *words]
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder, single_file.NAME)
        agent.write_bytes(single_file.build((3, 10)))
        agent.chmod(0o755)
        environment = dict(os.environ, DEBUGPY_TESTS_FULL="1", DKDBG_UPSTREAM_AGENT=str(agent))
        environment["PYTHONPATH"] = os.pathsep.join(map(str, (options.checkout.resolve(), here)))
        if not options.stock:
            command += ["-p", "through_agent"]
        # The tests of debugpy's parts attach to nothing, and one of them does not import alone.
        chosen = options.pytest or ["tests/debugpy"]
        unwanted = [f"--ignore=tests/debugpy/{part}" for part in ("adapter", "common", "server")]
        done = subprocess.run(
            [*command, *unwanted, *chosen], cwd=options.checkout, env=environment, check=False
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
