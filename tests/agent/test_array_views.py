"""What an editor shows of tensors and arrays: real PyTorch and NumPy, asked as an editor asks."""

import contextlib
import json
import sys

import pytest

from dkdbg.agent.inprocess.arrays import array_figures
from dkdbg.delivery import single_file
from tests.agent.conftest import lay_out
from tests.agent.dap_probe import Editor, Stop
from tests.agent.test_privates import VERSIONS, released
from tests.frameworks import python_with

__all__ = ["released"]

TORCH = """import warnings; warnings.simplefilter("ignore")
import numpy, torch, unittest.mock
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
torch.manual_seed(0)
class Hostile(torch.Tensor):
    def __repr__(self): raise SystemExit(7)
    @classmethod
    def __torch_function__(cls, *a, **k): raise RuntimeError("hostile")
class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, *a, **k): raise SystemExit(7)
plain = torch.arange(6400.0).reshape(64, 100)
plain[0, 0], plain[1, :3] = float("nan"), float("inf")
weight = torch.nn.Parameter(torch.ones(20, 3))
loss = (weight * 2).sum()
small = torch.arange(4)
half = torch.full((20,), 60000.0).bfloat16()
empty = torch.zeros(0, 3)
enormous = torch.zeros(1).expand(10**12)
turned = torch.arange(60000.0).reshape(200, 300).t()[::2]
meta = torch.zeros(3, device="meta")
sparse = torch.eye(4).to_sparse()
quantized = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.quint8)
nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
fake = FakeTensorMode().from_tensor(torch.randn(3))
freed = torch.randn(1000); freed.untyped_storage().resize_(0)
hostile = torch.ones(30).as_subclass(Hostile)
dispatching = torch.ones(30).as_subclass(Dispatching)
mock = unittest.mock.Mock(spec=torch.Tensor)
array = numpy.arange(20.0).reshape(4, 5)
objects = numpy.array([object(), None])
masked = numpy.ma.array([1, 2], mask=[0, 1])
mapped = numpy.memmap("mapped", "int32", "w+", shape=(4, 5))
state = torch.get_rng_state().sum().item(), torch.is_grad_enabled()
print("stop")
def one(x):
    print("stop")
    return x + 1
torch.func.vmap(one)(torch.ones(3, 2))
with FakeTensorMode():
    print("stop")
class Recording(TorchFunctionMode):
    called = []
    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.called.append(function)
        return function(*args, **(kwargs or {}))
with Recording():
    print("stop")
traced = torch.jit.trace(one, torch.ones(3), check_trace=False)
same = (torch.get_rng_state().sum().item(), torch.is_grad_enabled()) == state
print("aten::size" in str(traced.graph), same, len(Recording.called), flush=True)
"""


def _values(stop: Stop) -> dict[str, dict]:
    return stop["session"].variables(frame=stop["frame"])


def _children(stop: Stop, reference: int) -> dict[str, dict]:
    return stop["session"].variables(reference=reference)


@pytest.fixture
def stopped(program):
    @contextlib.contextmanager
    def run(code, python, **more):
        lines = [number for number, line in enumerate(code.splitlines(), 1) if 'print("stop")' in line]
        running = program(code, wait="300", python=python, **more)
        with Editor(running.port, {running.script: lines}, hold=True) as editor:
            editor.wait_stops(1)
            yield running, editor

    return run


def test_tensors_are_read_and_those_that_cannot_be_say_why(stopped):
    with stopped(TORCH, python_with("torch")) as (running, editor):
        stop = editor.stops[0]
        values = _values(stop)
        text = {name: each["value"] for name, each in values.items()}
        whole = {
            "plain": "Tensor(64, 100) float32 cpu, min 1 max 6399 mean 3201, 1 NaN 3 Inf",
            "weight": "Parameter(20, 3) float32 cpu, min 1 max 1 mean 1, 0 NaN 0 Inf, requires grad",
            "loss": "Tensor() float32 cpu, 120, grad_fn SumBackward0",
            "small": "Tensor(4,) int64 cpu, [0, 1, 2, 3], min 0 max 3 mean 1.5",
            "half": "Tensor(20,) bfloat16 cpu, min 59904 max 59904 mean 59904, 0 NaN 0 Inf",
            "empty": "Tensor(0, 3) float32 cpu, [], 0 NaN 0 Inf",
            "turned": "Tensor(150, 200) float32 cpu, min 0 max 59998 mean 29999, 0 NaN 0 Inf",
            "hostile": "Hostile(30,) float32 cpu, min 1 max 1 mean 1, 0 NaN 0 Inf",
            "array": "array(4, 5) float64, min 0 max 19 mean 9.5, 0 NaN 0 Inf",
        }
        assert {name: text[name] for name in whole} == whole
        assert text["enormous"].startswith("Tensor(1000000000000,) float32 cpu, min 0 max 0 mean 0")
        assert text["enormous"].endswith("sampled elements")
        reasons = {
            "meta": "it has no data",
            "sparse": "its layout is torch.sparse_coo",
            "quantized": "it is quantized",
            "nested": "it is nested",
            "fake": "a FakeTensor defines its own operations",
            "dispatching": "a Dispatching defines its own operations",
            "freed": "its storage has been freed (0 bytes left)",
            "objects": "its elements are objects",
            "masked": "some of it is masked",
            "mapped": "it lies in a file",
        }
        for name, reason in reasons.items():
            assert text[name].endswith("not read: " + reason), text[name]
        assert text["mock"].startswith("<Mock spec='Tensor'")
        children = _children(stop, values["plain"]["variablesReference"])
        shown = {"shape": "(64, 100)", "dtype": "float32", "device": "cpu", "min": "1.0", "max": "6399.0"}
        shown |= {"NaN": "1", "Inf": "3"}
        assert {name: children[name]["value"] for name in shown} == shown
        row = children["[63]"]
        assert (row["value"], row["evaluateName"]) == (
            "Tensor(100,) float32 cpu, min 6300 max 6399 mean 6350, 0 NaN 0 Inf",
            "plain[63]",
        )
        assert _children(stop, row["variablesReference"])["[99]"]["value"] == "6399.0"
        attributes = _children(stop, children["attributes"]["variablesReference"])
        assert attributes["ndim"]["value"] == "2"
        for context in ("hover", "watch"):
            assert stop.value("small", context=context) == text["small"]
        for name in ("plain", "small", "objects", "masked", "array"):
            assert stop.value(name, context="repl") == eval(stop.value(f"repr({name})", context="clipboard"))
        assert _children(stop, values["objects"]["variablesReference"])["[1]"]["value"] == "None"
        assert _children(stop, values["masked"]["variablesReference"])["[1]"]["value"] == "masked"
        assert "[0]" in _children(stop, values["mapped"]["variablesReference"])
        assert stop.value("small", context="clipboard") == "tensor([0, 1, 2, 3])"
        compared = json.loads(stop.value("weight", context="dkdbg-compare"))
        assert compared["norm"] == pytest.approx(60**0.5)
        for order in (
            ("weight", "weight.clone()", "weight * 2"),
            ("plain.t()", "plain.t().contiguous()", "plain"),
            ("array.T", "array.T.copy()", "array"),
        ):
            digests = [json.loads(stop.value(each, context="dkdbg-compare"))["digest"] for each in order]
            assert digests[0] == digests[1] != digests[2]
        others = (
            ("x", "a torch.func transform is active"),
            ("plain", "a dispatch mode is active"),
            ("small", ""),
            ("x", "PyTorch is tracing"),
        )
        for number, (name, reason) in enumerate(others, 2):
            stop.go_on()
            stop = editor.wait_stops(number, 300)[-1]
            shown = _values(stop)[name]["value"]
            assert shown.endswith("not read: " + reason) if reason else shown == text["small"]
        stop.go_on()
        code, out, err = running.finish(300)
    assert (code, out.split("\n")[-2]) == (0, "False True 0"), err


MOCKED = """import torch
x = torch.ones(30)
torch.cuda.is_initialized = lambda: True
print("stop")
def is_initialized(): raise RuntimeError("mocked")
torch.cuda.is_initialized = is_initialized
print("stop")
print("end", flush=True)
"""


def test_a_program_that_mocks_cuda_is_shown_its_tensors_and_goes_on(stopped):
    """As a test of a training loop does on a machine without a GPU; no driver is loaded there."""
    with stopped(MOCKED, python_with("torch")) as (running, editor):
        for number in (1, 2):
            stop = editor.wait_stops(number, 300)[-1]
            assert _values(stop)["x"]["value"] == "Tensor(30,) float32 cpu, min 1 max 1 mean 1, 0 NaN 0 Inf"
            stop.go_on()
        running.ends(0, "stop\nstop\nend\n")


JAX = """import jax, jax.numpy as jnp
plain = jnp.arange(6400.0).reshape(64, 100).at[0, 0].set(jnp.nan).at[1, :3].set(jnp.inf)
small = jnp.arange(4)
half = jnp.full((20,), 60000.0, dtype=jnp.bfloat16)
empty = jnp.zeros((0, 3))
gone = jnp.ones(3); gone.delete()
key = jax.random.key(0)
def one(x):
    print("stop")
    return x + 1
print("stop")
jax.jit(one)(jnp.ones(3))
"""


def test_arrays_of_jax_are_read_and_tracers_are_not(stopped):
    with stopped(JAX, python_with("jax")) as (running, editor):
        stop = editor.stops[0]
        values = _values(stop)
        text = {name: each["value"] for name, each in values.items()}
        assert text["plain"] == "Array(64, 100) float32 cpu:0, min 1 max 6399 mean 3201, 1 NaN 3 Inf"
        assert text["small"] == "Array(4,) int32 cpu:0, [0, 1, 2, 3], min 0 max 3 mean 1.5"
        assert text["half"] == "Array(20,) bfloat16 cpu:0, min 59904 max 59904 mean 59904, 0 NaN 0 Inf"
        assert text["empty"] == "Array(0, 3) float32 cpu:0, [], 0 NaN 0 Inf"
        assert text["gone"] == "Array(3,) float32, not read: it was deleted or donated"
        assert text["key"].endswith("not read: a PRNGKeyArray holds no numbers")
        row = _children(stop, values["plain"]["variablesReference"])["[63]"]["value"]
        assert "(100,) float32" in row
        assert row.endswith("min 6300 max 6399 mean 6350, 0 NaN 0 Inf")
        stop.go_on()
        stop = editor.wait_stops(2, 300)[-1]
        assert "float32[3]" in _values(stop)["x"]["value"]  # a tracer, as JAX itself shows it
        stop.go_on()
        running.ends()


NUMPY = """import sys
class Loaded: pass
one = Loaded()
{numpy}
print("stop")
"""


def test_nothing_is_imported_for_a_program_without_a_framework(stopped):
    with stopped(NUMPY.format(numpy=""), sys.executable) as (running, editor):
        stop = editor.stops[0]
        assert _values(stop)["one"]["value"].startswith("<__main__.Loaded object")
        loaded = "[name for name in ('torch', 'numpy', 'jax', '_dkdbg.arrays.torch_views', '_dkdbg.arrays.array_figures') if name in sys.modules]"
        assert stop.value(loaded, context="repl") == "[]"
        stop.go_on()
        running.ends()


def test_the_oldest_debugpy_stops_and_shows_them(released, stopped, monkeypatch, tmp_path):
    version = VERSIONS[0][2:], released(VERSIONS[0]) / "debugpy"
    monkeypatch.setattr(single_file, "debugpy_for", lambda python: version)  # noqa: ARG005
    code = NUMPY.format(numpy="import numpy; array = numpy.arange(20.0)")
    with stopped(code, python_with("torch"), layout=lay_out(tmp_path / "layout")) as (running, editor):
        stop = editor.stops[0]
        assert running.record()["debugpy"] == VERSIONS[0][2:]
        found = _values(stop)["array"]
        assert found["value"] == "array(20,) float64, min 0 max 19 mean 9.5, 0 NaN 0 Inf"
        assert _children(stop, found["variablesReference"])["[19]"]["value"] == "19.0"
        stop.go_on()
        running.ends()


def test_no_more_than_so_many_elements_are_read_and_they_lie_everywhere():
    assert list(array_figures.pieces(100, 40, 200)) == [(0, 40), (40, 80), (80, 100)]
    found = list(array_figures.pieces(10**9, 1000, 5000))
    assert (len(found), found[0], found[-1]) == (5, (0, 1000), (10**9 - 1000, 10**9))
    assert array_figures.strides((10**6, 10**6), 10**6) == (1024, 1024)


def test_a_row_of_tensors_shares_its_time():
    now = [0.0]
    rows = array_figures.Rows(lambda: now[0])
    left = []
    for _ in range(5):
        left.append(round(rows.begin() - now[0], 2))
        now[0] += 0.2
        rows.end()
    assert left == [0.2, 0.2, 0.1, 0.0, 0.0]
    now[0] += 1
    assert rows.begin() - now[0] == pytest.approx(0.2)
