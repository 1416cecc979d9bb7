"""Stands in for torchrun where there is no PyTorch: so many processes, and what torchrun tells each."""

#: `torchrun --nproc-per-node N FILE WORD...`, a script of Python's.
TORCHRUN = """\
#!/usr/bin/env python3
import os, subprocess, sys
count, words = int(sys.argv[2]), sys.argv[3:]
more = lambda rank: {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "TORCHELASTIC_RUN_ID": "none"}
started = [subprocess.Popen([sys.executable, *words], env={**os.environ, **more(rank)}) for rank in range(count)]
sys.exit(max(each.wait() for each in started))
"""
