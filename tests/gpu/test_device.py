"""Debugging a program that uses a real GPU: what an editor shows, and that the program goes on as if nobody looked."""

import contextlib
import json

import pytest

from tests.agent.dap_probe import Editor


def lines_of(text, mark="# stops"):
    return [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(mark)]


@contextlib.contextmanager
def editor_of(running, text, **more):
    with Editor(running.port, {running.script: lines_of(text)}, hold=True, **more) as editor:
        yield editor


def shown(stop):
    """The variables of a stop by name, as text."""
    found = stop["session"].variables(frame=stop["frame"])
    return {name: each["value"] for name, each in found.items()}


def ends(running, code=0):
    exit_code, out, err = running.finish(120)
    assert exit_code == code, (out, err)
    return out


def looked_at(on_gpu, text):
    """The variables of the program's only stop, and what it has printed at its end."""
    running = on_gpu(text)
    with editor_of(running, text) as editor:
        stop = editor.wait_stops(1)[0]
        found = shown(stop)
        stop.go_on()
        return found, ends(running)


TENSORS = """import torch
plain = torch.arange(6400.0).reshape(64, 100)
plain[0, 0], plain[1, :3] = float("nan"), float("inf")
plain = plain.cuda()
weight = torch.nn.Parameter(torch.ones(20, 3, device="cuda"))
loss = (weight * 2).sum()
small = torch.arange(4, device="cuda")
half = torch.full((20,), 60000.0, device="cuda").bfloat16()
empty = torch.zeros(0, 3, device="cuda")
enormous = torch.zeros(1, device="cuda").expand(10**12)
turned = torch.arange(60000.0, device="cuda").reshape(200, 300).t()[::2]
large = torch.full((1 << 31,), 2.0, dtype=torch.float16, device="cuda")
eight = torch.ones(64, device="cuda").to(torch.float8_e4m3fn)
sparse = torch.eye(4, device="cuda").to_sparse()
torch.cuda.synchronize()
torch.cuda.reset_peak_memory_stats()
held = torch.cuda.memory_allocated()
state = torch.cuda.get_rng_state().sum().item(), torch.is_grad_enabled(), torch.cuda.current_stream()
print("look")  # stops
more = torch.cuda.max_memory_allocated() - held
print(state == (torch.cuda.get_rng_state().sum().item(), torch.is_grad_enabled(), torch.cuda.current_stream()))
print(more, flush=True)
"""


def test_tensors_of_a_device_are_read_there_with_little_memory(on_gpu):
    running = on_gpu(TENSORS)
    with editor_of(running, TENSORS) as editor:
        stop = editor.wait_stops(1)[0]
        text = shown(stop)
        assert text["plain"] == "Tensor(64, 100) float32 cuda:0, min 1 max 6399 mean 3201, 1 NaN 3 Inf"
        assert text["weight"].startswith("Parameter(20, 3) float32 cuda:0, min 1 max 1 mean 1, 0 NaN 0 Inf")
        assert text["loss"] == "Tensor() float32 cuda:0, 120, grad_fn SumBackward0"
        assert text["small"] == "Tensor(4,) int64 cuda:0, [0, 1, 2, 3], min 0 max 3 mean 1.5"
        assert text["half"].endswith("bfloat16 cuda:0, min 59904 max 59904 mean 59904, 0 NaN 0 Inf")
        assert text["empty"] == "Tensor(0, 3) float32 cuda:0, [], 0 NaN 0 Inf"
        assert text["enormous"].endswith("sampled elements")
        assert text["turned"].startswith("Tensor(150, 200) float32 cuda:0, min 0 max 59998 mean 29999")
        assert "float16 cuda:0, min 2 max 2 mean 2, 0 NaN 0 Inf" in text["large"]
        assert text["eight"].startswith("Tensor(64,) float8_e4m3fn cuda:0, ")
        assert text["sparse"].endswith("not read: its layout is torch.sparse_coo")
        found = stop["session"].variables(frame=stop["frame"])["plain"]["variablesReference"]
        row = stop["session"].variables(reference=found)["[63]"]
        assert row["value"] == "Tensor(100,) float32 cuda:0, min 6300 max 6399 mean 6350, 0 NaN 0 Inf"
        compared = [
            json.loads(
                stop["session"].request(
                    "evaluate", expression=each, frameId=stop["frame"], context="dkdbg-compare"
                )["result"]
            )
            for each in ("turned", "turned.cpu()", "turned * 2")
        ]
        assert compared[0]["digest"] == compared[1]["digest"] != compared[2]["digest"]
        assert compared[0]["norm"] == pytest.approx(compared[2]["norm"] / 2)
        stop.go_on()
        same, more = ends(running).split()[-2:]
    assert same == "True"
    assert int(more) < 512 << 20  # `large` alone has 4 GiB


BUSY = """import torch
x = torch.ones(100, device="cuda")
torch.cuda.synchronize()
torch.cuda._sleep(20_000_000_000)  # cycles: some 10 s
print("look")  # stops
print(torch.cuda.current_stream().query())
print("look")  # stops
torch.cuda.synchronize()
print(x.sum().item(), flush=True)
"""


def test_a_busy_device_is_said_and_not_waited_for(on_gpu):
    running = on_gpu(BUSY)
    with editor_of(running, BUSY) as editor:
        stop = editor.wait_stops(1)[0]
        text = shown(stop)
        assert text["x"].endswith("not read: the device is busy")
        stop.go_on()
        stop = editor.wait_stops(2)[1]
        stop.go_on()
        assert ends(running) == "look\nFalse\nlook\n100.0\n"


CAPTURED = """import torch
x = torch.ones(100, device="cuda")
y = x * 2 + 1  # loads the kernels
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
    print("look")  # stops
    z = y + 1
x.fill_(5)
graph.replay()
print(z.sum().item(), flush=True)
"""


def test_a_graph_that_is_captured_stays_whole(on_gpu):
    assert ends(on_gpu(CAPTURED, wait="0")) == "look\n1100.0\n"
    text, out = looked_at(on_gpu, CAPTURED)
    assert text["x"].endswith("not read: a CUDA graph is being captured")
    assert out == "look\n1100.0\n"


CAPTURED_BESIDE = """import threading, torch
x = torch.ones(100, device="cuda")
y = x * 2 + 1  # loads the kernels
torch.cuda.synchronize()
begun, seen = threading.Event(), threading.Event()
def look():
    begun.wait()
    w = x
    print("look")  # stops
    seen.set()
thread = threading.Thread(target=look)
thread.start()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
    begun.set()
    while not seen.is_set():
        pass
    z = y + 1
x.fill_(5)
graph.replay()
print(z.sum().item(), flush=True)
thread.join()
"""


def test_a_graph_that_another_thread_captures_stays_whole(on_gpu):
    assert ends(on_gpu(CAPTURED_BESIDE, wait="0")) == "look\n1100.0\n"
    text, out = looked_at(on_gpu, CAPTURED_BESIDE)
    assert text["w"] == "Tensor(100,) float32 cuda:0, min 1 max 1 mean 1, 0 NaN 0 Inf"
    assert out == "look\n1100.0\n"


FORKED = """import os, sys, torch
x = torch.ones(100, device="cuda")
torch.cuda.synchronize()
child = os.fork()
if not child:
    print("look", flush=True)  # stops
    os._exit(0)
print(os.waitpid(child, 0)[1], x.sum().item(), flush=True)
"""


def test_a_process_that_was_forked_after_the_device_was_used_is_not_asked(on_gpu):
    text, out = looked_at(on_gpu, FORKED)
    assert text["x"].endswith("not read: this process was forked after CUDA was used")
    assert out == "look\n0 100.0\n"


BACKWARD = """import torch

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2  # stops

def hook(gradient):
    return gradient * 3  # stops

def work():
    x = torch.ones(4, device="cuda", requires_grad=True)
    y = Double.apply(x)
    y.register_hook(hook)
    y.sum().backward()
    print(x.grad.tolist(), flush=True)

work()
"""


def test_functions_that_autograd_calls_in_the_thread_of_a_device_stop(on_gpu):
    running = on_gpu(BACKWARD)
    with editor_of(running, BACKWARD) as editor:
        for number in (1, 2):
            stop = editor.wait_stops(number)[number - 1]
            assert "float32 cuda:0, " in shown(stop)["gradient"]
            stop.go_on()
        assert {stop["line"] for stop in editor.stops} == set(lines_of(BACKWARD))
        assert ends(running) == "[6.0, 6.0, 6.0, 6.0]\n"


ASSERTED = """import torch
x = torch.ones(3, device="cuda")
try:
    y = x[torch.tensor([7], device="cuda")]
    torch.cuda.synchronize()
except RuntimeError as error:
    print("look")  # stops
    print(type(error).__name__, flush=True)
"""


def test_a_device_that_failed_is_said_and_the_program_ends_as_it_would(on_gpu):
    plain = ends(on_gpu(ASSERTED, wait="0"))
    text, out = looked_at(on_gpu, ASSERTED)
    failed = "CUDA error: device-side assert triggered"
    assert text["x"] == f"Tensor(3,) float32 cuda:0, not read: {failed}"
    assert out == plain


FULL = """import torch
torch.cuda.set_per_process_memory_fraction(0.02)
x = torch.ones(1 << 24, device="cuda")
torch.cuda.synchronize()
held = []
size = 1 << 30
while size >= 1 << 20:
    try:
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        size //= 2
torch.cuda.empty_cache()
print("look")  # stops
held.clear()
print(x.sum().item(), flush=True)
"""


def test_a_device_without_memory_is_said(on_gpu):
    text, out = looked_at(on_gpu, FULL)
    assert text["x"].startswith("Tensor(16777216,) float32 cuda:0, not read: CUDA out of memory")
    assert out == f"look\n{float(1 << 24)}\n"


LOADED = """import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, n):
        sample = torch.full((4,), float(n))
        return sample  # stops

if __name__ == "__main__":
    total = torch.zeros(4, device="cuda")
    for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, pin_memory=True):
        total += batch.cuda(non_blocking=True).sum(0)
    print(total.tolist(), flush=True)
"""


def test_workers_that_load_for_a_device_stop(on_gpu):
    running = on_gpu(LOADED)
    with Editor(running.port, {running.script: lines_of(LOADED)}) as editor:
        editor.wait_stops(8)
        assert ends(running) == "[28.0, 28.0, 28.0, 28.0]\n"


COMPILED = """import torch

def inner(x):
    return torch.nn.functional.gelu(x) * 2

@torch.compile
def step(x):
    return inner(x).sum()

x = torch.arange(8.0, device="cuda", requires_grad=True)
loss = step(x)
loss.backward()
print("look")  # stops
print("%.4f %.4f" % (loss.item(), x.grad.sum().item()), flush=True)
"""


def test_code_that_is_compiled_for_a_device_runs_as_it_would(on_gpu):
    plain = ends(on_gpu(COMPILED, wait="0"))
    text, out = looked_at(on_gpu, COMPILED)
    assert "float32 cuda:0, " in text["x"]
    assert out == plain


JAX = """import os
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax.numpy
x = jax.numpy.arange(6400.0).reshape(64, 100)
print("look")  # stops
print("end", flush=True)
"""


def test_arrays_of_jax_on_a_device_are_read(on_gpu):
    text, out = looked_at(on_gpu, JAX)
    assert out == "look\nend\n"
    assert text["x"] == "Array(64, 100) float32 cuda:0, min 0 max 6399 mean 3200, 0 NaN 0 Inf"


PROFILED = """import torch
layer = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for n in range(8):
    layer(torch.ones(2, 64, device="cuda")).sum().backward()
    optimizer.step()
torch.cuda.synchronize()
"""


def test_torchs_profiler_sees_the_kernels_of_the_device(on_gpu, tmp_path):
    steps = {"options": ("--torch-profile", "train"), "env": {"DKDBG_TORCH_PROFILE_STEPS": "3:5"}}
    ends(on_gpu(PROFILED, wait="0", **steps))
    (trace,) = (tmp_path / "dkdbg-profiles").iterdir()
    kinds = {each.get("cat") for each in json.loads(trace.read_text())["traceEvents"]}
    assert "kernel" in kinds, kinds
