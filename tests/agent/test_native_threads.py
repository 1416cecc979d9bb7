"""Breakpoints stop in threads that `threading` does not know, as torch calls `backward` in on a GPU.

Here libc makes the thread: without a GPU the frameworks mostly call in the thread that waits for the result.
"""

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.frameworks import python_with

TORCH = """\
import torch

torch.set_num_threads(1)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2  # stops


def work():
    x = torch.ones(1, requires_grad=True)
    Double.apply(x).sum().backward()
    print(x.grad.tolist(), flush=True)
"""
FUTURES = """\
import torch


def then(future):
    return future.value() * 2  # stops


def done(future):
    return None  # stops


first, second = torch.futures.Future(), torch._C.Future([])
second.add_done_callback(done)


def work():
    first.then(then).add_done_callback(lambda ready: second.set_result(ready.value()))
    first.set_result(1.0)
    print([second.wait()], flush=True)
"""
JAX = """\
import jax
import jax.numpy as jnp
from jax.experimental import io_callback


def pure(x):
    return x * 2  # stops


def io(x):
    return x + 1  # stops


def debug(x):
    return None  # stops


@jax.jit
def step(x):
    jax.debug.callback(debug, x)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(pure, shape, x) + io_callback(io, shape, x)


def work():
    print(step(jnp.ones(1)).tolist(), flush=True)
"""
IN_A_THREAD_OF_C = """\


import ctypes

libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: work())
libc.pthread_create(ctypes.byref(thread), None, callback, None)
libc.pthread_join(thread, None)
"""


@pytest.mark.parametrize(
    ("framework", "program_", "printed"),
    [("torch", TORCH, "[2.0]\n"), ("torch", FUTURES, "[2.0]\n"), ("jax", JAX, "[4.0]\n")],
    ids=["autograd", "futures", "jax"],
)
def test_a_function_that_a_framework_calls_in_a_thread_of_c_stops(program, framework, program_, printed):
    code = program_ + IN_A_THREAD_OF_C
    lines = [number for number, text in enumerate(code.splitlines(), 1) if "# stops" in text]
    running = program(code, wait="300", python=python_with(framework))
    with Editor(running.port, {running.script: lines}) as editor:
        running.ends(0, printed)
    assert sorted(stop["line"] for stop in editor.stops) == lines


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_a_loop_that_such_a_thread_runs_since_before_the_attach_stops(program, under, minor):
    code = "import _thread, time\n\n\ndef work():\n    print('up', flush=True)\n    while True:\n        time.sleep(0.01)\n\n\n_thread.start_new_thread(work, ())\ntime.sleep(600)\n"
    running = program(code, **under(minor))
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [7]}) as editor:
        wait_for(lambda: editor.stops, bool)
