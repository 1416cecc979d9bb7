"""A job of eight ranks as `dkdbg where` sees it, one of them hostile: for the page's test and its picture."""

from dkdbg.core.stacks import Collective, Frame, Process, ProcessGroup, Session, Thread
from dkdbg.hang import hang_map, output, page

REDUCE = Frame(
    "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce", own=False
)
STEP = Frame("/workspace/train.py", 41, "step", own=True)
MAIN = Frame("/workspace/train.py", 60, "<module>", own=True)
LOAD = Frame("/workspace/data.py", 41, "load_batch", own=True)
#: What would run, load or restyle, were it markup.
EVIL = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"


def _rank(number: int, *frames: Frame, seq: int, name: str = "", threads: tuple[Thread, ...] = ()) -> Process:
    call = Collective(seq=seq, op="all_reduce", tensors=("Float [25557032]",), state="scheduled", age=12.0)
    return Process(
        pid=200 + number, ppid=100, name=name or f"rank {number} (train.py)", rank=number, world_size=8, state="S",
        threads=(Thread(name="MainThread", main=True, frames=frames), *threads),
        collectives=(ProcessGroup(name="0", description="default_pg", last=(call,)),),
    )  # fmt: skip


def of_eight(*, evil: str = "") -> str:
    """The page of seven ranks that wait for rank 2, with `evil` wherever a process can put its own words."""
    odd = Frame(f"/workspace/data.py{evil}", 41, f"load_batch{evil}", own=True)
    side = Thread(name=f"prefetch{evil}", main=False, frames=(LOAD,))
    ranks = [
        _rank(each, REDUCE, STEP, MAIN, seq=118, threads=(side,)) for each in range(8) if each not in {2, 6}
    ]
    ranks.append(_rank(2, odd, STEP, MAIN, seq=117, name=f"rank 2 (train.py){evil}", threads=(side,)))
    place = {"target": "container shop-train-1", "address": "compose://train"}
    session = Session(id="train", name=f"train{evil}", processes=tuple(ranks), **place)
    return page.page(
        [output.as_json(each) for each in hang_map.jobs([session])],
        asked="2026-11-23 14:03:00 UTC",
        again=False,
    )
