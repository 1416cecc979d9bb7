"""Ranks on gloo, of which one is made to hang: `python hanging.py MODE`. Each rank counts on in a file meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time

MODE = (sys.argv[1:] or ["load"])[0]
RANKS = int(os.environ.get("RANKS", "4"))
ODD = 2

if "RANK" not in os.environ:
    line = [sys.executable, os.path.abspath(__file__), MODE]
    ranks = [
        subprocess.Popen(line, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS)})
        for rank in range(RANKS)
    ]
    for each in ranks:
        each.wait()
    sys.exit(0)

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
first, second, met = threading.Lock(), threading.Lock(), threading.Barrier(2)


def progress() -> None:
    n = 0
    while True:
        n += 1
        with open(f"progress-{rank}.tmp", "w") as out:
            out.write(str(n))
        os.rename(f"progress-{rank}.tmp", f"progress-{rank}")
        time.sleep(0.05)


def load_batch() -> None:
    time.sleep(600)  # load


def take(one: threading.Lock, other: threading.Lock) -> None:
    with one:
        met.wait()
        with other:  # lock
            pass


def step(i: int) -> None:
    odd = rank == ODD and i == 5
    if odd and MODE == "load":
        load_batch()
    if odd and MODE == "lock":
        threading.Thread(target=take, args=(second, first), name="writer").start()
        take(first, second)
    dist.all_reduce(torch.ones(7 if odd and MODE == "shapes" else 4))  # collective


threading.Thread(target=progress, name="progress", daemon=True).start()
if rank == ODD and MODE == "frozen":
    os.kill(os.getpid(), signal.SIGSTOP)
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meet", world_size=RANKS, rank=rank)  # meet
for i in range(20):
    step(i)
print("over", flush=True)
dist.destroy_process_group()
