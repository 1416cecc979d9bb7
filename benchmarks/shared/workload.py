"""The measured program: four kinds of Python work, CPU seconds of each as one JSON line on standard output.

usage: workload.py GO_FILE SCALE [traced]   (GO_FILE: measured when it exists, so that a debugger can attach first; `-` at
once; SCALE: 1 for all iterations, 0.1 for a tenth; `traced`: and not before a debugger traces this thread, which is later
than its session is there)
"""

import json
import os
import queue
import select
import socket
import sys
import threading
import time

try:
    import numpy
except ImportError:
    numpy = None


def loop(scale):
    total = 0
    for n in range(int(3000000 * scale)):
        total += n & 7
    return total


def add(a, b):
    c = a + b
    c -= b
    return c


def calls(scale):
    total = 0
    for n in range(int(1500000 * scale)):
        total = add(total, n)
    return total


def step(scale):
    rng = numpy.random.default_rng(0)
    x, w = rng.random((64, 64)), rng.random((64, 64))
    for _ in range(int(6000 * scale)):
        hidden = numpy.tanh(x @ w)
        w -= 0.001 * (x.T @ hidden)
    return float(w.sum())


def waits(scale):
    """Wait for what has come already, each time with a timeout: dkdbg wraps these calls while an editor is attached."""
    answers, done, (ours, theirs) = queue.Queue(), threading.Event(), socket.socketpair()
    done.set()
    ours.settimeout(60)
    for n in range(int(100000 * scale)):
        answers.put(n)
        answers.get(timeout=60)
        done.wait(60)
        theirs.send(b"x")
        ours.recv(1)
        select.select([theirs], [theirs], [], 60)
        time.monotonic()


def is_traced():
    """Whether a debugger has set its trace function in this thread, or from Python 3.12 on is a tool that monitors."""
    monitoring = getattr(sys, "monitoring", None)
    return sys.gettrace() is not None or (
        monitoring and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
    )


def measured(function, scale):
    began = time.process_time()
    function(scale)
    return time.process_time() - began


if __name__ == "__main__":
    while sys.argv[1] != "-" and not os.path.exists(sys.argv[1]):  # noqa: PTH110 - runs on any Python
        time.sleep(0.02)
    end = time.monotonic() + 30
    while sys.argv[3:] == ["traced"] and not is_traced():
        if time.monotonic() > end:
            sys.exit("no debugger traces this thread")
        time.sleep(0.005)
    kinds = {"loop": loop, "calls": calls, "waits": waits}
    if numpy is not None:
        kinds["numpy step"] = step
    scale = float(sys.argv[2])
    print(json.dumps({name: measured(function, scale) for name, function in kinds.items()}), flush=True)
