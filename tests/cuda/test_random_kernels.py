"""Random well-typed kernels: their source gives the interpreter's bits."""

import hypothesis.strategies as st
import numpy as np
from codegen.kernels import ZERO, I, equal, sample
from codegen.test_emit_random import expressions, loads
from cuda_kernels import run_sequentially
from hypothesis import HealthCheck, given, settings

from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.loops.ir import Buffer, Init, Kernel, Loop, Store, Update, acc_ref, loop_var, slot
from jitgrad.codegen.loops.verify import verify_kernel
from jitgrad.ir import dtypes
from jitgrad.ir.scalar import Fn, apply, const, convert

SIZE = 37
J = loop_var("j")


def agree(kernel, arrays, slots):
    verify_kernel(kernel)
    have, want = ([a.copy() for a in arrays] for _ in range(2))
    run_sequentially(kernel, have, slots, strict=True)
    with np.errstate(all="ignore"):
        interpret(kernel, want, slots)
    assert all(equal(a, b) for a, b in zip(have, want))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_maps(data):
    chosen, leaves = loads(data.draw)
    value = data.draw(expressions(leaves))
    buffers = (*(Buffer(d, "in") for d in chosen), Buffer(value.dtype, "out"))
    body = (Store(len(chosen), I, value),)
    kernel = Kernel(buffers, 2, (), (Loop(I, ZERO, slot(0), body, "parallel_vector"),))
    arrays = [*(sample(d, 2 * SIZE, k) for k, d in enumerate(chosen)), np.zeros(SIZE, value.dtype.np)]
    agree(kernel, arrays, [SIZE, SIZE - 1])


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(["vector", "serial"]))
def test_rows(data, kind):
    """A fold along each row, and the row scaled by what came of it."""
    chosen, leaves = loads(data.draw)
    value = convert(data.draw(expressions(leaves)), dtypes.int64 if chosen[0].kind != "float" else dtypes.float32)
    acc = acc_ref(0, value.dtype)
    fn = data.draw(st.sampled_from([Fn.ADD, Fn.MAX, Fn.MIN]))
    fold = Loop(I, ZERO, slot(0), (Update((0,), (apply(fn, acc, value),)),), kind)
    rescale = Loop(I, ZERO, slot(0), (Store(len(chosen), J * slot(0) + I, apply(Fn.SUB, value, acc)),), kind)
    body = (Init(0, const(1, value.dtype)), fold, rescale)
    buffers = (*(Buffer(d, "in") for d in chosen), Buffer(value.dtype, "out"))
    kernel = Kernel(buffers, 3, (), (Loop(J, ZERO, slot(2), body, "parallel"),))
    arrays = [*(sample(d, 2 * SIZE, k) for k, d in enumerate(chosen)), np.zeros(4 * SIZE, value.dtype.np)]
    agree(kernel, arrays, [SIZE, SIZE - 1, 4])
